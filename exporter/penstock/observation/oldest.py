"""When the oldest message of each queue came: not before, and not after. NaN where that bound is not known.

Times by the broker's clock, seconds. Messages leave in any order, so order of arrival is a bound, too.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Positions
from penstock.core.windows import reindex
from penstock.observation.facts import Facts
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
        rows = np.append(self.rows, later.rows[more])
        added = np.append(self.added, later.added[more])
        order = np.argsort(rows)
        return Point(rows[order], added[order])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When how much had come, by the rows of `index`: stamps (when it had been read), oldest first; what had been added
    at the last of them, and what differed at each one before it: most queues have nothing to do.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    stamps: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    points: tuple[Point, ...] = ()

    def advance(self, found: Facts) -> "Arrivals":
        last, points = self._of(found)
        stamps = np.append(self.stamps, found.read)
        if len(self.stamps):
            rows = np.flatnonzero(
                (last != found.added) & ~(np.isnan(last) & np.isnan(found.added))
            )
            points.append(Point(rows.astype(np.int32), last[rows]))
        if len(stamps) > POINTS:
            # Of the older three quarters every second point goes: what is recent stays fine.
            for point in range(3 * POINTS // 4 - 1, 0, -2):
                points[point - 1] = points[point - 1].joined(points.pop(point))
                stamps = np.delete(stamps, point)
        return Arrivals(found.queues, stamps, found.added.copy(), tuple(points))

    def _of(self, found: Facts) -> tuple[Column, list[Point]]:
        """What had been added, by the queues of now; NaN where one was not there, or is another since."""
        last = self.last
        points = list(self.points)
        if found.queues is not self.index:
            last = reindex(found.queues, self.index, last, np.nan)
            at = [
                found.queues.positions(self.index.keys[point.rows]) for point in points
            ]
            points = [
                Point(p[p >= 0].astype(np.int32), one.added[p >= 0])
                for one, p in zip(points, at, strict=True)
            ]
        anew = np.flatnonzero(
            ~found.known & (found.queues.positions_in(self.index) >= 0)
        )
        if len(anew):
            last = np.where(found.known, last, np.nan)
            stays = [~np.isin(point.rows, anew) for point in points]
            points = [
                Point(one.rows[here], one.added[here])
                for one, here in zip(points, stays, strict=True)
            ]
        return last, points

    def came_by(self, number: Column, rows: Positions) -> Column:
        """The first time known by which the message with this number had come to these rows; NaN where it has not. One
        that came before the first poll came by then.
        """
        last = len(self.stamps) - 1
        moves = np.zeros(len(self.last), np.bool_)
        moves[
            np.concatenate(
                [np.empty(0, np.intp), *(point.rows for point in self.points)]
            )
        ] = True
        left = np.flatnonzero(moves[rows])
        next_one = self.last[rows[left]]
        at = np.where(self.last[rows] >= number, np.where(moves[rows], last, 0), -1)
        # From the newest point: most of what is there has come lately.
        for point in range(last - 1, -1, -1):
            here = self.points[point].at(rows[left], next_one)
            at[left[here >= number[left]]] = point
            stay = ~(here < number[left])
            left = left[stay]
            next_one = here[stay]
            if not len(left):
                break
        return np.where(at >= 0, np.append(self.stamps, np.nan)[at], np.nan)


@dataclass(frozen=True, slots=True)
class Oldest(RowState):
    """Per queue. empty_at: the last poll at which nothing was there. earliest, latest: of the oldest message."""

    BY = By.QUEUE
    STORED_AS = "oldest_"
    empty_at: Column = column()
    earliest: Column = column(carried=False, saved=False)
    latest: Column = column(carried=False, saved=False)
    arrivals: Arrivals = unindexed(Arrivals)

    def advance(self, poll: RuleInputs) -> "Oldest":
        found = poll.found
        uncommitted = (
            0.0
            if poll.openmq is None or poll.openmq.said is None
            else poll.openmq.said.held
        )
        arrivals = self.arrivals.advance(found)
        before = self.reindexed(found.queues, found.known)
        in_hand = (found.last_value > 0) & (
            found.delivering > 0
        )  # which its number of messages leaves out
        empty_at = np.where(
            (found.messages + uncommitted == 0) & ~in_hand, found.now, before.empty_at
        )
        there = found.messages > 0
        latest = np.full(len(there), np.nan)
        rows = np.flatnonzero(there & numbered(poll))
        latest[rows] = arrivals.came_by((found.added - found.messages + 1)[rows], rows)
        sent = next_in_line(poll)
        latest = np.fmin(
            np.fmin(latest, in_hand_since(poll)),
            np.where(sent < empty_at, np.nan, sent),
        )
        latest = np.where(there, latest, np.nan)
        return Oldest(
            found.queues, empty_at, np.where(there, empty_at, np.nan), latest, arrivals
        )


def numbered(poll: RuleInputs) -> Mask:
    """Queues that count what comes, and of which what is there came as one of the last that many or before these."""
    found = poll.found
    openmq = poll.openmq
    plain = ~found.keeps & ~(found.last_value > 0) & ~(found.scheduled > 0)
    return (
        plain if openmq is None or openmq.said is None else plain & openmq.said.balanced
    )


def in_hand_since(poll: RuleInputs) -> Column:
    """Per queue since when one of its consumers has all that it buffered then: a message that is not younger."""
    found = poll.found
    buffers = poll.buffers
    openmq = poll.openmq
    since = np.full(len(found.queues), np.nan)
    certain = ~found.keeps & ~(found.last_value > 0)
    if (
        openmq is not None and openmq.said is not None
    ):  # which leaves with a consumer what it removes for a limit
        certain &= ~openmq.said.removes
    lasting = np.flatnonzero(found.now - buffers.kept_since > 2 * found.interval)
    queue = found.consumer.queue[buffers.at[lasting]]
    np.fmin.at(
        since, queue[certain[queue]], buffers.kept_since[lasting[certain[queue]]]
    )
    return since


def next_in_line(poll: RuleInputs) -> Column:
    """When the message that is next was sent, by its sender's clock (OpenMQ): the oldest that is ready is no younger.
    Not where that is in the future: the sender's clock is wrong.
    """
    found = poll.found
    openmq = poll.openmq
    if openmq is None or openmq.said is None:
        return np.full(len(found.queues), np.nan)
    return np.where(openmq.said.next_sent <= found.now, openmq.said.next_sent, np.nan)
