"""How connections and sessions are used from one evaluation to the next, and their flow control on OpenMQ, whose limits
are measured, or those of the destination, which a client can only lower.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.table import (
    Column,
    Index,
    Keys,
    Mask,
    Positions,
    Table,
    positions,
    take_or_fill,
)
from penstock.core.windows import reindex
from penstock.findings.limits import DEFAULT_LIMIT, SHARED_LIMIT
from penstock.learned.prefetch import ConsumerArrivals
from penstock.learned.saturation import Saturation
from penstock.model import (
    AddressRow,
    Broker,
    ConsumerRow,
    QueueKind,
    QueueRow,
    Snapshot,
)
from penstock.observation.flow_window import WindowEstimate
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ClientSeries, Grouping, QueueSeries

CHANGES = 3
"""Evaluations at which the number of consumers had changed: fewer is a start or a reconnect."""
VARIES = 2
"""The most consumers are so many times the fewest."""


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """Columns by `keys`, ascending: consumers now, the fewest and the most of them; evaluations at which their number
    had changed; consumers that came after the first one; messages a second since the one before (NaN at first).
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumers: Column = field(default_factory=lambda: np.empty(0))
    fewest: Column = field(default_factory=lambda: np.empty(0))
    most: Column = field(default_factory=lambda: np.empty(0))
    changes: Column = field(default_factory=lambda: np.empty(0))
    came: Column = field(default_factory=lambda: np.empty(0))
    rate: Column = field(default_factory=lambda: np.empty(0))

    @property
    def varies(self) -> Mask:
        """The number of consumers is not known in advance."""
        return (self.changes >= CHANGES) & (self.most >= VARIES * self.fewest)

    def advance(
        self, of: Keys, new: Mask, sent: Column, seconds: float
    ) -> "ConnectionCounts":
        """of: connection of each consumer, -1 where unknown. sent: to each in the last `seconds`."""
        here = of >= 0
        keys, at = np.unique(of[here], return_inverse=True)
        place = positions(self.keys, keys)
        known = place >= 0
        now = np.bincount(at, minlength=len(keys)).astype(np.float64)
        came = np.bincount(at, weights=new[here], minlength=len(keys))
        fed = np.bincount(
            at, weights=np.maximum(np.nan_to_num(sent[here]), 0), minlength=len(keys)
        )
        before = take_or_fill(self.consumers, place, np.nan)
        return ConnectionCounts(
            keys=keys,
            consumers=now,
            fewest=np.fmin(take_or_fill(self.fewest, place, np.nan), now),
            most=np.fmax(take_or_fill(self.most, place, np.nan), now),
            changes=take_or_fill(self.changes, place, 0.0) + (known & (before != now)),
            came=take_or_fill(self.came, place, 0.0) + np.where(known, came, 0.0),
            rate=np.where(known, fed / seconds if seconds > 0 else np.nan, np.nan),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Carried from one evaluation to the next. delivered: by the rows of `consumers`, at the last one.

    behind: sessions (OpenMQ: connections) of which all consumers held messages while more waited, and took some;
    evaluations in a row.
    """

    consumers: Index[Any] = field(default_factory=Index.empty)
    delivered: Column = field(default_factory=lambda: np.empty(0))
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    behind: Mapping[int, int] = field(default_factory=dict)

    def advance(
        self, snapshot: Snapshot, seconds: float, queue_of: Positions
    ) -> "Usage":
        """seconds: since the evaluation before. queue_of: position of each consumer's queue, -1 where unknown."""
        consumers = snapshot.consumers
        if consumers is None or "delivered" not in consumers or snapshot.broker is None:
            return self
        before = reindex(consumers.index, self.consumers, self.delivered, np.nan)
        new = consumers.index.positions_in(self.consumers) < 0
        sent = consumers["delivered"] - np.nan_to_num(before)
        connections = self.connections
        if snapshot.broker.kind.counted_flow:
            connections = connections.advance(
                snapshot.consumer_connection, new, sent, seconds
            )
        delivered = consumers[
            "delivered"
        ].copy()  # the column itself would hold the whole table
        return Usage(
            consumers.index,
            delivered,
            connections,
            self._behind(snapshot, consumers, queue_of, new, sent),
        )

    def _behind(
        self,
        snapshot: Snapshot,
        consumers: Table[ConsumerRow],
        queue_of: Positions,
        new: Mask,
        sent: Column,
    ) -> dict[int, int]:
        of = sessions(snapshot, consumers)
        full = occupied(snapshot, consumers, queue_of) & ~new & (of >= 0)
        groups, counts = np.unique(of[full], return_counts=True)
        groups = groups[counts >= 2]
        members = np.isin(of, groups)
        at = np.searchsorted(groups, of[members])
        size = len(groups)
        all_full = np.bincount(
            at, weights=full[members], minlength=size
        ) == np.bincount(at, minlength=size)
        fed = (
            np.bincount(
                at, weights=np.maximum(np.nan_to_num(sent[members]), 0), minlength=size
            )
            > 0
        )
        return {
            one: self.behind.get(one, 0) + 1 for one in groups[all_full & fed].tolist()
        }


def sessions(snapshot: Snapshot, consumers: Table[ConsumerRow]) -> Keys:
    """Of each consumer its session as a number; its connection where the broker shows no sessions; -1: unknown."""
    if snapshot.broker is not None and not snapshot.broker.kind.shows_sessions:
        return snapshot.consumer_connection
    # Of a hash so many bits as a float keeps.
    hashes = consumers.index.column(
        "session",
        lambda row: float(abs(hash(row.session)) >> 11) if row.session else -1.0,
    )
    return hashes.astype(np.int64)


def occupied(
    snapshot: Snapshot, consumers: Table[ConsumerRow], queue_of: Positions
) -> Mask:
    """Consumers that hold something while more waits that they would get."""
    if (queues := snapshot.queues) is None:
        return np.zeros(len(consumers), np.bool_)
    waiting = (ready(queues) > 0) & ~(queues["paused"] > 0)
    selective = (
        consumers.index.column("selective", lambda row: float(bool(row.filter))) > 0
    )
    return (
        (consumers["buffered"] > 0) & ~selective & np.append(waiting, False)[queue_of]
    )


def ready(queues: Table[QueueRow]) -> Column:
    return (
        queues["messages"] - queues["delivering"] - np.nan_to_num(queues["scheduled"])
    )


# --- flow control


@dataclass(frozen=True, slots=True)
class FlowControl:
    """Columns per consumer: connection, its key; limit in force or its bound, messages; mean_bytes of a message.

    memory, connection_limit: what the operator configured for its client, else NaN. clients: their series.
    """

    consumers: Table[ConsumerRow] = field(default_factory=lambda: Table(Index.empty()))
    connection: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    clients: Grouping[ClientSeries] = field(default_factory=Grouping)
    windows: WindowEstimate = field(default_factory=WindowEstimate)
    shares: Saturation = field(default_factory=Saturation)
    limit: Column = field(default_factory=lambda: np.empty(0))
    mean_bytes: Column = field(default_factory=lambda: np.empty(0))
    memory: Column = field(default_factory=lambda: np.empty(0))
    connection_limit: Column = field(default_factory=lambda: np.empty(0))

    @property
    def members(self) -> tuple[Mask, Positions]:
        """Which consumers are on a known connection, and its position in `connections`."""
        known = np.isin(self.connection, self.connections.keys)
        return known, np.searchsorted(
            self.connections.keys, self.connection[known]
        ).astype(np.intp)

    def summed(self, values: Column) -> Column:
        """Per connection."""
        known, at = self.members
        weights = np.nan_to_num(values[known])
        return np.bincount(
            at, weights=weights, minlength=len(self.connections.keys)
        ).astype(np.float64)

    def least(self, values: Column) -> Column:
        """Per connection, NaN where nothing is known."""
        known, at = self.members
        least = np.full(len(self.connections.keys), np.nan)
        np.fmin.at(least, at, values[known])
        return least

    def average(self, values: Column) -> Column:
        """Per connection over its consumers of which it is known."""
        known = self.summed((~np.isnan(values)).astype(np.float64))
        return np.where(
            known > 0, self.summed(values) / np.where(known > 0, known, 1), np.nan
        )


def flow_control(
    snapshot: Snapshot,
    clients: Grouping[ClientSeries],
    judgement: Judgement,
    connections: ConnectionCounts,
) -> FlowControl:
    consumers = snapshot.consumers
    windows = judgement.openmq.windows
    if consumers is None:
        return FlowControl()
    measured = np.append(windows.limits()[0], np.nan)[
        windows.index.positions(consumers.index.keys)
    ]
    bound, mean_bytes = of_destinations(snapshot, consumers)
    memory = clients.index.column(
        "client memory", lambda row: row.said.client_memory or np.nan
    )
    limits = clients.index.column(
        "connection flow limit", lambda row: row.said.connection_flow_limit or np.nan
    )
    return FlowControl(
        consumers=consumers,
        connection=snapshot.consumer_connection,
        connections=connections,
        clients=clients,
        windows=windows,
        shares=judgement.shares,
        limit=np.where(np.isnan(measured), bound, measured),
        mean_bytes=mean_bytes,
        memory=np.append(memory, np.nan)[clients.member],
        connection_limit=np.append(limits, np.nan)[clients.member],
    )


def of_destinations(
    snapshot: Snapshot, consumers: Table[ConsumerRow]
) -> tuple[Column, Column]:
    """Per consumer: the highest limit it can have unless the client raises it; mean bytes of what came in."""
    addresses = snapshot.addresses
    queues = snapshot.queues
    if addresses is None or queues is None or "consumer_flow_limit" not in addresses:
        return np.full(len(consumers), np.nan), np.full(len(consumers), np.nan)
    rows = {row.name: i for i, row in enumerate(addresses.index)}
    at = np.array([rows.get(row.address, -1) for row in consumers.index], np.intp)
    limit = np.append(addresses["consumer_flow_limit"], np.nan)[at]
    limit = np.where(np.isnan(limit), DEFAULT_LIMIT, limit)
    shared = (
        queues.index.column(
            "subscription", lambda row: float(row.kind is QueueKind.SUBSCRIPTION)
        )
        > 0
    )
    shared &= queues["consumers"] >= 2
    limit = np.where(
        np.append(shared, False)[queues.index.positions(snapshot.consumer_queue)],
        SHARED_LIMIT,
        limit,
    )
    came = addresses["messages_added"]
    mean = np.where(
        came > 0, addresses["added_bytes"] / np.where(came > 0, came, 1), np.nan
    )
    return limit, np.append(mean, np.nan)[at]


APPLICATIONS = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION})
"""Kinds of queue that applications configure."""


@dataclass(frozen=True, slots=True)
class Clients:
    """What is known of the clients, columns by the rows of `grouping.index`.

    queue: position of its queue, -1 where that is not shown by itself. window, largest: of a consumer, messages, see
    PrefetchEstimate. longest: the longest gap that was learned, seconds.
    """

    grouping: Grouping[ClientSeries] = field(default_factory=Grouping)
    queue: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    window: Column = field(default_factory=lambda: np.empty(0))
    largest: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    arrivals: ConsumerArrivals = field(default_factory=ConsumerArrivals)

    def protocols(self, clients: Positions) -> Iterator[str]:
        """Of one consumer of each of these clients."""
        consumer = np.zeros(
            len(self.grouping.index) + 1, np.intp
        )  # the last one is for those that are hidden
        consumer[self.grouping.member] = np.arange(len(self.grouping.member))
        return (row.protocol for row in self.grouping.source.rows[consumer[clients]])

    def of_queue(self, column: Column | Mask) -> Column:
        """A column of the queues, by the clients; NaN where the queue is not shown."""
        return np.append(column.astype(np.float64), np.nan)[self.queue]


@dataclass(frozen=True, slots=True)
class FindingContext:
    """All that the rules read. Columns of queues by the rows of `queues`.

    name: of the broker. address: position of each queue's address, -1 where unknown. deepest: the most messages seen
    in each queue. clients: none where the broker shows no numbers of consumers. flow: of OpenMQ only. stale:
    removed by a limit while consumers hold them.
    """

    name: str
    snapshot: Snapshot
    broker: Broker
    grouping: Grouping[QueueSeries]
    queues: Table[QueueRow]
    addresses: Table[AddressRow]
    address: Positions
    deepest: Column
    clients: Clients
    usage: Usage
    flow: FlowControl
    stale: Column

    def of_address(self, name: str) -> Column:
        """A column of the addresses, by the queues."""
        return np.append(self.addresses[name], np.nan)[self.address]

    @property
    def applications(self) -> Mask:
        """Queues of applications that are shown one by one."""
        kind = self.grouping.index.column(
            "of application", lambda s: float(s.kind in APPLICATIONS and not s.summed)
        )
        return np.append(kind, 0.0)[self.grouping.member] > 0

    @property
    def mean_bytes(self) -> Column:
        messages = self.queues["messages"]
        return np.where(
            messages > 0,
            self.queues["bytes"] / np.where(messages > 0, messages, 1),
            np.nan,
        )


def clients_of(
    queue_of: Positions,
    queues: Grouping[QueueSeries],
    clients: Grouping[ClientSeries],
    judgement: Judgement,
) -> Clients:
    buffers = judgement.prefetch.clients
    patience = judgement.patience
    index = clients.index
    return Clients(
        grouping=clients,
        queue=queues_of_clients(queue_of, queues, clients),
        window=reindex(index, buffers.index, buffers.window, np.nan),
        largest=reindex(index, buffers.index, buffers.largest, np.nan),
        longest=reindex(index, patience.index, patience.longest, np.nan),
        arrivals=judgement.prefetch.arrivals,
    )


def queues_of_clients(
    at: Positions, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries]
) -> Positions:
    """Position of each client's queue; -1 where several queues are shown as one."""
    of = np.full(len(clients.index), -1, np.intp)
    known = (clients.member >= 0) & (at >= 0)
    of[clients.member[known]] = at[known]
    summed = queues.index.column("alone", lambda series: not series.summed) == 0
    hidden = np.append(np.append(summed, True)[queues.member], True)
    return np.where(hidden[of], -1, of)
