"""How long consumers need for a message while there is a backlog.

The time is measured over a window of two minutes: the seconds of the consumers that had something to do, divided by
the messages that they settled. It is only known where they always had something to do, which is a *backlog*. In clients
with a buffer a backlog lies in the buffers, and nothing is ready: the depth counts. Without a backlog nobody can know
the time, but the best *pace*, messages a second and consumer, is a bound.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, mask, unindexed
from penstock.core.table import Column, Mask, Matrix
from penstock.core.windows import Window
from penstock.observation.facts import Facts, or_zero

SECONDS = 120.0
SAMPLES = 8
"""The window: its seconds, and in how many samples it is kept."""
BUSY = 0.75
"""Share of the window that polls which began with a backlog must cover."""
DEEP = 2.0
"""Messages for each consumer that works: so many are a backlog."""
FEWEST = 3
FEWEST_PACE = 20
"""Messages settled in the window; fewer say nothing about the service time, and about the best pace."""
LOW = 0.2
"""The usual time is this quantile of the times of the windows: where acknowledgements come in batches, a window may
show too long a time, but none that is too short.
"""
STEP = 0.05
"""Least step of the estimate of that quantile: a factor, as a power of e."""
ALL, SETTLED, BUSY_CONSUMERS, BUSY_SETTLED, BUSY_SECONDS = range(5)
"""Variables of the window: consumer-seconds and settled messages; both of the polls with a backlog, and their seconds.
"""


@dataclass(frozen=True, slots=True)
class ServiceTime(RowState):
    """How long the consumers of each queue need for a message."""

    BY = By.QUEUE
    STORED_AS = "service_"
    usual: Column = column(outlives=True)
    """The usual seconds of a consumer for a message."""
    windows: Column = column(0.0, outlives=True)
    """How many windows with a backlog that rests on."""
    consumers: Column = column(saved=False)
    """Consumers at the last poll."""
    deep: Mask = mask(saved=False)
    """Whether there was a backlog at the last poll: that of the time up to the next one."""
    now: Column = column(saved=False, carried=False)
    """Seconds of a consumer for a message over the last window; NaN where there was no backlog."""
    pace: Column = column(saved=False, carried=False)
    """Messages a second and consumer over the last window, with a backlog or without."""
    window: Window = unindexed(Window)
    learned: float = unindexed(lambda: np.nan)
    """When windows were learned last."""

    def advance(self, facts: Facts, step: float) -> "ServiceTime":
        """Return the state after a poll; once in the length of a window, what the window shows is learned.

        step: Seconds since the poll before.
        """
        before = self.reindexed(facts.queues, facts.known)
        works = working_consumers(facts)
        # Where a consumer came or went, nobody knows for how long it worked: the window begins again.
        has_same_consumers = facts.known & (facts.consumers == before.consumers)
        values = window_values(
            facts,
            works,
            before.deep & has_same_consumers,
            step,
        )
        window = self.window.reindexed(facts.queues, has_same_consumers)
        window = window.push(
            facts.now,
            values,
            SECONDS,
            SECONDS / SAMPLES,
        )
        depth = facts.messages - or_zero(facts.scheduled)
        after = replace(
            before,
            index=facts.queues,
            consumers=facts.consumers,
            deep=(depth >= DEEP * works) & (works > 0),
            now=service_seconds(window.totals),
            pace=pace_of(window, facts.now),
            window=window,
        )
        if np.isnan(self.learned):
            return replace(after, learned=facts.now)
        is_whole_window = facts.now - self.learned >= SECONDS
        return after.with_window_learned(facts.now) if is_whole_window else after

    def with_window_learned(self, now: float) -> "ServiceTime":
        """Return the state with the usual time moved towards the time of the last window, where that is known.

        The usual time is an estimate of a quantile without a memory of the windows: it goes up by a small step where a
        window was slower, and down by a larger one where it was faster. It rests where both balance.
        """
        is_known = ~np.isnan(self.now)
        is_first = np.isnan(self.usual)
        # Large steps at the begin, when little is known.
        step = np.maximum(STEP, 1 / (self.windows + 1))
        with np.errstate(invalid="ignore"):
            is_slower = self.now > self.usual
        # Four of five windows lie above the quantile: each moves it up by a fourth of what one below moves it down.
        direction = np.where(is_slower, LOW, LOW - 1)
        one_step_on = self.usual * np.exp(step * direction)
        learned = np.where(is_first, self.now, one_step_on)
        usual = np.where(is_known, learned, self.usual)
        windows = self.windows + is_known
        return replace(self, usual=usual, windows=windows, learned=now)


def window_values(
    facts: Facts, works: Column, is_busy: Mask, step: float
) -> NDArray[np.float32]:
    """(ALL … BUSY_SECONDS, queues) The variables of the window at a poll.

    Args:
        facts: The numbers of the poll.
        works: (queues,) Consumers that have something to do.
        is_busy: (queues,) Whether there was a backlog at the poll before, with the same consumers.
        step: Seconds since the poll before, NaN where there was none.
    """
    seconds = 0.0 if np.isnan(step) else step
    settled = or_zero(facts.d_settled)
    consumer_seconds = works * seconds
    variables = (
        consumer_seconds,
        settled,
        consumer_seconds * is_busy,
        settled * is_busy,
        seconds * is_busy,
    )
    return np.stack(variables, dtype=np.float32, casting="same_kind")


def service_seconds(totals: Matrix) -> Column:
    """(queues,) Seconds of a consumer for a message, by the sums of a window.

    NaN where too few messages were settled with a backlog, or where it did not last for most of the window.
    """
    settled = totals[BUSY_SETTLED]
    is_covered = totals[BUSY_SECONDS] >= BUSY * SECONDS
    is_known = (settled >= FEWEST) & is_covered
    seconds = totals[BUSY_CONSUMERS] / np.where(is_known, settled, 1.0)
    return np.where(is_known, seconds, np.nan)


def pace_of(window: Window, now: float) -> Column:
    """(queues,) Messages a second and consumer over the window, with a backlog or without.

    NaN where too few were settled, and until the window is long enough.
    """
    consumer_seconds = window.totals[ALL]
    settled = window.totals[SETTLED]
    is_covered = now - window.samples[0].begin >= BUSY * SECONDS
    has_enough = (settled >= FEWEST_PACE) & (consumer_seconds > 0)
    is_known = has_enough & is_covered
    pace = settled / np.where(is_known, consumer_seconds, 1.0)
    return np.where(is_known, pace, np.nan)


def working_consumers(facts: Facts) -> Column:
    """(queues,) How many consumers have something to do: they buffer messages, or have settled some at this poll.

    Where the broker does not show the numbers of each consumer, all count; where a single one gets all messages, one.
    """
    if facts.counted:
        consumer = facts.consumer
        return facts.of_queue(consumer.holds | (consumer.d_left > 0))
    consumers = or_zero(facts.consumers)
    one_at_most = np.fmin(consumers, 1.0)
    return np.where(facts.single, one_at_most, consumers)
