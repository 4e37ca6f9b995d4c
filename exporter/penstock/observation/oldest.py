"""When the oldest message of each queue came: bounds between which it did, NaN where a bound is not known.

Times are by the broker's clock, in seconds. No broker shows this time, but it follows from counters: if 100 messages
have come and 7 are there, the oldest is the 94th or an earlier one. It is the 94th if messages leave in the order in
which they came; if they leave in another order it is older. So the time by which the 94th had come is an upper bound,
and the last poll at which the queue was empty is the lower one.

The arrival history keeps at some past polls, its *points*, how many messages had come to each queue.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Positions
from penstock.core.windows import reindex
from penstock.model import QueueRow
from penstock.observation.facts import Facts
from penstock.observation.openmq import OpenmqFacts
from penstock.observation.poll import RuleInputs

POINTS = 64
"""Points of the arrival history: it covers ever longer times, ever more coarsely."""
FINE = 3 * POINTS // 4
"""So many of the oldest points may become coarser; the newer ones stay fine."""


class Point(NamedTuple):
    """How many messages had come by one poll, for the queues that got more by the next point: most get none.

    Attributes:
        rows: The positions of these queues, ascending.
        added: How many messages had come to each, in all.
    """

    rows: NDArray[np.int32]
    added: Column

    def at(self, rows: Positions, next_point: Column) -> Column:
        """(rows,) How many messages had come to some queues by this point.

        Args:
            rows: The positions of the queues.
            next_point: (rows,) How many had come by the next point: as many, for queues that this point leaves out.
        """
        if not len(self.rows):
            return next_point
        position = np.searchsorted(self.rows, rows)
        # A row above all rows of the point would be behind its end.
        position = np.minimum(position, len(self.rows) - 1)
        is_in_point = self.rows[position] == rows
        return np.where(is_in_point, self.added[position], next_point)

    def joined(self, later: "Point") -> "Point":
        """Return the point for a history from which the `later` one behind it is removed.

        A queue that only the later point has got nothing between the two: at both as many had come.
        """
        only_in_later = ~np.isin(later.rows, self.rows)
        rows = np.append(self.rows, later.rows[only_in_later])
        added = np.append(self.added, later.added[only_in_later])
        order = np.argsort(rows)
        return Point(rows[order], added[order])

    def only(self, stays: Mask) -> "Point":
        """Return the point with those of its rows where `stays` is True."""
        return Point(self.rows[stays], self.added[stays])

    def by_rows_of(self, queues: Index[QueueRow], before: Index[QueueRow]) -> "Point":
        """Return the point with positions in `queues` in place of those in `before`; without queues that are gone."""
        positions = queues.positions(before.keys[self.rows])
        is_there = positions >= 0
        rows = positions[is_there].astype(np.int32)
        return Point(rows, self.added[is_there])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many messages had come to each queue, and when.

    Attributes:
        index: The queues.
        stamps: When each point was read; the oldest first.
        last: (queues,) How many messages had come by the last of them.
        points: For each stamp before the last one the queues that got messages by the next stamp.
    """

    index: Index[QueueRow] = field(default_factory=Index.empty)
    stamps: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    points: tuple[Point, ...] = ()

    def advance(self, facts: Facts) -> "Arrivals":
        """Return the history with this poll; when it is full, every second one of the older points is removed."""
        before = self._by_rows_of(facts)
        points = [*before.points]
        if len(self.stamps):
            points.append(point_before(before.last, facts.added))
        stamps = np.append(self.stamps, facts.read)
        if len(stamps) > POINTS:
            # Backwards, as each removal moves the points behind it.
            for point in range(FINE - 1, 0, -2):
                points[point - 1] = points[point - 1].joined(points.pop(point))
                stamps = np.delete(stamps, point)
        return Arrivals(
            facts.queues,
            stamps,
            facts.added.copy(),
            tuple(points),
        )

    def _by_rows_of(self, facts: Facts) -> "Arrivals":
        """Return the history by the queues of this poll; nothing is known of one that is new, or begins a new life."""
        last = self.last
        points = self.points
        if facts.queues is not self.index:
            last = reindex(facts.queues, self.index, last, np.nan)
            points = tuple(
                point.by_rows_of(facts.queues, self.index) for point in points
            )
        was_there = facts.queues.positions_in(self.index) >= 0
        in_new_life = np.flatnonzero(was_there & ~facts.known)
        if len(in_new_life):
            last = np.where(facts.known, last, np.nan)
            points = tuple(
                point.only(~np.isin(point.rows, in_new_life)) for point in points
            )
        return replace(self, last=last, points=points)

    def came_by(self, number: Column, rows: Positions) -> Column:
        """(rows,) When the first point was at which the message of this number had come to a queue; NaN where none was.

        The points are read backwards from the newest one, for as long as the message had come by then. A message that
        came before the first poll had come by the first point.

        Args:
            number: (rows,) The number of a message, in the order of arrival.
            rows: The positions of the queues.
        """
        last = len(self.stamps) - 1
        got_messages = self._got_messages()[rows]
        has_come = self.last[rows] >= number
        # A queue without new messages is as it was at the first point.
        point_of_row = np.where(
            has_come,
            np.where(got_messages, last, 0),
            -1,
        )
        searched = np.flatnonzero(got_messages)
        added = self.last[rows[searched]]
        # From the newest point: most messages that are there came lately, and the search ends soon.
        for point in reversed(range(last)):
            added = self.points[point].at(rows[searched], added)
            message = number[searched]
            point_of_row[searched[added >= message]] = point
            # NaN goes on: at an older point the number may be known.
            goes_on = ~(added < message)
            searched = searched[goes_on]
            added = added[goes_on]
            if not len(searched):
                break
        # The position -1 takes the NaN at the end.
        stamps_or_nan = np.append(self.stamps, np.nan)
        return stamps_or_nan[point_of_row]

    def _got_messages(self) -> Mask:
        """(queues,) Whether any message came since the first point."""
        got_messages = np.zeros(len(self.last), np.bool_)
        for point in self.points:
            got_messages[point.rows] = True
        return got_messages


def point_before(last: Column, added: Column) -> Point:
    """Return the point of the poll before: the queues for which another number of messages has come now.

    Args:
        last: (queues,) How many had come at the poll before; NaN where that is not known.
        added: (queues,) How many have come now.
    """
    # NaN is not equal to NaN.
    both_missing = np.isnan(last) & np.isnan(added)
    rows = np.flatnonzero((last != added) & ~both_missing)
    return Point(rows.astype(np.int32), last[rows])


@dataclass(frozen=True, slots=True)
class Oldest(RowState):
    """Per queue the bounds of the time at which its oldest message came."""

    BY = By.QUEUE
    STORED_AS = "oldest_"
    empty_at: Column = column()
    """The last poll at which the queue was empty."""
    earliest: Column = column(carried=False, saved=False)
    """The oldest message came after this."""
    latest: Column = column(carried=False, saved=False)
    """The oldest message had come by this time."""
    arrivals: Arrivals = unindexed(Arrivals)

    def advance(self, poll: RuleInputs) -> "Oldest":
        """Return the bounds after a poll; the earliest of three upper bounds counts, and only where messages are."""
        facts = poll.found
        arrivals = self.arrivals.advance(facts)
        before = self.reindexed(facts.queues, facts.known)
        empty_at = np.where(
            is_empty(poll),
            facts.now,
            before.empty_at,
        )
        has_messages = facts.messages > 0
        latest = by_order_of_arrival(poll, arrivals)
        latest = np.fmin(latest, buffered_since(poll))
        sent = next_message_sent_at(poll)
        # A message that is there came after the queue was empty: its sender's clock is wrong.
        sent = np.where(
            sent < empty_at,
            np.nan,
            sent,
        )
        latest = np.fmin(latest, sent)
        return Oldest(
            index=facts.queues,
            empty_at=empty_at,
            earliest=np.where(has_messages, empty_at, np.nan),
            latest=np.where(has_messages, latest, np.nan),
            arrivals=arrivals,
        )


def openmq_facts(poll: RuleInputs) -> OpenmqFacts | None:
    """Return the numbers that only OpenMQ has; None on another kind of broker."""
    return None if poll.openmq is None else poll.openmq.said


def is_empty(poll: RuleInputs) -> Mask:
    """(queues,) Whether no message is there, neither in the queue nor in an open transaction of a producer."""
    facts = poll.found
    openmq = openmq_facts(poll)
    uncommitted = 0.0 if openmq is None else openmq.held
    # The number of messages of a last-value queue leaves out those that are delivered.
    is_delivering = (facts.last_value > 0) & (facts.delivering > 0)
    return (facts.messages + uncommitted == 0) & ~is_delivering


def by_order_of_arrival(poll: RuleInputs, arrivals: Arrivals) -> Column:
    """(queues,) By when the oldest message had come, if messages leave in the order in which they came; NaN: not known.

    Of `added` messages the last ones are still there, as many as the queue has: the oldest is the first of them. If
    messages leave in another order it came earlier.
    """
    facts = poll.found
    latest = np.full(len(facts.queues), np.nan)
    rows = np.flatnonzero((facts.messages > 0) & oldest_is_counted(poll))
    oldest_number = facts.added[rows] - facts.messages[rows] + 1
    latest[rows] = arrivals.came_by(oldest_number, rows)
    return latest


def oldest_is_counted(poll: RuleInputs) -> Mask:
    """(queues,) Whether the oldest message has the number that follows from counters, or a lower one.

    It has not in a queue that keeps acknowledged messages or replaces messages, nor where scheduled messages become
    ready long after they came; and OpenMQ's subscriptions count no messages.
    """
    facts = poll.found
    openmq = openmq_facts(poll)
    is_plain = ~facts.keeps & ~(facts.last_value > 0) & ~(facts.scheduled > 0)
    return is_plain if openmq is None else is_plain & openmq.balanced


def buffered_since(poll: RuleInputs) -> Column:
    """(queues,) The earliest time since which no message left a consumer's buffer; NaN where there is none.

    The messages that it buffered then are still there, so that the oldest message of the queue came before.
    """
    facts = poll.found
    buffers = poll.buffers
    openmq = openmq_facts(poll)
    is_certain = ~facts.keeps & ~(facts.last_value > 0)
    if openmq is not None:
        # A message that OpenMQ removes for a limit stays in the buffer of its consumer.
        is_certain &= ~openmq.removes
    # A time of a poll or two may be an accident of when numbers were read.
    kept_for = facts.now - buffers.kept_since
    places = np.flatnonzero(kept_for > 2 * facts.interval)
    queues = facts.consumer.queue[buffers.at[places]]
    counts = is_certain[queues]
    since = np.full(len(facts.queues), np.nan)
    np.fmin.at(
        since,
        queues[counts],
        buffers.kept_since[places[counts]],
    )
    return since


def next_message_sent_at(poll: RuleInputs) -> Column:
    """(queues,) When the next message to be delivered was sent, by its sender's clock; only OpenMQ shows it.

    The oldest ready message is no younger. NaN where it is not known, and where it is in the future: then the sender's
    clock is wrong.
    """
    facts = poll.found
    openmq = openmq_facts(poll)
    if openmq is None:
        return np.full(len(facts.queues), np.nan)
    return np.where(
        openmq.next_sent <= facts.now,
        openmq.next_sent,
        np.nan,
    )
