"""One gzip member put together from parts that were compressed before, each once. A `Fragment` is raw deflate without
history that ends on a byte, not a last block, so they may be in any order.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Final, NamedTuple

try:
    from isal import isal_zlib
except ImportError:  # no wheel for this platform
    isal_zlib = None  # type: ignore[assignment]

HEADER: Final = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 0xFF))
"""Deflate, no name, no time (the same bytes for the same data), fastest level, system unknown."""

_LAST_BLOCK: Final = b"\x03\x00"  # empty, with the bit that ends the deflate stream
_RAW: Final = -15  # wbits of deflate without wrapping


class Checksum(NamedTuple):
    """The numbers of a gzip trailer about some bytes: their crc32, and how many they are."""

    crc: int
    length: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """`data`: raw deflate; `checksum`: of what it inflates to."""

    data: bytes
    checksum: Checksum


@dataclass(frozen=True, slots=True)
class Codec:
    """A deflate library: compressobj, decompressobj and crc32 as zlib has them. combine: as `crc32_combine`."""

    module: ModuleType
    combine: Callable[[int, int, int], int]

    def compress(self, raw: bytes) -> Fragment:
        """`raw` as a fragment, at level 1: the higher ones cost far more than they save."""
        deflate = self.module.compressobj(1, self.module.DEFLATED, _RAW)
        data = deflate.compress(raw) + deflate.flush(self.module.Z_FULL_FLUSH)
        return Fragment(data, Checksum(self.module.crc32(raw), len(raw)))

    def inflate(self, fragment: Fragment) -> bytes:
        """The bytes that were compressed."""
        inflated: bytes = self.module.decompressobj(_RAW).decompress(fragment.data)
        return inflated

    def checksum(self, parts: Iterable[Checksum]) -> Checksum:
        """The checksum of all parts behind each other."""
        crc = 0
        length = 0
        for part_crc, part_length in parts:
            crc = self.combine(crc, part_crc, part_length)
            length += part_length
        return Checksum(crc, length)


def trailer(checksum: Checksum) -> bytes:
    """The end of the member that is `HEADER` and the data of fragments with this checksum."""
    return (
        _LAST_BLOCK
        + checksum.crc.to_bytes(4, "little")
        + (checksum.length % 2**32).to_bytes(4, "little")
    )


def crc32_combine(crc: int, crc_behind: int, length_behind: int) -> int:
    """The crc of two strings behind each other: the first one's is moved on by the length in bytes of the second."""
    zeros = bytes(length_behind)
    return zlib.crc32(zeros, crc) ^ zlib.crc32(zeros) ^ crc_behind


ZLIB: Final = Codec(zlib, crc32_combine)
ISAL: Final = Codec(isal_zlib, isal_zlib.crc32_combine) if isal_zlib else None
CODEC: Final = ISAL or ZLIB
"""The fastest there is."""
