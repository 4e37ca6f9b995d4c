"""One poll of an Artemis broker: which calls, in which order, what to do when one fails.

Order. Consumers, then addresses, then the queues' own counters: whatever is compared with these was read before them,
so that differences err towards "nothing lost". Then sizes, as the counters say which queues are to be asked.

Locks. listQueues and listAddresses wait while an operator's bulk operation walks a big queue. They get a part of the
poll's time; after a time-out their lock-free pattern read replaces them for a while.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from sys import intern
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from penstock import model
from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis import requests as ask
from penstock.brokers.artemis import tables, versions
from penstock.brokers.artemis.connections import ConnectionBuilder
from penstock.brokers.artemis.groups import AT_ONCE, uneven
from penstock.brokers.artemis.kinds import Roles
from penstock.brokers.artemis.listings import ListingPage, Numbers, listing_page
from penstock.brokers.artemis.prepared import PreparedBuilder, in_doubt
from penstock.brokers.artemis.sizes import COLUMNS, Sizes
from penstock.brokers.artemis.tables import LinkBuilder, LinkState
from penstock.brokers.budget import Budget
from penstock.brokers.cadence import Aged, Cadence, read_each
from penstock.brokers.engine import SHARE, BrokerReader, PageT, left_out, unreadable
from penstock.brokers.engine import Poll as AnyPoll
from penstock.brokers.replies import Decoder
from penstock.brokers.requests import key_if_any, key_of
from penstock.brokers.rows import Paged, Rows, Unread, limit, matrix, together
from penstock.brokers.sight import Sight
from penstock.brokers.tables import NameJoin
from penstock.core.catalogues import read_toml
from penstock.core.errors import (
    BadAnswer,
    OverBudget,
    Refused,
    SourceError,
    Unreachable,
)
from penstock.core.table import Column, Index, Keys, Positions, Table
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    ConsumerRow,
    Process,
    QueueRow,
    Role,
    Snapshot,
)
from penstock.transports.transport import Request

Poll = AnyPoll[wire.Reply]
ConnectionTables = tuple[Table[model.ConnectionRow], Table[model.ProducerRow]]

QUEUE_PAGE_ROWS = 20_000
SETTINGS_AT_ONCE = 500
"""Addresses whose settings are asked in one poll."""
ROLES_AGE = 60.0
"""Seconds after which dead-letter addresses and queue texts are read again."""
NEW_QUEUES_WAIT = 15.0
"""Seconds between two readings of the roles when new queues appear."""
AFTER_LOCK = 30.0
"""Seconds for which a listing that timed out is not tried."""
TRIES = 5
"""Times that a page is asked while sessions that go away break it."""
WITH_PATTERN = 1 - (1 - SHARE) ** 2
"""Share of the time left for a listing, and after it for the read that takes its place."""
MUCH_LEFT = 4.0
"""A listing is read a second time when so many times what it took is left of the poll."""
GUARD_AGE = 3600.0
"""Seconds after which it is tried again whether the account may read what an exporter must not."""

NOTES = read_toml("penstock.brokers", "texts.toml")["artemis"]["notes"]
_MESSAGES = tables.QUEUE_FIELDS.index("messages")
_MEMORY = tables.ADDRESS_FIELDS.index("memory_bytes")
_BROKER = Decoder(wire.BrokerAttributes)
_BRIDGES = Decoder(wire.BridgeAttributes)
_DIVERTS = Decoder(wire.DivertAttributes)
_GROUPS = Decoder(wire.QueueGroups)
_SIZES = Decoder(wire.QueueSizes)
_DEAD_LETTERS = Decoder(wire.QueueDeadLetters)
_BLOCKED = Decoder(wire.AddressBlocked)


class ArtemisReader(BrokerReader[wire.Reply]):
    replies = wire.replies
    _name = ""
    _version = versions.OLDEST

    def forget(self) -> None:
        names = self.options.names
        self._consumers = tables.ConsumerBuilder(
            names, numbers=self._version >= versions.CONSUMER_NUMBERS
        )
        self._queues = tables.QueueBuilder()
        self._addresses = tables.AddressBuilder()
        self._connections = ConnectionBuilder(names)
        self._queue_names: dict[int, str] = {}
        """Names by the hashes of the names of their MBeans, which are long."""
        self._sizes = Sizes()
        self._link_tables = LinkBuilder()
        self._prepared = PreparedBuilder()
        self._connection_tables: ConnectionTables | None = None
        self._connections_read = Cadence()
        self._roles = Roles()
        self._roles_read = Cadence()
        self._guard_tried = Cadence()
        self._unguarded = np.nan
        self._unknown_roles = False
        self._judged_index: Index[QueueRow] = Index.empty()
        self._judged_roles = self._roles
        self._settings: Aged[str, wire.AddressSettings] = Aged()
        self._groups: Aged[str, float] = Aged()
        self._diverts: tuple[tuple[str, str], ...] = ()
        self._diverts_read = Cadence()
        self._blocked: dict[str, bool] | None = None
        self._avoid: dict[str, float] = {}
        self._rest = np.inf
        """Seconds that the parts after the consumers took at the last poll."""
        self._queue_join = NameJoin()
        self._connection_join = NameJoin()

    async def read(self, poll: Poll) -> Snapshot:
        about, *links = await poll.begin(
            [ask.BROKERS, ask.BRIDGES, ask.BROKER_CONNECTIONS]
        )
        self._name, attributes, missing = _one_broker(about)
        poll.leave_out(missing)
        self._version = versions.parse(attributes.version)
        broker = _broker(attributes)
        # A replica learns its node id with the first copy, which is no restart.
        self.begins(
            Process(
                f"{self._name} {broker.version}",
                broker.clock,
                broker.uptime,
                broker.node_id,
            )
        )
        if broker.role is Role.PASSIVE:
            self.start_again()
            return Snapshot(
                poll.now,
                broker,
                collectors=poll.collectors,
                notes=("a passive broker has no queues",),
            )
        return await self._read(poll, broker, links)

    async def _read(
        self, poll: Poll, broker: Broker, links: Sequence[wire.Reply]
    ) -> Snapshot:
        consumers = await poll.collect(
            "consumers", self._read_consumers(poll), poll.share_leaving(3 * self._rest)
        )
        addresses = await poll.collect(
            "addresses", self._read_addresses(poll), WITH_PATTERN
        )
        queues = await self._queues_with_sizes(poll)
        if addresses is not None:
            await poll.collect("settings", self._refresh_settings(poll, addresses))
        if queues is not None and self._guard_tried.due(poll.now, GUARD_AGE):
            await self._try_guard(poll, queues)
        if self._connections_read.due(poll.now):  # on a large broker not at every poll
            self._connection_tables = await poll.collect(
                "connections", self._read_connections(poll)
            )
        await self._read_diverts(poll)
        link_table = await poll.collect("links", self._links(poll, links, queues))
        joins = await poll.work(self._joins, consumers, queues)
        prepared = await poll.collect(
            "transactions", self._read_prepared(poll, queues, consumers, joins.queue)
        )
        if prepared is not None:
            queues = _with_column(queues, "in_doubt", prepared.in_doubt)
        queues = await self._with_groups(poll, queues, consumers, joins.queue)
        connections, producers = self._connection_tables or (None, None)
        self._rest = sum(
            collector.seconds
            for name, collector in poll.collectors.items()
            if name not in ("broker", "consumers")
        )
        broker = replace(
            broker,
            unguarded=self._unguarded,
            object_name=ask.object_name(self._name),
            mirror_of=await poll.work(tables.mirror_of, producers, link_table),
        )
        snapshot = Snapshot(
            stamp=poll.now,
            broker=broker,
            addresses=addresses,
            queues=queues,
            consumers=consumers,
            connections=connections,
            producers=producers,
            links=link_table,
            diverts=self._diverts,
        )
        return replace(
            snapshot,
            transactions=prepared.transactions if prepared else None,
            consumer_queue=joins.queue,
            consumer_connection=joins.connection,
            collectors=poll.collectors,
            notes=self._notes(),
        )

    async def _queues_with_sizes(self, poll: Poll) -> Table[QueueRow] | None:
        """The queues, after their roles where these are due, with the numbers that no listing has; None: not read."""
        is_new = self._unknown_roles and not self._too_many_for_patterns
        refresh = self._roles_read.due(
            poll.now, NEW_QUEUES_WAIT if is_new else ROLES_AGE
        )
        if refresh and len(self._judged_index):
            refresh = await poll.collect("roles", self._refresh_roles(poll)) is not None
        queues = await poll.collect(
            "queues", self._read_queues(poll, refresh=refresh), WITH_PATTERN
        )
        if self._too_many_for_patterns:
            return queues
        sizes = await poll.collect("sizes", self._read_sizes(poll, queues))
        if queues is None or sizes is None:
            return queues
        return Table(queues.index, {**queues.columns, **sizes})

    def _joins(
        self, consumers: Table[ConsumerRow] | None, queues: Table[QueueRow] | None
    ) -> "_Joins":
        """The queues and connections of these consumers."""
        queue = self._queue_join(
            consumers,
            queues and queues.index,
            lambda row: row.queue,
            self._queues.keys_of,
        )
        connection = self._connection_join(
            consumers,
            self._connection_tables,
            lambda row: row.session,
            self._connections.keys_of,
        )
        return _Joins(queue, connection)

    def _notes(self) -> tuple[str, ...]:
        """The notes for the operator: which numbers this broker cannot give."""
        applies = {
            "oldest": self._version < versions.CONSUMER_NUMBERS,
            "too_many": self._too_many_for_patterns,
        }
        return tuple(text for name, text in NOTES.items() if applies[name])

    async def _pages(
        self,
        poll: Poll,
        operation: str,
        rows: int,
        decode: Callable[[ListingPage], PageT],
        sight: Sight | None = None,
        tries: int = TRIES,
    ) -> list[PageT]:
        """The pages of a listing, as far as its budget goes, each decoded and dropped before the next is asked."""
        budget = self._budget(operation)
        read = 0

        async def page(number: int, rows: int) -> PageT:
            nonlocal read
            request = ask.listing(
                self._name, operation, number, rows, largest_first=budget.over
            )
            for _ in range(tries):
                body = (await poll.call([request])).body
                read = len(body) if number == 1 else read + len(body)
                self.options.budgets.check_bytes(operation, read)
                listing = await poll.work(listing_page, body)
                if not listing.reply.vanished_meanwhile:
                    break
            return await poll.work(decode, listing)

        return await poll.pages(page, rows, budget, sight)

    def _budget(self, operation: str) -> Budget:
        """The budget of one of `ask.LISTINGS`."""
        return self.budgets[operation.removeprefix("list").lower()]

    async def _all_pages(
        self,
        poll: Poll,
        operation: str,
        decode: Callable[[ListingPage], PageT],
        table: Callable[[Sequence[PageT]], object],
        sight: Sight,
    ) -> list[PageT]:
        """The pages of a listing whose rows count; the first time, while no row is known that could be missed, twice
        where there is time: what was hidden from the first reading joins the `table` that was made of it.
        """
        rows = self.options.page_rows
        began = poll.asked
        pages = await self._pages(poll, operation, rows, decode, sight)
        if (
            len(pages) > 1
            and not sight.began
            and poll.left() > MUCH_LEFT * (poll.asked - began)
        ):
            await poll.work(table, pages)
            pages = await self._pages(poll, operation, rows, decode, sight)
        return pages

    async def _read_consumers(self, poll: Poll) -> tuple[Table[ConsumerRow], str]:
        consumers = self._consumers
        pages = await self._all_pages(
            poll, "listConsumers", consumers.page, consumers.table, consumers.sight
        )
        table = await poll.work(consumers.table, pages)
        poll.note("consumers", consumers.sight)
        self.budgets["consumers"].shown(table.index)
        return table, unreadable(pages)

    async def _read_queues(
        self, poll: Poll, *, refresh: bool
    ) -> tuple[Table[QueueRow], str]:
        builder = self._queues
        budget = self.budgets["queues"]
        # Until the first listing it is not known whether a pattern may be asked: the roles are read after it.
        roles_due = refresh and not len(self._judged_index)
        try:
            pages, replaced = await self._unless_locked(
                poll,
                "listQueues",
                builder,
                lambda page: builder.page(page, refresh=refresh),
                ask.queues(self._name, wire.QueueAttributes),
                _MESSAGES,
            )
        except Refused:
            if roles_due:
                await poll.collect("roles", self._refresh_roles(poll))
            raise
        if roles_due:
            await poll.collect("roles", self._refresh_roles(poll))

        def build() -> Table[QueueRow]:
            table = builder.table(
                pages, self._roles, from_attributes=replaced, by_size=budget.was_over
            )
            self._note_roles(table.index)
            return table

        rows_before = len(self._judged_index)
        table = await poll.work(build)
        if rows_before and not len(table):  # the next poll believes it
            raise BadAnswer(
                "no queue is listed any more: the broker is stopping, or all were deleted"
            )
        budget.shown(table.index)
        poll.note("queues", builder.sight)
        return table, unreadable(pages)

    def _note_roles(self, index: Index[QueueRow]) -> None:
        """Note whether these queues have one whose dead-letter and expiry addresses are not known yet."""
        if index is self._judged_index and self._roles is self._judged_roles:
            return
        self._judged_index = index
        self._judged_roles = self._roles
        self._unknown_roles = any(
            row.name not in self._roles.dead_letters for row in index
        )

    async def _read_addresses(self, poll: Poll) -> tuple[Table[AddressRow], str]:
        before = self._addresses
        settings = self._settings.values
        blocked = self._blocked
        settings_read = self._settings.read_at
        budget = self.budgets["addresses"]
        pages, _ = await self._unless_locked(
            poll,
            "listAddresses",
            before,
            before.page,
            ask.addresses(self._name),
            _MEMORY,
            listed=self._version >= versions.FULL_ADDRESS_ROWS,
        )
        table = await poll.work(
            lambda: before.table(
                pages, settings, blocked, settings_read, by_size=budget.was_over
            )
        )
        poll.note("addresses", before.sight)
        return table, unreadable(pages)

    async def _unless_locked(
        self,
        poll: Poll,
        operation: str,
        made: tables.QueueBuilder | tables.AddressBuilder,
        decode: Callable[[ListingPage], Numbers],
        pattern: Request,
        size: int,
        *,
        listed: bool = True,
    ) -> tuple[list[Numbers], bool]:
        """The pages that `operation` lists, or the lock-free read of a pattern in their place, where no more rows are
        there than may be read; and True for the pattern. size: the field by which the largest are kept. listed: this
        version's listing will do.
        """
        budget = self._budget(operation)
        if listed and (budget.over or poll.now >= self._avoid.get(operation, -np.inf)):
            try:
                with poll.share(SHARE / WITH_PATTERN):
                    return await self._pages(
                        poll, operation, QUEUE_PAGE_ROWS, decode, made.sight, tries=2
                    ), False
            except (Unreachable, BadAnswer) as failed:
                # Over the budget: this listing may just have shown it.
                if budget.over or isinstance(failed, OverBudget):
                    raise
                if isinstance(failed, Unreachable):
                    # Each call that waits holds a thread of the broker's web server: do not pile them up.
                    self._avoid[operation] = poll.now + AFTER_LOCK
        (reply,) = await poll.ask([pattern])
        return [
            await poll.work(lambda: made.attributes(reply).largest(budget, size))
        ], True

    async def _read_sizes(
        self, poll: Poll, queues: Table[QueueRow] | None
    ) -> tuple[dict[str, Column], str]:
        if queues is None:
            raise BadAnswer("not known while the queues cannot be read")
        changed = await poll.work(
            self._sizes.due, queues, self._queues.sight.hidden, poll.now
        )
        if changed is not None:
            error = await self._sizes_by_name(poll, queues.index, changed)
            return self._sizes.columns(), error
        (reply,) = await poll.ask([ask.queues(self._name, wire.QueueSizes)])

        def decode() -> str:
            mbeans, rows = _SIZES.many(reply, "queue sizes")
            keys = self._queues.keys_of(self._queues_of(mbeans))
            self._sizes.found_all(keys, matrix(rows.rows, COLUMNS), poll.now)
            return unreadable([rows])

        error = await poll.work(decode)
        return self._sizes.columns(), error

    def _queues_of(self, mbeans: Sequence[str]) -> list[str]:
        """Names of the queues of a pattern read, each parsed once; of an MBean whose name has none it is empty."""
        before = self._queue_names
        names = [
            before.get(hash(mbean)) or intern(key_if_any(mbean, "queue") or "")
            for mbean in mbeans
        ]
        self._queue_names = dict(zip(map(hash, mbeans), names, strict=True))
        return names

    async def _sizes_by_name(
        self, poll: Poll, index: Index[QueueRow], positions: Positions
    ) -> str:
        rows: Sequence[QueueRow] = index.rows[positions].tolist()
        bulks = ask.in_bulks(self._of_each(rows, wire.QueueSizes))
        replies = [reply for bulk in bulks for reply in await poll.ask(bulk)]

        def decode() -> str:
            # A queue that went away since it was listed is no error.
            answered = [i for i, reply in enumerate(replies) if not reply.nothing_found]
            read, error = read_each(
                answered,
                [replies[i] for i in answered],
                lambda reply, i: _SIZES.counted(reply, f"sizes of {rows[i].name!r}"),
            )
            if error and not read:
                raise BadAnswer(error)
            values = np.full((len(COLUMNS), len(positions)), np.nan)
            values[:, list(read)] = matrix([row for row, _ in read.values()], COLUMNS)
            self._sizes.found(
                positions, values, np.delete(positions, answered), poll.now
            )
            return error or left_out(together(missing for _, missing in read.values()))

        return await poll.work(decode)

    @property
    def _too_many_for_patterns(self) -> bool:
        """A pattern read of queues or addresses answers for all of them, however many are read."""
        return self.budgets["queues"].over or self.budgets["addresses"].over

    async def _refresh_roles(self, poll: Poll) -> tuple[Roles, str]:
        """Dead-letter and expiry addresses of all queues, and whether an operator blocks an address's producers."""
        if self._too_many_for_patterns:
            self._blocked = None
            # Before the first listing no settings are known either: the roles are due at the next poll again.
            if len(self._judged_index):
                self._roles_read = Cadence(poll.now)
            self._roles = self._roles_with(
                await poll.work(self._dead_letters_by_settings)
            )
            return self._roles, ""
        requests = [ask.queues(self._name, wire.QueueDeadLetters)]
        if self._version >= versions.BLOCKED_ATTRIBUTE:
            requests.append(ask.addresses(self._name, wire.AddressBlocked))
        began = poll.asked
        dead_letters, *blocked = await poll.ask(requests)
        self._roles_read = Cadence(poll.now, poll.asked - began)

        def decode() -> tuple[Roles, str]:
            mbeans, rows = _DEAD_LETTERS.many(dead_letters, "dead-letter addresses")
            addresses = {
                name: (row.dead_letter_address or "", row.expiry_address or "")
                for name, row in zip(self._queues_of(mbeans), rows.rows, strict=True)
            }
            pages: list[Paged] = [rows]
            if blocked:
                self._blocked, blocked_rows = _blocked_addresses(blocked[0])
                pages.append(blocked_rows)
            return self._roles_with(addresses), unreadable(pages)

        self._roles, error = await poll.work(decode)
        return self._roles, error

    def _dead_letters_by_settings(self) -> dict[str, tuple[str, str]]:
        """Dead-letter and expiry address by queue, as far as the settings of addresses are known; else as before."""
        settings_by_address = self._settings.values
        before = self._roles.dead_letters
        dead_letters: dict[str, tuple[str, str]] = {}
        for row in self._judged_index:
            settings = settings_by_address.get(row.address)
            if settings is not None:
                expiry = settings.expiry_address or ""
                dead_letters[row.name] = (settings.dead_letters, expiry)
            elif row.name in before:
                dead_letters[row.name] = before[row.name]
        return dead_letters

    def _roles_with(self, dead_letters: Mapping[str, tuple[str, str]]) -> Roles:
        """The roles in force; the same object when nothing changed, so that rows are not made again for nothing."""
        rings = {
            name: settings.default_ring_size
            for name, settings in self._settings.values.items()
        }
        roles = Roles(dead_letters, self._addresses.retroactive, rings)
        return self._roles if roles == self._roles else roles

    async def _refresh_settings(
        self, poll: Poll, addresses: Table[AddressRow]
    ) -> tuple[None, str]:
        """Settings of the addresses that are new or were read longest ago, a bounded number a poll."""
        index = addresses.index
        due = await poll.work(
            lambda: self._settings.due((row.name for row in index), poll.now, index)
        )
        if not (due := due[:SETTINGS_AT_ONCE]):
            return None, ""
        replies = await poll.ask(
            [ask.address_settings(self._name, name) for name in due]
        )

        def decode() -> str:
            read, error = read_each(
                due, replies, lambda r, name: wire.settings(r, f"settings of {name!r}")
            )
            if self._settings.note(
                due, {name: settings for name, (settings, _) in read.items()}, poll.now
            ):
                self._roles = self._roles_with(self._roles.dead_letters)
            return error or left_out(
                together(missing for _, missing in read.values()), all_rows=False
            )

        return None, await poll.work(decode)

    async def _read_connections(self, poll: Poll) -> tuple[ConnectionTables, str]:
        began = poll.asked
        rows = self.options.page_rows
        made = self._connections
        addresses = self._addresses.names
        sessions = await self._pages(
            poll, "listSessions", rows, made.sessions, made.session_sight
        )
        connections: list[Numbers] = []
        if (
            made.unknown() or self.budgets["connections"].over
        ):  # else nothing would show that it is over no more
            connections = await self._pages(
                poll, "listConnections", rows, made.connections
            )

        def producer_table(
            pages: Sequence[Rows[wire.ListedProducer]],
        ) -> Table[model.ProducerRow]:
            return made.producer_table(pages, addresses)

        producers = await self._all_pages(
            poll, "listProducers", made.producers, producer_table, made.producer_sight
        )
        self._connections_read = Cadence(poll.now, poll.asked - began)
        tables = await poll.work(
            lambda: (made.table(sessions, connections), producer_table(producers))
        )
        self.budgets["producers"].shown(tables[1].index)
        poll.note("connections", made.session_sight)
        poll.note("producers", made.producer_sight)
        return tables, unreadable([*connections, *sessions, *producers])

    async def _read_diverts(self, poll: Poll) -> None:
        """As they were where they cannot be read: only texts need them."""
        if self._too_many_for_patterns or not self._diverts_read.due(
            poll.now, ROLES_AGE
        ):
            return
        self._diverts_read = Cadence(poll.now)
        with suppress(SourceError), poll.share():
            (reply,) = await poll.ask([ask.diverts(self._name)])
            diverts = (await poll.work(_DIVERTS.many, reply, "diverts"))[1].rows
            self._diverts = tuple(
                (row.address, row.forwarding_address)
                for row in diverts
                if row.forwarding_address
            )

    async def _with_groups(
        self,
        poll: Poll,
        queues: Table[QueueRow] | None,
        consumers: Table[ConsumerRow] | None,
        queue_of: Keys,
    ) -> Table[QueueRow] | None:
        """The queues with the numbers of their message groups, as far as these were asked."""
        if queues is None or consumers is None:
            return queues
        index = queues.index

        def due_queues() -> list[QueueRow]:
            positions = uneven(queues, consumers, queue_of)
            rows = {row.name: row for row in index.rows[positions]}
            due = self._groups.due(rows, poll.now)[:AT_ONCE]
            return [rows[name] for name in due]

        due = await poll.work(due_queues)
        if due:
            await self._read_groups(poll, due)
        counts = self._groups.values
        if not counts:
            return queues
        positions = index.positions(self._queues.keys_of([*counts]))
        is_listed = positions >= 0
        groups = np.full(len(queues), np.nan)
        groups[positions[is_listed]] = np.array([*counts.values()])[is_listed]
        return _with_column(queues, "groups", groups)

    async def _read_groups(self, poll: Poll, rows: Sequence[QueueRow]) -> None:
        """Read how many message groups these queues have; as before where this fails."""
        names = [row.name for row in rows]
        # They count as asked also where it fails: not at every poll.
        self._groups.note(names, {}, poll.now)
        with suppress(SourceError), poll.share():
            replies = await poll.ask(self._of_each(rows, wire.QueueGroups))
            counts, _ = read_each(names, replies, _groups_of)
            self._groups.note(names, counts, poll.now)

    def _of_each(
        self, rows: Sequence[QueueRow], attributes: type[Struct]
    ) -> list[Request]:
        return [
            ask.of_queue(
                self._name, row.address, row.name, row.routing_type, attributes
            )
            for row in rows
        ]

    async def _read_prepared(
        self,
        poll: Poll,
        queues: Table[QueueRow] | None,
        consumers: Table[ConsumerRow] | None,
        queue_of: Keys,
    ) -> tuple["_Prepared", str]:
        """The prepared transactions, and how many messages of each queue are in them."""
        suspects: Positions = np.empty(0, np.intp)
        requests = [ask.prepared_transactions(self._name)]
        if queues is not None and consumers is not None:
            suspects = await poll.work(
                self._prepared.suspects, queues, consumers, queue_of
            )
            rows = queues.index.rows[suspects].tolist()
            requests += self._of_each(rows, wire.QueueInDoubt)
        listed, *counts = await poll.ask(requests)
        table = await poll.work(self._prepared.table, listed)
        if queues is None or not counts:
            return _Prepared(table, None), ""
        messages, missing = await poll.work(in_doubt, counts, suspects, len(queues))
        return _Prepared(table, messages), left_out(missing)

    async def _try_guard(self, poll: Poll, queues: Table[QueueRow]) -> None:
        """Whether the broker lets this account read what it must not; not tried while no queue is empty. The attribute
        locks its queue: an empty one has nothing to be locked for, nor a message to be shown.
        """
        empty = np.flatnonzero(queues["messages"] == 0)
        if not len(empty):
            return
        self._guard_tried = Cadence(poll.now)
        row: QueueRow = queues.index.rows[empty[0]]
        with (
            suppress(SourceError),
            poll.share(),
        ):  # else nothing is known; what is needed is read by others
            (reply,) = await poll.ask([ask.first_message_age(self._name, row)])
            self._unguarded = float(wire.readable(reply))

    async def _links(
        self, poll: Poll, replies: Sequence[wire.Reply], queues: Table[QueueRow] | None
    ) -> tuple[Table[model.LinkRow], str]:
        if queues is None:
            raise BadAnswer(
                "not known while the queues cannot be read: what waits for a peer is the depth of a queue"
            )
        states: list[LinkState] = []
        pages = []
        for reply, kind in zip(replies, ("bridge", "federation"), strict=True):
            mbeans, links = _BRIDGES.many(reply, f"{kind} attributes")
            pages.append(links)
            states += [
                (name, kind, link)
                for mbean, link in zip(mbeans, links.rows, strict=True)
                if (name := key_if_any(mbean, "name"))
            ]
        return await poll.work(
            self._link_tables.table, states, queues, self._queues.keys_of
        ), unreadable(pages)


def _one_broker(reply: wire.Reply) -> tuple[str, wire.BrokerAttributes, Unread]:
    """Its name, its own values, and which of them could not be read."""
    names, listed = _BROKER.many(reply, "broker attributes")
    if not names:
        raise BadAnswer(
            "Jolokia answers, but shows no Artemis broker: it is starting, stopping, or not an Artemis"
        )
    if len(names) > 1:
        raise BadAnswer(
            f"{len(names)} Artemis brokers in one JVM; Penstock reads one broker a JVM"
        )
    attributes = listed.rows[0]
    if not attributes.version:
        why = f"may the user read attributes (get*, is*)? {wire.BY_CERTIFICATE}"
        raise BadAnswer(
            f"the broker did not return its version: it is starting or stopping; if that lasts: {why}"
        )
    return key_of(names[0], "broker"), attributes, listed.unread


def _broker(attributes: wire.BrokerAttributes) -> Broker:
    is_active = attributes.active
    # A passive broker reports 0 whatever is on the disk.
    disk_used = attributes.disk_store_usage if is_active else np.nan
    has_disk_limit = attributes.max_disk_usage > 0
    disk_limit = attributes.max_disk_usage / 100 if has_disk_limit else np.nan
    broker = Broker(
        kind=BrokerKind.ARTEMIS,
        version=attributes.version,
        product_version=versions.product_version(attributes.version),
        node_id=attributes.node_id,
        role=Role.ACTIVE if is_active else Role.PASSIVE,
        clock=attributes.current_time_millis / 1000,
        uptime=attributes.uptime_millis / 1000,
        connections=attributes.connection_count,
    )
    return replace(
        broker,
        memory_used_bytes=attributes.address_memory_usage,
        memory_limit_bytes=limit(attributes.global_max_size),
        disk_used_ratio=disk_used,
        disk_limit_ratio=disk_limit,
        authentication_failures=attributes.authentication_failure_count,
        sessions_made=attributes.total_session_count,
    )


class _Joins(NamedTuple):
    """Per consumer the keys of its queue and of its connection, -1 where unknown."""

    queue: Keys
    connection: Keys


class _Prepared(NamedTuple):
    """The prepared transactions of one poll."""

    transactions: Table[model.TransactionRow]
    in_doubt: Column | None
    """(queues,) How many messages are in them, NaN where it was not asked; None: no queue was to be asked."""


def _with_column(
    queues: Table[QueueRow] | None, name: str, column: Column | None
) -> Table[QueueRow] | None:
    """The queues with one more column; as they are without queues or without the column."""
    if queues is None or column is None:
        return queues
    return Table(queues.index, {**queues.columns, name: column})


def _blocked_addresses(
    reply: wire.Reply,
) -> tuple[dict[str, bool], Rows[wire.AddressBlocked]]:
    """Whether an operator blocks the producers of an address, by its name; and the rows of the answer."""
    mbeans, rows = _BLOCKED.many(reply, "BlockedViaManagement")
    blocked = {
        key_if_any(mbean, "address") or "": row.blocked_via_management
        for mbean, row in zip(mbeans, rows.rows, strict=True)
    }
    return blocked, rows


def _groups_of(reply: wire.Reply, queue: str) -> float | None:
    """The number of message groups of a queue; None: the queue was deleted."""
    if reply.nothing_found:
        return None
    row, _ = _GROUPS.counted(reply, f"GroupCount of {queue!r}")
    return row.group_count
