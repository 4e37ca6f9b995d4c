"""What is packed in pieces reads as what is packed in one go, and no piece of it is long."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from penstock.agent.packed import (
    COLUMN_BYTES,
    checksummed,
    compressed,
    decompressed,
    pack,
    packed_in_pieces,
    unpack,
)
from penstock.model import Role


@dataclass(frozen=True, slots=True)
class Kept:
    names: Any
    role: Role = Role.ACTIVE


MANY = [(f"address {n}", "queue", n) for n in range(100_000)]
COLUMNS = {
    "one": np.arange(300_000.0),
    "none": np.empty(0),
    "matrix": np.ones((3, 50_000), np.float32),
}


@pytest.mark.parametrize(
    "value",
    [
        {"brokers": {"n": Kept(MANY)}, "seen": {"n": 1.5}},
        COLUMNS,
        [COLUMNS["one"], COLUMNS["one"]],
        *(list(range(n)) for n in (0, 1, 15, 16, 249, 250, 251, 265, 266, 70_000)),
        Kept(()),
        None,
        np.float64(3.5),
    ],
    ids=lambda value: str(value)[:30],
)
def test_it_reads_the_same(value: Any) -> None:
    found = list(packed_in_pieces(value))
    assert msgspec.msgpack.decode(b"".join(found)) == msgspec.msgpack.decode(
        pack(value)
    )
    assert max(map(len, found)) <= COLUMN_BYTES


@pytest.mark.parametrize(
    "pack_up", [compressed, lambda value: checksummed(pack(value))]
)
def test_a_byte_that_changed_is_noticed(pack_up: Callable[[Any], bytes]) -> None:
    stream = pack_up(Kept(MANY[:100]))
    assert unpack(decompressed(stream), Kept).names == [
        list(name) for name in MANY[:100]
    ]
    for place in range(2, len(stream), 37):
        damaged = bytearray(stream)
        damaged[place] ^= 0x10
        try:
            found = decompressed(bytes(damaged))
        except ValueError:
            continue
        assert found == decompressed(stream), "a bit that has no meaning"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_what_is_cut_off_is_noticed(share: float) -> None:
    stream = compressed(Kept(MANY))
    assert len(stream) < len(pack(Kept(MANY))) / 2
    with pytest.raises(ValueError, match="is cut off"):
        decompressed(stream[: int(share * len(stream))])
