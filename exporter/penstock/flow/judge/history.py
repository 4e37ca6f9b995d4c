"""What the queues did over the windows that rates and trends are judged on."""

from dataclasses import dataclass, field

import numpy as np

from penstock.flow.judge.constants import Constants
from penstock.flow.judge.facts import Facts
from penstock.flow.judge.spans import Mask, Window, halves
from penstock.table import Column

VARIABLES = ("returned", "d_settled", "d_delivered", "d_added", "d_expired", "d_killed", "depth")
RETURNED, SETTLED, DELIVERED, ADDED, EXPIRED, KILLED, DEPTH = range(len(VARIABLES))


@dataclass(frozen=True, slots=True)
class History:
    """The last polls of all queues, as far back as a trend needs."""

    window: Window = field(default_factory=Window)

    def follow(self, facts: Facts, constants: Constants) -> "History":
        """With this poll; a queue that is not known from the poll before begins anew."""
        values = np.stack(
            [
                facts.returned,
                facts.d_settled,
                facts.d_delivered,
                facts.d_added,
                facts.d_expired,
                facts.d_killed,
                facts.messages - facts.scheduled,
            ]
        )
        values[:, ~facts.known] = np.nan
        window = Window() if facts.restarted else self.window.moved(facts.queues, facts.known)
        return History(window.push(facts.queues, facts.now, values, constants.trend_seconds(facts.interval)))


@dataclass(frozen=True, slots=True)
class Returns:
    """Over the window: messages that came back, deliveries and settlements, per queue."""

    returned: Column
    delivered: Column
    settled: Column
    killed: Column
    persistent: Mask


def returns(history: History, constants: Constants, interval: float) -> Returns:
    """
    Rule "persistent": what came back, less its largest poll, is above the margin and the noise; in both halves, at
    three polls or more, over 30 s or more. One rollback or purge is not.
    """
    seconds = max(constants.persistent, constants.window_seconds(interval))
    window = history.window.last(seconds)
    values = np.nan_to_num(window.values[:, RETURNED])
    total, largest = values.sum(axis=0), values.max(axis=0)
    noise = -np.minimum(values.min(axis=0), 0.0)
    first, second = halves(values)
    persistent = (
        (total - largest >= constants.margin + constants.noise * noise)
        & (first.sum(axis=0) > 0)
        & (second.sum(axis=0) > 0)
        & (np.count_nonzero(values > 0, axis=0) >= 3)
        & covered(window, constants.persistent, interval)
    )
    sums = np.nan_to_num(window.values).sum(axis=0)
    return Returns(total, sums[DELIVERED], sums[SETTLED], sums[KILLED], persistent)


def covered(window: Window, seconds: float, interval: float) -> Mask:
    """Polls over at least `seconds`, without too many holes."""
    return window.covers(seconds, interval)


def moved_in_both_halves(history: History, variable: int, constants: Constants, interval: float) -> Mask:
    """Whether a counter moved in the first and in the second half of the window."""
    seconds = constants.window_seconds(interval)
    window = history.window.last(seconds)
    first, second = halves(np.nan_to_num(window.values[:, variable]))
    return (first.sum(axis=0) > 0) & (second.sum(axis=0) > 0) & window.covers(seconds, interval)


@dataclass(frozen=True, slots=True)
class Trend:
    """Over the trend window, per queue: growth of the backlog in messages, in and out, seconds."""

    behind: Mask
    growth: Column
    added: Column
    settled: Column
    seconds: float


def trend(history: History, constants: Constants, interval: float) -> Trend:
    """
    Rule of falling behind: consumers work in both halves, the backlog's mean rises over all four quarters, its least
    of the second half is above its most of the first, and it grew by ten messages and by a tenth of what came.
    """
    window = history.window
    depth = window.values[:, DEPTH]
    added = np.nan_to_num(window.values[:, ADDED]).sum(axis=0)
    settled = np.nan_to_num(window.values[:, SETTLED])
    first, second = halves(depth)
    whole = window.covers(constants.trend_seconds(interval), interval, constants.trend_polls)
    told = np.stack([~np.isnan(part).all(axis=0) for part in np.array_split(depth, 4)]).all(axis=0)
    # What rises from half to half ends above where it began: only those need the quarters.
    rises = ~(depth[-1] <= depth[0]) if len(depth) else told
    rows = np.flatnonzero(whole & told & rises & (settled.sum(axis=0) > 0))
    behind = np.zeros(depth.shape[1], np.bool_)
    growth = np.zeros(depth.shape[1])
    if len(rows):
        quarters = np.stack([np.nanmean(part, axis=0) for part in np.array_split(depth[:, rows], 4)])
        growth[rows] = quarters[-1] - quarters[0]
        settled_first, settled_second = halves(settled[:, rows])
        behind[rows] = (
            (np.diff(quarters, axis=0) > 0).all(axis=0)
            & (settled_first.sum(axis=0) > 0)
            & (settled_second.sum(axis=0) > 0)
            & (np.nanmin(second[:, rows], axis=0) > np.nanmax(first[:, rows], axis=0))
            & (growth[rows] >= np.maximum(10.0, 0.1 * added[rows]))
        )
    seconds = float(window.stamps[-1] - window.stamps[0]) if len(window.stamps) else 0.0
    return Trend(behind, growth, added, settled.sum(axis=0), seconds)
