"""
Answers → tables of the model. Each builder keeps the index of its kind from poll to poll, so that texts are read
once in a thing's life and unchanged ones cost a comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.model import AddressRow, ConnectionRow, ConsumerRow, LinkRow, ProducerRow, QueueRow
from penstock.sources.artemis import answers as wire
from penstock.sources.artemis import requests as ask
from penstock.sources.artemis.kinds import MIRROR, STORE_AND_FORWARD, Roles, ordinary_kind, queue_kind, ring_source
from penstock.sources.clients import NameMap, client_name, remote_host
from penstock.table import Column, Index, Keys, Positions, Serials, Table

ANONYMOUS = "(anonymous)"
"""Address of a producer that names one with each message."""

TextT = TypeVar("TextT")
QueueText = wire.QueueTexts | wire.QueueAttributes

_CONSUMER_FIELDS = {
    "buffered": "messages_in_transit",
    "buffered_bytes": "messages_in_transit_size",
    "delivered": "messages_delivered",
    "acknowledged": "messages_acknowledged",
    "awaiting_commit": "messages_acknowledged_awaiting_commit",
    "last_delivery": "last_delivered_time",
    "last_acknowledgement": "last_acknowledged_time",
}
_QUEUE_FIELDS = {
    "messages": "message_count",
    "delivering": "delivering_count",
    "scheduled": "scheduled_count",
    "consumers": "consumer_count",
    "paused": "paused",
    "added": "messages_added",
    "acknowledged": "messages_acked",
    "expired": "messages_expired",
    "killed": "messages_killed",
    "ring_limit": "ring_size",
    "last_value": "last_value",
    "exclusive": "exclusive",
    "grouped": "group_rebalance",
    "max_consumers": "max_consumers",
    "consumers_before_dispatch": "consumers_before_dispatch",
}
# The same out of a pattern read: `Paused` is not asked there, and Acknowledged has its full name.
_QUEUE_ATTRIBUTE_FIELDS = {
    column: {"messages_acked": "messages_acknowledged"}.get(name, name)
    for column, name in _QUEUE_FIELDS.items()
    if column != "paused"
}
_SIZE_FIELDS = {
    "acknowledge_attempts": "acknowledge_attempts",
    "bytes": "persistent_size",
    "delivering_bytes": "delivering_size",
}
_ADDRESS_FIELDS = {
    "paused": "paused",
    "paging": "paging",
    "memory_bytes": "address_size",
    "limit_percent": "address_limit_percent",
    "pages": "number_of_pages",
    "messages_added": "routed_message_count",
    "messages_unrouted": "unrouted_message_count",
    "page_read_limit_bytes": "max_page_read_bytes",
    "page_read_limit_messages": "max_page_read_messages",
}
_ADDRESS_ATTRIBUTE_FIELDS = {
    column: {"unrouted_message_count": "un_routed_message_count"}.get(name, name)
    for column, name in _ADDRESS_FIELDS.items()
}


@dataclass(frozen=True, slots=True)
class Page(Generic[TextT]):
    """Some rows of a listing: their ids, their numbers as (fields, rows), and the texts of ids not seen before."""

    ids: Keys
    numbers: NDArray[np.float64]
    fresh: Mapping[int, TextT]
    total: int
    unreadable: int

    def __len__(self) -> int:
        return len(self.ids)


class Consumers:
    """listConsumers → the consumer table. Ids are unique on a broker and never used again."""

    def __init__(self, names: NameMap, *, numbers: bool) -> None:
        self._names = names
        self._fields = _CONSUMER_FIELDS if numbers else {}
        self._numbers = wire.ListingDecoder(wire.ConsumerNumbers)
        self._texts = wire.ListingDecoder(wire.ConsumerTexts)
        self._index: Index[ConsumerRow] = Index.empty()

    def page(self, reply: wire.Reply) -> Page[ConsumerRow]:
        numbers = self._numbers(reply, "listConsumers")
        ids = wire.integers(numbers.rows, "id")
        fresh: dict[int, ConsumerRow] = {}
        if (self._index.positions(ids) < 0).any():
            known = set(self._index.keys.tolist())
            texts = self._texts(reply, "listConsumers").rows
            fresh = {row.id: self._row(row) for row in texts if row.id not in known}
        fields = list(self._fields.values())
        values = wire.matrix(numbers.rows, fields) if fields else np.empty((0, len(ids)))
        return Page(ids, values, fresh, numbers.total, numbers.unreadable)

    def table(self, pages: Sequence[Page[ConsumerRow]]) -> Table[ConsumerRow]:
        index, order, numbers = _merge(self._index, pages)
        self._index = index
        columns = _columns(self._fields, numbers, order)
        for time in ("last_delivery", "last_acknowledgement"):
            if time in columns:
                columns[time] = _seconds(columns[time])
        return Table(index, columns)

    def _row(self, row: wire.ConsumerTexts) -> ConsumerRow:
        user = row.user or row.validated_user
        return ConsumerRow(
            id=str(row.id),
            queue=row.queue,
            address=row.address,
            client=client_name(row.client_id, user, row.remote_address, row.protocol, self._names),
            session=row.session,
            protocol=row.protocol,
            user=user,
            remote_host=remote_host(row.remote_address),
            filter=row.filter,
        )


class Queues:
    """listQueues, or a pattern read in its place, → the queue table."""

    def __init__(self) -> None:
        self._numbers = wire.ListingDecoder(wire.QueueNumbers)
        self._texts = wire.ListingDecoder(wire.QueueTexts)
        self._attributes = wire.ReadDecoder(wire.QueueAttributes)
        self._index: Index[QueueRow] = Index.empty()
        self._roles = Roles()
        self._texts_by_id: dict[int, QueueText] = {}
        self._keys_by_name: dict[str, int] = {}
        self._named: Index[QueueRow] | None = None

    def page(self, reply: wire.Reply, *, refresh: bool) -> Page[QueueText]:
        """`refresh`: read the texts of known queues anew too, for what an operator may have changed."""
        numbers = self._numbers(reply, "listQueues")
        ids = wire.integers(numbers.rows, "id")
        fresh: dict[int, QueueText] = {}
        if refresh or (self._index.positions(ids) < 0).any():
            fresh = {row.id: row for row in self._texts(reply, "listQueues").rows}
        return Page(
            ids, wire.matrix(numbers.rows, list(_QUEUE_FIELDS.values())), fresh, numbers.total, numbers.unreadable
        )

    def attributes(self, reply: wire.Reply) -> Page[QueueText]:
        found = self._attributes(reply, "queue attributes")[1]
        numbers = wire.matrix(found.rows, list(_QUEUE_ATTRIBUTE_FIELDS.values()))
        return Page(
            wire.integers(found.rows, "id"), numbers, {row.id: row for row in found.rows}, found.total, found.unreadable
        )

    def table(self, pages: Sequence[Page[QueueText]], roles: Roles, *, from_attributes: bool) -> Table[QueueRow]:
        keys = np.concatenate([page.ids for page in pages])
        for page in pages:
            self._texts_by_id.update(page.fresh)
        changed = self._changed(roles, any(page.fresh for page in pages))
        index, order = self._index.follow(keys, lambda new: self._rows([int(keys[i]) for i in new]), changed=changed)
        if index is not self._index:
            self._texts_by_id = {int(key): self._texts_by_id[int(key)] for key in index.keys}
        self._index = index
        fields = _QUEUE_ATTRIBUTE_FIELDS if from_attributes else _QUEUE_FIELDS
        columns = _columns(fields, np.concatenate([page.numbers for page in pages], axis=1), order)
        columns["ring_limit"] = np.where(columns["ring_limit"] < 0, np.nan, columns["ring_limit"])
        return Table(index, columns)

    def keys_of(self, names: Sequence[str]) -> Keys:
        """Keys of queues by name (unique on a broker), -1 where there is none now."""
        if self._named is not self._index:
            self._keys_by_name = {row.name: int(key) for key, row in zip(self._index.keys, self._index, strict=True)}
            self._named = self._index
        return np.fromiter((self._keys_by_name.get(name, -1) for name in names), np.int64, len(names))

    def _changed(self, roles: Roles, texts_read: bool) -> Keys:
        """Keys of known queues whose rows read otherwise under these roles and texts."""
        if roles is self._roles and not texts_read:
            return np.empty(0, np.int64)
        self._roles = roles
        known = self._index.keys.tolist()
        rows = self._rows(known)
        return np.array(
            [key for key, old, new in zip(known, self._index, rows, strict=True) if old != new], dtype=np.int64
        )

    def _rows(self, ids: Sequence[int]) -> list[QueueRow]:
        dead, expiry = self._roles.dead_letter_addresses(), self._roles.expiry_addresses()
        return [self._row(self._texts_by_id[i], dead, expiry) for i in ids]

    def _row(self, row: QueueText, dead: frozenset[str], expiry: frozenset[str]) -> QueueRow:
        roles = self._roles
        routing_type = row.routing_type.lower()
        kind = queue_kind(
            row.name,
            row.address,
            routing_type,
            temporary=row.temporary,
            internal=row.internal_queue,
            retroactive=row.address in roles.retroactive,
        ) or ordinary_kind(row.address, routing_type, dead, expiry)
        dead_letter, expires_to = ("" if to == row.address else to for to in roles.dead_letters.get(row.name, ("", "")))
        return QueueRow(
            name=row.name,
            address=row.address,
            routing_type=routing_type,
            durable=row.durable,
            temporary=row.temporary,
            filter=row.filter or "",
            kind=kind,
            ring_source=ring_source(row.ring_size, roles.ring_defaults.get(row.address), auto_created=row.auto_created),
            dead_letter_address=dead_letter,
            expiry_address=expires_to,
        )


@dataclass(slots=True)
class ByQueueName:
    """Turns the answer of a pattern read over queues into values by queue name; MBean names are parsed once."""

    _queue_of: dict[str, str] = field(default_factory=dict)

    def names(self, mbeans: Sequence[str]) -> list[str]:
        known = self._queue_of
        names = [known.get(mbean) or known.setdefault(mbean, ask.properties(mbean)["queue"]) for mbean in mbeans]
        if len(known) > 2 * len(mbeans) + 1024:
            self._queue_of = dict(zip(mbeans, names, strict=True))
        return names


def size_columns(keys: Keys, numbers: NDArray[np.float64], queues: Table[QueueRow]) -> dict[str, Column]:
    """Columns of the sizes that stand by `keys`, by the rows of `queues`; NaN where a queue came or went in between."""
    at = queues.index.positions(keys)
    here = at >= 0
    columns = {}
    for name, values in zip(_SIZE_FIELDS, numbers, strict=True):
        column = np.full(len(queues), np.nan)
        column[at[here]] = values[here]
        columns[name] = column
    return columns


def size_matrix(rows: Sequence[wire.QueueSizes]) -> NDArray[np.float64]:
    return wire.matrix(rows, list(_SIZE_FIELDS.values()))


class Addresses:
    """listAddresses (from 2.41 on), or a pattern read, → the address table."""

    def __init__(self) -> None:
        self._listing = wire.ListingDecoder(wire.AddressNumbers)
        self._attributes = wire.ReadDecoder(wire.AddressAttributes)
        self._serials = Serials()
        self._index: Index[AddressRow] = Index.empty()
        self.retroactive: frozenset[str] = frozenset()

    def page(self, reply: wire.Reply) -> wire.Rows[wire.AddressNumbers]:
        return self._listing(reply, "listAddresses")

    def attributes(self, reply: wire.Reply) -> wire.Rows[wire.AddressAttributes]:
        return self._attributes(reply, "address attributes")[1]

    def table(
        self,
        rows: Sequence[wire.AddressNumbers | wire.AddressAttributes],
        settings: Mapping[str, wire.AddressSettings],
        blocked: Mapping[str, bool] | None,
    ) -> Table[AddressRow]:
        listed = not rows or isinstance(rows[0], wire.AddressNumbers)
        names = [row.name if isinstance(row, wire.AddressNumbers) else row.address for row in rows]
        retroactive = frozenset(n for n, row in zip(names, rows, strict=True) if row.retroactive_resource)
        if retroactive != self.retroactive:
            self.retroactive = retroactive
        policies = [_policy(settings.get(name)) for name in names]
        keys = self._serials(names)
        known = self._index.positions(keys)
        stale = [
            key
            for key, at, policy in zip(keys.tolist(), known.tolist(), policies, strict=True)
            if at >= 0 and self._index.rows[at].policy != policy
        ]
        index, order = self._index.follow(
            keys,
            lambda new: [AddressRow(names[i], policies[i]) for i in new],
            changed=np.array(stale, dtype=np.int64),
        )
        self._index = index
        fields = _ADDRESS_FIELDS if listed else _ADDRESS_ATTRIBUTE_FIELDS
        columns = _columns(fields, wire.matrix(rows, list(fields.values())), order)
        ordered = [names[i] for i in order.tolist()]
        columns["temporary"] = np.array(
            [isinstance(rows[i], wire.AddressNumbers) and rows[i].temporary for i in order.tolist()], dtype=np.float64
        )
        columns |= _limits(columns.pop("limit_percent"), [settings.get(name) for name in ordered])
        if blocked is not None:
            columns["producers_paused"] = np.array([blocked.get(name, np.nan) for name in ordered], dtype=np.float64)
        return Table(index, {name: column for name, column in columns.items() if not _all_missing(column)})


def _policy(settings: wire.AddressSettings | None) -> str:
    return settings.address_full_message_policy.lower() if settings else ""


def _limits(percent: Column, settings: Sequence[wire.AddressSettings | None]) -> dict[str, Column]:
    """Limits of each address; the ratio only where there is a limit (the broker says 0 % where there is none)."""
    size = _limit([s.max_size_bytes if s else np.nan for s in settings])
    messages = _limit([s.max_size_messages if s else np.nan for s in settings])
    limited = ~np.isnan(size) | ~np.isnan(messages)
    return {
        "limit_bytes": size,
        "limit_messages": messages,
        "memory_used_ratio": np.where(limited, percent / 100, np.nan),
    }


def _limit(values: Sequence[float]) -> Column:
    limits = np.array(values, dtype=np.float64)
    return np.where(limits > 0, limits, np.nan)


class Connections:
    """listConnections, listSessions and listProducers → connections, producers, and whose connection a session is."""

    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._decode_connections = wire.ListingDecoder(wire.ConnectionListed)
        self._decode_sessions = wire.ListingDecoder(wire.SessionListed)
        self._decode_producers = wire.ListingDecoder(wire.ProducerListed)
        self._serials = Serials()
        self._producer_serials = Serials()
        self._index: Index[ConnectionRow] = Index.empty()
        self._producer_index: Index[ProducerRow] = Index.empty()
        self._connection_of: dict[str, str] = {}

    def connections(self, reply: wire.Reply) -> wire.Rows[wire.ConnectionListed]:
        return self._decode_connections(reply, "listConnections")

    def sessions(self, reply: wire.Reply) -> wire.Rows[wire.SessionListed]:
        return self._decode_sessions(reply, "listSessions")

    def producers(self, reply: wire.Reply) -> wire.Rows[wire.ProducerListed]:
        return self._decode_producers(reply, "listProducers")

    def table(
        self, connections: Sequence[wire.ConnectionListed], sessions: Sequence[wire.SessionListed]
    ) -> Table[ConnectionRow]:
        """Connections that carry sessions; Core clients hold others, for the topology, which say nothing."""
        self._connection_of = {session.id: session.connection_id for session in sessions}
        used = {session.connection_id: session for session in sessions}
        listed = [c for c in connections if c.connection_id in used]
        keys = self._serials([c.connection_id for c in listed])
        self._index, _ = self._index.follow(
            keys, lambda new: [self._row(listed[i], used[listed[i].connection_id]) for i in new]
        )
        at = self._index.positions(self._serials.find([s.connection_id for s in sessions]))
        here = at >= 0
        size = len(self._index)
        sums = wire.matrix(sessions, ["consumer_count", "producer_count"])
        columns: dict[str, Column] = {
            name: np.bincount(at[here], weights=values[here], minlength=size).astype(np.float64)
            for name, values in zip(("consumers", "producers"), sums, strict=True)
        }
        columns["sessions"] = np.bincount(at[here], minlength=size).astype(np.float64)
        return Table(self._index, columns)

    def producer_table(self, producers: Sequence[wire.ProducerListed]) -> Table[ProducerRow]:
        keys = self._producer_serials([f"{p.session} {p.id}" for p in producers])
        self._producer_index, order = self._producer_index.follow(
            keys, lambda new: [self._producer(producers[i]) for i in new]
        )
        fields = {"produced": "msg_sent", "produced_bytes": "msg_size_sent"}
        columns = _columns(fields, wire.matrix(producers, list(fields.values())), order)
        return Table(self._producer_index, columns)

    def keys_of(self, sessions: Sequence[str]) -> Keys:
        """Keys of the connections of `sessions`, -1 where unknown."""
        return self._serials.find([self._connection_of.get(session, "") for session in sessions])

    def _row(self, connection: wire.ConnectionListed, session: wire.SessionListed) -> ConnectionRow:
        user = session.user or connection.users
        client = client_name(
            session.client_id or connection.client_id, user, connection.remote_address, connection.protocol, self._names
        )
        return ConnectionRow(
            connection.connection_id, client, connection.protocol, user, remote_host(connection.remote_address)
        )

    def _producer(self, row: wire.ProducerListed) -> ProducerRow:
        user = row.user or row.validated_user
        client = client_name(row.client_id, user, row.remote_address, row.protocol, self._names)
        address = ANONYMOUS if not row.address or row.address == "ANONYMOUS" else row.address
        return ProducerRow(row.id, address, client, row.session)


@dataclass(frozen=True, slots=True)
class LinkState:
    """What the MBeans of bridges and broker connections say; `connected` None where the version does not."""

    name: str
    kind: str
    started: bool
    connected: bool | None
    queue: str


def link_table(states: Sequence[LinkState], queues: Table[QueueRow] | None, before: Index[LinkRow]) -> Table[LinkRow]:
    """
    Links with their state and what waits for the peer, which is the depth of the queue they read.

    A cluster connection has no state of its own and keeps dead peers in its list: its store-and-forward queue has a
    consumer exactly while the peer is connected. Bridges before 2.41 are judged the same way.
    """
    at = {row.name: i for i, row in enumerate(queues.index)} if queues else {}

    def number(column: str, queue: str) -> float:
        return float(queues[column][at[queue]]) if queues is not None and queue in at else np.nan

    found: dict[tuple[str, str], tuple[float, float]] = {}
    for state in states:
        attached = number("consumers", state.queue)
        connected = state.connected if state.connected is not None else attached > 0
        mirror = MIRROR + state.name in at
        kind = "mirror" if mirror else state.kind
        queue = MIRROR + state.name if mirror else state.queue
        found[state.name, kind] = (float(state.started and connected), number("messages", queue))
    for name in at:
        if name.startswith(STORE_AND_FORWARD):
            up = number("consumers", name)
            found[name.removeprefix(STORE_AND_FORWARD), "cluster"] = (float(up > 0), number("messages", name))
    rows = [LinkRow(name, kind) for name, kind in found]
    index = before if list(before) == rows else Index.of(rows)
    values = np.array(list(found.values()), dtype=np.float64).reshape(-1, 2)
    return Table(index, {"up": values[:, 0], "pending": values[:, 1]})


def _merge(
    before: Index[ConsumerRow], pages: Sequence[Page[ConsumerRow]]
) -> tuple[Index[ConsumerRow], Positions, NDArray[np.float64]]:
    keys = np.concatenate([page.ids for page in pages])
    fresh: dict[int, ConsumerRow] = {}
    for page in pages:
        fresh.update(page.fresh)
    index, order = before.follow(keys, lambda new: [fresh[int(keys[i])] for i in new])
    return index, order, np.concatenate([page.numbers for page in pages], axis=1)


def _columns(fields: Mapping[str, str], numbers: NDArray[np.float64], order: Positions) -> dict[str, Column]:
    """Columns by the model's names in the order of the index; one that is missing for every row is left out."""
    columns = {name: values[order] for name, values in zip(fields, numbers, strict=True)}
    return {name: column for name, column in columns.items() if name == "ring_limit" or not _all_missing(column)}


def _all_missing(column: Column) -> bool:
    return len(column) > 0 and bool(np.isnan(column).all())


def _seconds(milliseconds: Column) -> Column:
    """Broker's clock in seconds; 0 means never."""
    return np.where(milliseconds > 0, milliseconds / 1000, np.nan)
