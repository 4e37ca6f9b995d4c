"""What goes between the agent and a worker process: pickled messages over a socket that only these two have; and what a
broker shows, as far as it changed.
"""

import asyncio
import pickle
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.exposition.gzip_stream import Fragment
from penstock.exposition.render import Published, Samples

LIMIT = 2**20
"""Bytes that wait to be read at one end."""
_HEAD = struct.Struct("<Q")
_NONE = Samples((), 0)


def write(writer: asyncio.StreamWriter, *message: Any) -> None:
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    writer.write(_HEAD.pack(len(content)))
    writer.write(content)


async def read(reader: asyncio.StreamReader) -> Any:
    """The next message. Raises IncompleteReadError: the other process has ended."""
    (size,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    return pickle.loads(await reader.readexactly(size))  # noqa: S301 - the other end is this program, of the same user


Parts = tuple[str, Sequence[int | Fragment], int]
"""A family: its fragments, as a number where one stood at that place before; and how many samples."""


def changed(before: Published, now: Published) -> Iterator[Parts]:
    """The families of `now` that are others than those of `before`."""
    for name, samples in now.families.items():
        old = before.families.get(name, _NONE).fragments
        known = {id(one): at for at, one in enumerate(old)}
        parts = [known.get(id(one), one) for one in samples.fragments]
        if parts != list(range(len(old))):
            yield name, parts, samples.count


@dataclass(slots=True)
class RemoteBlocks:
    """What a broker in a worker process shows."""

    published: Published = field(default_factory=Published)
    _received: Published = field(default_factory=Published)
    """What the worker published last; it does not know what stands in for that once it has ended."""
    _families: dict[str, Samples] = field(default_factory=dict)

    def begin_anew(self) -> None:
        """With a new process, which sends everything; what is shown stays until then."""
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
