"""What the queues did over the windows that rates and trends are judged on.

Sums run over all queues; what only a few can fulfil is looked at for those few.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column, Mask
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
"""Least growth of a backlog over the trend: messages, and share of what came."""
SHARE_OF_QUARTER = 0.1
"""Of the growth over the trend, between two quarters of it; steady growth has a third."""

SAMPLES = 12
TREND_SAMPLES = 40
"""A window is held in about so many samples, at most twice as many: polls that come faster are summed up."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The last polls of all queues: finely over the window, more coarsely over the trend."""

    window: Window = field(default_factory=Window)
    trend: Window = field(default_factory=Window)
    apart: tuple[tuple[float, float], ...] = ()
    """Of the polls of the window: when they were, and how far apart their reads."""

    def advance(self, facts: Facts, constants: Constants) -> "Activity":
        """With this poll; a queue that is not known from the poll before starts again."""
        changes = [
            facts.returned,
            facts.d_settled,
            facts.d_delivered,
            facts.d_expired,
            facts.d_killed,
        ]
        flow = [facts.d_added, facts.d_settled, facts.messages - facts.scheduled]
        flow += [
            or_zero(facts.d_expired),
            or_zero(facts.d_killed),
            or_zero(facts.d_scheduled),
        ]
        seconds = max(constants.persistent, constants.window_seconds(facts.interval))
        apart = (
            *(one for one in self.apart if one[0] >= facts.now - 2 * seconds),
            (facts.now, facts.apart),
        )
        return Activity(
            _pushed(self.window, facts, changes, seconds, SAMPLES),
            _pushed(
                self.trend,
                facts,
                flow,
                constants.trend_seconds(facts.interval),
                TREND_SAMPLES,
                levels=(DEPTH,),
            ),
            apart,
        )


def _pushed(
    window: Window,
    facts: Facts,
    columns: Sequence[Column],
    seconds: float,
    samples: int,
    levels: tuple[int, ...] = (),
) -> Window:
    values = np.stack(columns, dtype=np.float32, casting="same_kind")
    values[:, ~facts.known] = np.nan
    window = window.reindexed(facts.queues, facts.known)
    return window.push(facts.now, values, seconds, seconds / samples, levels)


@dataclass(frozen=True, slots=True)
class Returns:
    """Over the window: messages that came back, deliveries and settlements, per queue."""

    returned: Column
    delivered: Column
    settled: Column
    killed: Column
    persistent: Mask


def returns(activity: Activity, constants: Constants, interval: float) -> Returns:
    window = activity.window
    returned, delivered, settled, killed = map(
        window.sum, (RETURNED, DELIVERED, SETTLED, KILLED)
    )
    # Consumers let go before the queue is read: what was settled in between looks like a return when it gets less.
    apart = [seconds for _, seconds in activity.apart] or [0.0]
    unseen = settled * ((max(apart) - apart[-1]) / max(window.seconds, interval, 1e-9))
    lasting = persistent(window, RETURNED, returned, constants, interval, unseen)
    return Returns(returned, delivered, settled, killed, lasting)


def persistent(
    window: Window,
    variable: int,
    total: Column,
    constants: Constants,
    interval: float,
    unseen: Column | None = None,
) -> Mask:
    """Rule "persistent": the balance, less its largest poll and what is `unseen`, is above the margin and the noise; in
    both halves, at three polls or more, over 30 s or more. One rollback or purge is not.
    total: of the variable.
    """
    lasting = np.zeros(len(total), np.bool_)
    rows = np.flatnonzero(total >= constants.margin)
    if len(rows):
        values = window.of(variable, rows)
        first, second = halves(values)
        noise = -np.minimum(values.min(axis=0), 0.0)
        less = values.max(axis=0) + (0.0 if unseen is None else unseen[rows])
        lasting[rows] = (
            (total[rows] - less >= constants.margin + constants.noise * noise)
            & (first.sum(axis=0) > 0)
            & (second.sum(axis=0) > 0)
            & (np.count_nonzero(values > 0, axis=0) >= PERSISTENT_POLLS)
            & window.covers(rows, variable, constants.persistent, interval)
        )
    return lasting


@dataclass(frozen=True, slots=True)
class Trend:
    """Over the trend window, per queue: growth of the backlog in messages; in and out, messages per second, NaN where
    unknown. comes: what became ready, scheduled ones too. seconds: from the first to the last poll of the window.
    """

    behind: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    growth: Column = field(default_factory=lambda: np.empty(0))
    rate_in: Column = field(default_factory=lambda: np.empty(0))
    rate_out: Column = field(default_factory=lambda: np.empty(0))
    comes: Column = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0

    @property
    def growth_rate(self) -> Column:
        """Messages per second: the growth is that from the middle of the first quarter to the middle of the last."""
        return self.growth / max(0.75 * self.seconds, 1e-9)


def trend(activity: Activity, constants: Constants, interval: float) -> Trend:
    """Rule of falling behind: consumers work in both halves, the backlog's mean rises over all four quarters, its least
    of the second half is above its most of the first, and it grew by ten messages and by a tenth of what came. Each
    quarter has its share of the growth, a tenth at least, and it has not turned: a spike is no trend.
    """
    window = activity.trend
    added = window.sum(FLOW_IN)
    settled = window.sum(FLOW_OUT)
    behind = np.zeros(len(added), np.bool_)
    growth = np.zeros(len(added))
    rows = np.flatnonzero((settled > 0) & window.rose(DEPTH))
    if len(rows):
        depth = window.of(DEPTH, rows, np.nan)
        quarters = np.stack([_means(part) for part in np.array_split(depth, 4)])
        growth[rows] = np.nan_to_num(quarters[-1] - quarters[0])
        grew = growth[rows] >= np.maximum(TREND_MESSAGES, TREND_GROWTH * added[rows])
        steps = np.diff(quarters, axis=0)
        rises = ((steps > 0) & (steps >= SHARE_OF_QUARTER * growth[rows])).all(axis=0)
        rising = np.flatnonzero(grew & rises & ~(depth[-1] < quarters[-1]))
        depth = depth[:, rising]
        rows = rows[rising]
    if len(rows):
        low, high = halves(depth)
        first, second = halves(window.of(FLOW_OUT, rows))
        behind[rows] = (
            (np.fmin.reduce(high, axis=0) > np.fmax.reduce(low, axis=0))
            & (first.sum(axis=0) > 0)
            & (second.sum(axis=0) > 0)
            & window.covers(
                rows,
                FLOW_OUT,
                constants.trend_seconds(interval),
                interval,
                constants.trend_polls,
            )
        )
    rate_in = window.rate(FLOW_IN)
    rate_out = window.rate(FLOW_OUT)
    return Trend(
        behind,
        growth,
        rate_in,
        rate_out,
        rate_in - window.rate(SCHEDULED),
        window.seconds,
    )


def _means(values: Column) -> Column:
    """Over the samples, without those that are missing; NaN where all are."""
    count = (~np.isnan(values)).sum(axis=0)
    return np.nansum(values, axis=0) / np.where(count > 0, count, np.nan)
