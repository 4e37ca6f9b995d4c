"""What the queues did over the windows that rates and trends are judged on.

The *window* is short and answers what goes on now; the *trend* is longer and answers where a backlog goes. Sums are
made for all queues; numbers of single polls only for the few queues that may pass a rule.

A *balance* is a difference of counters that is 0 as long as nothing happens, such as the messages that came back. It is
noisy, as the counters are not read at one moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column, Mask, Matrix, Positions
from penstock.core.windows import Window, halves
from penstock.observation.facts import Facts, or_zero
from penstock.settings.constants import Constants

RETURNED, SETTLED, DELIVERED, EXPIRED, KILLED = range(5)
"""Variables of the window, changes all."""
FLOW_IN, FLOW_OUT, DEPTH, TREND_EXPIRED, TREND_KILLED, SCHEDULED = range(6)
"""Variables of the trend: changes, and the backlog at the end of each sample."""

PERSISTENT_POLLS = 3
"""Polls of a window with a balance, before that is no accident."""
TREND_MESSAGES = 10.0
TREND_GROWTH = 0.1
"""Least growth of a backlog over the trend: messages, and share of the messages that came."""
SHARE_OF_QUARTER = 0.1
"""Share of the growth over the trend that lies between two quarters at least; of steady growth it is a third."""

SAMPLES = 12
TREND_SAMPLES = 40
"""How many samples a window has, at most twice as many: polls that come faster are summed up."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The last polls of all queues: finely over the window, more coarsely over the trend."""

    window: Window = field(default_factory=Window)
    trend: Window = field(default_factory=Window)
    apart: tuple[tuple[float, float], ...] = ()
    """For each poll of the window its time, and the seconds between its reads of queues and consumers."""

    def advance(self, facts: Facts, constants: Constants) -> "Activity":
        """Return the windows with this poll; a queue that is not known from the poll before begins again."""
        seconds = constants.window_seconds(facts.interval)
        seconds = max(constants.persistent, seconds)
        trend_seconds = constants.trend_seconds(facts.interval)
        changes = changes_of(facts)
        flows = flows_of(facts)
        return Activity(
            window=pushed(self.window, facts, changes, seconds, SAMPLES),
            trend=pushed(
                self.trend, facts, flows, trend_seconds, TREND_SAMPLES, (DEPTH,)
            ),
            apart=self._apart_with(facts, 2 * seconds),
        )

    def _apart_with(
        self, facts: Facts, seconds: float
    ) -> tuple[tuple[float, float], ...]:
        """Return `apart` for the polls of the last `seconds`, with this one."""
        recent = [
            (stamp, apart)
            for stamp, apart in self.apart
            if stamp >= facts.now - seconds
        ]
        return (*recent, (facts.now, facts.apart))


def changes_of(facts: Facts) -> Sequence[Column]:
    """Return the variables of the window, RETURNED to KILLED."""
    return (
        facts.returned,
        facts.d_settled,
        facts.d_delivered,
        facts.d_expired,
        facts.d_killed,
    )


def flows_of(facts: Facts) -> Sequence[Column]:
    """Return the variables of the trend, FLOW_IN to SCHEDULED."""
    return (
        facts.d_added,
        facts.d_settled,
        facts.messages - facts.scheduled,
        or_zero(facts.d_expired),
        or_zero(facts.d_killed),
        or_zero(facts.d_scheduled),
    )


def pushed(
    window: Window,
    facts: Facts,
    columns: Sequence[Column],
    seconds: float,
    samples: int,
    levels: tuple[int, ...] = (),
) -> Window:
    """Return the window over so many seconds with one more poll.

    Args:
        window: Up to the poll before.
        facts: The numbers of this poll.
        columns: Its variables.
        seconds: How long the window is.
        samples: In how many samples it is kept.
        levels: Variables that are no changes, but the state at the end of a sample.
    """
    values = np.stack(columns, dtype=np.float32, casting="same_kind")
    # The changes of a queue that is not known are 0, which would say that nothing happened.
    values[:, ~facts.known] = np.nan
    window = window.reindexed(facts.queues, facts.known)
    return window.push(
        facts.now,
        values,
        seconds,
        seconds / samples,
        levels,
    )


@dataclass(frozen=True, slots=True)
class Returns:
    """Messages of each queue over the window.

    Attributes:
        returned: Those that came back from consumers.
        delivered: Those that were delivered.
        settled: Those that were settled.
        killed: Those that were killed.
        persistent: Whether messages came back again and again.
    """

    returned: Column
    delivered: Column
    settled: Column
    killed: Column
    persistent: Mask


def returns(activity: Activity, constants: Constants, interval: float) -> Returns:
    """Return the messages of each queue over the window, and whether they came back again and again."""
    window = activity.window
    returned = window.sum(RETURNED)
    settled = window.sum(SETTLED)
    # Consumers are read before the queue. When the time between these reads becomes shorter, fewer messages are settled
    # in it than before, which looks like messages that came back: at most as many as are settled in the difference.
    apart = [seconds for _, seconds in activity.apart] or [0.0]
    shorter_by = max(apart) - apart[-1]
    window_seconds = max(window.seconds, interval, 1e-9)
    unseen = settled * (shorter_by / window_seconds)
    return Returns(
        returned=returned,
        delivered=window.sum(DELIVERED),
        settled=settled,
        killed=window.sum(KILLED),
        persistent=persistent(window, RETURNED, returned, constants, interval, unseen),
    )


def persistent(
    window: Window,
    variable: int,
    total: Column,
    constants: Constants,
    interval: float,
    unseen: Column | None = None,
) -> Mask:
    """(queues,) Whether a balance goes on, so that it is neither an accident of reading nor a single event.

    It goes on if it is above margin and noise even without its largest poll and without `unseen`, and if it rises in
    both halves of the window, at three polls or more, over 30 s or more. One rollback or one purge does not go on.

    Args:
        window: The last polls.
        variable: The variable of the window that is the balance.
        total: (queues,) Its sum over the window.
        constants: Of the judgement.
        interval: Of the polls, seconds.
        unseen: (queues,) How much of the sum may be an error of reading.
    """
    result = np.zeros(len(total), np.bool_)
    rows = np.flatnonzero(total >= constants.margin)
    if not len(rows):
        return result
    changes = window.of(variable, rows)
    doubtful = changes.max(axis=0)
    if unseen is not None:
        doubtful += unseen[rows]
    result[rows] = (
        is_above_noise(
            changes,
            total[rows] - doubtful,
            constants,
        )
        & in_both_halves(changes)
        & at_enough_polls(changes)
        & window.covers(rows, variable, constants.persistent, interval)
    )
    return result


def is_above_noise(changes: Matrix, balance: Column, constants: Constants) -> Mask:
    """(queues,) Whether the balance is above the margin and the noise.

    The noise is the largest change below 0: a balance cannot fall, so that it is off by as much at times.

    Args:
        changes: (samples, queues) The changes of the balance.
        balance: (queues,) Their sum, without those that are in doubt.
        constants: Of the judgement.
    """
    noise = -np.minimum(changes.min(axis=0), 0.0)
    return balance >= constants.margin + constants.noise * noise


def at_enough_polls(changes: Matrix) -> Mask:
    """(queues,) Whether something happened at three polls or more; of (samples, queues)."""
    polls = np.count_nonzero(changes > 0, axis=0)
    return np.asarray(polls >= PERSISTENT_POLLS)


def in_both_halves(changes: Matrix) -> Mask:
    """(queues,) Whether something happened in both halves of the window; of (samples, queues)."""
    first, second = halves(changes)
    return (first.sum(axis=0) > 0) & (second.sum(axis=0) > 0)


@dataclass(frozen=True, slots=True)
class Trend:
    """What each queue did over the trend window; NaN where a number is not known.

    Attributes:
        behind: Whether its consumers fall behind.
        growth: Messages by which the backlog grew.
        rate_in: Messages a second that came.
        rate_out: Messages a second that were settled.
        comes: Messages a second that became ready, scheduled ones too.
        seconds: From the first poll of the window to the last.
    """

    behind: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    growth: Column = field(default_factory=lambda: np.empty(0))
    rate_in: Column = field(default_factory=lambda: np.empty(0))
    rate_out: Column = field(default_factory=lambda: np.empty(0))
    comes: Column = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0

    @property
    def growth_rate(self) -> Column:
        """(queues,) Messages a second by which the backlog grows.

        The growth is from the mean of the first quarter to that of the last one, which lie three quarters of the window
        apart.
        """
        return self.growth / max(0.75 * self.seconds, 1e-9)


def trend(activity: Activity, constants: Constants, interval: float) -> Trend:
    """Return the trend of each queue, with whether its consumers fall behind.

    They do if they work in both halves of the window and the backlog rises steadily all the same: see `rises_steadily`
    and `falls_behind`. Queues whose backlog is no higher than at the begin are not looked at.
    """
    window = activity.trend
    added = window.sum(FLOW_IN)
    behind = np.zeros(len(added), np.bool_)
    growth = np.zeros(len(added))
    rows = np.flatnonzero((window.sum(FLOW_OUT) > 0) & window.rose(DEPTH))
    if len(rows):
        depth = window.of(DEPTH, rows, np.nan)
        quarters = means_of_quarters(depth)
        growth[rows] = np.nan_to_num(quarters[-1] - quarters[0])
        rising = rises_steadily(
            depth,
            quarters,
            growth[rows],
            added[rows],
        )
        rows = rows[rising]
        depth = depth[:, rising]
    if len(rows):
        behind[rows] = falls_behind(window, rows, depth, constants, interval)
    rate_in = window.rate(FLOW_IN)
    return Trend(
        behind=behind,
        growth=growth,
        rate_in=rate_in,
        rate_out=window.rate(FLOW_OUT),
        comes=rate_in - window.rate(SCHEDULED),
        seconds=window.seconds,
    )


def rises_steadily(
    depth: Matrix, quarters: Matrix, growth: Column, added: Column
) -> Mask:
    """(queues,) Whether the backlog grew by enough, in each quarter by its share, and has not turned: no spike does so.

    It grew by enough if it did by ten messages and by a tenth of those that came. It has turned if it is below the mean
    of the last quarter again.

    Args:
        depth: (samples, queues) The backlog.
        quarters: (4, queues) Its means over the quarters of the window.
        growth: (queues,) By how much it grew.
        added: (queues,) Messages that came.
    """
    least_growth = np.maximum(TREND_MESSAGES, TREND_GROWTH * added)
    steps = np.diff(quarters, axis=0)
    has_share = (steps > 0) & (steps >= SHARE_OF_QUARTER * growth)
    has_turned = depth[-1] < quarters[-1]
    return (growth >= least_growth) & has_share.all(axis=0) & ~has_turned


def falls_behind(
    window: Window,
    rows: Positions,
    depth: Matrix,
    constants: Constants,
    interval: float,
) -> Mask:
    """(rows,) Whether the least backlog of the second half is above the most of the first, and consumers work in both.

    The polls must also cover the window.

    Args:
        window: The trend.
        rows: The positions of the queues.
        depth: (samples, rows) The backlog.
        constants: Of the judgement.
        interval: Of the polls, seconds.
    """
    first, second = halves(depth)
    is_higher = np.fmin.reduce(second, axis=0) > np.fmax.reduce(first, axis=0)
    works = in_both_halves(window.of(FLOW_OUT, rows))
    seconds = constants.trend_seconds(interval)
    polls = constants.trend_polls
    is_covered = window.covers(rows, FLOW_OUT, seconds, interval, polls)
    return is_higher & works & is_covered


def means_of_quarters(depth: Matrix) -> Matrix:
    """(4, queues) The means of the four quarters of the window; of (samples, queues)."""
    quarters = np.array_split(depth, 4)
    return np.stack([mean_of_known(quarter) for quarter in quarters])


def mean_of_known(values: Matrix) -> Column:
    """(queues,) The mean over the samples that are not missing; NaN where all are."""
    count = (~np.isnan(values)).sum(axis=0)
    divisor = np.where(
        count > 0,
        count,
        np.nan,
    )
    return np.nansum(values, axis=0) / divisor
