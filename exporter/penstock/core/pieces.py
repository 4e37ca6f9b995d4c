"""
Long work on texts and objects, done in pieces.

One call into C keeps Python's lock until it returns, and whoever has a request to answer waits. What numpy does with
numbers lets others in; what is done with objects does not, however many there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

KnownT = TypeVar("KnownT")

PIECE = 250
"""Rows: less than a millisecond, whatever is done with them."""


def pieces(size: int, most: int = PIECE) -> Iterator[slice]:
    """The ranges of at most so many that are 0 to `size`."""
    return (slice(start, min(start + most, size)) for start in range(0, size, most))


def looked_up(known: Mapping[KnownT, int], texts: Sequence[KnownT]) -> NDArray[np.int64]:
    """What is known by each of the texts, -1 where nothing is."""
    found = np.empty(len(texts), np.int64)
    for some in pieces(len(texts)):
        found[some] = np.fromiter(map(known.get, texts[some], repeat(-1)), np.int64)
    return found
