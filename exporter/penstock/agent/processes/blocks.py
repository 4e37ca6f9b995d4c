"""What a broker shows, sent from one process to another as far as it changed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.exposition.gzip_stream import Fragment
from penstock.exposition.render import Published, Samples

_NONE = Samples((), 0)


def changed(before: Published, now: Published) -> Iterator[tuple[str, Sequence[int | Fragment], int]]:
    """The families of `now` that are others: fragments, one that was there before as its number; how many samples."""
    for name, samples in now.families.items():
        old = before.families.get(name, _NONE).fragments
        known = {id(one): at for at, one in enumerate(old)}
        parts = [known.get(id(one), one) for one in samples.fragments]
        if parts != list(range(len(old))):
            yield name, parts, samples.count


@dataclass(slots=True)
class RemoteBlocks:
    """What a broker in another process shows."""

    published: Published = field(default_factory=Published)
    _received: Published = field(default_factory=Published)
    """What the other process published last; it does not know what stands in for that once it has ended."""
    _families: dict[str, Samples] = field(default_factory=dict)

    def begin_anew(self) -> None:
        """With another process, which sends everything; what is shown stays until then."""
        self._received, self._families = Published(), {}

    def take(self, name: str, parts: Sequence[int | Fragment], count: int) -> None:
        """As `changed` gives it; shown by `publish`, together with all else."""
        old = self._received.families.get(name, _NONE).fragments
        self._families[name] = Samples(tuple(old[one] if isinstance(one, int) else one for one in parts), count)

    def publish(self, names: Collection[str]) -> None:
        """Show the families of these names."""
        families = {**self._received.families, **self._families}
        self._received = self.published = Published({name: families[name] for name in names})
        self._families = {}
