"""For how long a queue's consumers usually stay away: lessons from absences that ended by themselves.

A *lesson* is the length of an absence, and the time until which it is remembered. One absence is a lesson at once. It
is forgotten after eight times its length unless another one of like length comes: an outage does not excuse the next
one, and a batch job is known from its second cycle on.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column
from penstock.core.table import Column
from penstock.observation.facts import Facts

LESSONS = 4
"""Lessons of a queue; absences of like length are one."""
TIMES = 1.5
"""An absence may last so many times as long as the longest lesson."""
ALIKE = 2.0
"""Two absences are alike if neither is more than so many times as long as the other."""
KEEP = 8.0
LEAST_KEEP = 3600.0
MOST_KEEP = 15 * 86400.0
"""A lesson is kept for so many times its length, but within these seconds."""


@dataclass(frozen=True, slots=True)
class Absences(RowState):
    """The lessons of each queue; NaN where there is none."""

    BY = By.QUEUE
    STORED_AS = "absence_"
    lengths: NDArray[np.float64] = column(lines=LESSONS, outlives=True)
    """(LESSONS, queues) Seconds of the absence."""
    until: NDArray[np.float64] = column(lines=LESSONS, outlives=True)
    """(LESSONS, queues) When the lesson is forgotten, by the broker's clock."""

    def advance(self, facts: Facts, ended: Column) -> "Absences":
        """Return the lessons after a poll.

        ended: (queues,) Seconds of the absence that ended at this poll, NaN where none did.
        """
        before = self.reindexed(facts.queues, facts.known)
        queues = np.flatnonzero(ended > 0)
        if not len(queues):
            return before
        lengths = before.lengths.copy()
        until = before.until.copy()
        for queue, length in zip(queues.tolist(), ended[queues].tolist(), strict=True):
            learn(
                lengths[:, queue],
                until[:, queue],
                length,
                facts.now,
            )
        return replace(before, lengths=lengths, until=until)

    def seconds(self, now: float, cold: float) -> Column:
        """(queues,) Seconds that an absence may last: half as long again as the longest lesson, and at least `cold`."""
        with np.errstate(invalid="ignore"):
            is_kept = self.until >= now
        lengths = np.where(is_kept, self.lengths, 0.0)
        longest = lengths.max(axis=0, initial=0.0)
        return np.maximum(cold, TIMES * longest)


def learn(lengths: Column, until: Column, length: float, now: float) -> None:
    """Write an absence of this length into the lessons of its queue.

    A lesson of like length is renewed, with the longer one of both lengths. If there is none, the absence takes a free
    place, or the one of the lesson that would be forgotten first.

    Args:
        lengths: (LESSONS,) Seconds, NaN where there is none.
        until: (LESSONS,) When each is forgotten.
        length: Seconds of the absence.
        now: When it ended.
    """
    lengths[until < now] = np.nan
    is_alike = (lengths <= ALIKE * length) & (length <= ALIKE * lengths)
    if is_alike.any():
        lesson = int(np.argmax(is_alike))
        lengths[lesson] = np.fmax(lengths[lesson], length)
    else:
        # A free place counts as one that was forgotten long ago.
        forgotten_at = np.where(
            np.isnan(lengths),
            -np.inf,
            until,
        )
        lesson = int(np.argmin(forgotten_at))
        lengths[lesson] = length
    until[lesson] = now + np.clip(
        KEEP * length,
        LEAST_KEEP,
        MOST_KEEP,
    )
