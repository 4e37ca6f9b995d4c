"""Answers → tables of the model. Each builder keeps the index of its kind from poll to poll.

A queue is an address and its queue; a topic is an address, each of its subscriptions a queue of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import NamedTuple

import numpy as np

from penstock import model
from penstock.brokers.classic.answers import (
    Connection,
    Consumer,
    Destination,
    Producer,
    Settings,
    Subscriber,
)
from penstock.brokers.clients import NameMap, client_name, remote_host
from penstock.brokers.destinations import DestinationNames
from penstock.brokers.requests import key_if_any
from penstock.brokers.rows import NAN, columns, matrix, positive, present
from penstock.brokers.tables import TableBuilder, subscription_row
from penstock.core.table import Column, KeyAllocator, Keys, Mask, Table
from penstock.model import AddressRow, ConsumerRow, QueueKind, QueueRow, RingSource

ADVISORY = "ActiveMQ.Advisory."
"""Topics in which the broker reports on itself; each OpenWire connection has a consumer there."""
DEAD_LETTERS = ("ActiveMQ.DLQ", "DLQ.")
"""How dead-letter queues are called by default: until their settings say that they are."""


class MBeanName(NamedTuple):
    """The parts of an MBean's name. type: of its destination, empty: it has none. client: the id of its connection.
    Names and ids have other characters in place of some.
    """

    type: str
    destination: str
    client: str = ""
    id: str = ""
    connector: str = ""

    @property
    def kind(self) -> str:
        """The kind of its destination, q or t; empty: it has none."""
        return self.type.removeprefix("Temp")[:1].lower()

    @property
    def temporary(self) -> bool:
        return self.type.startswith("Temp")

    @property
    def session(self) -> str:
        """The session of a consumer or producer; empty where its id does not have it."""
        return self.id.rpartition("_")[0] if self.id.startswith("ID_") else ""


@lru_cache(1 << 17)
def mbean_name(mbean: str) -> MBeanName:
    keys = (
        "destinationType",
        "destinationName",
        "clientId|connectionName",
        "consumerId|producerId",
        "connectorName",
    )
    return MBeanName(*(_first_value(mbean, key.split("|")) for key in keys))


def _first_value(mbean: str, keys: Sequence[str]) -> str:
    """The value of the first of these keys that an MBean's name has; empty: it has none of them."""
    for key in keys:
        value = key_if_any(mbean, key)
        if value:
            return value
    return ""


@dataclass(frozen=True, slots=True)
class Link:
    """A connection. begun: of its oldest transaction that is open, by the broker's clock in seconds; NaN: none."""

    key: int
    row: model.ConnectionRow
    begun: float

    def client(self, mbean: MBeanName) -> str:
        """The client of an endpoint. A generated id is no name: without its connection, its client is unknown."""
        if self.row.client:
            return self.row.client
        return "unknown" if mbean.client.startswith("ID_") else mbean.client


NO_LINK = Link(-1, model.ConnectionRow("", "", "", "", ""), NAN)
Links = Mapping[str, Link]
"""Connections by the id of their client, as written in names of MBeans."""
Consuming = tuple[MBeanName, Consumer]
Named = tuple[str, str]
"""Type (q or t) and name of a destination, as written in the name of its MBean."""


class ConnectionBuilder:
    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._keys: KeyAllocator[str] = KeyAllocator()
        self._table: TableBuilder[model.ConnectionRow] = TableBuilder()

    def __call__(
        self, rows: Sequence[tuple[MBeanName, Connection]], clock: float
    ) -> tuple[Table[model.ConnectionRow], Links]:
        """clock: the broker's, seconds."""
        # A client that connects again has another port.
        keys = self._keys(
            [f"{mbean.client} {row.remote_address}" for mbean, row in rows]
        )
        made = [self._made(mbean, row) for mbean, row in rows]
        by_client = {
            mbean.client: Link(key, connection, _transaction_begun(row, clock))
            for (mbean, row), key, connection in zip(
                rows, keys.tolist(), made, strict=True
            )
        }
        return self._table(keys, made.__getitem__, {})[0], by_client

    def _made(self, mbean: MBeanName, row: Connection) -> model.ConnectionRow:
        user = row.user_name or ""
        host = remote_host(row.remote_address or "")
        client = client_name(
            row.client_id, user, row.remote_address, mbean.connector, self._names
        )
        connector = intern(mbean.connector.upper())
        return model.ConnectionRow(
            row.client_id or mbean.client,
            intern(client),
            connector,
            intern(user),
            intern(host),
        )


def _transaction_begun(row: Connection, clock: float) -> float:
    """Seconds: when the oldest open transaction of a connection began, by the broker's clock; NaN: it has none."""
    if row.transaction_age is None:
        return NAN
    return clock - row.transaction_age / 1000


class ConsumerBuilder:
    def __init__(self) -> None:
        self._keys: KeyAllocator[MBeanName] = KeyAllocator()
        self._table: TableBuilder[ConsumerRow] = TableBuilder()
        self._called = DestinationNames()
        self._unlinked = np.empty(0, np.int64)
        """Keys of the consumers whose connection was not known."""

    def __call__(
        self, rows: Sequence[Consuming], links: Links, queues: "Destinations"
    ) -> tuple[Table[ConsumerRow], Keys, Keys]:
        """The table, and per consumer the keys of its queue and its connection, -1 where unknown."""
        via = [links.get(mbean.client, NO_LINK) for mbean, _ in rows]
        keys = self._keys([mbean for mbean, _ in rows])
        numbers = columns(
            [row for _, row in rows], "buffered", "delivered", "acknowledged"
        )
        numbers["transaction_begun"] = np.array([link.begun for link in via])
        changed = keys if queues.called.both != self._called.both else self._unlinked
        table, order = self._table(
            keys, lambda i: _consumer(*rows[i], via[i], queues), numbers, changed
        )
        connection = np.array([link.key for link in via], np.int64)
        self._called = queues.called
        self._unlinked = keys[connection < 0]
        queue = queues.keys.find([queue_text(mbean, row) for mbean, row in rows])
        return table, queue[order], connection[order]


def _consumer(
    mbean: MBeanName, row: Consumer, link: Link, queues: "Destinations"
) -> ConsumerRow:
    address = queues.address(mbean)
    queue = address
    if isinstance(row, Subscriber):
        queue = subscription_name(mbean, row)
    connection = link.row
    return ConsumerRow(
        mbean.id,
        queue,
        address,
        link.client(mbean),
        mbean.session,
        connection.protocol,
        connection.user,
        connection.remote_host,
        row.selector or "",
    )


def subscription_name(mbean: MBeanName, row: Subscriber) -> str:
    """Client id and name as the other kinds have them, so that all read alike; without a name the consumer's id."""
    if not row.subscription_name:
        return mbean.id
    return intern(f"{mbean.client}.{row.subscription_name}")


def queue_text(mbean: MBeanName, row: Consumer) -> str:
    """The text by which the key of a consumer's queue is found."""
    if isinstance(row, Subscriber):
        return f"s {mbean.destination} {subscription_name(mbean, row)}"
    return f"q {mbean.destination}"


@dataclass(frozen=True, slots=True)
class ClassicProducers:
    """The producers of one reading."""

    table: Table[model.ProducerRow]
    connections: Keys
    """(producers,) The key of its connection, -1 where unknown."""
    blocked: Mapping[str, float]
    """How many producers wait, by address."""


class ProducerBuilder:
    def __init__(self) -> None:
        self._keys: KeyAllocator[MBeanName] = KeyAllocator()
        self._table: TableBuilder[model.ProducerRow] = TableBuilder()

    def __call__(
        self,
        rows: Sequence[tuple[MBeanName, Producer]],
        links: Links,
        called: DestinationNames,
    ) -> ClassicProducers:
        """The producers with their connections, and how many of them wait for each address."""
        addresses = [
            called.address(mbean.kind or "q", row.destination_name)
            for mbean, row in rows
        ]
        via = [links.get(mbean.client, NO_LINK) for mbean, _ in rows]
        keys = self._keys(
            [
                mbean._replace(destination=address)
                for (mbean, _), address in zip(rows, addresses, strict=True)
            ]
        )

        def producer(position: int) -> model.ProducerRow:
            mbean = rows[position][0]
            address = intern(addresses[position])
            client = via[position].client(mbean)
            return model.ProducerRow(mbean.id, address, client, mbean.session)

        numbers = columns([row for _, row in rows], "produced")
        table, order = self._table(keys, producer, numbers)
        connections = np.array([link.key for link in via], np.int64)[order]
        return ClassicProducers(table, connections, _blocked_producers(rows, addresses))


def _blocked_producers(
    rows: Sequence[tuple[MBeanName, Producer]], addresses: Sequence[str]
) -> dict[str, float]:
    """How many producers the broker blocks, by address. addresses: the one of each producer."""
    blocked: dict[str, float] = {}
    for (_, row), address in zip(rows, addresses, strict=True):
        if row.blocked is True:
            blocked[address] = blocked.get(address, 0.0) + 1.0
    return blocked


_OF_EACH = (
    "messages",
    "delivering",
    "added",
    "removed",
    "expired",
    "consumers",
    "paused",
)
_SELDOM = ("bytes", "memory_bytes", "limit_bytes", "limit_percent", "producers")
_UNKNOWN = Settings()


@dataclass(slots=True)
class Destinations:
    """Destinations and subscriptions → the tables of addresses and queues."""

    settings: dict[Named, Settings] = field(default_factory=dict)
    settings_stamp: float = NAN
    """The agent's clock when the settings of all destinations were read."""
    keys: KeyAllocator[str] = field(default_factory=KeyAllocator)
    """Keys of queues, by `queue_text`."""
    called: DestinationNames = field(default_factory=DestinationNames)
    _addresses: TableBuilder[AddressRow] = field(default_factory=TableBuilder)
    _address_keys: KeyAllocator[Named] = field(default_factory=KeyAllocator)
    _queues: TableBuilder[QueueRow] = field(default_factory=TableBuilder)

    def address(self, mbean: MBeanName) -> str:
        name = self._settings_of(mbean).name or mbean.destination
        return intern(self.called.address(mbean.kind, name))

    def _settings_of(self, mbean: MBeanName) -> Settings:
        """The settings of a destination as last read; `_UNKNOWN` until they are read."""
        return self.settings.get((mbean.kind, mbean.destination), _UNKNOWN)

    def tables(
        self,
        rows: Sequence[tuple[MBeanName, Destination]],
        subscribers: Sequence[tuple[MBeanName, Subscriber]],
        blocked: Mapping[str, float] | None,
    ) -> tuple[Table[AddressRow], Table[QueueRow]]:
        """The addresses, and the queues with the subscriptions behind them.

        blocked: producers that wait, by address; None: not read.
        """
        mbeans = [mbean for mbean, _ in rows]
        numbers = columns([row for _, row in rows], *_OF_EACH)
        slow_numbers = columns([self._settings_of(mbean) for mbean in mbeans], *_SELDOM)
        addresses = [self._address_row(mbean) for mbean in mbeans]
        address_columns = self._address_columns(mbeans, numbers, slow_numbers)
        address_columns["blocked_producers"] = _waiting_producers(addresses, blocked)
        keys = self._address_keys([(mbean.kind, mbean.destination) for mbean in mbeans])
        address_table, _ = self._addresses.of_made(
            keys, addresses, present(address_columns)
        )
        queue_numbers = numbers | {"bytes": slow_numbers["bytes"]}
        return address_table, self._queue_table(mbeans, subscribers, queue_numbers)

    def _queue_table(
        self,
        mbeans: Sequence[MBeanName],
        subscribers: Sequence[tuple[MBeanName, Subscriber]],
        numbers: Mapping[str, Column],
    ) -> Table[QueueRow]:
        """The queues among these destinations, and behind them the subscriptions.

        numbers: columns of the destinations.
        """
        is_queue = np.array([mbean.kind == "q" for mbean in mbeans], np.bool_)
        queues = [mbean for mbean in mbeans if mbean.kind == "q"]
        texts = [f"q {mbean.destination}" for mbean in queues]
        texts += [queue_text(mbean, row) for mbean, row in subscribers]
        rows = [
            _queue(mbean, self.address(mbean), self._settings_of(mbean))
            for mbean in queues
        ]
        rows += [
            _subscription(mbean, row, self.address(mbean)) for mbean, row in subscribers
        ]
        queue_columns = _queue_columns(
            numbers, is_queue, [row for _, row in subscribers]
        )
        return self._queues.of_made(self.keys(texts), rows, present(queue_columns))[0]

    def _address_row(self, mbean: MBeanName) -> AddressRow:
        flow_control = self._settings_of(mbean).producer_flow_control
        return AddressRow(self.address(mbean), _POLICIES.get(flow_control, ""))

    def _address_columns(
        self,
        mbeans: Sequence[MBeanName],
        numbers: Mapping[str, Column],
        slow_numbers: Mapping[str, Column],
    ) -> dict[str, Column]:
        """The columns of addresses, without their blocked producers.

        numbers: of each poll. slow_numbers: as old as the settings.
        """
        limit_bytes = positive(slow_numbers["limit_bytes"])
        is_unknown = [self._settings_of(mbean) is _UNKNOWN for mbean in mbeans]
        columns = {name: numbers[name] for name in ("consumers", "paused")}
        columns |= {
            name: slow_numbers[name]
            for name in ("memory_bytes", "limit_percent", "producers")
        }
        columns["messages_added"] = numbers["added"]
        columns["limit_bytes"] = limit_bytes
        columns["settings_stamp"] = np.where(is_unknown, NAN, self.settings_stamp)
        columns["memory_used_ratio"] = slow_numbers["memory_bytes"] / limit_bytes
        columns["temporary"] = np.array([float(mbean.temporary) for mbean in mbeans])
        columns["topic"] = np.array([float(mbean.kind != "q") for mbean in mbeans])
        return columns


def _waiting_producers(
    addresses: Sequence[AddressRow], blocked: Mapping[str, float] | None
) -> Column:
    """(addresses,) How many producers wait to send to each; NaN where this was not read."""
    if blocked is None:
        return np.full(len(addresses), NAN)
    return np.array([blocked.get(address.name, 0.0) for address in addresses])


def _queue_columns(
    numbers: Mapping[str, Column], is_queue: Mask, subscribers: Sequence[Subscriber]
) -> dict[str, Column]:
    """The columns of queues, and behind them of subscriptions; NaN where a subscription has no such number.

    numbers: columns of all destinations. is_queue: (destinations,) True for a queue.
    """
    behind = subscription_columns(subscribers)
    nothing = np.full(len(subscribers), NAN)
    return {
        name: np.concatenate([column[is_queue], behind.get(name, nothing)])
        for name, column in numbers.items()
    }


_POLICIES: Mapping[object, str] = {True: "block", False: "page"}
"""The policy of a full destination, by its flow control of producers."""


def subscription_columns(rows: Sequence[Subscriber]) -> dict[str, Column]:
    pending, buffered, added, removed = matrix(
        rows, ("pending", "buffered", "added", "acknowledged")
    )
    active = np.array([float(row.active is not False) for row in rows])
    numbers = {"messages": pending + buffered, "delivering": buffered, "added": added}
    return numbers | {"removed": removed, "consumers": active}


def _queue(mbean: MBeanName, address: str, settings: Settings) -> QueueRow:
    return QueueRow(
        address,
        address,
        "anycast",
        not mbean.temporary,
        mbean.temporary,
        "",
        _queue_kind(mbean, settings),
        RingSource.NONE,
        "",
        "",
    )


def _queue_kind(mbean: MBeanName, settings: Settings) -> QueueKind:
    """The kind of a queue: by its settings, and while these are unknown by its name."""
    is_called_dead_letter = mbean.destination.startswith(DEAD_LETTERS)
    if settings.dead_letter is True or (settings is _UNKNOWN and is_called_dead_letter):
        return QueueKind.DEAD_LETTER
    return QueueKind.TEMPORARY if mbean.temporary else QueueKind.USER


def _subscription(mbean: MBeanName, row: Subscriber, address: str) -> QueueRow:
    return subscription_row(
        subscription_name(mbean, row),
        address,
        bool(row.subscription_name),
        row.selector or "",
    )
