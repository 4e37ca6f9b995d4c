"""When the oldest message of each queue came: bounds between which it did, NaN where a bound is not known.

Times are by the broker's clock, in seconds. Messages leave in any order, so that the order of arrival is a bound, too.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
"""The points that may become coarser; the newer ones stay fine."""


class Point(NamedTuple):
    """What had come by one poll, of the queues for which that is not the same at the next point.

    Attributes:
        rows: The positions of these queues, ascending.
        added: How many messages had come to each, in all.
    """

    rows: NDArray[np.int32]
    added: Column

    def at(self, rows: Positions, next_point: Column) -> Column:
        """(rows,) What had come to some queues. next_point: the same at the next point."""
        if not len(self.rows):
            return next_point
        position = np.searchsorted(self.rows, rows)
        position = np.minimum(position, len(self.rows) - 1)
        differs = self.rows[position] == rows
        return np.where(differs, self.added[position], next_point)

    def joined(self, later: "Point") -> "Point":
        """Return the point as it is without the `later` one behind it."""
        differs_later = ~np.isin(later.rows, self.rows)
        rows = np.append(self.rows, later.rows[differs_later])
        added = np.append(self.added, later.added[differs_later])
        order = np.argsort(rows)
        return Point(rows[order], added[order])

    def only(self, stays: Mask) -> "Point":
        """Return the point with some of its rows."""
        return Point(self.rows[stays], self.added[stays])

    def by_rows_of(self, queues: Index[QueueRow], before: Index[QueueRow]) -> "Point":
        """Return the point by the positions of `queues`, without queues that are gone."""
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
        points: For each stamp before the last one what differs from the next one: most queues have nothing to do.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    stamps: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    points: tuple[Point, ...] = ()

    def advance(self, facts: Facts) -> "Arrivals":
        """Return the history with this poll."""
        before = self._by_rows_of(facts)
        points = [*before.points]
        if len(self.stamps):
            points.append(point_before(before.last, facts.added))
        stamps = np.append(self.stamps, facts.read)
        if len(stamps) > POINTS:
            # Every second one of the older points goes: what is recent stays fine.
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
        """Return the history by the queues of this poll; nothing is known of one that is new, or begins again."""
        last = self.last
        points = self.points
        if facts.queues is not self.index:
            last = reindex(facts.queues, self.index, last, np.nan)
            points = tuple(
                point.by_rows_of(facts.queues, self.index) for point in points
            )
        was_there = facts.queues.positions_in(self.index) >= 0
        begins_again = np.flatnonzero(was_there & ~facts.known)
        if len(begins_again):
            last = np.where(facts.known, last, np.nan)
            points = tuple(
                point.only(~np.isin(point.rows, begins_again)) for point in points
            )
        return replace(self, last=last, points=points)

    def came_by(self, number: Column, rows: Positions) -> Column:
        """(rows,) The first known time by which the message of this number had come to a queue; NaN where it has not.

        A message that came before the first poll had come by the first poll.

        Args:
            number: (rows,) The number of a message, in the order of arrival.
            rows: The positions of the queues.
        """
        last = len(self.stamps) - 1
        moves = self._moves()[rows]
        has_come = self.last[rows] >= number
        point_of_row = np.where(
            has_come,
            np.where(moves, last, 0),
            -1,
        )
        asked = np.flatnonzero(moves)
        added = self.last[rows[asked]]
        # From the newest point: most messages that are there came lately.
        for point in reversed(range(last)):
            added = self.points[point].at(rows[asked], added)
            wanted = number[asked]
            point_of_row[asked[added >= wanted]] = point
            goes_on = ~(added < wanted)
            asked = asked[goes_on]
            added = added[goes_on]
            if not len(asked):
                break
        stamps_or_nan = np.append(self.stamps, np.nan)
        return np.where(
            point_of_row >= 0,
            stamps_or_nan[point_of_row],
            np.nan,
        )

    def _moves(self) -> Mask:
        """(queues,) Whether any message came since the first point."""
        moves = np.zeros(len(self.last), np.bool_)
        for point in self.points:
            moves[point.rows] = True
        return moves


def point_before(last: Column, added: Column) -> Point:
    """Return the point of the poll before: what had come to the queues for which it is another number now."""
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
        """Return the bounds after a poll."""
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
        latest = np.fmin(latest, in_hand_since(poll))
        sent = next_in_line(poll)
        # A message that was sent before the queue was empty has a wrong time.
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
    """Return what only OpenMQ says; None on another kind of broker."""
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
    """(queues,) When the oldest message had come if messages left in the order in which they came; NaN: not known."""
    facts = poll.found
    latest = np.full(len(facts.queues), np.nan)
    rows = np.flatnonzero((facts.messages > 0) & numbered(poll))
    oldest_number = facts.added[rows] - facts.messages[rows] + 1
    latest[rows] = arrivals.came_by(oldest_number, rows)
    return latest


def numbered(poll: RuleInputs) -> Mask:
    """(queues,) Whether arrivals are counted, and the messages that are there came as the last ones or before them."""
    facts = poll.found
    openmq = openmq_facts(poll)
    is_plain = ~facts.keeps & ~(facts.last_value > 0) & ~(facts.scheduled > 0)
    return is_plain if openmq is None else is_plain & openmq.balanced


def in_hand_since(poll: RuleInputs) -> Column:
    """(queues,) Since when a consumer has all that it buffered then: these messages are not younger; NaN: none has."""
    facts = poll.found
    buffers = poll.buffers
    openmq = openmq_facts(poll)
    is_certain = ~facts.keeps & ~(facts.last_value > 0)
    if openmq is not None:
        # A message that OpenMQ removes for a limit stays in the buffer of its consumer.
        is_certain &= ~openmq.removes
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


def next_in_line(poll: RuleInputs) -> Column:
    """(queues,) When the next message was sent, by its sender's clock: the oldest ready one is no younger (OpenMQ).

    NaN where it is not known, and where it is in the future: then the sender's clock is wrong.
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
