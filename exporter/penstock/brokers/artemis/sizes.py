"""Numbers of a queue that no listing has, `QueueSizes`: which queues are requested, and the last values of the others.

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
        self._since = np.empty(0)
        """(queues,) When a queue last held messages or had changed."""
        self._settled = np.empty(0, np.bool_)
        """(queues,) Whether it was read long enough after that."""
        self._absent: Keys = np.empty(0, np.int64)
        """Keys of the queues that the broker did not find by their names at the last reading."""
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
        has_changed = counters != take_or_fill(self._counters, before, np.nan)
        busy = has_changed.any(axis=0)
        busy |= (counters[: len(_HELD)] != 0).any(axis=0)
        busy |= np.isin(index.keys, hidden)
        self._since = np.where(busy, now, take_or_fill(self._since, before, now))
        self._settled = take_or_fill(self._settled, before, False) & ~busy
        self._values = take_or_fill(self._values, before, np.nan)
        self._index = index
        self._counters = counters
        due = np.flatnonzero(~self._settled)
        # A queue that is listed and has no MBean of its name: the pattern finds it, whatever its name is.
        is_absent = (positions(index.keys, self._absent) >= 0).any()
        are_many = len(due) > BY_NAME * len(index)
        if is_absent or are_many or self._all_read.due(now, ALL_AGE):
            return None
        return due

    def found(
        self, requested: Positions, values: Matrix, absent: Positions, now: float
    ) -> None:
        """Note the answers about queues that were requested by name.

        requested: their positions. values: (3, requested), NaN where they could not be read. absent: positions of the
        queues that the broker did not find.
        """
        self._set(requested, values, now)
        self._absent = self._index.keys[absent]

    def found_all(self, keys: Keys, values: Matrix, now: float) -> None:
        """Note the answer to the request for all queues by pattern. keys: of the queues in it. values: (3, keys)."""
        rows = self._index.positions(keys)
        listed = rows >= 0
        all_values = np.full_like(self._values, np.nan)
        all_values[:, rows[listed]] = values[:, listed]
        self._set(np.arange(len(self._index)), all_values, now)
        self._absent = self._absent[:0]
        self._all_read = Cadence(now)

    def columns(self) -> dict[str, Column]:
        return dict(zip(COLUMNS, self._values, strict=True))

    def _set(self, rows: Positions, values: Matrix, now: float) -> None:
        self._values[:, rows] = values
        was_read = ~np.isnan(values).any(axis=0)
        self._settled[rows] = was_read & (now - self._since[rows] >= SETTLES)
