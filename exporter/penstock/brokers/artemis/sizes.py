"""What no listing says of a queue, `QueueSizes`: which queues are requested, and the last values of the others.

The broker looks up a role for each attribute of each queue, so that these few cost it more than a listing. A queue that
holds nothing and whose counters are as before has had no message. One that holds messages is always asked: a consumer
that came and left between two polls may have attempted to acknowledge some, and no listing shows that.
"""

import numpy as np

from penstock.brokers.artemis.answers import QueueSizes
from penstock.brokers.cadence import Cadence
from penstock.core.table import (
    Column,
    Index,
    Keys,
    Matrix,
    Positions,
    Table,
    positions,
    take_or_fill,
)
from penstock.model import QueueRow

COLUMNS = QueueSizes.__struct_fields__
_HELD = ("messages", "delivering", "scheduled")
_COUNTERS = (*_HELD, "added", "acknowledged", "expired", "killed")

SETTLES = 5.0
"""Seconds after a change for which a queue is asked: the broker's counters follow each other within a second."""
ALL_AGE = 60.0
"""Seconds after which all are read again, whatever the listing says."""
BY_NAME = 0.5
"""Share of the queues above which all are read by pattern. To the broker names cost as much at nine tenths."""


class Sizes:
    """The numbers of all queues, of shape (3, rows), and whose are known to hold until their rows change."""

    def __init__(self) -> None:
        self._index: Index[QueueRow] = Index.empty()
        self._counters = np.empty((len(_COUNTERS), 0))
        self._values = np.empty((len(COLUMNS), 0))
        # When a queue was last seen to hold something or to have changed; and whether it was read long enough after.
        self._since = np.empty(0)
        self._settled = np.empty(0, np.bool_)
        self._absent: Keys = np.empty(0, np.int64)
        """Not found by their names at the last reading."""
        self._all_read = Cadence()

    def due(
        self, queues: Table[QueueRow], hidden: Keys, now: float
    ) -> Positions | None:
        """Which queues are to be asked by their names; None: all, by pattern. To be called once a poll. hidden: keys of
        rows that the listing did not show, whose counters may be old.
        """
        index = queues.index
        before = queues.index.positions_in(self._index)
        counters = np.vstack([queues[name] for name in _COUNTERS])
        # A number that is missing differs from itself, so that its queue counts as changed.
        busy = (counters != take_or_fill(self._counters, before, np.nan)).any(axis=0)
        busy |= (counters[: len(_HELD)] != 0).any(axis=0) | np.isin(index.keys, hidden)
        self._since = np.where(busy, now, take_or_fill(self._since, before, now))
        self._settled = take_or_fill(self._settled, before, False) & ~busy
        self._values = take_or_fill(self._values, before, np.nan)
        self._index = index
        self._counters = counters
        due = np.flatnonzero(~self._settled)
        # One that is listed and has no MBean of its name: the pattern finds it, whatever its name is.
        absent = (positions(index.keys, self._absent) >= 0).any()
        if (
            absent
            or self._all_read.due(now, ALL_AGE)
            or len(due) > BY_NAME * len(index)
        ):
            return None
        return due

    def found(
        self, at: Positions, values: Matrix, absent: Positions, now: float
    ) -> None:
        """Those at `at` were asked by name. values: of shape (3, len(at)), NaN where they could not be read. absent:
        positions of those that were not there.
        """
        self._set(at, values, now)
        self._absent = self._index.keys[absent]

    def found_all(self, keys: Keys, values: Matrix, now: float) -> None:
        """All were asked by pattern; those of `keys` were found."""
        at = self._index.positions(keys)
        here = at >= 0
        every = np.full_like(self._values, np.nan)
        every[:, at[here]] = values[:, here]
        self._set(np.arange(len(self._index)), every, now)
        self._absent = self._absent[:0]
        self._all_read = Cadence(now)

    def columns(self) -> dict[str, Column]:
        return dict(zip(COLUMNS, self._values, strict=True))

    def _set(self, at: Positions, values: Matrix, now: float) -> None:
        self._values[:, at] = values
        self._settled[at] = ~np.isnan(values).any(axis=0) & (
            now - self._since[at] >= SETTLES
        )
