"""For how long a queue's consumers usually stay away: lessons of absences that ended by themselves.

One absence teaches at once, and is forgotten after eight times its length unless another one of like size comes: an
outage does not excuse the next one, a batch is known from its second cycle on.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column
from penstock.core.table import Column
from penstock.observation.facts import Facts

LESSONS = 4
"""Of a queue: of each like length one."""
TIMES = 1.5
"""The longest lesson: an absence may last."""
ALIKE = 2.0
KEEP = 8.0
LEAST_KEEP = 3600.0
MOST_KEEP = 15 * 86400.0
"""A lesson lasts so many times its length, in between these seconds."""


@dataclass(frozen=True, slots=True)
class Absences(RowState):
    """lengths, until: (LESSONS, queues), seconds and when each is forgotten, NaN where there is none."""

    BY = By.QUEUE
    STORED_AS = "absence_"
    lengths: NDArray[np.float64] = column(lines=LESSONS, outlives=True)
    until: NDArray[np.float64] = column(lines=LESSONS, outlives=True)

    def advance(self, found: Facts, ended: Column) -> "Absences":
        """ended: per queue how long the absence was that ended at this poll, NaN where none did."""
        before = self.reindexed(found.queues, found.known)
        at = np.flatnonzero(ended > 0)
        if not len(at):
            return before
        lengths = before.lengths.copy()
        until = before.until.copy()
        for queue, length in zip(at.tolist(), ended[at].tolist(), strict=True):
            of = lengths[:, queue]
            ends = until[:, queue]
            of[ends < found.now] = np.nan
            alike = (of <= ALIKE * length) & (length <= ALIKE * of)
            place = (
                int(np.argmax(alike))
                if alike.any()
                else int(np.argmin(np.where(np.isnan(of), -np.inf, ends)))
            )
            of[place] = np.fmax(of[place], length) if alike.any() else length
            ends[place] = found.now + np.clip(KEEP * length, LEAST_KEEP, MOST_KEEP)
        return replace(before, lengths=lengths, until=until)

    def seconds(self, now: float, cold: float) -> Column:
        """Per queue how long an absence may last, at least `cold`."""
        with np.errstate(invalid="ignore"):
            longest = np.where(self.until >= now, self.lengths, 0.0).max(
                axis=0, initial=0.0
            )
        return np.maximum(cold, TIMES * longest)
