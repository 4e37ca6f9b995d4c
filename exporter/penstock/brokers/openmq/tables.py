"""Answers → tables of the model. Each builder keeps the index of its kind from poll to poll.

A queue destination is an address and its queue; a topic is an address, each of its subscriptions a queue of it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import numpy as np

from penstock import model
from penstock.brokers.clients import NameMap, client_name
from penstock.brokers.destinations import DestinationNames
from penstock.brokers.openmq.answers import (
    Connection,
    Consumer,
    Depth,
    Destination,
    Producer,
    Settings,
    Transaction,
    sent_at,
)
from penstock.brokers.openmq.depths import Carried, Name
from penstock.brokers.rows import columns, integers, matrix, positive, present, seconds
from penstock.brokers.tables import TableBuilder, subscription_row
from penstock.core.table import SLACK, Column, KeyAllocator, Keys, Matrix, RowT, Table
from penstock.model import AddressRow, ConsumerRow, QueueKind, QueueRow, RingSource

DEAD_MESSAGES = "mq.sys.dmq"
ADMIN = "admin"
"""The service through which the broker's own bridges and its administrators connect."""
SHARED = "(shared)"
"""Queue of a member whose subscription the broker does not show: several shared ones of a topic without a name."""
CONSUMERS_PAUSED = 1
PRODUCERS_PAUSED = 2
BOTH_PAUSED = 3


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a subscription, the connection that listed it, and the subscription where that is known."""

    row: Consumer
    connection: Connection | None
    subscription: Consumer | None


@dataclass(frozen=True, slots=True)
class Listing:
    """All consumers of one poll: those on their own, the subscriptions, and their members. A subscription whose members
    could not be listed is among `single` too, in their place.
    """

    single: Sequence[Consumer] = ()
    subscriptions: Sequence[Consumer] = ()
    members: Sequence[Member] = ()


def subscription_of(
    member: Consumer, connection: Connection | None, rows: Sequence[Consumer]
) -> Consumer | None:
    """The subscription of a member: by destination and name, then by client id; None where several would fit."""
    fitting = [
        row
        for row in rows
        if row.destination_name == member.destination_name
        and bool(row.durable) == bool(member.durable)
        and row.durable_name == member.durable_name
        and row.is_active
    ]
    if len(fitting) > 1 and connection is not None:
        fitting = [
            row for row in fitting if row.client_id == connection.client_id
        ] or fitting
    return fitting[0] if len(fitting) == 1 else None


def subscription_name(row: Consumer) -> str:
    """Client id and name as Artemis writes them, so that both brokers read alike; without a name its id."""
    if not row.durable_name:
        return str(row.consumer_id)
    return f"{row.client_id}.{row.durable_name}" if row.client_id else row.durable_name


class ConsumerBuilder:
    """Consumers → the consumer table, and what joins it to queues and connections."""

    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._table: TableBuilder[ConsumerRow] = TableBuilder()
        self._called = DestinationNames()

    def table(
        self, listing: Listing, called: DestinationNames, queues: KeyAllocator[str]
    ) -> tuple[Table[ConsumerRow], Keys, Keys]:
        """The table, and per consumer the keys of its queue and its connection, -1 where unknown."""
        consumers = [_on_its_own(row) for row in listing.single]
        consumers += listing.members
        rows = [consumer.row for consumer in consumers]
        keys = integers(rows, "consumer_id")
        changed = keys if called.both != self._called.both else None
        self._called = called
        table, order = self._table(
            keys,
            lambda position: self._row(consumers[position], called),
            consumer_columns(rows),
            changed,
        )
        queue = queues.find(
            [queue_key(consumer.row, consumer.subscription) for consumer in consumers]
        )
        connection = [
            (consumer.connection or consumer.row).connection_id or -1
            for consumer in consumers
        ]
        return table, queue[order], np.array(connection, np.int64)[order]

    def _row(self, consumer: Member, called: DestinationNames) -> ConsumerRow:
        row = consumer.row
        subscription = consumer.subscription
        origin = consumer.connection or row
        host = origin.host or ""
        user = origin.user or ""
        service = origin.service_name or ""
        client_id = origin.client_id or (subscription.client_id if subscription else "")
        client = client_name(client_id, user, host, service, self._names)
        address = intern(called.address(row.destination_type, row.destination_name))
        if row.destination_type == "q":
            queue = address
        else:
            queue = intern(subscription_name(subscription) if subscription else SHARED)
        return ConsumerRow(
            str(row.consumer_id),
            queue,
            address,
            intern(client),
            "",
            intern(service),
            intern(user),
            intern(host),
            row.selector or "",
        )


def _on_its_own(row: Consumer) -> Member:
    """A consumer that is listed itself: the one of a topic is its own subscription."""
    subscription = None if row.destination_type == "q" else row
    return Member(row, None, subscription)


def consumer_columns(rows: Sequence[Consumer]) -> dict[str, Column]:
    """The numbers of consumers, under the model's names."""
    numbers = columns(
        rows,
        "buffered",
        "delivered",
        "waiting",
        "last_acknowledgement",
        *_AS_THEY_ARE,
        "created",
    )
    delivered = unwrapped(numbers["delivered"])
    buffered = numbers["buffered"]
    numbers["last_acknowledgement"] = seconds(numbers["last_acknowledgement"])
    numbers["created"] = seconds(numbers["created"])
    numbers["delivered"] = delivered
    numbers["acknowledged"] = np.maximum(delivered - buffered, 0.0)
    numbers["waiting"] = np.maximum(numbers["waiting"] - buffered, 0.0)
    return numbers


def queue_key(row: Consumer, subscription: Consumer | None) -> str:
    """The text by which the key of a consumer's queue is found."""
    if row.destination_type == "q":
        return f"q {row.destination_name}"
    return f"s {subscription.consumer_id}" if subscription else ""


class ConnectionBuilder:
    """Connections, producers and transactions → their tables."""

    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._connections: TableBuilder[model.ConnectionRow] = TableBuilder()
        self._producers: TableBuilder[model.ProducerRow] = TableBuilder()
        self._transactions: TableBuilder[model.TransactionRow] = TableBuilder()
        self._called = DestinationNames()

    def table(self, rows: Sequence[Connection]) -> Table[model.ConnectionRow]:
        numbers = columns(rows, "consumers", "producers")
        return self._connections(
            integers(rows, "connection_id"),
            lambda i: self._connection(rows[i]),
            numbers,
        )[0]

    def producers(
        self,
        rows: Sequence[Producer],
        by_id: Mapping[int, Connection],
        called: DestinationNames,
    ) -> tuple[Table[model.ProducerRow], Keys]:
        """The table, and per producer the key of its connection, -1 where unknown."""
        keys = integers(rows, "producer_id")
        connections = np.fromiter(
            (row.connection_id or -1 for row in rows), np.int64, len(rows)
        )
        produced, created = matrix(rows, ("produced", "created"))
        numbers = {"produced": unwrapped(produced), "created": seconds(created)}
        changed = keys if called.both != self._called.both else None
        self._called = called

        def producer(position: int) -> model.ProducerRow:
            via = by_id.get(int(connections[position]))
            return self._producer(rows[position], via, called)

        table, order = self._producers(keys, producer, numbers, changed)
        return table, connections[order]

    def transactions(
        self, rows: Sequence[Transaction], by_end: Mapping[tuple[str, int], Connection]
    ) -> tuple[Table[model.TransactionRow], Keys]:
        """The table, and per transaction the key of its connection; by_end: connections by the client's host, port."""
        connections = [by_end.get(row.remote or ("", 0)) for row in rows]
        numbers = columns(rows, "state", "messages", "acknowledgements", "created")
        numbers["created"] = seconds(numbers["created"])
        numbers["distributed"] = np.array([bool(row.xid) for row in rows], np.float64)
        table, order = self._transactions(
            integers(rows, "transaction_id"),
            lambda position: self._transaction(rows[position], connections[position]),
            numbers,
        )
        ids = [
            connection.connection_id if connection else -1 for connection in connections
        ]
        return table, np.array(ids, np.int64)[order]

    def _connection(self, row: Connection) -> model.ConnectionRow:
        user = row.user or ""
        host = row.host or ""
        service = row.service_name or ""
        client = client_name(row.client_id, user, host, service, self._names)
        return model.ConnectionRow(
            str(row.connection_id),
            intern(client),
            intern(service),
            intern(user),
            intern(host),
        )

    def _producer(
        self, row: Producer, via: Connection | None, called: DestinationNames
    ) -> model.ProducerRow:
        address = intern(called.address(row.destination_type, row.destination_name))
        client = client_name(
            via.client_id if via else "",
            row.user,
            row.host,
            row.service_name,
            self._names,
        )
        return model.ProducerRow(str(row.producer_id), address, intern(client), "")

    def _transaction(
        self, row: Transaction, via: Connection | None
    ) -> model.TransactionRow:
        host = row.remote[0] if row.remote else ""
        client_id = row.client_id or (via.client_id if via else "")
        client = client_name(
            client_id, row.user, host, via.service_name if via else "", self._names
        )
        return model.TransactionRow(
            str(row.transaction_id), intern(client), row.user or ""
        )


@dataclass(frozen=True, slots=True)
class DestinationsRead:
    """The destinations of one poll, and what is known of each."""

    rows: Sequence[Destination]
    depths: Sequence[Carried]
    """(rows,)"""
    settings: Mapping[Name, Settings]
    """As last read; a new destination has none yet."""
    settings_read: Mapping[Name, float]
    """The clock when the settings of each were read."""
    called: DestinationNames


@dataclass(slots=True)
class Destinations:
    """Destinations and subscriptions → the tables of addresses and queues."""

    queue_keys: KeyAllocator[str] = field(default_factory=KeyAllocator)
    """Keys of queues, by `q NAME` and `s CONSUMER-ID`."""
    _addresses: TableBuilder[AddressRow] = field(default_factory=TableBuilder)
    _address_keys: KeyAllocator[str] = field(default_factory=KeyAllocator)
    _queues: TableBuilder[QueueRow] = field(default_factory=TableBuilder)
    _made: dict[tuple[object, ...], Any] = field(default_factory=dict)
    """Rows by the texts that they have: nearly all are those of the poll before."""

    def tables(
        self,
        read: DestinationsRead,
        listing: Listing,
        single: Sequence[Consumer] | None,
    ) -> tuple[Table[AddressRow], Table[QueueRow]]:
        """Addresses, and queue destinations with subscriptions. single: consumers on their own; None: not read."""
        rows = read.rows
        settings = [read.settings.get(row.key) for row in rows]
        buffered = held(rows, read.depths, single)
        numbers = destination_columns(rows, read.depths, settings, buffered)
        numbers["settings_stamp"] = np.array(
            [read.settings_read.get(row.key, np.nan) for row in rows], np.float64
        )
        addresses = [
            self._address(row, setting, read.called)
            for row, setting in zip(rows, settings, strict=True)
        ]
        subscriptions = _subscriptions(listing)
        queues = [
            self._once(_queue, row.name, row.temporary is True, setting)
            for row, setting in zip(rows, settings, strict=True)
            if row.type == "q"
        ]
        queues += [self._subscription(row, read.called) for row in subscriptions]
        if len(self._made) > 4 * (len(rows) + len(queues)) + SLACK:
            self._made.clear()
        queue_columns = _with_subscriptions(
            _queue_columns(rows, numbers), subscription_columns(subscriptions, listing)
        )
        return (
            self._address_table(rows, addresses, numbers),
            self._queue_table(rows, subscriptions, queues, queue_columns),
        )

    def _address(
        self, row: Destination, settings: Settings | None, called: DestinationNames
    ) -> AddressRow:
        name = called.address(row.type, row.name)
        policy = settings.limit_behavior.lower() if settings else ""
        return self._once(AddressRow, name, policy)

    def _subscription(self, row: Consumer, called: DestinationNames) -> QueueRow:
        return self._once(
            subscription_row,
            subscription_name(row),
            called.address("t", row.destination_name),
            bool(row.durable),
            row.selector or "",
        )

    def _address_table(
        self,
        rows: Sequence[Destination],
        addresses: Sequence[AddressRow],
        numbers: Mapping[str, Column],
    ) -> Table[AddressRow]:
        """addresses: the row of each destination."""
        keys = self._address_keys([f"{row.type} {row.name}" for row in rows])
        return self._addresses.of_made(keys, addresses, present(numbers))[0]

    def _queue_table(
        self,
        rows: Sequence[Destination],
        subscriptions: Sequence[Consumer],
        queues: Sequence[QueueRow],
        numbers: Mapping[str, Column],
    ) -> Table[QueueRow]:
        """queues: the rows of the queue destinations, and behind them of the subscriptions."""
        texts = [f"q {row.name}" for row in rows if row.type == "q"]
        texts += [f"s {row.consumer_id}" for row in subscriptions]
        return self._queues.of_made(self.queue_keys(texts), queues, present(numbers))[0]

    def _once(self, make: Callable[..., RowT], *texts: object) -> RowT:
        """The row that `make` makes of `texts`; made once, then kept."""
        key = make, *texts
        row: RowT | None = self._made.get(key)
        if row is None:
            row = self._made[key] = make(*texts)
        return row


def _subscriptions(listing: Listing) -> list[Consumer]:
    """Subscriptions of topics: the listed ones, and each consumer of a topic that is a subscription of its own."""
    own = [
        row
        for row in listing.single
        if row.destination_type != "q" and not row.is_subscription
    ]
    return [*listing.subscriptions, *own]


def _queue_columns(
    rows: Sequence[Destination], numbers: Mapping[str, Column]
) -> dict[str, Column]:
    """The columns of queues. numbers: of all destinations, in the order of `rows`."""
    is_queue = np.array([row.type == "q" for row in rows], np.bool_)
    queues = [row for row in rows if row.type == "q"]
    result = {name: numbers[name][is_queue] for name in _OF_BOTH}
    result["bytes"] = numbers["memory_bytes"][is_queue]
    result["added"] = numbers["messages_added"][is_queue]
    result["scheduled"] = np.nan_to_num(numbers["scheduled"][is_queue])
    result["last_acknowledgement"] = np.full(len(queues), np.nan)
    result["next_sent"] = next_sent(queues)
    (result["active_consumers"],) = matrix(queues, ("num_active_consumers",))
    return result


def _with_subscriptions(
    queues: Mapping[str, Column], subscriptions: Mapping[str, Column]
) -> dict[str, Column]:
    """The columns of queues, each with that of the subscriptions behind it; NaN where these have no such number."""
    nothing = np.full(len(subscriptions["messages"]), np.nan)
    return {
        name: np.concatenate([column, subscriptions.get(name, nothing)])
        for name, column in queues.items()
    }


_AS_THEY_ARE = ("flow_paused", "acknowledge_mode")
_LIMITS = (
    "limit_messages",
    "limit_bytes",
    "message_limit_bytes",
    "consumer_flow_limit",
    "max_producers",
)
_COUNTED = (
    "messages_added",
    "removed",
    "added_bytes",
    "removed_bytes",
    "producers",
    "consumers",
    "temporary",
)
_OF_BOTH = (
    "messages",
    "delivering",
    "uncommitted",
    "exact",
    "paused",
    "removed",
    "consumers",
)
"""Columns that a queue has in common with its destination."""


def held(
    rows: Sequence[Destination],
    depths: Sequence[Carried],
    consumers: Sequence[Consumer] | None,
) -> dict[str, Column]:
    """delivering: buffered by consumers; scheduled: not due, and committed. NaN where unknown.

    As the broker reports where it was read in this poll, else what the consumers of a queue buffer together; consumers:
    None = not read.
    """
    buffered = _buffered_by_queue(consumers or ())
    delivering = np.empty(len(rows))
    scheduled = np.empty(len(rows))
    for position, (row, depth) in enumerate(zip(rows, depths, strict=True)):
        of_consumers = buffered.get(row.name, 0.0)
        if not depth.exact and row.type == "q" and consumers is not None:
            delivering[position] = of_consumers
            scheduled[position] = depth.scheduled
            continue
        in_both = _both_delayed_and_uncommitted(depth, of_consumers)
        delivering[position] = max(_delivering_at_least(depth) + in_both, 0.0)
        scheduled[position] = depth.scheduled - in_both
    return {"delivering": delivering, "scheduled": scheduled}


def _buffered_by_queue(consumers: Sequence[Consumer]) -> dict[str, float]:
    """How many messages the consumers of each queue buffer together, by its name."""
    buffered: dict[str, float] = {}
    for row in consumers:
        name = row.destination_name
        if row.destination_type == "q" and name:
            buffered[name] = buffered.get(name, 0.0) + row.buffered
    return buffered


def _delivering_at_least(depth: Depth) -> float:
    """The broker's pending messages without those that are delayed, and without those that are uncommitted."""
    # Versions before 5 know no delayed delivery: there is none of it in the sum.
    delayed = depth.scheduled if depth.scheduled > 0 else 0.0
    return depth.pending - delayed - depth.uncommitted


def _both_delayed_and_uncommitted(depth: Depth, buffered: float) -> float:
    """How many uncommitted messages have a delay: they are in both numbers of the broker, and once in their sum.

    As many as make the rest fit best to the number that the consumers buffer.
    """
    least = _delivering_at_least(depth)
    if not least < buffered:
        return 0.0
    delayed = depth.scheduled if depth.scheduled > 0 else 0.0
    return min(max(buffered, 0.0) - least, delayed, depth.uncommitted)


def destination_columns(
    rows: Sequence[Destination],
    depths: Sequence[Carried],
    settings: Sequence[Settings | None],
    buffered: Mapping[str, Column],
) -> dict[str, Column]:
    """The columns of addresses. settings: of each row, None while unknown. buffered: the columns of `held`."""
    # The broker returns -1 where there is no limit, for some 0.
    limits = {name: positive(_settings_column(settings, name)) for name in _LIMITS}
    depth = columns(depths, "bytes", "messages", "uncommitted", "exact")
    used = depth.pop("bytes")
    flags = {
        "dead_letters": _settings_column(settings, "dead_letters"),
        "topic": np.array([float(row.type == "t") for row in rows]),
        "internal": np.array([float(row.name.startswith("mq.")) for row in rows]),
    }
    result = {
        "memory_bytes": used,
        "memory_used_ratio": used / limits["limit_bytes"],
    }
    result |= limits
    result |= depth
    result |= buffered
    result |= flags
    result |= _states(rows)
    result |= columns(rows, *_COUNTED)
    return result


def _settings_column(settings: Sequence[Settings | None], name: str) -> Column:
    """One of the settings of each destination; NaN while they are unknown."""
    values = [
        np.nan if row_settings is None else float(getattr(row_settings, name))
        for row_settings in settings
    ]
    return np.array(values, np.float64)


def subscription_columns(
    rows: Sequence[Consumer], listing: Listing
) -> dict[str, Column]:
    """Numbers of topic subscriptions: those of a shared or durable one come with its row, as a consumer's do."""
    consumers = Counter(row.consumer_id for row in listing.single)
    consumers |= Counter(
        member.subscription.consumer_id
        for member in listing.members
        if member.subscription is not None
    )
    numbers = columns(rows, "delivered", "buffered", "waiting", "last_acknowledgement")
    buffered = numbers["buffered"]
    delivered = unwrapped(numbers["delivered"])
    members = [float(consumers[row.consumer_id]) for row in rows]
    # A subscription's backlog holds the messages in delivery; so does a consumer's.
    messages = np.maximum(numbers["waiting"], buffered)
    acknowledged_at = seconds(numbers["last_acknowledgement"])
    return {
        "messages": messages,
        "delivering": buffered,
        "scheduled": np.zeros(len(rows)),
        "removed": np.maximum(delivered - buffered, 0.0),
        "consumers": np.array(members, np.float64),
        "exact": np.ones(len(rows)),
        "last_acknowledgement": acknowledged_at,
        "next_sent": next_sent(rows),
    }


def next_sent(rows: Sequence[Destination] | Sequence[Consumer]) -> Column:
    """(rows,) Seconds: when the next message of each was sent, by its sender's clock; NaN where unknown."""
    milliseconds = [sent_at(row.next_message_id) for row in rows]
    return seconds(np.array(milliseconds, np.float64))


def _queue(name: str, temporary: bool, settings: Settings | None) -> QueueRow:
    kind = _queue_kind(name, temporary)
    has_dead_letters = settings is not None and settings.dead_letters is True
    is_dead_letter = kind is QueueKind.DEAD_LETTER
    dead = DEAD_MESSAGES if has_dead_letters and not is_dead_letter else ""
    return QueueRow(
        name,
        name,
        "anycast",
        not temporary,
        temporary,
        "",
        kind,
        RingSource.NONE,
        dead,
        dead,
    )


def _queue_kind(name: str, temporary: bool) -> QueueKind:
    if name == DEAD_MESSAGES:
        return QueueKind.DEAD_LETTER
    if name.startswith("mq."):
        return QueueKind.INTERNAL
    return QueueKind.TEMPORARY if temporary else QueueKind.USER


def unwrapped(counter: Column) -> Column:
    """The broker counts per consumer and producer in 32 bits with a sign."""
    return np.where(counter < 0, counter + 2.0**32, counter)


def _states(rows: Sequence[Destination]) -> dict[str, Column]:
    (state,) = matrix(rows, ("state",))

    def one_of(*states: int) -> Matrix:
        return np.where(np.isnan(state), np.nan, np.isin(state, states))

    return {
        "paused": one_of(CONSUMERS_PAUSED, BOTH_PAUSED),
        "producers_paused": one_of(PRODUCERS_PAUSED, BOTH_PAUSED),
    }
