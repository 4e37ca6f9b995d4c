"""
Long work on texts and objects, done in pieces.

One call into C keeps Python's lock until it returns, and whoever has a request to answer waits. What numpy does with
numbers lets others in; what is done with objects does not, however many there are.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

PIECE = 500
"""Rows: less than a millisecond, whatever is done with them."""


def pieces(size: int, most: int = PIECE) -> Iterator[slice]:
    """The ranges of at most so many that are 0 to `size`."""
    return (slice(start, min(start + most, size)) for start in range(0, size, most))


def mapped(function: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """As `list(map(function, items))`, for a function that is none of Python's own bytecode."""
    found: list[ResultT] = []
    for some in pieces(len(items)):
        found += map(function, items[some])
    return found
