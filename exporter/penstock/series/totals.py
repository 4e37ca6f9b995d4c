"""Counters of series whose rows come and go, such as the messages that the consumers of a client have acknowledged.

The sum of the rows' counters would fall whenever a row goes. So each series has a running total, to which the growth of
its rows is added at each poll.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.core.counters import without_torn_counters
from penstock.core.gone_rows import GoneRows
from penstock.core.table import (
    Column,
    Index,
    Keys,
    Matrix,
    Positions,
    take_or_fill,
)
from penstock.series.labels import Grouping, sum_by

SeriesT = TypeVar("SeriesT", bound=Hashable)

LEAST_DORMANT = 500
"""So many totals of series without a row may be remembered in any case."""
MOST_DORMANT = 20_000
"""A capacity that many series once needed shrinks to this when fewer are shown."""


def dormant_capacity(before: int, series: int) -> int:
    """Return how many series without a row may be remembered: twice the most that were shown at once.

    A fleet that restarts finds its own series again. Names that never come again are many, and must not grow for good.

    Args:
        before: The capacity at the last poll.
        series: How many series are shown now.
    """
    return max(min(before, MOST_DORMANT), 2 * series, LEAST_DORMANT)


@dataclass(frozen=True, slots=True)
class Totals(Generic[SeriesT]):
    """Running totals of some counters, by series.

    Attributes:
        source: The rows of the last poll.
        last: (counters, rows of `source`) The counters at the last poll; NaN where a row had none.
        index: The series.
        sums: (counters, series) The totals.
        dormant: The totals of series that have no row now, to go on from when a client comes back.
        capacity: How many of these are remembered at most.
        unlisted: Rows that are not listed now, with their last counters: one listing may lack rows that the next has.
    """

    source: Index[Any] = field(default_factory=Index.empty)
    last: Matrix | None = None
    index: Index[SeriesT] = field(default_factory=Index.empty)
    sums: Matrix | None = None
    dormant: dict[SeriesT, tuple[float, ...]] = field(default_factory=dict)
    capacity: int = 0
    unlisted: GoneRows = field(default_factory=GoneRows)

    def advance(
        self,
        grouping: Grouping[SeriesT],
        counters: list[Column],
        keeps: Callable[[SeriesT], bool] = lambda _: True,
        late: Keys | None = None,
        *,
        begin_together: bool = False,
    ) -> "Totals[SeriesT]":
        """Return the totals after one more poll.

        A new row counts from 0, one that comes back from its last counters; a counter that fell counts again from 0;
        a missing one adds nothing.

        Args:
            grouping: The series of each row.
            counters: (rows,) each, in the order of `sums`.
            keeps: Whether the total of a series is remembered when its last row goes.
            late: As in `Observation`. Such rows count from now on: they may have been counted before.
            begin_together: No counter of a row starts again without the first one (`without_torn_counters`).
        """
        source = grouping.source
        index = grouping.index
        size = len(index)
        now = np.stack(counters)
        before = self._last_counters(source, len(now))
        unlisted = self._with_unlisted(source, before)
        if begin_together:
            now = without_torn_counters(now, before)
        if late is not None:
            is_late = np.isin(source.keys, late)
            begin = np.where(np.isnan(before), now, before)
            before[:, is_late] = begin[:, is_late]
        capacity = dormant_capacity(self.capacity, size)
        sums, dormant = self._carried(index, len(counters), keeps, capacity)
        for counter, added in enumerate(growth(now, before)):
            sums[counter] += sum_by(grouping.member, added, size)
        last = np.where(np.isnan(now), before, now)
        return Totals(source, last, index, sums, dormant, capacity, unlisted)

    def _with_unlisted(self, source: Index[object], before: Matrix) -> GoneRows:
        """Return the rows that `source` lacks now, with their last counters.

        For rows that it lists again, their last counters are written into `before`: they go on from there.
        """
        if self.last is None or source is self.source:
            return self.unlisted
        if not source.follows(self.source):  # its keys may be those of other things
            return GoneRows()
        rows, remembered = self.unlisted.come_back(self.source, source)
        if len(rows):
            before[:, rows] = self.unlisted.values[:, remembered]
        return self.unlisted.after(self.source, source, self.last)

    def _last_counters(self, source: Index[object], counters: int) -> Matrix:
        """(counters, rows of `source`) The counters at the last poll; NaN for new rows. A copy, to write to."""
        if self.last is None:
            return np.full((counters, len(source)), np.nan)
        if source is self.source:
            return self.last.copy()
        # In an index that goes on, a row with the same key is the same thing, even if its text has changed. In one that
        # started again the key may be that of another thing: then the text must be the same, too.
        if source.follows(self.source):
            origin = source.positions_in(self.source)
        else:
            origin = source.unchanged_in(self.source)
        return take_or_fill(self.last, origin, np.nan)

    def sum_of(self, counter: int) -> Column:
        """(series,) The totals of one counter."""
        if self.sums is None:
            return np.zeros(len(self.index))
        totals: Column = self.sums[counter]
        return totals

    def _carried(
        self,
        index: Index[SeriesT],
        counters: int,
        keeps: Callable[[SeriesT], bool],
        capacity: int,
    ) -> tuple[Matrix, dict[SeriesT, tuple[float, ...]]]:
        """Return the totals by the series of `index`, as arrays to write to, and those of series without a row.

        A series that has rows again gets its remembered total. Of series without a row, `capacity` are remembered:
        those that left last.
        """
        if self.sums is None:
            return np.zeros((counters, len(index))), self.dormant
        if index is self.index:
            return self.sums.copy(), self.dormant
        sums = np.stack([index.carry(self.index, row, 0.0) for row in self.sums])
        # By labels, not by key: after a change of the rules a key may be that of another series.
        origin = index.unchanged_in(self.index)
        dormant = self.dormant | self._sums_of_left(origin, keeps)
        if dormant:
            for position in np.flatnonzero(origin < 0).tolist():
                remembered = dormant.pop(index.rows[position], None)
                if remembered is not None:
                    sums[:, position] += remembered
        while len(dormant) > capacity:
            oldest = next(iter(dormant))
            del dormant[oldest]
        return sums, dormant

    def _sums_of_left(
        self, origin: Positions, keeps: Callable[[SeriesT], bool]
    ) -> dict[SeriesT, tuple[float, ...]]:
        """Return the totals of the series that have no row any more, if `keeps` wants them remembered.

        origin: (series now,) The position of each in `self.index`, -1 where it is new.
        """
        if self.sums is None:
            return {}
        has_left = np.ones(len(self.index), np.bool_)
        has_left[origin[origin >= 0]] = False
        return {
            self.index.rows[position]: tuple(self.sums[:, position].tolist())
            for position in np.flatnonzero(has_left).tolist()
            if keeps(self.index.rows[position])
        }


def growth(now: Matrix, before: Matrix) -> Matrix:
    """(counters, rows) The growth of each counter: all of it where it is new or fell, NaN where it is missing.

    A counter that fell started again from 0: its whole value came since then.
    """
    was_there = ~np.isnan(before)
    goes_on = was_there & (now >= before)
    last = np.where(was_there, before, 0)
    return np.where(goes_on, now - last, now)
