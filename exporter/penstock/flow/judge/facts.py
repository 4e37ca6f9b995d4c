"""
What one poll says, and what has changed since the one before: the numbers that all rules work on.

A queue's first sighting counts nothing; a consumer that appears on a known queue counts from 0. Letters as in the
broker's ledger: A added, K acknowledged, E expired, X killed, M depth, D in delivery, S scheduled; per consumer
T held, W acknowledged and uncommitted, N delivered, C left its hands, L and Ld its last acknowledgement and delivery.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.flow.judge.constants import Constants
from penstock.flow.judge.spans import Mask, moved
from penstock.flow.queues import ready
from penstock.flow.series import sum_by
from penstock.model import AddressRow, ConsumerRow, QueueKind, QueueRow, Snapshot
from penstock.table import Column, Index, Positions, Table

QUEUE_COUNTERS = ("added", "acknowledged", "expired", "killed")
CONSUMER_COUNTERS = ("delivered", "acknowledged", "awaiting_commit")
NEEDED = ("queues", "consumers")
"""Collectors without which nothing is judged: a change of what stands in for them would be none."""
JUDGED = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION, QueueKind.DEAD_LETTER, QueueKind.EXPIRY})
"""Kinds that conditions of a queue are raised on; the others belong to the broker, or to a single client."""
PARKED = frozenset({QueueKind.DEAD_LETTER, QueueKind.EXPIRY})


@dataclass(frozen=True, slots=True)
class AddressJoin:
    """at: position of each queue's address, -1 where it is not known; computed when either side has changed."""

    queues: Index[QueueRow] | None = None
    addresses: Index[AddressRow] | None = None
    at: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def follow(self, queues: Index[QueueRow], addresses: Table[AddressRow] | None) -> "AddressJoin":
        index = addresses.index if addresses is not None else None
        if queues is self.queues and index is self.addresses:
            return self
        position = {row.name: i for i, row in enumerate(index)} if index is not None else {}
        at = np.fromiter((position.get(row.address, -1) for row in queues), np.intp, len(queues))
        return AddressJoin(queues, index, at)


@dataclass(frozen=True, slots=True)
class Seen:
    """The numbers of the poll before, by its rows."""

    queues: Index[QueueRow] = field(default_factory=Index.empty)
    queue_numbers: NDArray[np.float64] = field(default_factory=lambda: np.empty((6, 0)))
    consumers: Index[ConsumerRow] = field(default_factory=Index.empty)
    consumer_numbers: NDArray[np.float64] = field(default_factory=lambda: np.empty((4, 0)))
    now: float = np.nan
    interval: float = np.nan
    """Running mean of the time between polls, seconds."""
    uptime: float = np.nan
    started: float = np.nan
    """When the broker's process was seen to start anew, by its own clock; NaN for the one that was found running."""
    join: AddressJoin = field(default_factory=AddressJoin)
    resumed: bool = False
    """Known from before the agent's restart: the time since says nothing about the interval."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One poll. Columns per queue unless said; a change is 0 where the queue is seen for the first time."""

    now: float
    interval: float
    restarted: bool
    """The broker has started anew since the poll before, or its counters fell."""
    settling: bool
    """So shortly after the broker's start that clients may still be on their way back."""
    queues: Index[QueueRow]
    known: Mask
    """Seen at the poll before, in the same life."""
    judged: Mask
    parked: Mask
    added: Column
    d_added: Column
    d_settled: Column
    d_expired: Column
    d_killed: Column
    d_scheduled: Column
    attempts: Column
    settled: Column
    expired: Column
    killed: Column
    messages: Column
    ready: Column
    delivering: Column
    scheduled: Column
    consumers: Column
    paused: Column
    exclusive: Column
    """One consumer gets all, or all of a group: the others may lawfully have nothing."""
    last_value: Column
    ring: Column
    """Ring limit, NaN where there is none."""
    dispatch_at: Column
    """Consumers that the queue waits for before it dispatches, 0 where none."""
    delivering_bytes: Column
    address: "AddressFacts"
    consumer: "ConsumerFacts"
    held: Column
    """Sum of what its consumers hold."""
    d_left: Column
    """Sum over its consumers of what left their hands."""
    d_delivered: Column
    d_uncommitted: Column
    returned: Column
    """What came back at this poll: left the consumers' hands, and was neither settled, expired nor killed."""

    def of_queue(self, values: Column) -> Column:
        """Sums of a consumers' column by queue."""
        return sum_by(self.consumer.queue, values, len(self.queues))


@dataclass(frozen=True, slots=True)
class AddressFacts:
    """Of each queue's address; NaN where unknown."""

    paging: Column
    paused: Column
    limit_percent: Column
    pages: Column
    producers_paused: Column
    routed: Column
    page_read_bytes: Column
    page_read_messages: Column
    queues: Column
    """How many queues the address has."""


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """Columns per consumer. queue: position of its queue, -1 where unknown."""

    index: Index[ConsumerRow]
    queue: Positions
    new: Mask
    held: Column
    uncommitted: Column
    delivered: Column
    last_acknowledgement: Column
    last_delivery: Column
    d_left: Column
    d_delivered: Column
    d_uncommitted: Column
    selective: Mask
    gone: "Gone"


@dataclass(frozen=True, slots=True)
class Gone:
    """Consumers that were there at the poll before and are not now. at: their positions then. queue: now, or -1."""

    at: Positions
    queue: Positions


def facts(before: Seen, snapshot: Snapshot, constants: Constants) -> tuple[Seen, Facts] | None:
    """What the snapshot says against the poll before; None when a part that the rules need is missing in it."""
    queues, consumers, broker = snapshot.queues, snapshot.consumers, snapshot.broker
    if queues is None or consumers is None or broker is None or "buffered" not in consumers:
        return None
    if any(name in snapshot.collectors and not snapshot.collectors[name].success for name in NEEDED):
        return None
    now = time_of(snapshot)
    step = now - before.now
    interval = before.interval
    if step > 0 and not (before.resumed and interval > 0):
        interval = step if np.isnan(interval) else 0.7 * interval + 0.3 * step
    restarted = bool(broker.uptime < before.uptime)
    if restarted:
        before = Seen(interval=interval)
    started = now if restarted else np.fmax(before.started, now - broker.uptime)
    numbers = np.stack([queues[name] for name in (*QUEUE_COUNTERS, "scheduled", "messages")])
    past = moved(queues.index, before.queues, before.queue_numbers, np.nan)
    # A counter that fell: a new life of the queue, or an operator set it back.
    known = ~np.isnan(past[0]) & ~(numbers[:4] < past[:4]).any(axis=0)
    changes = np.where(known, numbers - past, 0.0)
    consumer = consumer_facts(before, snapshot, consumers, queues, known)
    join = before.join.follow(queues.index, snapshot.addresses)
    addresses = address_facts(join, snapshot.addresses)
    size = len(queues)
    d_left, d_delivered, d_uncommitted = (
        sum_by(consumer.queue, values, size)
        for values in (consumer.d_left, consumer.d_delivered, consumer.d_uncommitted)
    )
    kinds = queues.index
    found = Facts(
        now=now,
        interval=step if np.isnan(interval) else interval,
        restarted=restarted,
        settling=bool(now - started < max(constants.after_restart, 4 * np.nan_to_num(interval))),
        queues=queues.index,
        known=known,
        judged=kinds.column("judged", lambda row: row.kind in JUDGED) > 0,
        parked=kinds.column("parked", lambda row: row.kind in PARKED) > 0,
        added=numbers[0],
        d_added=changes[0],
        d_settled=changes[1],
        d_expired=changes[2],
        d_killed=changes[3],
        d_scheduled=changes[4],
        attempts=queues["acknowledge_attempts"],
        settled=numbers[1],
        expired=numbers[2],
        killed=numbers[3],
        messages=numbers[5],
        ready=ready(queues),
        delivering=queues["delivering"],
        scheduled=numbers[4],
        consumers=queues["consumers"],
        paused=queues["paused"],
        exclusive=np.fmax(np.fmax(queues["exclusive"], queues["grouped"]), 0.0),
        last_value=queues["last_value"],
        ring=queues["ring_limit"],
        dispatch_at=np.nan_to_num(queues["consumers_before_dispatch"]),
        delivering_bytes=queues["delivering_bytes"],
        address=addresses,
        consumer=consumer,
        held=sum_by(consumer.queue, consumer.held, size),
        d_left=d_left,
        d_delivered=d_delivered,
        d_uncommitted=d_uncommitted,
        returned=d_left - changes[1] - changes[2] - changes[3] - d_uncommitted,
    )
    said = np.stack([consumers[name] for name in (*CONSUMER_COUNTERS, "buffered")])
    seen = Seen(
        queues.index,
        since_said(numbers, past),
        consumers.index,
        since_said(said, moved(consumers.index, before.consumers, before.consumer_numbers, np.nan)),
        now,
        found.interval,
        broker.uptime,
        started,
        join,
    )
    return seen, found


def time_of(snapshot: Snapshot) -> float:
    """The broker's clock; the agent's where it shows none."""
    clock = np.nan if snapshot.broker is None else snapshot.broker.clock
    return snapshot.stamp if np.isnan(clock) else clock


def since_said(numbers: NDArray[np.float64], past: NDArray[np.float64]) -> NDArray[np.float64]:
    """What was said last: where a number is missing the next change is that since the poll before."""
    return np.where(np.isnan(numbers), past, numbers)


def consumer_facts(
    before: Seen, snapshot: Snapshot, consumers: Table[ConsumerRow], queues: Table[QueueRow], known: Mask
) -> ConsumerFacts:
    numbers = np.stack([consumers[name] for name in CONSUMER_COUNTERS])
    past = moved(consumers.index, before.consumers, before.consumer_numbers, np.nan)[:3]
    at = queues.index.positions(snapshot.consumer_queue)
    new = np.isnan(past[0])
    on_known = np.zeros(len(at), np.bool_)
    on_known[at >= 0] = known[at[at >= 0]]
    # New on a queue that was watched: everything it did, it did since the poll before.
    base = np.where(new, np.where(on_known, 0.0, numbers), np.where(numbers < past, 0.0, past))
    base[2] = np.where(new, base[2], past[2])
    changes = np.nan_to_num(numbers - base)
    gone = np.flatnonzero(consumers.index.positions(before.consumers.keys) < 0)
    names = [before.consumers.rows[i].queue for i in gone.tolist()]
    position = {row.name: i for i, row in enumerate(queues.index)} if names else {}
    return ConsumerFacts(
        index=consumers.index,
        queue=at,
        new=new,
        held=np.nan_to_num(consumers["buffered"]),
        uncommitted=np.nan_to_num(numbers[2]),
        delivered=np.nan_to_num(numbers[0]),
        last_acknowledgement=consumers["last_acknowledgement"],
        last_delivery=consumers["last_delivery"],
        d_delivered=changes[0],
        d_left=changes[1],
        d_uncommitted=changes[2],
        selective=consumers.index.column("selective", lambda row: bool(row.filter)) > 0,
        gone=Gone(gone, np.array([position.get(name, -1) for name in names], dtype=np.intp)),
    )


def address_facts(join: AddressJoin, addresses: Table[AddressRow] | None) -> AddressFacts:
    """What the address of each queue says, by the queues' rows."""
    here = join.at >= 0

    def by_queue(values: Column) -> Column:
        column = np.full(len(join.at), np.nan)
        column[here] = values[join.at[here]]
        return column

    if addresses is None:
        return AddressFacts(*(by_queue(np.empty(0)) for _ in range(9)))
    count = np.bincount(join.at[here], minlength=len(addresses)).astype(np.float64)
    return AddressFacts(
        paging=by_queue(addresses["paging"]),
        paused=by_queue(addresses["paused"]),
        limit_percent=by_queue(addresses["limit_percent"]),
        pages=by_queue(addresses["pages"]),
        producers_paused=by_queue(addresses["producers_paused"]),
        routed=by_queue(addresses["messages_added"]),
        page_read_bytes=by_queue(addresses["page_read_limit_bytes"]),
        page_read_messages=by_queue(addresses["page_read_limit_messages"]),
        queues=by_queue(count),
    )
