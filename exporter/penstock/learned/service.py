"""How long consumers need for a message while there is a backlog.

With a buffer a backlog lies in the clients, where nothing is ready: what counts is the depth. Without a backlog no one
can know it, but the best pace that was ever seen is a bound.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.core.state import By, RowState, column, mask, unindexed
from penstock.core.table import Column, Mask
from penstock.core.windows import Window
from penstock.observation.facts import Facts, or_zero

SECONDS = 120.0
SAMPLES = 8
"""Of the window, in which so many samples are held."""
BUSY = 0.75
"""Share of the window, in polls that began with a backlog; in one that ends without it most may have been settled."""
DEEP = 2.0
"""Messages for each consumer that works: so many are a backlog."""
FEWEST = 3
FEWEST_PACE = 20
"""Messages settled in the window; fewer say nothing of the service time, and of the best pace."""
LOW = 0.2
"""Quantile of the windows that is the usual: where acknowledgements come in batches, estimates only err slow."""
STEP = 0.05
"""Of the estimate of that quantile, in powers of e, once much is known."""
ALL, SETTLED, BUSY_CONSUMERS, BUSY_SETTLED, BUSY_SECONDS = range(5)
"""Consumer-seconds, messages settled; both and seconds of the polls with a backlog."""


@dataclass(frozen=True, slots=True)
class ServiceTime(RowState):
    """Per queue. usual: seconds of a consumer for a message; windows: on so many it rests. now: over the last window,
    NaN where there was no backlog; pace: messages a second and consumer, backlog or not.
    """

    BY = By.QUEUE
    STORED_AS = "service_"
    usual: Column = column(outlives=True)
    windows: Column = column(0.0, outlives=True)
    consumers: Column = column(saved=False)
    deep: Mask = mask(saved=False)
    now: Column = column(saved=False, carried=False)
    pace: Column = column(saved=False, carried=False)
    window: Window = unindexed(Window)
    learned: float = unindexed(lambda: np.nan)
    """When windows taught something last."""

    def advance(self, found: Facts, step: float) -> "ServiceTime":
        """step: seconds since the poll before."""
        before = self.reindexed(found.queues, found.known)
        works = working(found)
        deep = (found.messages - or_zero(found.scheduled) >= DEEP * works) & (works > 0)
        same = found.known & (
            found.consumers == before.consumers
        )  # who came or went has another share of the time
        busy = before.deep & same
        seconds = 0.0 if np.isnan(step) else step
        settled = or_zero(found.d_settled)
        spent = works * seconds
        columns = [spent, settled, spent * busy, settled * busy, seconds * busy]
        window = self.window.reindexed(found.queues, same)
        values = np.stack(columns, dtype=np.float32, casting="same_kind")
        window = window.push(found.now, values, SECONDS, SECONDS / SAMPLES)
        spent, settled, at_backlog, served, for_seconds = window.totals
        known = (served >= FEWEST) & (for_seconds >= BUSY * SECONDS)
        whole = found.now - window.samples[0].begin >= BUSY * SECONDS
        fast = (settled >= FEWEST_PACE) & (spent > 0) & whole
        after = replace(
            before,
            index=found.queues,
            consumers=found.consumers,
            deep=deep,
            now=np.where(known, at_backlog / np.where(known, served, 1.0), np.nan),
            pace=np.where(fast, settled / np.where(fast, spent, 1.0), np.nan),
            window=window,
        )
        if np.isnan(self.learned):
            return replace(after, learned=found.now)
        return after if found.now - self.learned < SECONDS else after.taught(found.now)

    def taught(self, now: float) -> "ServiceTime":
        """With what the windows of all queues say that have one."""
        known = ~np.isnan(self.now)
        step = np.maximum(STEP, 1 / (self.windows + 1))
        with np.errstate(invalid="ignore"):
            moved = self.usual * np.exp(
                step * np.where(self.now > self.usual, LOW, LOW - 1)
            )
        usual = np.where(
            known, np.where(np.isnan(self.usual), self.now, moved), self.usual
        )
        return replace(self, usual=usual, windows=self.windows + known, learned=now)


def working(found: Facts) -> Column:
    """Per queue the consumers that have something to do; all that may where the broker shows no numbers of each."""
    if not found.counted:
        return np.where(
            found.single,
            np.fmin(or_zero(found.consumers), 1.0),
            or_zero(found.consumers),
        )
    consumer = found.consumer
    return found.of_queue(consumer.holds | (consumer.d_left > 0))
