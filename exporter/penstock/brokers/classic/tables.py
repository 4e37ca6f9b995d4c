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
from penstock.core.table import Column, KeyAllocator, Keys, Table
from penstock.model import AddressRow, ConsumerRow, QueueKind, QueueRow, RingSource

ADVISORY = "ActiveMQ.Advisory."
"""Topics in which the broker reports on itself; each OpenWire connection has a consumer there."""
DEAD_LETTERS = ("ActiveMQ.DLQ", "DLQ.")
"""How dead-letter queues are called by default: until their settings say that they are."""


class MBeanName(NamedTuple):
    """What the name of an MBean says; type: of its destination, empty: it has none. client: the id of its connection.
    Names and ids have other characters in place of some.
    """

    type: str
    destination: str
    client: str = ""
    id: str = ""
    connector: str = ""

    @property
    def kind(self) -> str:
        """Of its destination, q or t; empty: it has none."""
        return self.type.removeprefix("Temp")[:1].lower()

    @property
    def temporary(self) -> bool:
        return self.type.startswith("Temp")

    @property
    def session(self) -> str:
        """Of a consumer or producer; empty where its id does not have it."""
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
    return MBeanName(
        *(
            next(filter(None, (key_if_any(mbean, one) for one in key.split("|"))), "")
            for key in keys
        )
    )


@dataclass(frozen=True, slots=True)
class Link:
    """A connection. begun: of its oldest transaction that is open, by the broker's clock in seconds; NaN: none."""

    key: int
    row: model.ConnectionRow
    begun: float

    def client(self, at: MBeanName) -> str:
        """Of an endpoint. An id that was made up is no name: where its connection is not known, its client is not."""
        return self.row.client or (
            "unknown" if at.client.startswith("ID_") else at.client
        )


NO_LINK = Link(-1, model.ConnectionRow("", "", "", "", ""), NAN)
Links = Mapping[str, Link]
"""By the id of its client, as written in names of MBeans."""
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
        # One that comes again has another port.
        keys = self._keys([f"{at.client} {row.remote_address}" for at, row in rows])
        made = [self._made(at, row) for at, row in rows]
        begun = [
            NAN if row.transaction_age is None else clock - row.transaction_age / 1000
            for _, row in rows
        ]
        links = map(Link, keys.tolist(), made, begun)
        by_client = {at.client: link for (at, _), link in zip(rows, links, strict=True)}
        return self._table(keys, made.__getitem__, {})[0], by_client

    def _made(self, at: MBeanName, row: Connection) -> model.ConnectionRow:
        user = row.user_name or ""
        host = remote_host(row.remote_address or "")
        client = client_name(
            row.client_id, user, row.remote_address, at.connector, self._names
        )
        connector = intern(at.connector.upper())
        return model.ConnectionRow(
            row.client_id or at.client,
            intern(client),
            connector,
            intern(user),
            intern(host),
        )


class ConsumerBuilder:
    def __init__(self) -> None:
        self._keys: KeyAllocator[MBeanName] = KeyAllocator()
        self._table: TableBuilder[ConsumerRow] = TableBuilder()
        self._called = DestinationNames()
        self._unlinked = np.empty(0, np.int64)
        """Keys of those whose connection was not known."""

    def __call__(
        self, rows: Sequence[Consuming], links: Links, queues: "Destinations"
    ) -> tuple[Table[ConsumerRow], Keys, Keys]:
        """The table, and per consumer the keys of its queue and its connection, -1 where unknown."""
        via = [links.get(at.client, NO_LINK) for at, _ in rows]
        keys = self._keys([at for at, _ in rows])
        said = columns(
            [row for _, row in rows], "buffered", "delivered", "acknowledged"
        )
        said["transaction_begun"] = np.array([link.begun for link in via])
        changed = keys if queues.called.both != self._called.both else self._unlinked
        table, order = self._table(
            keys, lambda i: _consumer(*rows[i], via[i], queues), said, changed
        )
        connection = np.array([link.key for link in via], np.int64)
        self._called = queues.called
        self._unlinked = keys[connection < 0]
        queue = queues.keys.find([queue_text(at, row) for at, row in rows])
        return table, queue[order], connection[order]


def _consumer(
    at: MBeanName, row: Consumer, link: Link, queues: "Destinations"
) -> ConsumerRow:
    address = queues.address(at)
    return ConsumerRow(
        id=at.id,
        queue=subscription_name(at, row) if isinstance(row, Subscriber) else address,
        address=address,
        client=link.client(at),
        session=at.session,
        protocol=link.row.protocol,
        user=link.row.user,
        remote_host=link.row.remote_host,
        filter=row.selector or "",
    )


def subscription_name(at: MBeanName, row: Subscriber) -> str:
    """Client id and name as the other kinds have them, so that all read alike; without a name the consumer's id."""
    return (
        intern(f"{at.client}.{row.subscription_name}")
        if row.subscription_name
        else at.id
    )


def queue_text(at: MBeanName, row: Consumer) -> str:
    """By which the key of a consumer's queue is found."""
    return (
        f"s {at.destination} {subscription_name(at, row)}"
        if isinstance(row, Subscriber)
        else f"q {at.destination}"
    )


class ProducerBuilder:
    def __init__(self) -> None:
        self._keys: KeyAllocator[MBeanName] = KeyAllocator()
        self._table: TableBuilder[model.ProducerRow] = TableBuilder()

    def __call__(
        self,
        rows: Sequence[tuple[MBeanName, Producer]],
        links: Links,
        called: DestinationNames,
    ) -> tuple[Table[model.ProducerRow], Keys, dict[str, float]]:
        """The table, per producer the key of its connection, and how many producers wait, by address."""
        sends_to = [
            called.address(at.kind or "q", row.destination_name) for at, row in rows
        ]
        via = [links.get(at.client, NO_LINK) for at, _ in rows]
        keys = self._keys(
            [
                at._replace(destination=to)
                for (at, _), to in zip(rows, sends_to, strict=True)
            ]
        )
        blocked: dict[str, float] = {}
        for (_, row), to in zip(rows, sends_to, strict=True):
            if row.blocked is True:
                blocked[to] = blocked.get(to, 0.0) + 1.0

        def made(i: int) -> model.ProducerRow:
            at = rows[i][0]
            return model.ProducerRow(
                at.id, intern(sends_to[i]), via[i].client(at), at.session
            )

        table, order = self._table(
            keys, made, columns([row for _, row in rows], "produced")
        )
        return table, np.array([link.key for link in via], np.int64)[order], blocked


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
    """The agent's clock when they were read, all of them."""
    keys: KeyAllocator[str] = field(default_factory=KeyAllocator)
    """Of queues, by `queue_text`."""
    called: DestinationNames = field(default_factory=DestinationNames)
    _addresses: TableBuilder[AddressRow] = field(default_factory=TableBuilder)
    _address_keys: KeyAllocator[Named] = field(default_factory=KeyAllocator)
    _queues: TableBuilder[QueueRow] = field(default_factory=TableBuilder)

    def address(self, at: MBeanName) -> str:
        said = self.settings.get((at.kind, at.destination), _UNKNOWN)
        return intern(self.called.address(at.kind, said.name or at.destination))

    def tables(
        self,
        rows: Sequence[tuple[MBeanName, Destination]],
        subscribers: Sequence[tuple[MBeanName, Subscriber]],
        blocked: Mapping[str, float] | None,
    ) -> tuple[Table[AddressRow], Table[QueueRow]]:
        """blocked: producers that wait, by address; None: not read."""
        said = [
            self.settings.get((at.kind, at.destination), _UNKNOWN) for at, _ in rows
        ]
        addresses = [
            AddressRow(self.address(at), _POLICIES.get(one.producer_flow_control, ""))
            for (at, _), one in zip(rows, said, strict=True)
        ]
        numbers = columns([row for _, row in rows], *_OF_EACH)
        seldom = columns(said, *_SELDOM)
        of_queue = np.array([at.kind == "q" for at, _ in rows], np.bool_)
        limit = positive(seldom["limit_bytes"])
        of_addresses = {
            "messages_added": numbers["added"],
            **{name: numbers[name] for name in ("consumers", "paused")},
            **{
                name: seldom[name]
                for name in ("memory_bytes", "limit_percent", "producers")
            },
            "limit_bytes": limit,
            "settings_stamp": np.where(
                [one is _UNKNOWN for one in said], NAN, self.settings_stamp
            ),
            "memory_used_ratio": seldom["memory_bytes"] / limit,
            "temporary": np.array([float(at.temporary) for at, _ in rows]),
            "topic": 1.0 - of_queue,
            "blocked_producers": np.array(
                [
                    NAN if blocked is None else blocked.get(row.name, 0.0)
                    for row in addresses
                ]
            ),
        }
        at_queues = np.flatnonzero(of_queue)
        behind = subscription_columns([row for _, row in subscribers])
        nothing = np.full(len(subscribers), NAN)
        whole = numbers | {"bytes": seldom["bytes"]}
        joined = {
            name: np.concatenate([c[at_queues], behind.get(name, nothing)])
            for name, c in whole.items()
        }
        texts = [f"q {rows[i][0].destination}" for i in at_queues.tolist()]
        texts += [queue_text(at, row) for at, row in subscribers]
        queues = [
            _queue(rows[i][0], addresses[i].name, said[i]) for i in at_queues.tolist()
        ]
        queues += [_subscription(at, row, self.address(at)) for at, row in subscribers]
        address_keys = self._address_keys([(at.kind, at.destination) for at, _ in rows])
        return (
            self._addresses.of_made(address_keys, addresses, present(of_addresses))[0],
            self._queues.of_made(self.keys(texts), queues, present(joined))[0],
        )


_POLICIES: Mapping[object, str] = {True: "block", False: "page"}
"""What a full destination does, by its flow control of producers."""


def subscription_columns(rows: Sequence[Subscriber]) -> dict[str, Column]:
    pending, buffered, added, removed = matrix(
        rows, ("pending", "buffered", "added", "acknowledged")
    )
    active = np.array([float(row.active is not False) for row in rows])
    numbers = {"messages": pending + buffered, "delivering": buffered, "added": added}
    return numbers | {"removed": removed, "consumers": active}


def _queue(at: MBeanName, address: str, said: Settings) -> QueueRow:
    if said.dead_letter is True or (
        said is _UNKNOWN and at.destination.startswith(DEAD_LETTERS)
    ):
        kind = QueueKind.DEAD_LETTER
    else:
        kind = QueueKind.TEMPORARY if at.temporary else QueueKind.USER
    return QueueRow(
        address,
        address,
        "anycast",
        not at.temporary,
        at.temporary,
        "",
        kind,
        RingSource.NONE,
        "",
        "",
    )


def _subscription(at: MBeanName, row: Subscriber, address: str) -> QueueRow:
    return subscription_row(
        subscription_name(at, row),
        address,
        bool(row.subscription_name),
        row.selector or "",
    )
