"""Answers → tables of the model. Each builder keeps the index of its kind from poll to poll, so that texts are read
once in a thing's life and unchanged ones cost a comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from sys import intern

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
from penstock.model import AddressRow, ConsumerRow, LinkRow, ProducerRow, QueueRow

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
    return lambda rows: np.array(list(map(attrgetter(field), rows)), np.object_)


def _attribute_matrix(
    rows: Sequence[msgspec.Struct], row: type[msgspec.Struct], columns: Sequence[str]
) -> NDArray[np.float64]:
    """Like the matrix of a listing with these columns; NaN where a pattern read has no such field."""
    found = [name for name in columns if name in row.__struct_fields__]
    values = np.full((len(columns), len(rows)), np.nan)
    values[[columns.index(name) for name in found]] = matrix(rows, found)
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
        at = np.flatnonzero(self._index.positions(numbers.keys) < 0)
        wanted = set(numbers.keys[at].tolist())
        texts = self._texts.at_least(listing, at, len(numbers))
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
            columns["leaving"] = np.isin(self._index.keys, self.sight.leaving).astype(
                np.float64
            )
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
        # Thousands of rows hold the same names: each is kept once.
        return ConsumerRow(
            id=str(row.id),
            queue=intern(row.queue),
            address=intern(row.address),
            client=intern(client),
            session=row.session,
            protocol=intern(row.protocol),
            user=intern(user),
            remote_host=intern(remote_host(row.remote_address)),
            filter=intern(row.filter),
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
        self._paused: tuple[Index[QueueRow], Column] = Index.empty(), np.empty(0)
        self._role_flags: tuple[Index[QueueRow] | None, Roles, dict[str, Column]] = (
            None,
            self._roles,
            {},
        )

    def page(self, listing: ListingPage, *, refresh: bool) -> Numbers:
        """`refresh`: read the texts of known queues again, too, for what an operator may have changed."""
        numbers = self._numbers(listing)
        new = np.flatnonzero(self._index.positions(numbers.keys) < 0)
        found = (
            self._texts(listing).rows
            if refresh
            else self._texts.at_least(listing, new, len(numbers))
        )
        texts = {row.id: row for row in found}
        nameless = [at for at in new.tolist() if int(numbers.keys[at]) not in texts]
        return replace(numbers.without(nameless), fresh=texts)

    def attributes(self, reply: wire.Reply) -> Numbers:
        found = self._attributes.many(reply, "queue attributes")[1]
        values = _attribute_matrix(found.rows, wire.QueueAttributes, QUEUE_FIELDS)
        fresh = {r.id: r for r in found.rows}
        return Numbers.of(found, _ids(found.rows), values, fresh)

    def table(
        self,
        pages: Sequence[Numbers],
        roles: Roles,
        *,
        from_attributes: bool,
        by_size: bool = False,
    ) -> Table[QueueRow]:
        """by_size: the listing is not sorted as usual, and not whole."""
        listed = self._numbers.together(pages)
        fresh = {key: text for page in pages for key, text in page.fresh.items()}
        replaced = self._told(fresh) if len(pages) > 1 or lost_rows(pages) else ()
        sizes = [len(page) for page in pages]
        keys, numbers = self.sight.whole(
            sizes, *listed, replaced, lost=lost_rows(pages), by_size=by_size
        )
        changed = self._changed(roles, fresh)
        index, order = self._index.advance(
            keys, lambda new: self._rows([int(keys[i]) for i in new]), changed=changed
        )
        if index is not self._index:
            self._texts_by_id = {
                int(key): self._texts_by_id[int(key)] for key in index.keys
            }
        self._index = index
        columns = columns_of(QUEUE_FIELDS, numbers, order)
        if (limit := columns.get("ring_limit")) is not None:
            columns["ring_limit"] = np.where(
                (limit < 0) | (limit >= EXACT), np.nan, limit
            )
        before, paused = self._paused
        if from_attributes:
            # The pattern read cannot ask for it; a queue that was paused a moment ago is not set free by that.
            stays = take_or_fill(paused, index.positions_in(before), np.nan)
            columns |= present({"paused": stays})
        self._paused = index, columns.get("paused", np.full(len(index), np.nan))
        return Table(index, columns | self._role_columns(index))

    def _told(self, fresh: Mapping[int, QueueText]) -> Keys:
        """Keep the texts of queues that are new; keys of those that had their names before, else -1."""
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
        if self._role_flags[0] is not index or self._role_flags[1] is not self._roles:
            known = self._roles.dead_letters
            said = [known.get(row.name) for row in index]
            flags = [
                np.fromiter(
                    (bool(one[n]) if one else np.nan for one in said),
                    np.float64,
                    len(said),
                )
                for n in (0, 1)
            ]
            self._role_flags = (
                index,
                self._roles,
                {"has_dead_letter_address": flags[0], "has_expiry_address": flags[1]},
            )
        return self._role_flags[2]

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
        suspects = (
            np.array(list(other), dtype=np.int64)
            if roles is self._roles
            else self._index.keys
        )
        self._roles = roles
        at = self._index.positions(suspects)
        at = at[at >= 0]
        keys = self._index.keys[at]
        rows = self._rows(keys.tolist())
        return keys[
            np.array(
                [
                    old != new
                    for old, new in zip(self._index.rows[at], rows, strict=True)
                ],
                dtype=np.bool_,
            )
        ]

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
        kind = queue_kind(
            row.name,
            row.address,
            routing_type,
            temporary=row.temporary,
            internal=row.internal_queue,
            retroactive=row.address in roles.retroactive,
        ) or ordinary_kind(row.address, routing_type, dead, expiry)
        dead_letter, expires_to = (
            "" if to == row.address else to
            for to in roles.dead_letters.get(row.name, ("", ""))
        )
        return QueueRow(
            name=intern(row.name),
            address=intern(row.address),
            routing_type=intern(routing_type),
            durable=row.durable,
            temporary=row.temporary,
            filter=row.filter or "",
            kind=kind,
            ring_source=ring_source(
                row.ring_limit,
                roles.ring_defaults.get(row.address),
                auto_created=row.auto_created,
            ),
            dead_letter_address=dead_letter,
            expiry_address=expires_to,
            purge_on_no_consumers=row.purge_on_no_consumers,
            auto_delete=row.auto_delete,
        )


def _interned(text: QueueText) -> QueueText:
    """With its texts kept once: a queue and its address mostly have the same name."""
    text.name, text.address = intern(text.name), intern(text.address)
    text.routing_type = intern(text.routing_type)
    return text


def address_numbers(found: Rows[wire.AddressAttributes]) -> Numbers:
    """Numbers of addresses out of a pattern read, which has no `temporary`."""
    values = _attribute_matrix(found.rows, wire.AddressAttributes, ADDRESS_FIELDS)
    return Numbers.of(found, _texts_of("address")(found.rows), values)


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
        # Sorted by what is not read: what is not listed stays for two polls.
        self.sight = Sight(lambda keys, _: np.zeros(len(keys)), most=3)
        self._made: TableBuilder[AddressRow] = TableBuilder()
        self.names: list[str] = []
        """Of all addresses that were listed last."""
        self._parts: tuple[object, object, object] = (None, None, None)
        self._order: Positions = np.empty(0, np.intp)
        self._said: Mapping[str, Column] = {
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

        settings_read: by name the clock when the settings were read. by_size: as of queues.
        """
        sizes = [len(page) for page in pages]
        listed = self.page.together(pages)
        keys, numbers = self.sight.whole(
            sizes, *listed, lost=lost_rows(pages), by_size=by_size
        )
        names: list[str] = keys.tolist()
        parts = (settings, blocked, settings_read)
        if names != self.names or any(
            now is not then for now, then in zip(parts, self._parts, strict=True)
        ):
            self._advance(names, settings, blocked, settings_read or {})
            self.names = names
            self._parts = parts
        index = self._made.index
        columns = columns_of(ADDRESS_FIELDS, numbers, self._order)
        retroactive = columns.pop("retroactive", np.zeros(len(index)))
        self.retroactive = frozenset(row.name for row in index.rows[retroactive > 0])
        percent = columns.get("limit_percent", np.full(len(index), np.nan))
        # The broker reports 0 % also where there is no limit.
        limited = ~np.isnan(self._said["limit_bytes"]) | ~np.isnan(
            self._said["limit_messages"]
        )
        columns["memory_used_ratio"] = np.where(limited, percent / 100, np.nan)
        return Table(index, present({**columns, **self._said}))

    def _advance(
        self,
        names: list[str],
        settings: Mapping[str, wire.AddressSettings],
        blocked: Mapping[str, bool] | None,
        settings_read: Mapping[str, float],
    ) -> None:
        """The index, the order and what does not come with the rows, for these names."""
        of = [settings.get(name) for name in names]
        rows = [address_row(name, one) for name, one in zip(names, of, strict=True)]
        keys = self._name_keys(names)
        known = self._made.index.rows
        at = self._made.index.positions(keys).tolist()
        stale = keys[[i for i, p in enumerate(at) if p >= 0 and known[p] != rows[i]]]

        def said(name: str) -> Column:
            return np.array(
                [getattr(one, name) if one else np.nan for one in of], np.float64
            )

        columns = {name: said(name) for name in SETTINGS_FIELDS}
        columns |= {"limit_bytes": positive(said("max_size_bytes"))}
        columns |= {"limit_messages": positive(said("max_size_messages"))}
        columns["settings_stamp"] = np.array(
            [settings_read.get(name, np.nan) for name in names], np.float64
        )
        if blocked is not None:
            columns["producers_paused"] = np.array(
                [blocked.get(name, np.nan) for name in names], np.float64
            )
        table, self._order = self._made(keys, lambda i: rows[i], columns, stale)
        self._said = table.columns


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
        """A cluster connection has no state and keeps dead peers in its list: its store-and-forward queue has a
        consumer exactly while the peer is connected. Bridges before 2.41 are judged so, too. keys_of: queues by name.
        """

        def number(column: str, queue: str) -> float:
            at = int(queues.index.positions(keys_of([queue]))[0])
            return float(queues[column][at]) if at >= 0 else np.nan

        found: dict[LinkRow, tuple[float, float, float]] = {}
        for name, kind, state in states:
            attached = number("consumers", state.queue_name)
            # Neither said nor to be seen at its queue: unknown, unless it was stopped.
            seen = attached if np.isnan(attached) else float(attached > 0)
            connected = seen if state.connected is None else float(state.connected)
            mirror = keys_of([MIRROR + name])[0] >= 0
            queue = MIRROR + name if mirror else state.queue_name
            link = LinkRow(
                name,
                "mirror" if mirror else kind,
                queue,
                state.forwarding_address or "",
            )
            found[link] = (
                connected if state.started else 0.0,
                number("messages", queue),
                float(state.started),
            )
        forwards = (
            queues.index.column(
                "forwards", lambda row: row.name.startswith(STORE_AND_FORWARD)
            )
            > 0
        )
        for name in (row.name for row in queues.index.rows[forwards]):
            up = number("consumers", name)
            link = LinkRow(name.removeprefix(STORE_AND_FORWARD), "cluster", name)
            found[link] = (float(up > 0), number("messages", name), np.nan)
        rows = [*found]
        if list(self._index) != rows:
            self._index = Index.of(rows)
        values = np.array(list(found.values()), dtype=np.float64).reshape(-1, 3)
        return Table(
            self._index,
            {"up": values[:, 0], "pending": values[:, 1], "started": values[:, 2]},
        )


def mirror_of(
    producers: Table[ProducerRow] | None, links: Table[LinkRow] | None
) -> str:
    """Node id of the broker whose mirror sends to this one; empty where this one mirrors, too."""
    if producers is None or (
        links is not None and any(row.kind == "mirror" for row in links.index)
    ):
        return ""
    at = np.flatnonzero(
        producers.index.column("mirrors", lambda row: row.address.startswith(MIRROR))
    )
    return producers.index.rows[at[0]].client if len(at) else ""
