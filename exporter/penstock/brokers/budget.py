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
        """A new budget for each listing, by the name of its rows."""
        names = [limit.name for limit in fields(self)]
        names.remove("listing_bytes")
        return {name: Budget(name, getattr(self, name)) for name in names}

    def check_bytes(self, listing: str, read: int) -> None:
        """Raises OverBudget when the pages of a listing read so far are larger than they may be."""
        if read > self.listing_bytes:
            raise OverBudget(
                f"{listing}: its pages are larger than {self.listing_bytes} bytes in all: names are very long, or"
                " budgets.listing_bytes is too small for so many rows"
            )


class Budget:
    """The budget of one listing from poll to poll: whether it has more rows than may be read, and which are new.
    most: rows that may be read. over: there are more, as far as is known; was_over: as far as was known when the last
    reading was asked for. late: keys of rows that this poll has shown first, and that may have been there, out of view.
    """

    def __init__(self, listing: str, most: int) -> None:
        self.what = listing
        self.most = most
        self.over = False
        self.was_over = False
        self.late = NO_KEYS
        self._total = 0
        self._left_out = 0
        self._cut_before = False
        self._index: Index[Any] | None = None

    def pages(self, rows: int) -> tuple[int, int]:
        """How many rows a page has, at most `rows`, and how many pages there are, so that all have `most` rows."""
        pages = ceil(self.most / rows)
        return ceil(self.most / pages), pages

    def begin_poll(self) -> None:
        self.late = NO_KEYS

    def read(self, rows: int, total: int) -> None:
        """Note that a reading gave so many rows of those that there are."""
        self._cut_before = bool(self._left_out)
        self.was_over = self.over
        self.over = total > self.most
        self._total = total
        self._left_out = max(total - rows, 0) if self.over else 0

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
        largest_first = np.argsort(-np.nan_to_num(sizes), kind="stable")
        return np.sort(largest_first[: self.most])

    def largest_of(
        self, rows: Sequence[RowT], size: Callable[[RowT], float]
    ) -> Sequence[RowT]:
        """The rows that may be kept, the largest. rows: all that there are."""
        sizes = np.fromiter(map(size, rows), np.float64, len(rows))
        positions = self.largest(sizes)
        if len(positions) == len(rows):
            return rows
        return [rows[position] for position in positions.tolist()]

    def left_out(self) -> LeftOut | None:
        """How many rows were left out; None: all were read."""
        if not self._left_out:
            return None
        return LeftOut(self.what, self._left_out, self._total)
