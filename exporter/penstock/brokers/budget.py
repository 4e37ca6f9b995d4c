"""How much of a broker is read: a client that makes millions of queues must not take the agent's memory or its time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import ceil
from typing import Any, TypeVar

import numpy as np

from penstock.core.errors import OverBudget
from penstock.core.table import Column, Index, Keys, Positions
from penstock.model import LeftOut

RowT = TypeVar("RowT")

NO_KEYS: Keys = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowBudgets:
    """Rows that are read of each listing at most, and bytes of all pages of one. Where both say so: a broker of 100,000
    queues fits in.
    """

    queues: int = 101_000
    addresses: int = 101_000
    consumers: int = 101_000
    connections: int = 101_000
    sessions: int = 200_000
    producers: int = 101_000
    listing_bytes: int = 256 * 2**20

    def listings(self) -> dict[str, "Budget"]:
        """One of each listing, by what it lists."""
        names = (one.name for one in fields(self) if one.name != "listing_bytes")
        return {name: Budget(name, getattr(self, name)) for name in names}

    def check_bytes(self, listing: str, read: int) -> None:
        """Raises OverBudget when the pages of a listing read so far are larger than they may be."""
        if read > self.listing_bytes:
            raise OverBudget(
                f"{listing}: its pages are larger than {self.listing_bytes} bytes in all: names are very long, or"
                " budgets.listing_bytes is too small for so many rows"
            )


class Budget:
    """One listing from poll to poll: whether it has more rows than may be read, and which rows have come into view.
    most: rows that may be read. over: there are more, as far as is known; was_over: as far as was known when the last
    reading was asked for. late: keys of rows that this poll has shown first, and that may have been there, out of view.
    """

    def __init__(self, what: str, most: int) -> None:
        self.what = what
        self.most = most
        self.over = self.was_over = False
        self.late = NO_KEYS
        self._of = self._left_out = 0
        self._cut_before = False
        self._index: Index[Any] | None = None

    def pages(self, rows: int) -> tuple[int, int]:
        """Of pages of at most `rows`: how many rows each has and how many there are, so that all have `most` rows."""
        pages = ceil(self.most / rows)
        return ceil(self.most / pages), pages

    def begin_poll(self) -> None:
        self.late = NO_KEYS

    def read(self, rows: int, of: int) -> None:
        """Note that a reading gave so many rows of those that there are."""
        self._cut_before = bool(self._left_out)
        self.was_over = self.over
        self.over = of > self.most
        self._of, self._left_out = of, max(of - rows, 0) if self.over else 0

    def shown(self, index: Index[Any]) -> None:
        """Note which rows the reading showed. Call it once after each `read`."""
        if self._cut_before and self._index is not None and index is not self._index:
            self.late = index.keys[index.new_since(self._index)]
        self._index = index

    def largest(self, sizes: Column) -> Positions:
        """Which of all rows may be kept, by their sizes: the largest; positions, ascending."""
        self.read(min(len(sizes), self.most), len(sizes))
        if not self.over:
            return np.arange(len(sizes))
        return np.sort(np.argsort(-np.nan_to_num(sizes), kind="stable")[: self.most])

    def largest_of(
        self, rows: Sequence[RowT], size: Callable[[RowT], float]
    ) -> Sequence[RowT]:
        """Those of `rows`, which are all that there are, that may be kept."""
        at = self.largest(np.fromiter(map(size, rows), np.float64, len(rows)))
        return rows if len(at) == len(rows) else [rows[i] for i in at.tolist()]

    def left_out(self) -> LeftOut | None:
        return LeftOut(self.what, self._left_out, self._of) if self._left_out else None
