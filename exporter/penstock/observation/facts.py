"""The numbers of one poll, and what has changed since the one before: what all rules work on.

A queue's first sighting counts nothing; a consumer that appears on a known queue counts from 0. Letters as in the
broker's counters: A added, K acknowledged, E expired, X killed, M depth, D in delivery, S scheduled; per consumer
T held, W acknowledged and uncommitted, N delivered, C settled, L and Ld its last acknowledgement and delivery.
"""

from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.counters import without_torn_counters
from penstock.core.gone_rows import GoneRows
from penstock.core.state import By, RowState, column
from penstock.core.table import (
    Column,
    Index,
    Join,
    Mask,
    Positions,
    Table,
    put,
    take_or_fill,
)
from penstock.core.windows import T
from penstock.model import (
    AddressRow,
    BrokerKind,
    ConsumerRow,
    Process,
    QueueKind,
    QueueRow,
    Snapshot,
)
from penstock.series.queues import ready, scheduled
from penstock.settings.constants import Constants

Numbers: TypeAlias = NDArray[np.float64]
"""(columns, rows)."""

QUEUE_NUMBERS = ("added", "acknowledged", "expired", "killed", "scheduled", "messages")
"""The first four are counters."""
SAID = ("added", "settled", "expired", "killed", "scheduled", "messages")
"""The same as `Facts` has them; those that change with `d_` before."""
AS_THEY_ARE = {
    **{
        name: name
        for name in (
            "delivering",
            "consumers",
            "paused",
            "last_value",
            "delivering_bytes",
        )
    },
    "attempts": "acknowledge_attempts",
    "ring": "ring_limit",
}
"""Further columns of queues in `Facts`."""
SUMS = ("held", "uncommitted", "d_left", "d_delivered", "d_uncommitted")
"""Columns of consumers of which `Facts` has the sums by queue."""
CONSUMER_NUMBERS = ("delivered", "acknowledged", "awaiting_commit", "buffered")
"""The first two are counters."""
SAID_OF_CONSUMERS = ("delivered", "left", "uncommitted", "held")
"""The same in `ConsumerFacts`."""
SKEW = 3.0
"""Messages by which numbers of one row may be apart: they are not read at the same moment."""
NEEDED = ("queues", "consumers")
"""Collectors without which nothing is judged: a change of the values that replace them would be none."""
JUDGED = frozenset(
    {QueueKind.USER, QueueKind.SUBSCRIPTION, QueueKind.DEAD_LETTER, QueueKind.EXPIRY}
)
"""Kinds that conditions of a queue are raised on; the others belong to the broker, or to a single client."""
PARKED = frozenset({QueueKind.DEAD_LETTER, QueueKind.EXPIRY})


@dataclass(frozen=True, slots=True)
class AddressJoin:
    """at: position of each queue's address, -1 where it is not known, at `unknown`; computed when either side has
    changed. queues_of: how many queues that address has, NaN where it is not known.
    """

    queues: Index[QueueRow] | None = None
    addresses: Index[AddressRow] | None = None
    at: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    unknown: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    queues_of: Column = field(default_factory=lambda: np.empty(0))

    def advance(
        self, queues: Index[QueueRow], addresses: Table[AddressRow] | None
    ) -> "AddressJoin":
        index = addresses.index if addresses is not None else None
        if queues is self.queues and index is self.addresses:
            return self
        position = (
            {row.name: i for i, row in enumerate(index)} if index is not None else {}
        )
        at = np.fromiter(
            (position.get(row.address, -1) for row in queues), np.intp, len(queues)
        )
        unknown = np.flatnonzero(at < 0)
        count = np.bincount(at[at >= 0], minlength=len(position)).astype(np.float64)
        return AddressJoin(
            queues, index, at, unknown, take_or_fill(count, at, np.nan, unknown)
        )

    def by_queue(self, addresses: Table[AddressRow] | None, name: str) -> Column:
        """A column of the addresses by the rows of the queues, NaN where it is not known."""
        if addresses is None or name not in addresses:
            return np.full(len(self.at), np.nan)
        return take_or_fill(addresses[name], self.at, np.nan, self.unknown)

    def of_all_queues(self, values: Column) -> Column:
        """Per queue the sum of `values`, nothing of which is missing, over the queues of its address."""
        if len(self.queues_of) == len(values) and not (self.queues_of != 1).any():
            return values
        sums: Column = np.bincount(self.at + 1, weights=values).astype(
            np.float64, copy=False
        )[self.at + 1]
        sums[self.unknown] = values[self.unknown]
        return sums


@dataclass(frozen=True, slots=True)
class Times:
    """When a poll was, by the broker's clock. interval: running mean of the time between polls, seconds. started: when
    the process was seen to start again; NaN for one found running. resumed: known from before the agent's restart, so
    that the time since says nothing about the interval. restarted: the process is another than at the poll before.
    read: when all numbers of the poll had been read, at the latest. step: seconds since the poll before.
    """

    now: float = np.nan
    interval: float = np.nan
    process: Process = field(default_factory=Process)
    started: float = np.nan
    resumed: bool = False
    restarted: bool = False
    read: float = np.nan
    step: float = np.nan

    def advance(self, now: float, uptime: float, process: Process) -> "Times":
        step = now - self.now
        interval = self.interval
        if step > 0 and not (self.resumed and interval > 0):
            interval = step if np.isnan(interval) else 0.7 * interval + 0.3 * step
        restarted = process.replaces(self.process)
        started = now if restarted else float(np.fmax(self.started, now - uptime))
        return Times(now, interval, process, started, restarted=restarted, step=step)

    def settling(self, constants: Constants) -> bool:
        """So shortly after the broker's start that clients may still be on their way back."""
        return bool(
            self.now - self.started
            < max(constants.after_restart, 4 * max(0.0, self.interval))
        )


@dataclass(frozen=True, slots=True)
class SeenQueues(RowState):
    """By `QUEUE_NUMBERS`."""

    BY = By.QUEUE
    numbers: Numbers = column(
        lines=len(QUEUE_NUMBERS),
        stored_as=tuple(f"seen_{name}" for name in QUEUE_NUMBERS),
    )


@dataclass(frozen=True, slots=True)
class SeenConsumers(RowState):
    """By `CONSUMER_NUMBERS`."""

    BY = By.CONSUMER
    numbers: Numbers = column(
        lines=len(CONSUMER_NUMBERS),
        stored_as=tuple(f"seen_{name}" for name in CONSUMER_NUMBERS),
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """The numbers of the poll before; where one was missing there, the last known one."""

    queues: SeenQueues = field(default_factory=SeenQueues)
    consumers: SeenConsumers = field(default_factory=SeenConsumers)
    times: Times = field(default_factory=Times)
    addresses: AddressJoin = field(default_factory=AddressJoin)
    queue_of: Join = field(default_factory=Join)
    """Of each consumer."""
    gone: GoneRows = field(default_factory=GoneRows)
    """One that comes back has done before what its counters say."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One poll. Columns per queue unless said; a change is 0 where the queue is seen for the first time.

    read: when all had been read, at the latest. apart: seconds by which queues were read after consumers; 0: not
    known. restarted: the broker has started again since the poll before, or its counters fell; settling: so shortly
    that clients may still be on their way back. counted: the broker's version shows numbers of each consumer; else all
    of those are 0. known: seen at the poll before, in the same life. set_back: an operator has set a counter back.
    ready: NaN of queues that keep what is acknowledged (`keeps`: non-destructive as far as settings show). single: one
    consumer gets all; exclusive: or all of a group. ring: its limit, NaN: none. dispatch_at: consumers that the queue
    waits for before it dispatches, 0: none. held, uncommitted, d_left: sums of what its consumers buffer, and settled.
    listed: consumers; came: one is new. returned: what left these now, and was neither settled, expired nor killed.
    """

    now: float
    read: float
    apart: float
    interval: float
    restarted: bool
    settling: bool
    counted: bool
    queues: Index[QueueRow]
    known: Mask
    set_back: Mask
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
    keeps: Mask
    delivering: Column
    scheduled: Column
    consumers: Column
    paused: Column
    exclusive: Column
    single: Mask
    last_value: Column
    ring: Column
    dispatch_at: Column
    delivering_bytes: Column
    address: "AddressFacts"
    consumer: "ConsumerFacts"
    held: Column
    uncommitted: Column
    d_left: Column
    d_delivered: Column
    d_uncommitted: Column
    listed: Column
    came: Mask
    returned: Column

    def of_queue(self, values: Column | Mask) -> Column:
        """Sums of a consumers' column by queue; nothing in it is missing. Of a mask: how many."""
        return self.consumer.by_queue(values, len(self.queues))

    def queues_of(self, consumers: Positions) -> Mask:
        """The queues of these consumers, all of which are known."""
        queues = np.zeros(len(self.queues), np.bool_)
        queues[self.consumer.queue[consumers]] = True
        return queues


@dataclass(frozen=True, slots=True)
class AddressFacts:
    """Of each queue's address, as `AddressRow` has it; NaN where unknown. d_added: came to all its queues together."""

    paging: Column
    paused: Column
    limit_percent: Column
    pages: Column
    producers_paused: Column
    page_read_limit_bytes: Column
    page_read_limit_messages: Column
    non_destructive: Column
    max_delivery_attempts: Column
    memory_used_ratio: Column
    expiry_delay: Column
    blocked_producers: Column
    d_added: Column


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """Columns per consumer. queue: position of its queue, -1 where unknown (of those `unplaced`); place: one more.
    left: what it no longer buffers, in all. holding: those of known queues that buffer something. holds: so does it, or
    it has not committed all.
    """

    index: Index[ConsumerRow]
    queue: Positions
    place: Positions
    unplaced: Positions
    new: Mask
    held: Column
    uncommitted: Column
    delivered: Column
    left: Column
    held_bytes: Column
    last_acknowledgement: Column
    last_delivery: Column
    d_left: Column
    d_delivered: Column
    d_uncommitted: Column
    holding: Positions
    holds: Mask
    selective: Mask
    orphaned: Mask
    gone: "Gone"

    def of(self, queues: Mask) -> Positions:
        """The consumers of these queues."""
        return (
            np.flatnonzero(self.at_queue(queues, np.False_))
            if queues.any()
            else np.empty(0, np.intp)
        )

    def by_queue(self, values: Column | Mask, queues: int) -> Column:
        """Sums by queue, of which there are so many; nothing in `values` is missing."""
        if values.dtype == np.bool_:
            return np.bincount(self.place[values], minlength=queues + 1)[1:].astype(
                np.float64
            )
        if not values.any():
            return np.zeros(queues)
        return np.bincount(self.place, values, queues + 1)[1:].astype(
            np.float64, copy=False
        )

    def at_queue(self, values: NDArray[T], unknown: T | float | bool) -> NDArray[T]:
        """A queues' column by consumer; `unknown` for those of which the queue is not known."""
        return take_or_fill(values, self.queue, unknown, self.unplaced)


@dataclass(frozen=True, slots=True)
class Gone:
    """Consumers that were there at the poll before and are not now. at: their positions then. queue: now, or -1."""

    at: Positions
    queue: Positions


def facts(
    before: Seen, snapshot: Snapshot, constants: Constants
) -> tuple[Seen, Facts] | None:
    """The snapshot against the poll before; None when a part that the rules need is missing in it."""
    queues = snapshot.queues
    consumers = snapshot.consumers
    broker = snapshot.broker
    if queues is None or consumers is None or broker is None:
        return None
    if any(
        name in snapshot.collectors and not snapshot.collectors[name].usable
        for name in NEEDED
    ):
        return None
    times = before.times.advance(
        time_of(snapshot), broker.uptime, snapshot.observation.process
    )
    times = replace(times, read=times.now + seconds_of_reading(snapshot))
    if times.restarted:
        before = Seen()
    numbers, changes, known, back, said_by_queues = queue_changes(
        before.queues, queues, broker.kind
    )
    join = before.queue_of.advance(
        consumers.index, queues.index, snapshot.consumer_queue
    )
    late = np.isin(consumers.index.keys, snapshot.observation.late.get("consumers", ()))
    back_again, _ = before.gone.come_back(before.consumers.index, consumers.index)
    late[back_again] = True
    numbers_of, consumer = consumer_facts(before, consumers, join, known, late)
    addresses = before.addresses.advance(queues.index, snapshot.addresses)
    seen_queues = SeenQueues(queues.index, said_by_queues)
    seen_consumers = SeenConsumers(consumers.index, numbers_of)
    gone = before.gone.after(before.consumers.index, consumers.index)
    seen = Seen(seen_queues, seen_consumers, times, addresses, join, gone)
    of_addresses = {
        one.name: addresses.by_queue(snapshot.addresses, one.name)
        for one in fields(AddressFacts)[:-1]
    }
    address = AddressFacts(
        **of_addresses, d_added=addresses.of_all_queues(or_zero(changes[0]))
    )
    said = dict(zip(SAID, numbers, strict=True)) | {
        name: queues[of] for name, of in AS_THEY_ARE.items()
    }
    changed = {
        f"d_{name}": change
        for name, change in zip(SAID[:-1], changes[:-1], strict=True)
    }
    sums = {
        name: consumer.by_queue(getattr(consumer, name), len(queues)) for name in SUMS
    }
    keeps = keeping(address.non_destructive, said["added"], said["settled"])
    left = changed["d_settled"] + changed["d_expired"] + changed["d_killed"]
    found = Facts(
        now=times.now,
        read=times.read,
        apart=seconds_apart(snapshot),
        interval=times.interval,
        restarted=times.restarted,
        settling=times.settling(constants),
        counted="buffered" in consumers,
        queues=queues.index,
        known=known,
        set_back=back,
        judged=queues.index.column("judged", lambda row: row.kind in JUDGED) > 0,
        parked=queues.index.column("parked", lambda row: row.kind in PARKED) > 0,
        **said,
        **changed,
        ready=put(ready(queues), keeps, np.nan),
        keeps=keeps,
        exclusive=np.fmax.reduce(
            [
                queues["exclusive"],
                queues["grouped"],
                queues["groups"],
                np.zeros(len(queues)),
            ]
        ),
        single=queues["exclusive"] > 0,
        dispatch_at=or_zero(queues["consumers_before_dispatch"]),
        address=address,
        consumer=consumer,
        **sums,
        listed=np.bincount(consumer.place, minlength=len(queues) + 1)[1:].astype(
            np.float64
        ),
        came=consumer.by_queue(consumer.new, len(queues)) > 0,
        returned=sums["d_left"] - left - sums["d_uncommitted"],
    )
    return seen, found if broker.kind.fates else without_fates(found)


def without_fates(found: Facts) -> Facts:
    """Of a kind that counts in one what left: what came back is not known; dead letters are where they come in."""
    dead = (
        found.queues.column(
            "dead letters", lambda row: row.kind is QueueKind.DEAD_LETTER
        )
        > 0
    )
    return replace(
        found,
        returned=np.zeros(len(dead)),
        d_killed=np.where(dead, or_zero(found.d_added), 0.0),
    )


def time_of(snapshot: Snapshot) -> float:
    """The broker's clock; the agent's where it shows none."""
    clock = np.nan if snapshot.broker is None else snapshot.broker.clock
    return snapshot.stamp if np.isnan(clock) else clock


def seconds_apart(snapshot: Snapshot) -> float:
    queues, consumers = (snapshot.collectors.get(name) for name in NEEDED)
    return (
        0.0 if queues is None or consumers is None else queues.stamp - consumers.stamp
    )


def seconds_of_reading(snapshot: Snapshot) -> float:
    """From before the broker's clock was read until its queues and consumers had been; 0 where it is not known."""
    parts = snapshot.collectors
    ends = [parts[name].stamp for name in NEEDED if name in parts]
    return max(
        [
            0.0,
            *(
                end - parts["broker"].stamp + parts["broker"].seconds
                for end in ends
                if "broker" in parts
            ),
        ]
    )


# --- queues

FEW_REMOVED = 0.01
"""Share of what was added: an operator may remove single messages of a non-destructive queue."""


def keeping(declared: Column, added: Column, settled: Column) -> Mask:
    """Queues that keep what is acknowledged (non-destructive), which the broker does not show of a single queue.
    declared: of addresses whose new queues are so; not of one that settles all the same.
    """
    keeps = declared > 0
    return keeps & (settled <= FEW_REMOVED * added) if keeps.any() else keeps


def queue_changes(
    before: SeenQueues, queues: Table[QueueRow], kind: BrokerKind
) -> tuple[Numbers, Numbers, Mask, Mask, Numbers]:
    """By `QUEUE_NUMBERS` the value now, and what changed (0 where the queue is not known); of which queues that is
    known, and which an operator set back; what is seen now. Where the kind says no more, what left and did not expire
    replaces what was acknowledged; it never falls, as what expires may be counted before it has left.
    """
    columns = {name: queues[name] for name in QUEUE_NUMBERS} | {
        "scheduled": scheduled(queues)
    }
    columns |= {} if kind.fates else {"acknowledged": queues["removed"]}
    numbers = np.stack(list(columns.values()))
    past = before.reindexed(queues.index).numbers
    # A counter that fell: a new life of the queue, or an operator set it back.
    fell = numbers[:4] < past[:4]
    known = ~np.isnan(past[0]) & ~fell.any(axis=0)
    if not kind.fates:
        settled = numbers[1] - or_zero(numbers[2])
        numbers[1] = np.where(known, np.fmax(settled, past[1]), settled)
    changes = put(numbers - past, ~known, 0.0)
    return (
        numbers,
        changes,
        known,
        set_back(numbers, past, fell),
        since_said(numbers, past),
    )


def set_back(numbers: Numbers, past: Numbers, fell: NDArray[np.bool_]) -> Mask:
    """Whether the counters that fell are no new life of the queue. In a new life all start again, and what is there or
    has left has come in it.
    """
    if not fell.any():
        return np.zeros(fell.shape[1], np.bool_)
    added, settled, expired, killed, _, messages = numbers
    anew = (fell | ~(past[:4] > 0)).all(axis=0) & ~(
        added - settled - expired - killed - messages < -SKEW
    )
    return fell.any(axis=0) & ~anew


def since_said(numbers: Numbers, past: Numbers) -> Numbers:
    """The last known numbers: where one is missing the next change is that since the poll before."""
    return put(numbers, np.isnan(numbers), past)


# --- consumers


def consumer_facts(
    before: Seen, consumers: Table[ConsumerRow], join: Join, known: Mask, late: Mask
) -> tuple[Numbers, ConsumerFacts]:
    """By `CONSUMER_NUMBERS` what is seen now, and the facts. known: of the queues. late: of consumers."""
    numbers = np.stack([consumers[name] for name in CONSUMER_NUMBERS])
    past = before.consumers.reindexed(consumers.index).numbers
    numbers = np.vstack([without_torn_counters(numbers[:2], past[:2]), numbers[2:]])
    new = np.isnan(past[0])
    missing = np.isnan(numbers)
    changes = consumer_changes(numbers, past, new & ~late, join, known)
    said = dict(zip(SAID_OF_CONSUMERS, put(numbers, missing, 0.0), strict=True))
    return put(numbers, missing, past), ConsumerFacts(
        index=consumers.index,
        queue=join.at,
        place=join.at + 1,
        unplaced=np.flatnonzero(join.at < 0),
        new=new,
        **said,
        holding=np.flatnonzero((said["held"] > 0) & (join.at >= 0)),
        holds=said["held"] + said["uncommitted"] > 0,
        **{
            f"d_{name}": change
            for name, change in zip(SAID_OF_CONSUMERS[:3], changes, strict=True)
        },
        held_bytes=consumers["buffered_bytes"],
        last_acknowledgement=consumers["last_acknowledgement"],
        last_delivery=consumers["last_delivery"],
        selective=consumers.index.column("selective", lambda row: bool(row.filter)) > 0,
        orphaned=consumers["orphaned"] > 0,
        gone=gone(before, consumers.index, join),
    )


def consumer_changes(
    numbers: Numbers, past: Numbers, new: Mask, join: Join, known: Mask
) -> Numbers:
    """What the first three of `CONSUMER_NUMBERS` rose by; 0 where a number is missing."""
    changes = numbers[:3] - past[:3]
    # What fell started again, at 0 (`without_torn_counters`).
    np.copyto(changes[:2], numbers[:2], where=changes[:2] < 0)
    # New on a queue that was watched: everything it did, it did since the poll before.
    fresh = np.flatnonzero(new)
    at = join.at[fresh]
    changes[:, fresh] = np.where(
        (at >= 0) & np.append(known, np.False_)[at], numbers[:3, fresh], 0.0
    )
    return or_zero(changes)


def or_zero(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers, 0 where one is missing; the very array where none is. A fraction of `np.nan_to_num`'s cost."""
    return put(numbers, np.isnan(numbers), 0.0)


def gone(before: Seen, consumers: Index[ConsumerRow], join: Join) -> Gone:
    past = before.consumers.index
    queues = before.queues.index
    there = np.zeros(len(past) + 1, np.bool_)  # the last one: of those that are new
    there[consumers.positions_in(past)] = True
    left = np.flatnonzero(~there[:-1])
    if not len(left) or len(before.queue_of.at) != len(past):
        return Gone(left, np.full(len(left), -1, np.intp))
    then = before.queue_of.at[left]
    now = (
        join.target.positions(queues.keys[then])
        if len(queues)
        else np.full(len(left), -1, np.intp)
    )
    return Gone(left, np.where(then >= 0, now, -1))
