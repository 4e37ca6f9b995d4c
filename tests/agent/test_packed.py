"""What is packed in pieces reads as what is packed in one go, and no piece of it is long."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from penstock.agent.packed import COLUMN_BYTES, Packed, compressed, pack, packed_in_pieces
from penstock.model import Role


@dataclass(frozen=True, slots=True)
class Kept:
    names: Any
    role: Role = Role.ACTIVE


MANY = [(f"address {n}", "queue", n) for n in range(100_000)]
COLUMNS = {"one": np.arange(300_000.0), "none": np.empty(0), "matrix": np.ones((3, 50_000), np.float32)}


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
    assert msgspec.msgpack.decode(b"".join(found)) == msgspec.msgpack.decode(pack(value))
    assert max(map(len, found)) <= COLUMN_BYTES


def test_what_was_packed_before_is_taken_as_it_is() -> None:
    before = Packed(compressed(Kept(MANY)))
    assert sum(map(len, before.parts)) < len(pack(Kept(MANY))) / 2
    whole = {"one": before, "two": Kept(("x",))}
    found = msgspec.msgpack.decode(b"".join(packed_in_pieces(whole)))
    assert found == {
        "one": {"names": [list(name) for name in MANY], "role": "active"},
        "two": {"names": ["x"], "role": "active"},
    }
