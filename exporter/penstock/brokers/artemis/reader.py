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
from penstock.brokers.rows import Rows, Unread, limit, matrix, together
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
        """By hashes of the names of MBeans, which are long."""
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
        self._judged: tuple[Index[QueueRow], Roles] = (Index.empty(), self._roles)
        self._settings: Aged[str, wire.AddressSettings] = Aged()
        self._groups: Aged[str, float] = Aged()
        self._diverts: tuple[tuple[str, str], ...] = ()
        self._diverts_read = Cadence()
        self._blocked: dict[str, bool] | None = None
        self._avoid: dict[str, float] = {}
        self._rest = (
            np.inf
        )  # seconds that the parts after the consumers took at the last poll
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
        soon = self._unknown_roles and not self._too_many_for_patterns
        refresh = self._roles_read.due(poll.now, NEW_QUEUES_WAIT if soon else ROLES_AGE)
        if refresh and len(self._judged[0]):
            refresh = await poll.collect("roles", self._refresh_roles(poll)) is not None
        queues = await poll.collect(
            "queues", self._read_queues(poll, refresh=refresh), WITH_PATTERN
        )
        sizes = None
        if not self._too_many_for_patterns:
            sizes = await poll.collect("sizes", self._read_sizes(poll, queues))
        if queues is not None and sizes is not None:
            queues = Table(queues.index, {**queues.columns, **sizes})
        if addresses is not None:
            await poll.collect("settings", self._refresh_settings(poll, addresses))
        if queues is not None and self._guard_tried.due(poll.now, GUARD_AGE):
            await self._try_guard(poll, queues)
        if self._connections_read.due(poll.now):  # on a large broker not at every poll
            self._connection_tables = await poll.collect(
                "connections", self._read_connections(poll)
            )
        connections = self._connection_tables
        await self._read_diverts(poll)
        link_table = await poll.collect("links", self._links(poll, links, queues))

        def joined() -> tuple[Keys, Keys, str]:
            return (
                self._queue_join(
                    consumers,
                    queues and queues.index,
                    lambda row: row.queue,
                    self._queues.keys_of,
                ),
                self._connection_join(
                    consumers,
                    connections,
                    lambda row: row.session,
                    self._connections.keys_of,
                ),
                tables.mirror_of(connections[1] if connections else None, link_table),
            )

        consumer_queue, consumer_connection, mirror_of = await poll.work(joined)
        prepared = await poll.collect(
            "transactions", self._read_prepared(poll, queues, consumers, consumer_queue)
        )
        if queues is not None and prepared is not None and prepared[1] is not None:
            queues = Table(queues.index, {**queues.columns, "in_doubt": prepared[1]})
        queues = await self._with_groups(poll, queues, consumers, consumer_queue)
        self._rest = sum(
            one.seconds
            for name, one in poll.collectors.items()
            if name not in ("broker", "consumers")
        )
        notes = {
            "oldest": self._version < versions.CONSUMER_NUMBERS,
            "too_many": self._too_many_for_patterns,
        }
        return Snapshot(
            stamp=poll.now,
            broker=replace(
                broker,
                unguarded=self._unguarded,
                object_name=ask.object_name(self._name),
                mirror_of=mirror_of,
            ),
            addresses=addresses,
            queues=queues,
            consumers=consumers,
            connections=connections[0] if connections else None,
            producers=connections[1] if connections else None,
            links=link_table,
            diverts=self._diverts,
            transactions=prepared[0] if prepared else None,
            consumer_queue=consumer_queue,
            consumer_connection=consumer_connection,
            collectors=poll.collectors,
            notes=tuple(text for name, text in NOTES.items() if notes[name]),
        )

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
                found = await poll.work(listing_page, body)
                if not found.reply.vanished_meanwhile:
                    break
            return await poll.work(decode, found)

        return await poll.pages(page, rows, budget, sight)

    def _budget(self, operation: str) -> Budget:
        """Of one of `ask.LISTINGS`."""
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
        before = self._queues
        budget = self.budgets["queues"]

        async def roles() -> None:
            if refresh and not len(
                self._judged[0]
            ):  # until now it was not known whether a pattern may be asked
                await poll.collect("roles", self._refresh_roles(poll))

        try:
            pages, replaced = await self._unless_locked(
                poll,
                "listQueues",
                before,
                lambda page: before.page(page, refresh=refresh),
                ask.queues(self._name, wire.QueueAttributes),
                _MESSAGES,
            )
        except Refused:
            await roles()
            raise
        await roles()

        def build() -> Table[QueueRow]:
            table = before.table(
                pages, self._roles, from_attributes=replaced, by_size=budget.was_over
            )
            if table.index is not self._judged[0] or self._roles is not self._judged[1]:
                self._judged = table.index, self._roles
                self._unknown_roles = any(
                    row.name not in self._roles.dead_letters for row in table.index
                )
            return table

        known, table = len(self._judged[0]), await poll.work(build)
        if known and not len(table):  # the next poll believes it
            raise BadAnswer(
                "no queue is listed any more: the broker is stopping, or all were deleted"
            )
        budget.shown(table.index)
        poll.note("queues", before.sight)
        return table, unreadable(pages)

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
        """What `operation` lists, or the lock-free read of a pattern in its place, if no more rows than may be
        read; whether the latter. size: the field by which the largest are kept. listed: this version's listing will do.
        """
        budget = self._budget(operation)
        if listed and (budget.over or poll.now >= self._avoid.get(operation, -np.inf)):
            try:
                with poll.share(SHARE / WITH_PATTERN):
                    return await self._pages(
                        poll, operation, QUEUE_PAGE_ROWS, decode, made.sight, tries=2
                    ), False
            except (Unreachable, BadAnswer) as failed:
                if budget.over or isinstance(
                    failed, OverBudget
                ):  # over: this listing may just have shown it
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
        at = await poll.work(
            self._sizes.due, queues, self._queues.sight.hidden, poll.now
        )
        if at is not None:
            error = await self._sizes_by_name(poll, queues.index, at)
            return self._sizes.columns(), error
        (reply,) = await poll.ask([ask.queues(self._name, wire.QueueSizes)])

        def decode() -> str:
            mbeans, found = _SIZES.many(reply, "queue sizes")
            keys = self._queues.keys_of(self._queues_of(mbeans))
            self._sizes.found_all(keys, matrix(found.rows, COLUMNS), poll.now)
            return unreadable([found])

        error = await poll.work(decode)
        return self._sizes.columns(), error

    def _queues_of(self, mbeans: Sequence[str]) -> list[str]:
        """Names of the queues of a pattern read, each parsed once; of an MBean whose name has none it is empty."""
        known = self._queue_names
        names = [
            known.get(hash(one)) or intern(key_if_any(one, "queue") or "")
            for one in mbeans
        ]
        self._queue_names = dict(zip(map(hash, mbeans), names, strict=True))
        return names

    async def _sizes_by_name(
        self, poll: Poll, index: Index[QueueRow], at: Positions
    ) -> str:
        rows: Sequence[QueueRow] = index.rows[at].tolist()
        bulks = ask.in_bulks(self._of_each(rows, wire.QueueSizes))
        replies = [reply for bulk in bulks for reply in await poll.ask(bulk)]

        def decode() -> str:
            # A queue that went away since it was listed is no error.
            here = [i for i, reply in enumerate(replies) if not reply.nothing_found]
            read, error = read_each(
                here,
                [replies[i] for i in here],
                lambda reply, i: _SIZES.counted(reply, f"sizes of {rows[i].name!r}"),
            )
            if error and not read:
                raise BadAnswer(error)
            values = np.full((len(COLUMNS), len(at)), np.nan)
            values[:, list(read)] = matrix([row for row, _ in read.values()], COLUMNS)
            self._sizes.found(at, values, np.delete(at, here), poll.now)
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
            if len(
                self._judged[0]
            ):  # else no settings are known either: again at the next poll
                self._roles_read = Cadence(poll.now)
            self._roles = self._roles_with(
                await poll.work(self._dead_letters_by_settings)
            )
            return self._roles, ""
        requests = [ask.queues(self._name, wire.QueueDeadLetters)]
        if self._version >= versions.BLOCKED_ATTRIBUTE:
            requests.append(ask.addresses(self._name, wire.AddressBlocked))
        began = poll.asked
        found = await poll.ask(requests)
        self._roles_read = Cadence(poll.now, poll.asked - began)

        def decode() -> tuple[Roles, str]:
            mbeans, rows = _DEAD_LETTERS.many(found[0], "dead-letter addresses")
            dead_letters = {
                name: (row.dead_letter_address or "", row.expiry_address or "")
                for name, row in zip(self._queues_of(mbeans), rows.rows, strict=True)
            }
            if len(found) > 1:
                names, blocked = _BLOCKED.many(found[1], "BlockedViaManagement")
                self._blocked = {
                    key_if_any(n, "address") or "": b.blocked_via_management
                    for n, b in zip(names, blocked.rows, strict=True)
                }
                return self._roles_with(dead_letters), unreadable([rows, blocked])
            return self._roles_with(dead_letters), unreadable([rows])

        self._roles, error = await poll.work(decode)
        return self._roles, error

    def _dead_letters_by_settings(self) -> dict[str, tuple[str, str]]:
        """The same as far as the settings of addresses are known; else as it was."""
        settings = self._settings.values
        before = self._roles.dead_letters
        found = [(row.name, settings.get(row.address)) for row in self._judged[0]]
        known = {
            name: before[name] for name, one in found if one is None and name in before
        }
        return known | {
            name: (one.dead_letters, one.expiry_address or "")
            for name, one in found
            if one is not None
        }

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
        found = await poll.ask([ask.address_settings(self._name, name) for name in due])

        def decode() -> str:
            read, error = read_each(
                due, found, lambda r, name: wire.settings(r, f"settings of {name!r}")
            )
            if self._settings.note(
                due, {name: one for name, (one, _) in read.items()}, poll.now
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
            found = (await poll.work(_DIVERTS.many, reply, "diverts"))[1].rows
            self._diverts = tuple(
                (row.address, row.forwarding_address)
                for row in found
                if row.forwarding_address
            )

    async def _with_groups(
        self,
        poll: Poll,
        queues: Table[QueueRow] | None,
        consumers: Table[ConsumerRow] | None,
        queue_of: Keys,
    ) -> Table[QueueRow] | None:
        if queues is None or consumers is None:
            return queues
        index = queues.index

        def asked() -> tuple[dict[str, QueueRow], list[str]]:
            rows = {
                row.name: row for row in index.rows[uneven(queues, consumers, queue_of)]
            }
            return rows, self._groups.due(rows, poll.now)[:AT_ONCE]

        rows, due = await poll.work(asked)
        if due:
            self._groups.note(
                due, {}, poll.now
            )  # also where it fails: not at every poll
            with suppress(SourceError), poll.share():
                found = await poll.ask(
                    self._of_each([rows[name] for name in due], wire.QueueGroups)
                )
                self._groups.note(due, read_each(due, found, _groups_of)[0], poll.now)
        if not (known := self._groups.values):
            return queues
        at = queues.index.positions(self._queues.keys_of([*known]))
        groups = np.full(len(queues), np.nan)
        groups[at[at >= 0]] = np.array([*known.values()])[at >= 0]
        return Table(queues.index, {**queues.columns, "groups": groups})

    def _of_each(self, rows: Sequence[QueueRow], of: type[Struct]) -> list[Request]:
        return [
            ask.of_queue(self._name, row.address, row.name, row.routing_type, of)
            for row in rows
        ]

    async def _read_prepared(
        self,
        poll: Poll,
        queues: Table[QueueRow] | None,
        consumers: Table[ConsumerRow] | None,
        queue_of: Keys,
    ) -> tuple[tuple[Table[model.TransactionRow], Column | None], str]:
        """Prepared transactions, and by queue the messages in them, None where no queue was to be asked."""
        rows: Sequence[QueueRow] = ()
        if queues is not None and consumers is not None:
            at = await poll.work(self._prepared.suspects, queues, consumers, queue_of)
            rows = queues.index.rows[at].tolist()
        each = self._of_each(rows, wire.QueueInDoubt)
        listed, *counts = await poll.ask([ask.prepared_transactions(self._name), *each])
        table = await poll.work(self._prepared.table, listed)
        if queues is None or not counts:
            return (table, None), ""
        messages, missing = await poll.work(in_doubt, counts, at, len(queues))
        return (table, messages), left_out(missing)

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
        self, poll: Poll, found: Sequence[wire.Reply], queues: Table[QueueRow] | None
    ) -> tuple[Table[model.LinkRow], str]:
        if queues is None:
            raise BadAnswer(
                "not known while the queues cannot be read: what waits for a peer is the depth of a queue"
            )
        states: list[LinkState] = []
        pages = []
        for reply, kind in zip(found, ("bridge", "federation"), strict=True):
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
    names, found = _BROKER.many(reply, "broker attributes")
    if not names:
        raise BadAnswer(
            "Jolokia answers, but shows no Artemis broker: it is starting, stopping, or not an Artemis"
        )
    if len(names) > 1:
        raise BadAnswer(
            f"{len(names)} Artemis brokers in one JVM; Penstock reads one broker a JVM"
        )
    attributes = found.rows[0]
    if not attributes.version:
        why = f"may the user read attributes (get*, is*)? {wire.BY_CERTIFICATE}"
        raise BadAnswer(
            f"the broker did not return its version: it is starting or stopping; if that lasts: {why}"
        )
    return key_of(names[0], "broker"), attributes, found.unread


def _broker(attributes: wire.BrokerAttributes) -> Broker:
    active = attributes.active
    return Broker(
        kind=BrokerKind.ARTEMIS,
        version=attributes.version,
        product_version=versions.product_version(attributes.version),
        node_id=attributes.node_id,
        role=Role.ACTIVE if active else Role.PASSIVE,
        clock=attributes.current_time_millis / 1000,
        uptime=attributes.uptime_millis / 1000,
        connections=attributes.connection_count,
        memory_used_bytes=attributes.address_memory_usage,
        memory_limit_bytes=limit(attributes.global_max_size),
        # A passive broker reports 0 whatever is on the disk.
        disk_used_ratio=attributes.disk_store_usage if active else np.nan,
        disk_limit_ratio=attributes.max_disk_usage / 100
        if attributes.max_disk_usage > 0
        else np.nan,
        authentication_failures=attributes.authentication_failure_count,
        sessions_made=attributes.total_session_count,
    )


def _groups_of(reply: wire.Reply, queue: str) -> float | None:
    """None where the queue is gone."""
    return (
        None
        if reply.nothing_found
        else _GROUPS.counted(reply, f"GroupCount of {queue!r}")[0].group_count
    )
