"""
What the judgement measures of each queue and client beside its conditions. Where a number cannot be known it is NaN.

Times by the broker's clock, seconds.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Index, Positions
from penstock.core.windows import Mask, reindex, since
from penstock.observation import ring
from penstock.observation.facts import Facts, of_known
from penstock.observation.openmq import Openmq
from penstock.observation.poll import RuleInputs

POINTS = 64
"""Points of the arrival history: it covers ever longer times, ever more coarsely."""


class Point(NamedTuple):
    """At a point of the arrival history the rows, ascending, with another number than at the next one, and that."""

    rows: NDArray[np.int32]
    added: Column

    def at(self, rows: Positions, next_one: Column) -> Column:
        """The numbers at some rows. next_one: those at the next point."""
        if not len(self.rows):
            return next_one
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, self.added[at], next_one)

    def joined(self, later: "Point") -> "Point":
        """As it is without the point after it."""
        more = ~np.isin(later.rows, self.rows)
        rows, added = np.append(self.rows, later.rows[more]), np.append(self.added, later.added[more])
        order = np.argsort(rows)
        return Point(rows[order], added[order])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """
    When how much had come, by the rows of `index`: stamps, oldest first; what had been added at the last of them, and
    what differed at each one before it. Most queues have nothing to do: they take no place.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    stamps: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    points: tuple[Point, ...] = ()

    def advance(self, found: Facts) -> "Arrivals":
        last, points = self._of(found)
        stamps = np.append(self.stamps, found.now)
        if len(self.stamps):
            rows = np.flatnonzero((last != found.added) & ~(np.isnan(last) & np.isnan(found.added)))
            points.append(Point(rows.astype(np.int32), last[rows]))
        if len(stamps) > POINTS:
            # Of the older three quarters every second point goes: what is recent stays fine.
            for point in range(3 * POINTS // 4 - 1, 0, -2):
                points[point - 1] = points[point - 1].joined(points.pop(point))
                stamps = np.delete(stamps, point)
        return Arrivals(found.queues, stamps, found.added.copy(), tuple(points))

    def _of(self, found: Facts) -> tuple[Column, list[Point]]:
        """What had been added, by the queues of now; NaN where one was not there, or is another since."""
        last, points = self.last, list(self.points)
        if found.queues is not self.index:
            last = reindex(found.queues, self.index, last, np.nan)
            points = [self._moved(point, found.queues) for point in points]
        anew = np.flatnonzero(~found.known & (found.queues.positions_in(self.index) >= 0))
        if len(anew):
            last = np.where(found.known, last, np.nan)
            stays = [~np.isin(point.rows, anew) for point in points]
            points = [Point(one.rows[here], one.added[here]) for one, here in zip(points, stays, strict=True)]
        return last, points

    def _moved(self, point: Point, queues: Index[Any]) -> Point:
        at = queues.positions(self.index.keys[point.rows])
        return Point(at[at >= 0].astype(np.int32), point.added[at >= 0])

    def time_of(self, number: Column, rows: Positions) -> Column:
        """When the message with this number came to these rows, between two points; NaN where before the first."""
        if len(self.stamps) < 2:
            return np.full(len(rows), np.nan)
        (low, at_low), (high, at_high) = self._around(number, rows)
        share = np.where(high > low, (number - low) / np.where(high > low, high - low, 1), 1.0)
        at = self.stamps[at_low] + share * (self.stamps[at_high] - self.stamps[at_low])
        return np.where((number >= low) & (number <= high), at, np.nan)

    def _around(self, number: Column, rows: Positions) -> tuple[tuple[Column, Positions], tuple[Column, Positions]]:
        """What had been added at the last point below the number and at the next one known, and which these are."""
        low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        at_low, at_high = np.zeros(len(rows), np.intp), np.ones(len(rows), np.intp)
        last = len(self.stamps) - 1
        left, above, at_above = np.arange(len(rows)), self.last[rows], np.full(len(rows), last)
        next_one = above
        # From the newest point: most of what is there has come lately.
        for point in range(last - 1, -1, -1):
            here = self.points[point].at(rows[left], next_one)
            low[left], high[left] = here, next_one  # where none is below the number: of the first two
            found = here < number[left]
            of = left[found]
            low[of], high[of], at_low[of], at_high[of] = here[found], above[found], point, at_above[found]
            known, stay = ~np.isnan(here), ~found
            above, at_above = np.where(known, here, above)[stay], np.where(known, point, at_above)[stay]
            left, next_one = left[stay], here[stay]
            if not len(left):
                break
        return (low, at_low), (high, at_high)


@dataclass(frozen=True, slots=True)
class Measures(RowState):
    """Per queue. oversize_since: since when a ring has more ready messages than its limit. columns: of this poll."""

    BY = By.QUEUE
    oversize_since: Column = column(outlives=True)
    arrivals: Arrivals = unindexed(Arrivals)
    columns: dict[str, Column] = unindexed(dict)

    def advance(self, poll: RuleInputs) -> "Measures":
        found = poll.found
        arrivals = self.arrivals.advance(found)
        paging = found.address.paging > 0
        oversize = (found.ready > found.ring) & ~paging
        before = self.reindexed(found.queues, found.known)
        rate_in, rate_out = poll.trend.rate_in, poll.trend.rate_out
        columns = {
            "ring_at_risk": poll.at_risk,
            "ring_scheduled_at_risk": ring.scheduled_at_risk(found),
            "ring_retention": retention(found.ring, rate_in, paging),
            "ring_overflow": overflow(found.ring - found.ready, rate_in - rate_out, paging),
            "lost_by_consumer": np.where(np.isnan(found.ring), np.nan, poll.ledger.by_consumers),
            "evicted": evicted(poll),
            "drain": drain(found.ready, rate_out - rate_in),
            "imbalance": imbalance(poll),
            "oldest_message": oldest(poll, arrivals) if poll.openmq is None else next_in_line(poll.openmq, found),
        }
        return Measures(found.queues, since(oversize, before.oversize_since, found.now), arrivals, columns)


def evicted(poll: RuleInputs) -> Column:
    """By a ring, or on OpenMQ by a limit: removed, at least so many; NaN where nothing is thrown away."""
    openmq = poll.openmq
    if openmq is None or openmq.said is None:
        return poll.ledger.evicted
    return np.where(openmq.said.removes & openmq.said.balanced, poll.accounted.get("removed", np.nan), np.nan)


def retention(ring: Column, rate_in: Column, paging: Mask) -> Column:
    """The time span that a full ring covers at the present rate."""
    return np.where((rate_in > 0) & ~paging, ring / np.where(rate_in > 0, rate_in, 1), np.nan)


def overflow(room: Column, growth: Column, paging: Mask) -> Column:
    """Time until a ring starts to evict; NaN while it does not grow."""
    grows = (growth > 0) & ~paging
    return np.where(grows, np.maximum(room, 0) / np.where(grows, growth, 1), np.nan)


def drain(ready: Column, shrinking: Column) -> Column:
    """Time until nothing waits, at the present rates; NaN while it does not shrink."""
    seconds = np.where(shrinking > 0, ready / np.where(shrinking > 0, shrinking, 1), np.nan)
    return np.where((ready == 0) & ~np.isnan(shrinking), 0.0, seconds)


def imbalance(poll: RuleInputs) -> Column:
    """Gini coefficient of what a queue's consumers hold: 0 even, towards 1 all with one; NaN below two consumers."""
    consumer, size = poll.found.consumer, len(poll.found.queues)
    if not poll.found.counted:
        return np.full(size, np.nan)
    count = of_known(np.bincount(consumer.queue + 1, minlength=size + 1))
    # Who holds nothing has the lowest ranks, and adds nothing to the sums: only the others are sorted.
    holding = np.flatnonzero((consumer.held > 0) & (consumer.queue >= 0))
    at, held = sorted_pairs(consumer.queue[holding], consumer.held[holding])
    holders = np.bincount(at, minlength=size)
    rank = np.arange(len(at)) - (np.cumsum(holders) - count)[at] + 1
    total = np.bincount(at, weights=held, minlength=size)
    weighted = np.bincount(at, weights=rank * held, minlength=size)
    meant = (count >= 2) & (total > 0)
    gini = 2 * weighted / np.where(meant, count * total, 1) - (count + 1) / np.maximum(count, 1)
    return np.where(meant, np.maximum(gini, 0.0), np.where(count >= 2, 0.0, np.nan))


def sorted_pairs(at: Positions, held: Column) -> tuple[Positions, Column]:
    """Sorted by `at`, then by `held` (not negative), as one number each: several times faster than by two keys."""
    step = 2.0 ** np.ceil(np.log2(held.max(initial=1.0) + 1))
    pairs = np.sort(at * step + held)
    first = np.floor(pairs / step)
    return first.astype(np.intp), pairs - first * step


def oldest(poll: RuleInputs, arrivals: Arrivals) -> Column:
    """
    When the oldest message came that is still there, by order of arrival.

    Not where a queue gives up its order: last value, selective consumers, and scheduled messages, which come late.
    """
    found = poll.found
    there = found.messages - found.scheduled
    selective = found.of_queue(found.consumer.selective) > 0
    ordered = ~found.keeps & ~(found.last_value > 0) & ~selective & ~(found.scheduled > 0)
    rows = np.flatnonzero(ordered & (there > 0))
    came = np.full(len(there), np.nan)
    came[rows] = arrivals.time_of((found.added - there + 1)[rows], rows)
    return came


def next_in_line(openmq: Openmq, found: Facts) -> Column:
    """
    When the message that is next was sent, by its sender's clock (OpenMQ): the oldest that is ready is no younger.

    Not where that is in the future: the clock of the sender is wrong.
    """
    if openmq.said is None:
        return np.full(len(found.queues), np.nan)
    return np.where(openmq.said.next_sent <= found.now, openmq.said.next_sent, np.nan)


def blocked_since(poll: RuleInputs) -> Column:
    """Per client since when the oldest of its consumers holds something and settles nothing; NaN where none does."""
    clients, begun = poll.groups.clients, poll.unacked.unacked_since
    here = np.flatnonzero(~np.isnan(begun) & (clients.member >= 0))
    earliest = np.full(len(clients.index), np.inf)
    np.minimum.at(earliest, clients.member[here], begun[here])
    return np.where(np.isinf(earliest), np.nan, earliest)
