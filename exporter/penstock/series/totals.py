"""Counters over things that come and go: what each added since the poll before, summed for ever."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.core.counters import without_torn_counters
from penstock.core.gone_rows import GoneRows
from penstock.core.table import Column, Index, Keys, Matrix, take_or_fill
from penstock.series.labels import Grouping, sum_by

SeriesT = TypeVar("SeriesT", bound=Hashable)

LEAST_DORMANT = 500
MOST_DORMANT = 20_000
"""So many of what is gone are kept at least; and at most, where fewer are there now."""


def dormant_capacity(before: int, here: int) -> int:
    """How many of what is gone may be kept for its return: twice the most that were there at once. A fleet that
    restarts finds its own again; names that never come again are many, and must not grow for ever.
    """
    return max(min(before, MOST_DORMANT), 2 * here, LEAST_DORMANT)


@dataclass(frozen=True, slots=True)
class Totals(Generic[SeriesT]):
    """Running sums per series of `index`: sums, (counters, series). last, (counters, rows): what each row of `source`
    said at the poll before, NaN where it said nothing. dormant: totals of series that have no row now, to go on when a
    client comes back; capacity: how many are kept at most. unlisted: rows that are not listed now with what they said
    last, as one listing may lack what the next one has.
    """

    source: Index[object] = field(default_factory=Index.empty)
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
        """The totals after a poll in which the rows of `grouping` said `counters`: one that is new counts from 0, one
        that comes back from what it said last, one that fell counts again, a missing value adds nothing.

        keeps: whether the total of a series is kept when its last row goes. late: as in `Observation`; such rows count
        from now on, as they may have been counted before.
        begin_together: no counter of a row starts again without the first one (`without_torn_counters`).
        """
        now = np.stack(counters)
        before = self._said_before(grouping.source, len(now))
        unlisted = self._with_unlisted(grouping.source, before)
        if begin_together:
            now = without_torn_counters(now, before)
        if late is not None:
            entered = np.isin(grouping.source.keys, late)
            before[:, entered] = np.where(np.isnan(before), now, before)[:, entered]
        known = ~np.isnan(before)
        grown = np.where(known & (now >= before), now - np.where(known, before, 0), now)
        capacity = dormant_capacity(self.capacity, len(grouping.index))
        sums, dormant = self._carried(grouping.index, len(counters), keeps, capacity)
        for counter, added in enumerate(grown):
            sums[counter] += sum_by(grouping.member, added, len(grouping.index))
        last = np.where(np.isnan(now), before, now)
        return Totals(
            grouping.source, last, grouping.index, sums, dormant, capacity, unlisted
        )

    def _with_unlisted(self, source: Index[Any], before: Matrix) -> GoneRows:
        """Those that `source` lacks now. Those that it has again get what they said last into `before`."""
        if self.last is None or source is self.source:
            return self.unlisted
        if not source.follows(self.source):  # its keys may be those of other things
            return GoneRows()
        here, remembered = self.unlisted.come_back(self.source, source)
        if len(here):
            before[:, here] = self.unlisted.values[:, remembered]
        return self.unlisted.after(self.source, source, self.last)

    def _said_before(self, source: Index[Any], counters: int) -> Matrix:
        """What each row of `source` said at the poll before, NaN where it is new: a new text makes no new thing."""
        if self.last is None:
            return np.full((counters, len(source)), np.nan)
        if source is self.source:
            return self.last.copy()
        # In an index that started again the same key may be another thing: there the text says.
        at = (
            source.positions_in if source.follows(self.source) else source.unchanged_in
        )(self.source)
        return take_or_fill(self.last, at, np.nan)

    def sum_of(self, counter: int) -> Column:
        """The totals of one counter, by the rows of `index`."""
        return (
            self.sums[counter] if self.sums is not None else np.zeros(len(self.index))
        )

    def _carried(
        self,
        index: Index[SeriesT],
        counters: int,
        keeps: Callable[[SeriesT], bool],
        capacity: int,
    ) -> tuple[Matrix, dict[SeriesT, tuple[float, ...]]]:
        """The sums by the rows of `index`, and those that are dormant now."""
        if self.sums is None:
            return np.zeros((counters, len(index))), self.dormant
        if index is self.index:
            return self.sums.copy(), self.dormant
        sums = np.stack([index.carry(self.index, row, 0.0) for row in self.sums])
        dormant = dict(self.dormant)
        # By origin, not by key: after new rules the keys are those of other series.
        origin = index.unchanged_in(self.index)
        gone = np.ones(len(self.index), np.bool_)
        gone[origin[origin >= 0]] = False
        for position in np.flatnonzero(gone).tolist():
            if keeps(self.index.rows[position]):
                dormant[self.index.rows[position]] = tuple(
                    self.sums[:, position].tolist()
                )
        for position in np.flatnonzero(origin < 0).tolist() if dormant else ():
            found = dormant.pop(index.rows[position], None)
            if found is not None:
                sums[:, position] += found
        while len(dormant) > capacity:
            del dormant[next(iter(dormant))]
        return sums, dormant
