"""Counters over things that come and go: what each added since the poll before, summed for ever."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.flow.series import Grouping
from penstock.table import Column, Index

SeriesT = TypeVar("SeriesT", bound=Hashable)

PARKED, MOST = 500, 20_000
"""So many of what is gone are kept at least; and at most, where fewer are there now."""


def room_for(before: int, here: int) -> int:
    """
    How many of what is gone may be kept for its return: twice the most that were there at once.

    A fleet that restarts finds its own again; names that never come again are many, and must not grow for ever.
    """
    return max(min(before, MOST), 2 * here, PARKED)


@dataclass(frozen=True, slots=True)
class Totals(Generic[SeriesT]):
    """
    Running sums per series.

    index: the series. sums, (counters, series): the totals. last, (counters, rows): what each row of `source` said
    at the poll before, NaN where it has not spoken. parked: totals of series that have no row now, so that a counter
    goes on when a client comes back; room: as many of them as may be.
    """

    source: Index[object] = field(default_factory=Index.empty)
    last: NDArray[np.float64] | None = None
    index: Index[SeriesT] = field(default_factory=Index.empty)
    sums: NDArray[np.float64] | None = None
    parked: dict[SeriesT, tuple[float, ...]] = field(default_factory=dict)
    room: int = 0

    def follow(
        self, grouping: Grouping[SeriesT], counters: list[Column], parks: Callable[[SeriesT], bool] = lambda _: True
    ) -> "Totals[SeriesT]":
        """
        The totals after a poll in which the rows of `grouping` said `counters`.

        A row that is new counts from 0, one whose counter fell counts anew, a missing value adds nothing.
        parks: whether the total of a series is kept when its last row goes.
        """
        now = np.stack(counters)
        before = np.full_like(now, np.nan)
        if self.last is not None:
            before = np.stack([grouping.source.carry(self.source, row, np.nan) for row in self.last])
        known = ~np.isnan(before)
        grown = np.where(known & (now >= before), now - np.where(known, before, 0), now)
        room = room_for(self.room, len(grouping.index))
        sums, parked = self._carried(grouping.index, len(counters), parks, room)
        here = grouping.member >= 0
        for counter, added in enumerate(grown):
            counted = here & ~np.isnan(added)
            sums[counter] += np.bincount(
                grouping.member[counted], weights=added[counted], minlength=len(grouping.index)
            )
        return Totals(grouping.source, np.where(np.isnan(now), before, now), grouping.index, sums, parked, room)

    def sum_of(self, counter: int) -> Column:
        """The totals of one counter, by the rows of `index`."""
        return self.sums[counter] if self.sums is not None else np.zeros(len(self.index))

    def _carried(
        self, index: Index[SeriesT], counters: int, parks: Callable[[SeriesT], bool], room: int
    ) -> tuple[NDArray[np.float64], dict[SeriesT, tuple[float, ...]]]:
        """The sums by the rows of `index`, and those that are parked now."""
        if self.sums is None:
            return np.zeros((counters, len(index))), self.parked
        if index is self.index:
            return self.sums.copy(), self.parked
        sums = np.stack([index.carry(self.index, row, 0.0) for row in self.sums])
        parked = dict(self.parked)
        # By origin, not by key: after new rules the keys stand for other series.
        origin = index.origin_in(self.index)
        gone = np.ones(len(self.index), np.bool_)
        gone[origin[origin >= 0]] = False
        for position in np.flatnonzero(gone).tolist():
            if parks(self.index.rows[position]):
                parked[self.index.rows[position]] = tuple(self.sums[:, position].tolist())
        for position in np.flatnonzero(origin < 0).tolist() if parked else ():
            found = parked.pop(index.rows[position], None)
            if found is not None:
                sums[:, position] += found
        while len(parked) > room:
            del parked[next(iter(parked))]
        return sums, parked
