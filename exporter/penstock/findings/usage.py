"""What the rules of the findings read: how connections and sessions are used, flow control on OpenMQ, settings.

Limits of flow control are measured; where that is not possible they are those of the destination, which a client can
only lower.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
"""The number of consumers varies if it had changed at so many evaluations: fewer is a start or a reconnect."""
VARIES = 2
"""It varies only if the most consumers are so many times the fewest."""


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """How many consumers each connection has and had, by `keys`.

    Attributes:
        keys: (connections,) ascending.
        consumers: (connections,) Consumers now.
        fewest, most: (connections,) The fewest and the most consumers at any evaluation.
        changes: (connections,) Evaluations at which the number of consumers had changed.
        joined: (connections,) Consumers that came after the first evaluation of the connection.
        rate: (connections,) Messages per second since the last evaluation; NaN at the first one.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumers: Column = field(default_factory=lambda: np.empty(0))
    fewest: Column = field(default_factory=lambda: np.empty(0))
    most: Column = field(default_factory=lambda: np.empty(0))
    changes: Column = field(default_factory=lambda: np.empty(0))
    joined: Column = field(default_factory=lambda: np.empty(0))
    rate: Column = field(default_factory=lambda: np.empty(0))

    @property
    def varies(self) -> Mask:
        """(connections,) Whether the number of consumers is not known in advance."""
        return (self.changes >= CHANGES) & (self.most >= VARIES * self.fewest)

    def advance(
        self, connection: Keys, is_new: Mask, sent: Column, seconds: float
    ) -> "ConnectionCounts":
        """Return the counts after one more evaluation.

        Args:
            connection: (consumers,) The key of each one's connection, -1 where it is not known.
            is_new: (consumers,) Whether the consumer came since the last evaluation.
            sent: (consumers,) Messages sent to it since the last evaluation.
            seconds: Time since the last evaluation.
        """
        has_connection = connection >= 0
        keys, rows = np.unique(connection[has_connection], return_inverse=True)
        before = self._in_order_of(keys)
        is_known = ~np.isnan(before.consumers)
        consumers = np.bincount(rows, minlength=len(keys)).astype(np.float64)
        has_changed = is_known & (before.consumers != consumers)
        joined = sums(rows, is_new[has_connection], len(keys))
        messages = sums(rows, at_least_zero(sent[has_connection]), len(keys))
        rate = messages / seconds if seconds > 0 else np.full(len(keys), np.nan)
        return ConnectionCounts(
            keys=keys,
            consumers=consumers,
            fewest=np.fmin(before.fewest, consumers),
            most=np.fmax(before.most, consumers),
            changes=before.changes + has_changed,
            joined=before.joined + is_known * joined,
            rate=np.where(is_known, rate, np.nan),
        )

    def _in_order_of(self, keys: Keys) -> "ConnectionCounts":
        """Return the same counts by other keys; a new connection has no changes, and NaN for the rest."""
        origin = positions(self.keys, keys)
        return ConnectionCounts(
            keys=keys,
            consumers=take_or_fill(self.consumers, origin, np.nan),
            fewest=take_or_fill(self.fewest, origin, np.nan),
            most=take_or_fill(self.most, origin, np.nan),
            changes=take_or_fill(self.changes, origin, 0.0),
            joined=take_or_fill(self.joined, origin, 0.0),
            rate=take_or_fill(self.rate, origin, np.nan),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """How consumers, connections and sessions are used, continued from one evaluation to the next.

    Attributes:
        consumers: The consumers at the last evaluation.
        delivered: (consumers,) Messages delivered to each until then.
        connections: The consumers of each connection.
        behind: By session (on OpenMQ by connection), for how many evaluations in a row all its consumers buffered
            messages and took some, while more messages waited.
    """

    consumers: Index[object] = field(default_factory=Index.empty)
    delivered: Column = field(default_factory=lambda: np.empty(0))
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    behind: Mapping[int, int] = field(default_factory=dict)

    def advance(
        self, snapshot: Snapshot, seconds: float, queue_of: Positions
    ) -> "Usage":
        """Return the usage after one more evaluation.

        Args:
            snapshot: The poll that is evaluated.
            seconds: Time since the last evaluation.
            queue_of: (consumers,) The position of each one's queue, -1 where it is not known.
        """
        consumers = snapshot.consumers
        if consumers is None or "delivered" not in consumers or snapshot.broker is None:
            return self
        before = reindex(consumers.index, self.consumers, self.delivered, np.nan)
        is_new = consumers.index.positions_in(self.consumers) < 0
        sent = consumers["delivered"] - np.nan_to_num(before)
        connections = self.connections
        if snapshot.broker.kind.counted_flow:
            connections = connections.advance(
                snapshot.consumer_connection, is_new, sent, seconds
            )
        is_full = occupied(snapshot, consumers, queue_of) & ~is_new
        behind = sessions_behind(sessions(snapshot, consumers), is_full, sent)
        return Usage(
            consumers=consumers.index,
            # A copy: the column is a part of a large array, all of which would stay in memory.
            delivered=consumers["delivered"].copy(),
            connections=connections,
            behind={key: self.behind.get(key, 0) + 1 for key in behind.tolist()},
        )


def sessions_behind(session: Keys, is_full: Mask, sent: Column) -> Keys:
    """Return the sessions with two or more consumers that are all full, and yet get messages.

    Such a session is too slow: one thread serves all its consumers. A stalled one would get no messages.

    Args:
        session: (consumers,) The session of each, -1 where it is not known.
        is_full: (consumers,) Whether it buffers messages while more messages wait.
        sent: (consumers,) Messages sent to it since the last evaluation.
    """
    is_full = is_full & (session >= 0)
    keys, full_consumers = np.unique(session[is_full], return_counts=True)
    keys = keys[full_consumers >= 2]
    members = np.isin(session, keys)
    rows = np.searchsorted(keys, session[members])  # the session of each, in `keys`
    consumers = np.bincount(rows, minlength=len(keys))
    all_full = sums(rows, is_full[members], len(keys)) == consumers
    gets_messages = sums(rows, at_least_zero(sent[members]), len(keys)) > 0
    return keys[all_full & gets_messages]


def sums(groups: Positions, values: Column | Mask, size: int) -> Column:
    """(size,) The sum of the values in each group. groups: (values,) the position of each value's group."""
    return np.bincount(groups, weights=values, minlength=size).astype(np.float64)


def at_least_zero(values: Column) -> Column:
    """Return the values with 0 for those that are missing or negative."""
    return np.maximum(np.nan_to_num(values), 0)


def sessions(snapshot: Snapshot, consumers: Table[ConsumerRow]) -> Keys:
    """(consumers,) A number for each one's session, or connection where the broker shows no sessions; -1: not known."""
    if snapshot.broker is not None and not snapshot.broker.kind.shows_sessions:
        return snapshot.consumer_connection
    return consumers.index.column("session", session_number).astype(np.int64)


def session_number(consumer: ConsumerRow) -> float:
    """Return a number for the consumer's session, of as many bits as a float keeps; -1 where it is not known."""
    if not consumer.session:
        return -1.0
    return float(abs(hash(consumer.session)) >> 11)  # a float has 53 bits, a hash 64


def occupied(
    snapshot: Snapshot, consumers: Table[ConsumerRow], queue_of: Positions
) -> Mask:
    """(consumers,) Whether the consumer buffers messages while more wait in its queue that it would get.

    Not known, and so False, for a consumer with a filter: the waiting messages may not be for it.
    """
    queues = snapshot.queues
    if queues is None:
        return np.zeros(len(consumers), np.bool_)
    is_waiting = (ready(queues) > 0) & ~(queues["paused"] > 0)
    queue_waits = np.append(is_waiting, np.False_)[queue_of]  # unknown queue: False
    has_filter = consumers.index.column("selective", lambda row: bool(row.filter)) > 0
    return (consumers["buffered"] > 0) & ~has_filter & queue_waits


def ready(queues: Table[QueueRow]) -> Column:
    """(queues,) Messages that could be delivered now."""
    scheduled = np.nan_to_num(queues["scheduled"])
    return queues["messages"] - queues["delivering"] - scheduled


# --- flow control


@dataclass(frozen=True, slots=True)
class FlowControl:
    """Flow control of consumers and connections on OpenMQ.

    Attributes:
        consumers: The consumers of the poll.
        connection: (consumers,) The key of each one's connection.
        connections: The connections.
        clients: The series of the consumers' clients.
        windows: The measured limits.
        shares: For how much of the time consumers were at their limit, or starved.
        limit: (consumers,) The limit in force or its bound, in messages.
        mean_bytes: (consumers,) Mean size of a message.
        memory: (consumers,) Bytes that the operator gives the client; NaN where none are configured.
        connection_limit: (consumers,) The limit of the connection, as the operator configured it; else NaN.
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
    def on_connections(self) -> tuple[Mask, Positions]:
        """Return (consumers,) whether each is on a known connection, and for those that are, its position."""
        keys = self.connections.keys
        is_known = np.isin(self.connection, keys)
        rows = np.searchsorted(keys, self.connection[is_known])
        return is_known, rows.astype(np.intp)

    def sum(self, values: Column) -> Column:
        """(connections,) The sum over the consumers of each. values: (consumers,)."""
        is_known, rows = self.on_connections
        numbers = np.nan_to_num(values[is_known])
        return sums(rows, numbers, len(self.connections.keys))

    def smallest(self, values: Column) -> Column:
        """(connections,) The smallest value of the consumers of each; NaN where all are missing."""
        is_known, rows = self.on_connections
        smallest = np.full(len(self.connections.keys), np.nan)
        np.fmin.at(smallest, rows, values[is_known])  # a number goes before NaN
        return smallest

    def mean(self, values: Column) -> Column:
        """(connections,) The mean over the consumers of each that have a value; NaN where none has one."""
        consumers = self.sum((~np.isnan(values)).astype(np.float64))
        return ratio(self.sum(values), consumers)


def ratio(amounts: Column, counts: Column) -> Column:
    """Return the amounts divided by the counts; NaN where a count is 0 or missing."""
    has_any = counts > 0
    return np.where(has_any, amounts / np.where(has_any, counts, 1), np.nan)


def flow_control(
    snapshot: Snapshot,
    clients: Grouping[ClientSeries],
    judgement: Judgement,
    connections: ConnectionCounts,
) -> FlowControl:
    """Return the flow control of the consumers of this poll."""
    consumers = snapshot.consumers
    windows = judgement.openmq.windows
    if consumers is None:
        return FlowControl()
    limits, _ = windows.limits()
    window_rows = windows.index.positions(consumers.index.keys)
    # The limit that was measured counts; without a measurement, the highest that the destination allows.
    measured = np.append(limits, np.nan)[window_rows]
    bound, mean_bytes = of_destinations(snapshot, consumers)
    return FlowControl(
        consumers=consumers,
        connection=snapshot.consumer_connection,
        connections=connections,
        clients=clients,
        windows=windows,
        shares=judgement.shares,
        limit=np.where(np.isnan(measured), bound, measured),
        mean_bytes=mean_bytes,
        memory=clients.by_source(
            "client memory", lambda client: client.said.client_memory or np.nan
        ),
        connection_limit=clients.by_source(
            "connection flow limit",
            lambda client: client.said.connection_flow_limit or np.nan,
        ),
    )


def of_destinations(
    snapshot: Snapshot, consumers: Table[ConsumerRow]
) -> tuple[Column, Column]:
    """Return the settings and numbers of each consumer's destination.

    Returns:
        (consumers,) The highest limit that each can have unless its client raises it, in messages.
        (consumers,) Mean bytes of the messages that came to the destination.
    """
    addresses = snapshot.addresses
    queues = snapshot.queues
    if addresses is None or queues is None or "consumer_flow_limit" not in addresses:
        return np.full(len(consumers), np.nan), np.full(len(consumers), np.nan)
    row_of = {address.name: row for row, address in enumerate(addresses.index)}
    rows = np.array(
        [row_of.get(consumer.address, -1) for consumer in consumers.index], np.intp
    )
    configured = np.append(addresses["consumer_flow_limit"], np.nan)[rows]
    limit = np.where(np.isnan(configured), DEFAULT_LIMIT, configured)
    queue_rows = queues.index.positions(snapshot.consumer_queue)
    on_shared = np.append(is_shared_subscription(queues), np.False_)[queue_rows]
    mean_bytes = ratio(addresses["added_bytes"], addresses["messages_added"])
    return (
        np.where(on_shared, SHARED_LIMIT, limit),
        np.append(mean_bytes, np.nan)[rows],
    )


def is_shared_subscription(queues: Table[QueueRow]) -> Mask:
    """(queues,) Whether the queue is a subscription with two or more consumers."""
    is_subscription = queues.index.column(
        "subscription", lambda queue: queue.kind is QueueKind.SUBSCRIPTION
    )
    return (is_subscription > 0) & (queues["consumers"] >= 2)


# --- what the rules read


APPLICATIONS = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION})
"""Kinds of queue that applications configure."""


@dataclass(frozen=True, slots=True)
class Clients:
    """What the agent has learned about the clients.

    Attributes:
        grouping: Their series.
        queue: (clients,) The position of the queue, -1 where that is not shown by itself.
        window, largest: (clients,) Of one consumer, in messages: see `PrefetchEstimate`.
        longest: (clients,) The longest gap between acknowledgements that was learned, in seconds.
        arrivals: Consumers that came.
    """

    grouping: Grouping[ClientSeries] = field(default_factory=Grouping)
    queue: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    window: Column = field(default_factory=lambda: np.empty(0))
    largest: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    arrivals: ConsumerArrivals = field(default_factory=ConsumerArrivals)

    def protocols(self, clients: Positions) -> Iterator[str]:
        """Return the protocol of one consumer of each of these clients."""
        member = self.grouping.member
        # The last consumer of each client; one more at the end, for hidden consumers, whose member is -1.
        last_consumer = np.zeros(len(self.grouping.index) + 1, np.intp)
        last_consumer[member] = np.arange(len(member))
        consumers = self.grouping.source.rows[last_consumer[clients]]
        return (consumer.protocol for consumer in consumers)

    def of_queue(self, column: Column | Mask) -> Column:
        """(clients,) The number of each one's queue; NaN where the queue is not shown. column: (queues,)."""
        return np.append(column.astype(np.float64), np.nan)[self.queue]


@dataclass(frozen=True, slots=True)
class FindingContext:
    """All that the rules read.

    Attributes:
        name: The broker's name.
        snapshot: The poll that is evaluated.
        broker: The broker's own numbers.
        grouping: The series of the queues.
        queues: The queues.
        addresses: The addresses.
        address: (queues,) The position of each one's address, -1 where it is not known.
        deepest: (queues,) The most messages that were seen in the queue.
        clients: The clients; none where the broker shows no numbers of consumers.
        usage: How consumers, connections and sessions are used.
        flow: Flow control, on OpenMQ only.
        stale: (queues,) Messages that a limit removed while consumers buffer them.
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
        """(queues,) The number of each one's address. name: a column of the addresses."""
        return np.append(self.addresses[name], np.nan)[self.address]

    @property
    def applications(self) -> Mask:
        """(queues,) Whether the queue is one that applications configure, and shown by itself."""
        column = self.grouping.by_source(
            "of application",
            lambda series: series.kind in APPLICATIONS and not series.summed,
        )
        return column > 0

    @property
    def mean_bytes(self) -> Column:
        """(queues,) Mean bytes of the messages in the queue; NaN where it is empty."""
        return ratio(self.queues["bytes"], self.queues["messages"])


def clients_of(
    queue_of: Positions,
    queues: Grouping[QueueSeries],
    clients: Grouping[ClientSeries],
    judgement: Judgement,
) -> Clients:
    """Return what was learned about the clients. queue_of: (consumers,) the position of each one's queue."""
    estimates = judgement.prefetch.clients
    patience = judgement.patience
    index = clients.index
    return Clients(
        grouping=clients,
        queue=queues_of_clients(queue_of, queues, clients),
        window=reindex(index, estimates.index, estimates.window, np.nan),
        largest=reindex(index, estimates.index, estimates.largest, np.nan),
        longest=reindex(index, patience.index, patience.longest, np.nan),
        arrivals=judgement.prefetch.arrivals,
    )


def queues_of_clients(
    queue_of: Positions, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries]
) -> Positions:
    """(clients,) The position of each one's queue; -1 where several queues are shown as one, or the queue is hidden.

    queue_of: (consumers,) the position of each one's queue, -1 where it is not known.
    """
    # All consumers of a client are on the same queue, unless several queues are shown as one.
    queue = np.full(len(clients.index), -1, np.intp)
    has_both = (clients.member >= 0) & (queue_of >= 0)
    queue[clients.member[has_both]] = queue_of[has_both]
    is_alone = queues.by_source("alone", lambda series: not series.summed) > 0
    queue_is_alone = np.append(is_alone, np.False_)[queue]  # unknown queue: False
    return np.where(queue_is_alone, queue, -1)
