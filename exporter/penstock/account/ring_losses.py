"""Who made a ring lose messages: those that arrive at a full ring, or the consumers that give back what has no room.

A ring evicts the oldest message when it has more ready ones than its limit; messages in delivery do not count, until a
consumer leaves or rolls back and they are ready again. A loss is sure only when a second poll has seen it
(`QueueBooks.lost`). So it fell into the *interval* between the two polls before, and is held against what happened
there: how many messages arrived, and which consumers gave back how many.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.account.queue_books import QueueBooks
from penstock.account.reading import hides_consumers, left_by
from penstock.core.state import By, RowState, column, counter, mask, unindexed
from penstock.core.table import Column, Index, Keys, Mask, put
from penstock.model import ConsumerRow, ProducerRow, QueueRow, Snapshot
from penstock.observation.facts import Facts, Seen, or_zero


class Loss(NamedTuple):
    """Messages that a ring lost by a client, at least and at most; sure: `least` since the broker's start."""

    least: float = 0.0
    most: float = 0.0
    sure: float = 0.0

    def __add__(self, other: "Loss") -> "Loss":  # type: ignore[override]
        return Loss(
            self.least + other.least,
            self.most + other.most,
            self.sure + other.sure,
        )


Moved = tuple[Keys, NDArray[np.object_]]
"""Consumers that left or rolled back: the keys of their queues, and their rows."""
Culprits = Mapping[int, Mapping[str, Loss]]
"""Losses by the key of a queue and the name of the client that caused them."""

MOST_NAMES = 500
"""Clients of a broker that are kept by name; losses by others are in the sums only."""


@dataclass(frozen=True, slots=True)
class RingLosses(RowState):
    """Messages that rings lost by consumers that left or rolled back; all columns are by queue.

    Messages of `QueueBooks.lost` that are not in these sums were lost by arrivals.
    """

    BY = By.QUEUE
    STORED_AS = "account_by_consumers_"
    least: Column = counter(outlives=True)
    """Messages that were lost by consumers, at least."""
    most: Column = counter(outlives=True)
    """Messages that were lost by consumers, at most."""
    lost: Column = counter(outlives=True)
    """`QueueBooks.lost` at the last poll, where it was known."""
    by_consumers: Column = counter(stored_as="ledger_by_consumers")
    """`least` since the broker's start."""
    grew: Column = column(0.0, saved=False)
    """By how much `lost` grew at this poll."""
    low: Column = column(0.0, saved=False)
    """By how much `least` grew at this poll."""
    high: Column = column(0.0, saved=False)
    """By how much `most` grew at this poll."""
    low_last: Column = column(stored_as="ledger_lost_last")
    """The last `low` of a poll with losses."""
    high_last: Column = column()
    """The last `high` of a poll with losses."""
    arrived: Column = column(saved=False)
    """Messages that came or fell due in the interval before this poll."""
    returned: Column = column(saved=False)
    """Messages that consumers gave back in that interval."""
    ready: Column = column(saved=False)
    """Messages that are ready at this poll, at the end of that interval."""
    ready_before: Column = column(saved=False)
    """Messages that were ready when that interval began."""
    movers: Mask = mask(saved=False)
    """True where a consumer joined, left or rolled back in that interval."""
    moved: Moved = unindexed(lambda: (np.empty(0, np.int64), np.empty(0, np.object_)))
    """The consumers that left or rolled back."""
    unlisted: bool = unindexed(bool)
    """Whether some consumers of that interval were never listed."""
    by_client: Culprits = unindexed(dict)
    """Losses of all clients that are known by name; they are saved apart."""
    latest: Mapping[int, Mapping[str, str]] = unindexed(dict)
    """By the key of a queue, clients that may have made it lose last, with their protocols."""
    sessions: float = unindexed(lambda: np.nan)
    """Sessions that the broker has made."""
    producers: Index[ProducerRow] = unindexed(Index.empty)

    def advance(
        self, facts: Facts, seen: Seen, books: QueueBooks, snapshot: Snapshot
    ) -> "RingLosses":
        """Return the losses after one more poll. seen: the poll before, from which `facts` has the changes."""
        before = self.reindexed(facts.queues)
        if facts.queues is not self.index:
            before = replace(before, latest=listed(self.latest, facts.queues))
        # Of a ring that keeps last values it cannot be known what was evicted, and what replaced.
        keeps_last_values = facts.last_value > 0
        loses = ~np.isnan(facts.ring) & ~np.isnan(books.lost) & ~keeps_last_values
        movements = Movements.of(facts, seen, snapshot, loses)
        interval = before.with_late(movements, facts.known)
        rose = np.fmax(or_zero(books.lost - before.lost), 0.0)
        grew = np.where(loses, rose, 0.0)
        losses = before.with_growth(grew, interval, facts.ring)
        losses = losses.with_sums(books, loses)
        losses = losses.with_interval(facts, movements)
        losses = losses.with_clients(interval, facts, loses)
        return losses.with_sessions(facts, seen, snapshot)

    def with_late(self, movements: "Movements", is_known: Mask) -> "RingLosses":
        """Return the interval of the losses of this poll: that of the last poll, with consumers that left at its end.

        Consumers are listed before their queues: one that leaves in between was still listed by the last poll, and is
        missing at this one. Which of the two it was is not known, so all that are missing now count for it.
        """
        has_left = movements.has_left & is_known
        if not has_left.any():
            return self
        late_keys, late_rows = movements.consumers
        is_of_these = has_left[self.index.positions(late_keys)]
        keys, rows = self.moved
        consumers = (
            np.append(keys, late_keys[is_of_these]),
            np.append(rows, late_rows[is_of_these]),
        )
        returned = np.where(has_left, movements.returned, 0.0)
        return replace(
            self,
            movers=self.movers | has_left,
            returned=or_zero(self.returned) + returned,
            moved=consumers,
        )

    def with_growth(
        self, grew: Column, interval: "RingLosses", ring: Column
    ) -> "RingLosses":
        """Return the losses with those that this poll confirms: `grew` messages, lost in the interval.

        ring: (queues,) the limit of the ring.
        """
        low, high = shares(grew, interval, ring)
        # Without a poll before the interval it is not known which consumers came and went in it.
        is_unseen = np.isnan(interval.ready_before)
        low = put(low, is_unseen, 0.0)
        high = put(high, is_unseen, grew)
        return replace(self, grew=grew, low=low, high=high)

    def with_sums(self, books: QueueBooks, loses: Mask) -> "RingLosses":
        """Return the losses with those of this poll added to the sums. loses: (queues,) True where a ring may lose."""
        low = self.low
        high = self.high
        has_lost = high > 0
        is_counted = loses & ~np.isnan(books.evicted)
        least = or_zero(self.least) + low
        most = or_zero(self.most) + high
        by_consumers = or_zero(self.by_consumers) + low
        sums = replace(
            self,
            least=np.where(loses, least, np.nan),
            most=np.where(loses, most, np.nan),
            by_consumers=np.where(is_counted, by_consumers, np.nan),
        )
        return replace(
            sums,
            lost=np.where(np.isnan(books.lost), self.lost, books.lost),
            low_last=put(self.low_last, has_lost, low),
            high_last=put(self.high_last, has_lost, high),
        )

    def with_interval(self, facts: Facts, movements: "Movements") -> "RingLosses":
        """Return the losses with what happened before this poll, against which the next poll holds its losses."""
        fell_due = np.fmax(-facts.d_scheduled, 0.0)
        return replace(
            self,
            arrived=facts.d_added + fell_due,
            returned=movements.returned,
            ready=facts.ready,
            ready_before=self.ready,
            movers=movements.has_moved & facts.known,
            moved=movements.consumers,
        )

    def with_clients(
        self, interval: "RingLosses", facts: Facts, loses: Mask
    ) -> "RingLosses":
        """Return the losses with those of each client. interval: that into which the losses of this poll fell."""
        queues = facts.queues
        names = names_of(interval.moved, queues.keys[self.high > 0])
        by_client = booked(self.by_client, interval, names, self.low, self.high)
        by_client = beginning(by_client, queues, np.isnan(self.by_consumers))
        return replace(
            self,
            by_client=with_holders(by_client, facts, loses),
            latest={**self.latest, **names},
        )

    def with_sessions(
        self, facts: Facts, seen: Seen, snapshot: Snapshot
    ) -> "RingLosses":
        """Return the losses with `unlisted`: whether consumers may have come and gone since the last poll unlisted.

        They did if the broker made more sessions than new consumers and producers show.
        """
        broker = snapshot.broker
        sessions = np.nan if broker is None else broker.sessions_made
        made = sessions - self.sessions
        producers = Index[ProducerRow].empty()
        if snapshot.producers is not None:
            producers = snapshot.producers.index
        unlisted = hides_consumers(snapshot)
        if made > 0 and not unlisted:
            unlisted = made > sessions_seen(facts, seen, producers, self.producers)
        return replace(
            self,
            unlisted=bool(unlisted),
            sessions=sessions,
            producers=producers,
        )

    def with_growth_of(self, before: "RingLosses") -> "RingLosses":
        """Return the losses with what grew at the poll `before`, as if it had grown at this one."""
        past = before.reindexed(self.index)
        return replace(
            self,
            grew=self.grew + past.grew,
            low=self.low + past.low,
            high=self.high + past.high,
        )

    def begun_anew(self) -> "RingLosses":
        """Return the losses for another process of the broker: the sums stay, but none is of this process."""
        every_queue = np.ones(len(self.index), np.bool_)
        by_client = beginning(self.by_client, self.index, every_queue)
        after = super(RingLosses, self).begun_anew()
        return replace(after, by_client=by_client, sessions=np.nan)


@dataclass(frozen=True, slots=True)
class Movements:
    """Consumers that joined, left or rolled back since the poll before.

    has_left: (queues,) True where a consumer left or rolled back.
    has_moved: (queues,) True where a consumer did so, or joined.
    returned: (queues,) messages that those gave back; infinite where it is not known.
    consumers: those that left or rolled back, of queues that lose.
    """

    has_left: Mask
    has_moved: Mask
    returned: Column
    consumers: Moved

    @classmethod
    def of(
        cls, facts: Facts, seen: Seen, snapshot: Snapshot, loses: Mask
    ) -> "Movements":
        """Return the movements since the poll before.

        Consumers that stayed rolled back as many messages as left their buffers and were neither settled nor are
        uncommitted.

        seen: the numbers of the poll before. loses: (queues,) True where a ring may lose.
        """
        not_settled = facts.d_left - facts.d_uncommitted - facts.d_settled
        rolled_back = np.fmax(not_settled, 0.0)
        has_left, buffered = left_by(facts, seen)
        has_left = has_left | (rolled_back > 0)
        has_moved = has_left | facts.came
        returned = buffered + rolled_back
        if hides_consumers(snapshot) or not facts.counted:
            # Any consumer may have given back any number.
            returned = np.full(len(has_left), np.inf)
            has_moved = np.ones(len(has_left), np.bool_)
        consumers = moved_from(facts, seen, loses, rolled_back)
        return cls(has_left, has_moved, returned, consumers)


def shares(grew: Column, interval: RingLosses, ring: Column) -> tuple[Column, Column]:
    """Return two columns by queue: messages that were lost by consumers in an interval, at least and at most.

    An arrival evicts at most one message, and none while there is room: what arrivals cannot have evicted was lost by
    consumers. At most it is all that these gave back. A consumer that left may have been given what was ready or came
    meanwhile, and so may one that was never listed.

    grew: (queues,) messages that were lost in the interval. ring: (queues,) the limit of the ring.
    """
    ready = or_zero(interval.ready_before)
    returned = or_zero(interval.returned)
    arrived = or_zero(interval.arrived)
    room = np.fmax(or_zero(ring) - ready - returned, 0.0)
    by_arrivals = np.clip(arrived - room, 0.0, grew)
    low = np.where(interval.movers, grew - by_arrivals, 0.0)
    most = np.fmin(grew, returned + ready + arrived)
    may_be_lost = interval.movers | interval.unlisted
    return low, np.fmax(low, np.where(may_be_lost, most, 0.0))


def moved_from(facts: Facts, seen: Seen, loses: Mask, rolled_back: Column) -> Moved:
    """Return the consumers of queues that lose which left or rolled back."""
    consumer = facts.consumer
    missing = consumer.gone
    # The element more at the end is for consumers of unknown queues: position -1.
    of_losing = np.append(loses, np.False_)[missing.queue]
    left_rows = seen.consumers.index.rows[missing.at[of_losing]]
    # Of the consumers that stayed, any whose buffer got smaller may have rolled back.
    suspects = consumer.of(loses & (rolled_back > 0))
    suspects = suspects[consumer.d_left[suspects] > 0]
    queues = np.append(missing.queue[of_losing], consumer.queue[suspects])
    rows = np.append(left_rows, consumer.index.rows[suspects])
    return facts.queues.keys[queues], rows


def names_of(moved: Moved, queues: Keys) -> dict[int, dict[str, str]]:
    """Return by the key of each of these queues the clients that moved, with their protocols."""
    names: dict[int, dict[str, str]] = {key: {} for key in queues.tolist()}
    keys, rows = moved
    is_wanted = np.isin(keys, queues)
    for key, row in zip(keys[is_wanted].tolist(), rows[is_wanted], strict=True):
        names[key][row.client] = row.protocol
    return names


def listed(names: "Names", queues: Index[QueueRow]) -> "Names":
    """Return the names for those queues that are listed."""
    is_listed = queues.positions(np.array([*names], np.int64)) >= 0
    return {key: names[key] for key in compress(names, is_listed)}


def sessions_seen(
    facts: Facts, seen: Seen, producers: Index[ProducerRow], before: Index[ProducerRow]
) -> int:
    """Count the sessions that are listed and were not at the poll before, by their consumers and producers."""
    consumers = facts.consumer.index
    consumers_before = seen.consumers.index
    joined = np.concatenate(
        [
            of_sessions(consumers)[consumers.new_since(consumers_before)],
            of_sessions(producers)[producers.new_since(before)],
        ]
    )
    if not len(joined):
        return 0
    sessions = np.concatenate([of_sessions(consumers_before), of_sessions(before)])
    return len(np.setdiff1d(joined, sessions))


def of_sessions(rows: Index[ConsumerRow] | Index[ProducerRow]) -> Column:
    """(rows,) A number for the session of each consumer or producer: equal for equal sessions."""
    return rows.column("session", lambda row: float(hash(row.session)))


def beginning(before: Culprits, queues: Index[QueueRow], begin: Mask) -> Culprits:
    """Return the losses with nothing `sure` for queues whose ring counts from 0 on, and for those that are not listed.

    begin: (queues,) True where it counts from 0 on.
    """
    if not before:
        return before
    positions = queues.positions(np.array([*before], np.int64))
    # The element more at the end is for queues that are not listed: position -1.
    begins = np.append(begin, np.True_)[positions]
    unsure = {
        key: {name: loss._replace(sure=0.0) for name, loss in before[key].items()}
        for key in compress(before, begins)
    }
    return {**before, **unsure}


Names = Mapping[int, Mapping[str, str]]


def booked(
    before: Culprits, interval: RingLosses, moved: Names, low: Column, high: Column
) -> Culprits:
    """Return the losses of each client with those of an interval.

    If a single client moved, all are by it. Of several, each may have caused all, and none surely caused any.

    moved: the clients that moved, by queue. low, high: (queues,) messages that were lost by consumers.
    """
    if not moved:
        return before
    culprits = of_listed(before, interval.index)
    room = MOST_NAMES - sum(map(len, culprits.values()))
    queues = interval.index.positions(np.array([*moved], np.int64))
    for (key, names), queue in zip(moved.items(), queues, strict=True):
        loss = Loss(0.0, float(high[queue]))
        if len(names) == 1 and not interval.unlisted:
            loss = Loss(low[queue], high[queue], low[queue])
        earlier = culprits.get(key, {})
        culprits[key] = with_loss(earlier, names, loss, room)
        room -= len(culprits[key]) - len(earlier)
    return culprits


def of_listed(
    before: Culprits, queues: Index[QueueRow]
) -> dict[int, Mapping[str, Loss]]:
    """Return the losses for those queues that are listed."""
    is_listed = queues.positions(np.array([*before], np.int64)) >= 0
    return {key: before[key] for key in compress(before, is_listed)}


def with_loss(
    before: Mapping[str, Loss], names: Iterable[str], loss: Loss, room: int
) -> dict[str, Loss]:
    """Return the losses of the clients of a queue, with `loss` added for each of these names.

    Of names without a loss so far, only the first `room` are added.
    """
    losses = {**before}
    most = len(before) + room
    for name in names:
        if name in losses or len(losses) < most:
            losses[name] = losses.get(name, Loss()) + loss
    return losses


def with_holders(before: Culprits, facts: Facts, loses: Mask) -> Culprits:
    """Return the losses with a loss of 0 for clients of rings that have no room for all that clients buffer.

    Each of these makes its ring lose when it leaves: by then it has a number that can rise.
    """
    room = MOST_NAMES - sum(map(len, before.values()))
    overfull = facts.messages - facts.scheduled > facts.ring
    consumer = facts.consumer
    holders = consumer.of(loses & overfull & (room > 0))
    holders = holders[consumer.held[holders] > 0][:MOST_NAMES]
    after = before
    keys = facts.queues.keys[consumer.queue[holders]].tolist()
    for key, row in zip(keys, consumer.index.rows[holders], strict=True):
        clients = after.get(key, {})
        if row.client not in clients and room > 0:
            after = {**after, key: {**clients, row.client: Loss()}}
            room -= 1
    return after
