"""Answers → tables of the model. Each builder keeps the index of its kind from poll to poll, so that texts are read
once in a thing's life and unchanged ones cost a comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from sys import intern
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis.answers import BridgeAttributes
from penstock.brokers.artemis.kinds import (
    MIRROR,
    STORE_AND_FORWARD,
    Roles,
    ordinary_kind,
    queue_kind,
    ring_source,
)
from penstock.brokers.artemis.listings import (
    ListingDecoder,
    ListingPage,
    Numbers,
    NumbersReader,
)
from penstock.brokers.clients import NameMap, client_name, remote_host
from penstock.brokers.replies import Decoder
from penstock.brokers.rows import (
    Rows,
    columns_of,
    integers,
    lost_rows,
    matrix,
    positive,
    present,
    seconds,
)
from penstock.brokers.sight import Sight
from penstock.brokers.tables import TableBuilder
from penstock.columns.addresses import AddressColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Kind
from penstock.core.table import (
    EXACT,
    Column,
    Index,
    KeyAllocator,
    Keys,
    Positions,
    Table,
    looked_up,
    take_or_fill,
)
from penstock.model import (
    AddressRow,
    ConsumerRow,
    LinkRow,
    ProducerRow,
    QueueKind,
    QueueRow,
)

QueueText = wire.QueueTexts | wire.QueueAttributes

CONSUMER_FIELDS = tuple(ConsumerColumns.from_request("listConsumers"))
QUEUE_FIELDS = tuple(QueueColumns.from_request("listQueues"))
ADDRESS_FIELDS = (
    *AddressColumns.from_request("listAddresses"),
    "retroactive",
    "temporary",
)
"""Columns that a listing gives, in the order of the values of its `Numbers`; a pattern read lacks some."""
CONSUMER_TIMES = tuple(
    name for name in CONSUMER_FIELDS if ConsumerColumns.specs()[name].kind is Kind.TIME
)
SETTINGS_FIELDS = tuple(AddressColumns.from_request("getAddressSettingsAsJSON"))
"""Columns that are made of the settings of an address."""


def _ids(rows: Sequence[msgspec.Struct]) -> Keys:
    return integers(rows, "id")


def _texts_of(field: str) -> Callable[[Sequence[msgspec.Struct]], NDArray[np.object_]]:
    """A function that returns a text field of the rows: (rows,)."""
    return lambda rows: np.array(list(map(attrgetter(field), rows)), np.object_)


def _attribute_matrix(
    rows: Sequence[msgspec.Struct], row: type[msgspec.Struct], columns: Sequence[str]
) -> NDArray[np.float64]:
    """Like the matrix of a listing with these columns; NaN where a pattern read has no such field."""
    shared = [name for name in columns if name in row.__struct_fields__]
    values = np.full((len(columns), len(rows)), np.nan)
    values[[columns.index(name) for name in shared]] = matrix(rows, shared)
    return values


class ConsumerBuilder:
    """listConsumers → the consumer table. Ids are unique on a broker and never used again."""

    def __init__(self, names: NameMap, *, numbers: bool) -> None:
        self._names = names
        self._fields = CONSUMER_FIELDS if numbers else ()
        self._numbers = NumbersReader(
            ListingDecoder(wire.ConsumerNumbers, "listConsumers"), _ids, self._values
        )
        self._texts = ListingDecoder(wire.ConsumerTexts, "listConsumers")
        self._index: Index[ConsumerRow] = Index.empty()
        # Two proofs: while sessions are closed the broker may sort the listing wrongly.
        self.sight = Sight(lambda keys, _: keys, proofs=2)

    def page(self, listing: ListingPage) -> Numbers:
        numbers = self._numbers(listing)
        new = np.flatnonzero(self._index.positions(numbers.keys) < 0)
        wanted = set(numbers.keys[new].tolist())
        texts = self._texts.at_least(listing, new, len(numbers))
        return replace(
            numbers, fresh={row.id: self._row(row) for row in texts if row.id in wanted}
        )

    def table(self, pages: Sequence[Numbers]) -> Table[ConsumerRow]:
        fresh = {key: row for page in pages for key, row in page.fresh.items()}
        listed = self._numbers.together(pages)
        keys, numbers = self.sight.whole(
            [len(page) for page in pages], *listed, lost=lost_rows(pages)
        )
        self._index, order = self._index.advance(
            keys, lambda new: [fresh[int(keys[i])] for i in new]
        )
        columns = columns_of([*self._fields, "orphaned"], numbers, order)
        if not columns["orphaned"].any():
            del columns["orphaned"]
        if len(self.sight.leaving):
            is_leaving = np.isin(self._index.keys, self.sight.leaving)
            columns["leaving"] = is_leaving.astype(np.float64)
        for time in CONSUMER_TIMES:
            if time in columns:
                columns[time] = seconds(columns[time])
        return Table(self._index, columns)

    def _values(self, rows: Sequence[wire.ListedConsumer]) -> NDArray[np.float64]:
        """The fields, and whether the consumer is left over from a session that is gone."""
        orphaned = np.array([row.status == "Orphaned" for row in rows], np.float64)
        return np.vstack([matrix(rows, self._fields), orphaned])

    def _row(self, row: wire.ConsumerTexts) -> ConsumerRow:
        user = row.user or row.validated_user
        client = client_name(
            row.client_id, user, row.remote_address, row.protocol, self._names
        )
        host = remote_host(row.remote_address)
        # Thousands of rows hold the same names: each is kept once.
        return ConsumerRow(
            str(row.id),
            intern(row.queue),
            intern(row.address),
            intern(client),
            row.session,
            intern(row.protocol),
            intern(user),
            intern(host),
            intern(row.filter),
        )


class QueueBuilder:
    """listQueues, or a pattern read in its place, → the queue table."""

    def __init__(self) -> None:
        self._numbers = NumbersReader(
            ListingDecoder(wire.QueueNumbers, "listQueues"),
            _ids,
            lambda rows: matrix(rows, QUEUE_FIELDS),
        )
        self._texts = ListingDecoder(wire.QueueTexts, "listQueues")
        self._attributes = Decoder(wire.QueueAttributes)
        self.sight = Sight(self._ranks)
        self._index: Index[QueueRow] = Index.empty()
        self._roles = Roles()
        self._texts_by_id: dict[int, QueueText] = {}
        self._keys_by_name: dict[str, int] = {}
        self._named: Index[QueueRow] | None = None
        self._paused_index: Index[QueueRow] = Index.empty()
        self._paused: Column = np.empty(0)
        """(rows of that index,) Whether the queue was paused at the last poll."""
        self._flags_index: Index[QueueRow] | None = None
        self._flags_roles = self._roles
        self._flags: dict[str, Column] = {}
        """The `_role_columns` of that index under these roles."""

    def page(self, listing: ListingPage, *, refresh: bool) -> Numbers:
        """`refresh`: read the texts of known queues again, too, for what an operator may have changed."""
        numbers = self._numbers(listing)
        new = np.flatnonzero(self._index.positions(numbers.keys) < 0)
        rows = (
            self._texts(listing).rows
            if refresh
            else self._texts.at_least(listing, new, len(numbers))
        )
        texts = {row.id: row for row in rows}
        nameless = [
            position
            for position in new.tolist()
            if int(numbers.keys[position]) not in texts
        ]
        return replace(numbers.without(nameless), fresh=texts)

    def attributes(self, reply: wire.Reply) -> Numbers:
        listed = self._attributes.many(reply, "queue attributes")[1]
        values = _attribute_matrix(listed.rows, wire.QueueAttributes, QUEUE_FIELDS)
        fresh = {r.id: r for r in listed.rows}
        return Numbers.of(listed, _ids(listed.rows), values, fresh)

    def table(
        self,
        pages: Sequence[Numbers],
        roles: Roles,
        *,
        from_attributes: bool,
        by_size: bool = False,
    ) -> Table[QueueRow]:
        """by_size: the listing is not sorted as usual, and not whole."""
        keys, numbers = self._numbers.together(pages)
        fresh = {key: text for page in pages for key, text in page.fresh.items()}
        has_gaps = len(pages) > 1 or lost_rows(pages) > 0
        keys, numbers = self.sight.whole(
            [len(page) for page in pages],
            keys,
            numbers,
            self._remember_new(fresh) if has_gaps else (),
            lost=lost_rows(pages),
            by_size=by_size,
        )
        changed = self._changed(roles, fresh)
        index, order = self._index.advance(
            keys, lambda new: self._rows(keys[new].tolist()), changed=changed
        )
        if index is not self._index:
            self._texts_by_id = {
                key: self._texts_by_id[key] for key in index.keys.tolist()
            }
        self._index = index
        columns = columns_of(QUEUE_FIELDS, numbers, order)
        _drop_unlimited_rings(columns)
        if from_attributes:
            columns |= present({"paused": self._paused_before(index)})
        self._paused_index = index
        self._paused = columns.get("paused", np.full(len(index), np.nan))
        return Table(index, columns | self._role_columns(index))

    def _paused_before(self, index: Index[QueueRow]) -> Column:
        """(queues,) Whether each was paused at the last poll, NaN where unknown.

        The pattern read cannot ask for it; a queue that was paused a moment ago is not set free by that.
        """
        return take_or_fill(
            self._paused, index.positions_in(self._paused_index), np.nan
        )

    def _remember_new(self, fresh: Mapping[int, QueueText]) -> Keys:
        """Keep the texts of new queues. Returns the keys of the queues that had their names before, else -1."""
        new = {
            key: _interned(text)
            for key, text in fresh.items()
            if key not in self._texts_by_id
        }
        self._texts_by_id |= new
        return self.keys_of([text.name for text in new.values()])

    def _ranks(self, keys: Keys, _: object) -> NDArray[np.object_]:
        """The names: listQueues is sorted by them, as Java does it."""
        names = [
            self._texts_by_id[key].name.encode("utf-16-be", "surrogatepass")
            for key in keys.tolist()
        ]
        ranks = np.empty(len(names), np.object_)
        ranks[:] = names
        return ranks

    def _role_columns(self, index: Index[QueueRow]) -> dict[str, Column]:
        """Whether the queues have a dead-letter and an expiry address; looked up when either side has changed."""
        if self._flags_index is not index or self._flags_roles is not self._roles:
            dead_letters = self._roles.dead_letters
            addresses = [dead_letters.get(row.name) for row in index]
            self._flags = {
                "has_dead_letter_address": _has_address(addresses, 0),
                "has_expiry_address": _has_address(addresses, 1),
            }
            self._flags_index = index
            self._flags_roles = self._roles
        return self._flags

    def keys_of(self, names: Sequence[str]) -> Keys:
        """Keys of queues by name (unique on a broker), -1 where there is none now."""
        if self._named is not self._index:
            self._keys_by_name = {
                row.name: int(key)
                for key, row in zip(self._index.keys, self._index, strict=True)
            }
            self._named = self._index
        return looked_up(self._keys_by_name, names)

    def _changed(self, roles: Roles, texts: Mapping[int, QueueText]) -> Keys:
        """Keys of known queues whose rows read otherwise under these roles and texts."""
        before = self._texts_by_id
        other = {key: text for key, text in texts.items() if before.get(key) != text}
        before.update({key: _interned(text) for key, text in other.items()})
        suspects = self._index.keys
        if roles is self._roles:
            suspects = np.array(list(other), dtype=np.int64)
        self._roles = roles
        positions = self._index.positions(suspects)
        positions = positions[positions >= 0]
        keys = self._index.keys[positions]
        rows_before = self._index.rows[positions]
        rows = self._rows(keys.tolist())
        changed = [old != new for old, new in zip(rows_before, rows, strict=True)]
        return keys[np.array(changed, dtype=np.bool_)]

    def _rows(self, ids: Sequence[int]) -> list[QueueRow]:
        if not ids:
            return []
        dead = self._roles.dead_letter_addresses()
        expiry = self._roles.expiry_addresses()
        return [self._row(self._texts_by_id[i], dead, expiry) for i in ids]

    def _row(
        self, row: QueueText, dead: frozenset[str], expiry: frozenset[str]
    ) -> QueueRow:
        roles = self._roles
        routing_type = row.routing_type.lower()
        dead_letter, expires_to = (
            "" if target == row.address else target
            for target in roles.dead_letters.get(row.name, ("", ""))
        )
        source = ring_source(
            row.ring_limit,
            roles.ring_defaults.get(row.address),
            auto_created=row.auto_created,
        )
        return QueueRow(
            name=intern(row.name),
            address=intern(row.address),
            routing_type=intern(routing_type),
            durable=row.durable,
            temporary=row.temporary,
            filter=row.filter or "",
            kind=self._kind(row, dead, expiry),
            ring_source=source,
            dead_letter_address=dead_letter,
            expiry_address=expires_to,
            purge_on_no_consumers=row.purge_on_no_consumers,
            auto_delete=row.auto_delete,
        )

    def _kind(
        self, row: QueueText, dead: frozenset[str], expiry: frozenset[str]
    ) -> QueueKind:
        """The kind of a queue. dead, expiry: the addresses to which dead letters and expired messages go."""
        routing_type = row.routing_type.lower()
        kind = queue_kind(
            row.name,
            row.address,
            routing_type,
            temporary=row.temporary,
            internal=row.internal_queue,
            retroactive=row.address in self._roles.retroactive,
        )
        return kind or ordinary_kind(row.address, routing_type, dead, expiry)


def _drop_unlimited_rings(columns: dict[str, Column]) -> None:
    """Set the ring limit of queues without a limit to NaN; the broker returns -1, or Java's largest number."""
    limit = columns.get("ring_limit")
    if limit is not None:
        is_unlimited = (limit < 0) | (limit >= EXACT)
        columns["ring_limit"] = np.where(is_unlimited, np.nan, limit)


def _has_address(addresses: Sequence[tuple[str, str] | None], position: int) -> Column:
    """(queues,) Whether a queue has the address at this position; NaN while its addresses are unknown."""
    values = [np.nan if pair is None else bool(pair[position]) for pair in addresses]
    return np.array(values, np.float64)


def _interned(text: QueueText) -> QueueText:
    """The same texts, each kept once: a queue and its address mostly have the same name."""
    text.name = intern(text.name)
    text.address = intern(text.address)
    text.routing_type = intern(text.routing_type)
    return text


def address_numbers(listed: Rows[wire.AddressAttributes]) -> Numbers:
    """Numbers of addresses out of a pattern read, which has no `temporary`."""
    values = _attribute_matrix(listed.rows, wire.AddressAttributes, ADDRESS_FIELDS)
    return Numbers.of(listed, _texts_of("address")(listed.rows), values)


class AddressBuilder:
    """listAddresses (from 2.41 on), or a pattern read, → the address table."""

    def __init__(self) -> None:
        self.page = NumbersReader(
            ListingDecoder(wire.AddressNumbers, "listAddresses"),
            _texts_of("name"),
            lambda rows: matrix(rows, ADDRESS_FIELDS),
        )
        """Keys are the names."""
        self._attributes = Decoder(wire.AddressAttributes)
        self._name_keys = KeyAllocator[str]()
        # The listing is sorted by a number that is not read: a row that is not listed stays for two polls.
        self.sight = Sight(lambda keys, _: np.zeros(len(keys)), most=3)
        self._made: TableBuilder[AddressRow] = TableBuilder()
        self.names: list[str] = []
        """The names of all addresses of the last listing."""
        self._settings: object = None
        self._blocked: object = None
        self._settings_read: object = None
        """These three: the objects from which `_settings_columns` were made."""
        self._order: Positions = np.empty(0, np.intp)
        self._settings_columns: Mapping[str, Column] = {
            "limit_bytes": np.empty(0),
            "limit_messages": np.empty(0),
        }
        self.retroactive: frozenset[str] = frozenset()

    def attributes(self, reply: wire.Reply) -> Numbers:
        return address_numbers(self._attributes.many(reply, "address attributes")[1])

    def table(
        self,
        pages: Sequence[Numbers],
        settings: Mapping[str, wire.AddressSettings],
        blocked: Mapping[str, bool] | None,
        settings_read: Mapping[str, float] | None = None,
        *,
        by_size: bool = False,
    ) -> Table[AddressRow]:
        """`settings`, `blocked` and `settings_read` are looked at again only when they are other objects.

        settings_read: by name the clock when the settings were read. by_size: as for queues.
        """
        keys, numbers = self.page.together(pages)
        keys, numbers = self.sight.whole(
            [len(page) for page in pages],
            keys,
            numbers,
            lost=lost_rows(pages),
            by_size=by_size,
        )
        names: list[str] = keys.tolist()
        is_same = (
            settings is self._settings
            and blocked is self._blocked
            and settings_read is self._settings_read
        )
        if not is_same or names != self.names:
            self._advance(names, settings, blocked, settings_read or {})
            self.names = names
            self._settings = settings
            self._blocked = blocked
            self._settings_read = settings_read
        return self._table(columns_of(ADDRESS_FIELDS, numbers, self._order))

    def _table(self, columns: dict[str, Column]) -> Table[AddressRow]:
        """The table of addresses. columns: the numbers of the listing, in the order of the index."""
        index = self._made.index
        retroactive = columns.pop("retroactive", np.zeros(len(index)))
        self.retroactive = frozenset(row.name for row in index.rows[retroactive > 0])
        percent = columns.get("limit_percent", np.full(len(index), np.nan))
        limits = self._settings_columns
        has_limit = ~np.isnan(limits["limit_bytes"])
        has_limit |= ~np.isnan(limits["limit_messages"])
        # The broker reports 0 % also where there is no limit.
        columns["memory_used_ratio"] = np.where(has_limit, percent / 100, np.nan)
        return Table(index, present({**columns, **self._settings_columns}))

    def _advance(
        self,
        names: list[str],
        settings: Mapping[str, wire.AddressSettings],
        blocked: Mapping[str, bool] | None,
        settings_read: Mapping[str, float],
    ) -> None:
        """The index, the order and the columns that do not come with the rows, for these names."""
        settings_by_row = [settings.get(name) for name in names]
        rows = [
            address_row(name, row_settings)
            for name, row_settings in zip(names, settings_by_row, strict=True)
        ]
        columns = {
            name: _settings_column(settings_by_row, name) for name in SETTINGS_FIELDS
        }
        sizes = _settings_column(settings_by_row, "max_size_bytes")
        columns["limit_bytes"] = positive(sizes)
        counts = _settings_column(settings_by_row, "max_size_messages")
        columns["limit_messages"] = positive(counts)
        columns["settings_stamp"] = _values_of(settings_read, names)
        if blocked is not None:
            columns["producers_paused"] = _values_of(blocked, names)
        table, self._order = self._made.of_made(self._name_keys(names), rows, columns)
        self._settings_columns = table.columns


def _settings_column(
    settings: Sequence[wire.AddressSettings | None], name: str
) -> Column:
    """(addresses,) One of the settings; NaN while those of an address are unknown."""
    values = [np.nan if one is None else getattr(one, name) for one in settings]
    return np.array(values, np.float64)


def _values_of(values: Mapping[str, float], names: Sequence[str]) -> Column:
    """(names,) The values of these names; NaN where there is none."""
    return np.array([values.get(name, np.nan) for name in names], np.float64)


def address_row(name: str, settings: wire.AddressSettings | None) -> AddressRow:
    """settings: of this address; None while they are not known."""
    if settings is None:
        return AddressRow(intern(name), "")
    return AddressRow(
        intern(name),
        settings.address_full_message_policy.lower(),
        settings.page_full_policy,
    )


LinkState = tuple[str, str, BridgeAttributes]
"""Name, kind, and the attributes of the MBean of a bridge or broker connection."""


class LinkBuilder:
    """Links with their state and what waits for the peer, which is the depth of the queue they read."""

    def __init__(self) -> None:
        self._index: Index[LinkRow] = Index.empty()

    def table(
        self,
        states: Sequence[LinkState],
        queues: Table[QueueRow],
        keys_of: Callable[[Sequence[str]], Keys],
    ) -> Table[LinkRow]:
        """The bridges, broker connections and cluster peers, each with its numbers. keys_of: of queues by their names.

        A cluster connection has no state and keeps dead peers in its list: its store-and-forward queue has a consumer
        exactly while the peer is connected. Bridges before 2.41 are judged so, too.
        """
        numbers = _QueueNumbers(queues, keys_of)
        links: dict[LinkRow, _LinkNumbers] = {}
        for name, kind, state in states:
            row = _bridge_row(name, kind, state, numbers)
            links[row] = _bridge_numbers(row, state, numbers)
        is_forwarding = queues.index.column(
            "forwards", lambda row: row.name.startswith(STORE_AND_FORWARD)
        )
        for queue in queues.index.rows[is_forwarding > 0]:
            peer = queue.name.removeprefix(STORE_AND_FORWARD)
            row = LinkRow(peer, "cluster", queue.name)
            links[row] = _cluster_numbers(queue.name, numbers)
        return self._table(links)

    def _table(self, links: Mapping[LinkRow, "_LinkNumbers"]) -> Table[LinkRow]:
        rows = [*links]
        if list(self._index) != rows:
            self._index = Index.of(rows)
        values = np.array(list(links.values()), dtype=np.float64).reshape(-1, 3)
        columns = dict(zip(_LinkNumbers._fields, values.T, strict=True))
        return Table(self._index, columns)


class _LinkNumbers(NamedTuple):
    """The numbers of a link: whether it is up, how many messages wait for the peer, whether it was started."""

    up: float
    pending: float
    started: float = np.nan


class _QueueNumbers:
    """The numbers of queues by their names."""

    def __init__(
        self, queues: Table[QueueRow], keys_of: Callable[[Sequence[str]], Keys]
    ) -> None:
        self._queues = queues
        self._keys_of = keys_of

    def has(self, queue: str) -> bool:
        """Whether there is a queue of this name."""
        return bool(self._keys_of([queue])[0] >= 0)

    def number(self, column: str, queue: str) -> float:
        """A number of the queue of this name; NaN: there is none."""
        position = int(self._queues.index.positions(self._keys_of([queue]))[0])
        return float(self._queues[column][position]) if position >= 0 else np.nan


def _cluster_numbers(queue: str, queues: _QueueNumbers) -> _LinkNumbers:
    """The numbers of a link to a peer in the cluster. queue: the name of its store-and-forward queue."""
    is_up = float(queues.number("consumers", queue) > 0)
    return _LinkNumbers(is_up, queues.number("messages", queue))


def _bridge_row(
    name: str, kind: str, state: BridgeAttributes, queues: _QueueNumbers
) -> LinkRow:
    """The texts of a bridge or broker connection; a broker connection with a mirror queue is a mirror."""
    address = state.forwarding_address or ""
    if queues.has(MIRROR + name):
        return LinkRow(name, "mirror", MIRROR + name, address)
    return LinkRow(name, kind, state.queue_name, address)


def _bridge_numbers(
    row: LinkRow, state: BridgeAttributes, queues: _QueueNumbers
) -> _LinkNumbers:
    """The numbers of a bridge. Without a state of its own it is up while its queue has a consumer, else unknown."""
    if not state.started:
        is_up = 0.0
    elif state.connected is not None:
        is_up = float(state.connected)
    else:
        consumers = queues.number("consumers", state.queue_name)
        is_up = consumers if np.isnan(consumers) else float(consumers > 0)
    pending = queues.number("messages", row.queue)
    return _LinkNumbers(is_up, pending, float(state.started))


def mirror_of(
    producers: Table[ProducerRow] | None, links: Table[LinkRow] | None
) -> str:
    """Node id of the broker whose mirror sends to this one; empty where this one mirrors, too."""
    if producers is None:
        return ""
    if links is not None and any(row.kind == "mirror" for row in links.index):
        return ""
    is_mirror = producers.index.column(
        "mirrors", lambda row: row.address.startswith(MIRROR)
    )
    mirrors = np.flatnonzero(is_mirror)
    return producers.index.rows[mirrors[0]].client if len(mirrors) else ""
