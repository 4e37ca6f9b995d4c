"""
One poll of an Artemis broker: which calls, in which order, what to do when one fails.

Order. Consumers, then addresses and acknowledgement attempts, then the queues' own counters last: whatever is
compared with a queue's counters was read before them, so that differences err towards "nothing lost".

Locks. listQueues and listAddresses wait while an operator's bulk operation walks a big queue. They get a part of the
poll's time; after a time-out their lock-free pattern read stands in for them for a while.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np

from penstock.errors import BadAnswer, SourceError, Unreachable
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    Collector,
    ConnectionRow,
    ConsumerRow,
    LinkRow,
    ProducerRow,
    QueueRow,
    Role,
    Snapshot,
)
from penstock.sources.artemis import answers as wire
from penstock.sources.artemis import requests as ask
from penstock.sources.artemis import tables, versions
from penstock.sources.artemis.connections import ConnectionPage, Connections
from penstock.sources.artemis.kinds import Roles
from penstock.sources.artemis.links import Links, LinkState
from penstock.sources.artemis.listings import ListingPage, Numbers, listing_page
from penstock.sources.clients import NameMap
from penstock.sources.rows import Rows, RowT
from penstock.sources.transport import Answer, Request, Transport
from penstock.table import SLACK, Index, Keys, Table

ResultT = TypeVar("ResultT")


class _Sized(Protocol):
    """A page: how many rows it has, how many there are in all, how many values could not be read."""

    @property
    def total(self) -> int: ...
    @property
    def unreadable(self) -> int: ...
    def __len__(self) -> int: ...


PageT = TypeVar("PageT", bound=_Sized)

QUEUE_PAGE_ROWS = 20_000
SETTINGS_AT_ONCE = 500
"""Addresses whose settings are asked in one poll."""
SETTINGS_AGE = 600.0
ROLES_AGE = 60.0
"""Seconds after which settings, and dead-letter addresses and queue texts, are read again."""
NEW_QUEUES_WAIT = 15.0
"""Seconds between two readings of the roles when new queues appear."""
SPARE = 20.0
"""A call that is not needed at every poll is made when it took less than 1/SPARE of the time since."""
AFTER_LOCK = 30.0
"""Seconds for which a listing that timed out is not tried."""
GUARD_AGE = 3600.0
"""Seconds after which it is tried again whether the account may read what an exporter must not."""
LISTING_SHARE = 0.6
"""Share of the time left that a listing which may wait for a lock gets."""


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    page_rows: int = 5_000
    """Consumers, sessions, connections or producers in one answer."""
    names: NameMap = ()


@dataclass(slots=True)
class _Cadence:
    """When something was last read and how long it took, by the stamps of the answers."""

    stamp: float = -np.inf
    seconds: float = 0.0

    def due(self, now: float, age: float) -> bool:
        return now - self.stamp >= max(age, SPARE * self.seconds)


@dataclass(slots=True)
class _Poll:
    """What is known while a poll is under way."""

    broker: str
    version: versions.Version
    now: float
    deadline: float
    asked: float = 0.0
    """Seconds spent waiting for answers."""
    collectors: dict[str, Collector] = field(default_factory=dict)

    def left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Unreachable("the time for this poll was used up before this call; raise timeout or interval")
        return left


class ArtemisReader:
    """Reads one broker through a transport; decoding runs on `executor`, never on the event loop."""

    def __init__(
        self, transport: Transport, options: ReaderOptions | None = None, executor: Executor | None = None
    ) -> None:
        self._transport = transport
        self._options = options or ReaderOptions()
        self._executor = executor
        self._read_broker = wire.ReadDecoder(wire.BrokerAttributes)
        self._read_bridges = wire.ReadDecoder(wire.BridgeAttributes)
        self._read_sizes = wire.ReadDecoder(wire.QueueSizes)
        self._read_dead_letters = wire.ReadDecoder(wire.QueueDeadLetters)
        self._read_blocked = wire.ReadDecoder(wire.AddressBlocked)
        self._forget()

    def _forget(self) -> None:
        """Start anew: nothing of an earlier broker process, version or role is used."""
        names = self._options.names
        self._known: tuple[str, versions.Version, str] | None = None
        self._uptime = 0.0
        self._consumers = tables.Consumers(names, numbers=True)
        self._queues = tables.Queues()
        self._addresses = tables.Addresses()
        self._connections = Connections(names)
        self._queue_names = tables.ByQueueName()
        self._link_tables = Links()
        self._connection_tables: tuple[Table[ConnectionRow], Table[ProducerRow]] | None = None
        self._connections_read = _Cadence()
        self._roles = Roles()
        self._roles_read = _Cadence()
        self._guard_tried = _Cadence()
        self._unguarded = np.nan
        self._unknown_roles = False
        self._judged: tuple[Index[QueueRow], Roles] = (Index.empty(), self._roles)
        self._settings: dict[str, wire.AddressSettings] = {}
        self._settings_stamp: dict[str, float] = {}
        self._settings_due: tuple[Index[AddressRow], float] = Index.empty(), -np.inf
        """When those of these addresses are to be read again."""
        self._blocked: dict[str, bool] | None = None
        self._avoid: dict[str, float] = {}
        self._queue_join, self._connection_join = _Join(), _Join()

    async def close(self) -> None:
        await self._transport.close()

    async def poll(self, timeout: float) -> Snapshot:
        """
        A snapshot within `timeout` seconds.

        Raises SourceError when the broker itself could not be read; each other part fails alone and is told in
        `Snapshot.collectors`.
        """
        deadline = time.monotonic() + timeout
        await self._transport.begin_poll()
        answer = await self._transport.ask([ask.brokers(), ask.bridges(), ask.broker_connections()], timeout)
        about, *links = wire.replies(answer.body, 3)
        name, attributes = self._one_broker(about)
        version = versions.parse(attributes.version)
        known = (name, version, attributes.node_id)
        if self._known != known or attributes.uptime_millis < self._uptime:
            # Another process, perhaps with another store: its ids may be those of other things.
            self._forget()
            self._known = known
            self._consumers = tables.Consumers(self._options.names, numbers=version >= versions.CONSUMER_NUMBERS)
        self._uptime = attributes.uptime_millis
        poll = _Poll(name, version, answer.stamp, deadline)
        poll.collectors["broker"] = Collector(answer.seconds, answer.stamp)
        broker = _broker(attributes)
        if broker.role is Role.PASSIVE:
            self._forget()
            return Snapshot(answer.stamp, broker, collectors=poll.collectors, notes=("a passive broker has no queues",))
        return await self._read(poll, broker, links)

    async def _read(self, poll: _Poll, broker: Broker, links: Sequence[wire.Reply]) -> Snapshot:
        consumers = await self._collect(poll, "consumers", self._read_consumers)
        addresses = await self._collect(poll, "addresses", self._read_addresses)
        sizes = await self._collect(poll, "sizes", self._read_queue_sizes)
        if self._roles_read.due(poll.now, NEW_QUEUES_WAIT if self._unknown_roles else ROLES_AGE):
            refresh = await self._collect(poll, "roles", self._refresh_roles) is not None
        else:
            refresh = False
        queues = await self._collect(poll, "queues", lambda p: self._read_queues(p, refresh=refresh))
        if queues is not None and sizes is not None:
            keys, numbers = self._queues.keys_of_all(sizes[0]), sizes[1]
            queues = Table(queues.index, {**queues.columns, **tables.size_columns(keys, numbers, queues)})
        if addresses is not None:
            await self._collect(poll, "settings", lambda p: self._refresh_settings(p, addresses))
        if queues is not None and self._guard_tried.due(poll.now, GUARD_AGE):
            await self._try_guard(poll, queues)
        connections = await self._read_connections_when_due(poll)
        link_table = await self._collect(poll, "links", lambda _: self._links(links, queues))
        return Snapshot(
            stamp=poll.now,
            broker=replace(broker, unguarded=self._unguarded),
            addresses=addresses,
            queues=queues,
            consumers=consumers,
            connections=connections[0] if connections else None,
            producers=connections[1] if connections else None,
            links=link_table,
            consumer_queue=self._queue_keys(consumers, queues),
            consumer_connection=self._connection_keys(consumers),
            collectors=poll.collectors,
            notes=_notes(poll.version),
        )

    # --- the broker itself

    def _one_broker(self, reply: wire.Reply) -> tuple[str, wire.BrokerAttributes]:
        names, found = self._read_broker(reply, "broker attributes")
        if not names:
            raise BadAnswer("Jolokia answers, but shows no Artemis broker: it is starting, stopping, or not an Artemis")
        if len(names) > 1:
            raise BadAnswer(f"{len(names)} Artemis brokers in one JVM; Penstock reads one broker a JVM")
        attributes = found.rows[0]
        if not attributes.version:
            raise BadAnswer("the broker does not say its version; may the user read attributes (get*, is*)?")
        return ask.key_of(names[0], "broker"), attributes

    # --- collectors: each succeeds or fails alone

    async def _collect(
        self, poll: _Poll, name: str, work: Callable[[_Poll], Awaitable[tuple[ResultT, str]]]
    ) -> ResultT | None:
        """The result of `work`, None when it failed; how it went is kept. `work` also says what it had to leave out."""
        began = time.monotonic()
        result: ResultT | None = None
        try:
            result, error = await work(poll)
        except SourceError as failed:
            error = str(failed)
        poll.collectors[name] = Collector(time.monotonic() - began, poll.now, error)
        return result

    async def _ask(self, poll: _Poll, requests: Sequence[Request]) -> tuple[Answer, list[wire.Reply]]:
        answer = await self._transport.ask(requests, poll.left())
        poll.asked += answer.seconds
        return answer, await self._work(wire.replies, answer.body, len(requests))

    async def _list(self, poll: _Poll, request: Request, share: float) -> ListingPage:
        answer = await self._transport.ask([request], poll.left() * share)
        poll.asked += answer.seconds
        return await self._work(listing_page, answer.body)

    async def _work(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    async def _pages(
        self, poll: _Poll, operation: str, rows: int, decode: Callable[[ListingPage], PageT], share: float = 1.0
    ) -> list[PageT]:
        """All pages of a listing, each decoded and dropped before the next is asked."""
        pages: list[PageT] = []
        seen = 0
        while True:
            request = ask.listing(poll.broker, operation, len(pages) + 1, rows)
            page = await self._list(poll, request, share)
            if page.reply.vanished_meanwhile:
                page = await self._list(poll, request, share)
            read = await self._work(decode, page)
            del page
            pages.append(read)
            seen += len(read)
            if len(read) < rows or seen >= read.total:
                return pages

    async def _read_consumers(self, poll: _Poll) -> tuple[Table[ConsumerRow], str]:
        pages = await self._pages(poll, "listConsumers", self._options.page_rows, self._consumers.page)
        return await self._work(self._consumers.table, pages), _left_out(pages)

    async def _read_queues(self, poll: _Poll, *, refresh: bool) -> tuple[Table[QueueRow], str]:
        async def in_pages() -> list[tables.Page[tables.QueueText]]:
            return await self._pages(
                poll, "listQueues", QUEUE_PAGE_ROWS, lambda r: self._queues.page(r, refresh=refresh), LISTING_SHARE
            )

        async def by_pattern() -> list[tables.Page[tables.QueueText]]:
            _, (reply,) = await self._ask(poll, [ask.queues(poll.broker, ask.QUEUE_ATTRIBUTES)])
            return [await self._work(self._queues.attributes, reply)]

        pages, stood_in = await self._unless_locked(poll, "listQueues", in_pages, by_pattern)
        before = self._queues
        table = await self._work(lambda: before.table(pages, self._roles, from_attributes=stood_in))
        if table.index is not self._judged[0] or self._roles is not self._judged[1]:
            self._judged = table.index, self._roles
            self._unknown_roles = any(row.name not in self._roles.dead_letters for row in table.index)
        return table, _left_out(pages)

    async def _read_addresses(self, poll: _Poll) -> tuple[Table[AddressRow], str]:
        async def in_pages() -> list[Numbers]:
            return await self._pages(poll, "listAddresses", QUEUE_PAGE_ROWS, self._addresses.page, LISTING_SHARE)

        async def by_pattern() -> list[Numbers]:
            _, (reply,) = await self._ask(poll, [ask.addresses(poll.broker)])
            return [await self._work(self._addresses.attributes, reply)]

        if poll.version >= versions.FULL_ADDRESS_ROWS:
            pages, stood_in = await self._unless_locked(poll, "listAddresses", in_pages, by_pattern)
        else:
            pages, stood_in = await by_pattern(), True
        before, settings, blocked = self._addresses, self._settings, self._blocked
        table = await self._work(lambda: before.table(pages, settings, blocked, from_attributes=stood_in))
        return table, _left_out(pages)

    async def _unless_locked(
        self,
        poll: _Poll,
        operation: str,
        in_pages: Callable[[], Awaitable[list[ResultT]]],
        by_pattern: Callable[[], Awaitable[list[ResultT]]],
    ) -> tuple[list[ResultT], bool]:
        """What `operation` lists, or the lock-free pattern read in its place; whether the latter."""
        if poll.now >= self._avoid.get(operation, -np.inf):
            try:
                return await in_pages(), False
            except Unreachable:
                # Each call that waits holds a thread of the broker's web server: do not pile them up.
                self._avoid[operation] = poll.now + AFTER_LOCK
            except BadAnswer:
                pass
        return await by_pattern(), True

    async def _read_queue_sizes(self, poll: _Poll) -> tuple[tuple[Sequence[str], np.typing.NDArray[np.float64]], str]:
        _, (reply,) = await self._ask(poll, [ask.queues(poll.broker, ask.SIZE_ATTRIBUTES)])

        def decode() -> tuple[tuple[Sequence[str], np.typing.NDArray[np.float64]], str]:
            mbeans, found = self._read_sizes(reply, "queue sizes")
            return (self._queue_names.names(mbeans), tables.size_matrix(found.rows)), _left_out([found])

        return await self._work(decode)

    async def _refresh_roles(self, poll: _Poll) -> tuple[Roles, str]:
        """Dead-letter and expiry addresses of all queues, and whether an operator blocks an address's producers."""
        requests = [ask.queues(poll.broker, ask.DEAD_LETTER_ATTRIBUTES)]
        if poll.version >= versions.BLOCKED_ATTRIBUTE:
            requests.append(ask.addresses(poll.broker, ask.BLOCKED_ATTRIBUTES))
        answer, found = await self._ask(poll, requests)
        self._roles_read = _Cadence(poll.now, answer.seconds)

        def decode() -> tuple[Roles, str]:
            mbeans, rows = self._read_dead_letters(found[0], "dead-letter addresses")
            dead_letters = {
                name: (row.dead_letter_address or "", row.expiry_address or "")
                for name, row in zip(self._queue_names.names(mbeans), rows.rows, strict=True)
            }
            if len(found) > 1:
                names, blocked = self._read_blocked(found[1], "BlockedViaManagement")
                self._blocked = {
                    ask.key_of(n, "address"): b.blocked_via_management for n, b in zip(names, blocked.rows, strict=True)
                }
            return self._roles_with(dead_letters), _left_out([rows])

        self._roles, error = await self._work(decode)
        return self._roles, error

    def _roles_with(self, dead_letters: Mapping[str, tuple[str, str]]) -> Roles:
        """The roles in force; the same object when nothing changed, so that rows are not made anew for nothing."""
        rings = {name: settings.default_ring_size for name, settings in self._settings.items()}
        roles = Roles(dead_letters, self._addresses.retroactive, rings)
        return self._roles if roles == self._roles else roles

    async def _refresh_settings(self, poll: _Poll, addresses: Table[AddressRow]) -> tuple[None, str]:
        """Settings of the addresses that are new or were read longest ago, a bounded number a poll."""
        if addresses.index is self._settings_due[0] and poll.now < self._settings_due[1]:
            return None, ""
        stamps, names = self._settings_stamp, [row.name for row in addresses.index]
        due = [name for name in names if poll.now - stamps.get(name, -np.inf) >= SETTINGS_AGE][:SETTINGS_AT_ONCE]
        read, errors = await self._read_settings(poll, due) if due else ({}, [])
        stamps.update(dict.fromkeys(due, poll.now))
        oldest = min((stamps.get(name, -np.inf) for name in names), default=np.inf)
        self._settings_due = addresses.index, oldest + SETTINGS_AGE
        if len(stamps) > 2 * len(addresses) + SLACK:
            here = {row.name for row in addresses.index}
            self._settings_stamp = {name: value for name, value in stamps.items() if name in here}
            self._settings = {name: value for name, value in self._settings.items() if name in here}
        if any(self._settings.get(name) != value for name, value in read.items()):
            self._settings = {**self._settings, **read}
            self._roles = self._roles_with(self._roles.dead_letters)
        return None, f"{len(errors)} of {len(due)} failed; the first: {errors[0]}" if errors else ""

    async def _read_settings(
        self, poll: _Poll, names: Sequence[str]
    ) -> tuple[dict[str, wire.AddressSettings], list[str]]:
        """The settings of these addresses, and why some could not be read."""
        _, found = await self._ask(poll, [ask.address_settings(poll.broker, name) for name in names])

        def decode() -> tuple[dict[str, wire.AddressSettings], list[str]]:
            read, errors = {}, []
            for name, reply in zip(names, found, strict=True):
                try:
                    read[name] = wire.settings(reply, f"settings of {name!r}")
                except SourceError as error:
                    errors.append(str(error))
            return read, errors

        return await self._work(decode)

    async def _read_connections_when_due(self, poll: _Poll) -> tuple[Table[ConnectionRow], Table[ProducerRow]] | None:
        """Connections, sessions and producers; on a large broker not at every poll."""
        if self._connections_read.due(poll.now, 0.0):
            self._connection_tables = await self._collect(poll, "connections", self._read_connections)
        return self._connection_tables

    async def _read_connections(self, poll: _Poll) -> tuple[tuple[Table[ConnectionRow], Table[ProducerRow]], str]:
        began, rows = poll.asked, self._options.page_rows
        sessions = await self._pages(poll, "listSessions", rows, self._connections.sessions)
        connections: list[ConnectionPage] = []
        if self._connections.unknown():
            connections = await self._pages(poll, "listConnections", rows, self._connections.connections)
        producers = await self._pages(poll, "listProducers", rows, self._connections.producers)
        self._connections_read = _Cadence(poll.now, poll.asked - began)

        def build() -> tuple[Table[ConnectionRow], Table[ProducerRow]]:
            return (
                self._connections.table(sessions, connections),
                self._connections.producer_table(_rows(producers), self._addresses.names),
            )

        return await self._work(build), _left_out([*connections, *sessions, *producers])

    async def _try_guard(self, poll: _Poll, queues: Table[QueueRow]) -> None:
        """
        Whether the broker lets this account read what it must not; not tried while no queue is empty.

        The attribute locks its queue: an empty one has nothing to be locked for, nor a message to be shown.
        """
        empty = np.flatnonzero(queues["messages"] == 0)
        if not len(empty):
            return
        self._guard_tried = _Cadence(poll.now)
        row: QueueRow = queues.index.rows[empty[0]]
        request = ask.first_message_age(poll.broker, row.address, row.name, row.routing_type)
        try:
            _, (reply,) = await self._ask(poll, [request])
        except SourceError:
            return  # nothing is known then; what is needed is read by others
        self._unguarded = float(wire.readable(reply))

    async def _links(self, found: Sequence[wire.Reply], queues: Table[QueueRow] | None) -> tuple[Table[LinkRow], str]:
        if queues is None:
            raise BadAnswer("not known while the queues cannot be read: what waits for a peer is the depth of a queue")
        states = []
        for reply, kind in zip(found, ("bridge", "federation"), strict=True):
            mbeans, links = self._read_bridges(reply, f"{kind} attributes")
            states += [
                LinkState(ask.key_of(mbean, "name"), kind, link.started, link.connected, link.queue_name)
                for mbean, link in zip(mbeans, links.rows, strict=True)
            ]
        return self._link_tables.table(states, queues), ""

    # --- joins

    def _queue_keys(self, consumers: Table[ConsumerRow] | None, queues: Table[QueueRow] | None) -> Keys:
        if consumers is None:
            return np.empty(0, np.int64)
        return self._queue_join(
            consumers.index, queues and queues.index, lambda rows: self._queues.keys_of([row.queue for row in rows])
        )

    def _connection_keys(self, consumers: Table[ConsumerRow] | None) -> Keys:
        if consumers is None:
            return np.empty(0, np.int64)
        return self._connection_join(
            consumers.index,
            self._connection_tables,
            lambda rows: self._connections.keys_of([row.session for row in rows]),
        )


class _Join:
    """Keys of what consumers belong to. Each is looked up once in a consumer's life, until it is found."""

    def __init__(self) -> None:
        self._index: Index[ConsumerRow] = Index.empty()
        self._against: object = None
        self._keys: Keys = np.empty(0, np.int64)

    def __call__(
        self, index: Index[ConsumerRow], against: object, look_up: Callable[[Sequence[ConsumerRow]], Keys]
    ) -> Keys:
        """The keys by the rows of `index`, -1 where there is none; `against`: what they are looked up in."""
        if index is not self._index or against is not self._against:
            keys = index.carry(self._index, self._keys, -1)
            unknown = np.flatnonzero(keys < 0)
            if len(unknown):
                keys = keys.copy()
                keys[unknown] = look_up(index.rows[unknown].tolist())
            self._index, self._against, self._keys = index, against, keys
        return self._keys


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
        memory_limit_bytes=attributes.global_max_size if attributes.global_max_size > 0 else np.nan,
        # A passive broker says 0 whatever the disk holds.
        disk_used_ratio=attributes.disk_store_usage if active else np.nan,
        disk_limit_ratio=attributes.max_disk_usage / 100 if attributes.max_disk_usage > 0 else np.nan,
        authentication_failures=attributes.authentication_failure_count,
    )


def _notes(version: versions.Version) -> tuple[str, ...]:
    if version >= versions.CONSUMER_NUMBERS:
        return ()
    return ("this version shows no numbers per consumer; they come with Artemis 2.28 (AMQ Broker 7.11)",)


def _rows(pages: Sequence[Rows[RowT]]) -> list[RowT]:
    return [row for page in pages for row in page.rows]


def _left_out(pages: Iterable[_Sized]) -> str:
    count = sum(page.unreadable for page in pages)
    return f"{count} values could not be read and are left out" if count else ""
