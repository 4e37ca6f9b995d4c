"""The blocks of a broker are sent from one process to another as far as they changed."""

from collections.abc import Mapping, Sequence

from penstock.exposition.gzip_stream import Fragment
from penstock.exposition.render import Published, Samples

Families = Mapping[str, tuple[Sequence[int | Fragment], int]]
"""By name: the fragments, one that was there before as its place then; how many samples."""
NOTHING = Published()
_NONE = Samples((), 0)


def changed(before: Published, now: Published) -> Families:
    families = {}
    for name, samples in now.families.items():
        places = {
            id(fragment): place
            for place, fragment in enumerate(before.families.get(name, _NONE).fragments)
        }
        families[name] = (
            [places.get(id(fragment), fragment) for fragment in samples.fragments],
            samples.count,
        )
    return families


def applied(before: Published, families: Families) -> Published:

    def samples(name: str, parts: Sequence[int | Fragment], count: int) -> Samples:
        old = before.families.get(name, _NONE).fragments
        return Samples(
            tuple(old[one] if isinstance(one, int) else one for one in parts), count
        )

    return Published(
        {name: samples(name, *family) for name, family in families.items()}
    )
