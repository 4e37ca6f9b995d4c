"""
One poll of an OpenMQ broker: which calls, in which order, what to do when one fails.

Order. Connections, then consumers with the members of subscriptions, then the destinations' own counters last:
whatever is compared with a queue's counters was read before them, so that differences err towards "nothing lost".

Cost. What walks messages is read under a budget (`depths`), settings every ten minutes, all else at every poll.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from penstock.errors import BadAnswer, SourceError, Unreachable
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    Collector,
    ConnectionRow,
    ProducerRow,
    QueueRow,
    ResourceState,
    Role,
    Snapshot,
    TransactionRow,
)
from penstock.sources.clients import NameMap
from penstock.sources.openmq import answers as wire
from penstock.sources.openmq import requests as ask
from penstock.sources.openmq import tables
from penstock.sources.openmq.depths import Depths, Name
from penstock.sources.portmapper import read_epoch, request_epoch
from penstock.sources.rows import Rows, RowT
from penstock.sources.transport import Answer, Request, Transport
from penstock.table import SLACK, Keys, Table

ResultT = TypeVar("ResultT")

SETTINGS_AGE = 600.0
"""Seconds after which settings are read again."""
SETTINGS_AT_ONCE = 200
"""Destinations whose settings are asked one by one in one poll; of more, all are read in one call."""
EPOCH_RETRY = 60.0
"""Seconds after which a port mapper that did not answer is asked again."""
LISTING_SHARE = 0.6
"""Share of the time left that the listing of consumers gets: after a restart it may load messages from disk."""
NOTES = (
    "OpenMQ shows no sessions, no bytes per consumer, no refused logins",
    "OpenMQ counts what leaves a queue for whatever reason in one number: acknowledged, expired, removed",
)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    name: str = ""
    """The broker's name in the configuration: its identity where it knows itself as localhost only."""
    names: NameMap = ()


@dataclass(slots=True)
class _Poll:
    """What is known while a poll is under way."""

    now: float
    deadline: float
    collectors: dict[str, Collector] = field(default_factory=dict)

    def left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Unreachable("the time for this poll was used up before this call; raise timeout or interval")
        return left


@dataclass(frozen=True, slots=True)
class _About:
    """What the broker says of itself."""

    broker: wire.BrokerAttributes
    runtime: wire.RuntimeAttributes
    heap: wire.HeapAttributes
    totals: wire.TotalAttributes
    limits: wire.TotalLimits
    connections: wire.ConnectionCount


class OpenMQReader:
    """Reads one broker through a transport; decoding runs on `executor`, never on the event loop."""

    def __init__(
        self, transport: Transport, options: ReaderOptions | None = None, executor: Executor | None = None
    ) -> None:
        self._transport = transport
        self._options = options or ReaderOptions()
        self._executor = executor
        self._session: str | None = None
        self._session_since = -np.inf
        self._epoch_retry = -np.inf
        self._started = np.nan
        self._decoders = _Decoders()
        self._forget()

    def _forget(self) -> None:
        """Start anew: nothing of an earlier broker process is used."""
        self._depths = Depths()
        self._destinations = tables.Destinations()
        self._consumers = tables.Consumers(self._options.names)
        self._connection_tables = tables.Connections(self._options.names)
        self._settings: dict[Name, wire.Settings] = {}
        self._settings_stamp: dict[Name, float] = {}
        self._members: dict[int, tuple[float, frozenset[int]]] = {}
        self._listing = tables.Listing()
        self._called = tables.Names()

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
        requests = [
            ask.broker(), ask.runtime(), ask.heap(), ask.totals(), ask.total_limits(), ask.connection_count(),
            ask.connections(),
        ]  # fmt: skip
        answer = await self._transport.ask(requests, timeout)
        *about, connections = wire.replies(answer.body, len(requests))
        said = self._decoders.about(about)
        poll = _Poll(answer.stamp, deadline)
        poll.collectors["broker"] = Collector(answer.seconds, answer.stamp)
        await self._follow_epoch(poll, said)
        return await self._read(poll, self._broker(said, poll.now, about[0].timestamp), connections, said.totals)

    async def _read(
        self, poll: _Poll, broker: Broker, connections: wire.Reply, totals: wire.TotalAttributes
    ) -> Snapshot:
        self._depths.begin(poll.now)
        linked = await self._collect(poll, "connections", lambda _: self._read_connections(connections))
        by_id = {row.connection_id: row for row in linked or ()}
        listing = await self._collect(poll, "consumers", lambda p: self._read_consumers(p, by_id))
        producers, transactions = await self._read_listings(poll)
        destinations = await self._collect(poll, "queues", lambda p: self._read_destinations(p, totals, by_id))
        found = None
        if destinations is not None:
            await self._collect(poll, "settings", lambda p: self._refresh_settings(p, destinations))
            self._called = tables.Names.of(destinations)
            found = await self._work(self._destination_tables, destinations, listing)
        return await self._work(self._snapshot, poll, broker, found, listing, linked, producers, transactions)

    # --- the broker itself

    async def _follow_epoch(self, poll: _Poll, said: _About) -> None:
        """Forget what belongs to an earlier process; its counters begin anew when the port mapper's session does."""
        started = said.runtime.start_time
        session = None
        if poll.now >= self._epoch_retry:
            try:
                answer = await self._transport.ask([request_epoch(said.broker.port)], min(2.0, poll.left()))
                session = read_epoch(answer.body)
            except SourceError:
                self._epoch_retry = poll.now + EPOCH_RETRY
        restarted = not np.isnan(self._started) and abs(started - self._started) > 2000
        renewed = session is not None and self._session is not None and session != self._session
        if restarted or renewed:
            self._forget()
        if restarted:
            self._session_since = -np.inf
        elif renewed:
            self._session_since = poll.now
        self._started = started
        self._session = session or self._session

    def _broker(self, said: _About, now: float, timestamp: float) -> Broker:
        runtime, heap = said.runtime, said.heap
        # A runtime whose start was taken before the clock was set is believed less than the time of the answer.
        clock = (runtime.start_time + runtime.uptime) / 1000
        if abs(clock - (timestamp + 0.5)) > 2.0:
            clock = timestamp + 0.5
        host = said.broker.host or ""
        known_as = self._options.name if host in ("", "localhost") or host.startswith("127.") else ""
        state = (said.broker.resource_state or "").strip().upper()
        limit = said.limits.max_total_msg_bytes
        return Broker(
            kind=BrokerKind.OPENMQ,
            version=said.broker.version,
            product_version="",
            node_id=known_as or f"{host}:{said.broker.port}",
            role=Role.ACTIVE,
            clock=clock,
            uptime=min(runtime.uptime / 1000, now - self._session_since),
            connections=said.connections.num_connections,
            memory_used_bytes=said.totals.total_msg_bytes,
            memory_limit_bytes=limit if limit > 0 else np.nan,
            heap_used_bytes=heap.total_memory - heap.free_memory,
            heap_limit_bytes=heap.max_memory,
            resource_state=float(ResourceState[state]) if state in ResourceState.__members__ else np.nan,
        )

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

    async def _ask(
        self, poll: _Poll, requests: Sequence[Request], share: float = 1.0
    ) -> tuple[Answer, list[wire.Reply]]:
        answer = await self._transport.ask(requests, poll.left() * share)
        return answer, await self._work(wire.replies, answer.body, len(requests))

    async def _work(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    async def _listed(
        self, poll: _Poll, request: Request, decoder: wire.Decoder[RowT], what: str, share: float = 1.0
    ) -> Rows[RowT]:
        """The rows of a listing, asked a second time when something in it went away while it was made."""
        _, (reply,) = await self._ask(poll, [request], share)
        if reply.worth_a_retry:
            _, (reply,) = await self._ask(poll, [request], share)
        return await self._work(decoder.listed, reply, what)

    async def _read_connections(self, reply: wire.Reply) -> tuple[list[wire.Connection], str]:
        found = await self._work(self._decoders.connection.many, reply, "connections")
        return found.rows, _left_out([found])

    async def _read_consumers(
        self, poll: _Poll, connections: Mapping[int, wire.Connection]
    ) -> tuple[tables.Listing, str]:
        found = await self._listed(poll, ask.consumers(), self._decoders.consumer, "getConsumerInfo", LISTING_SHARE)
        rows = [row for row in found.rows if row.service_name != tables.ADMIN]
        single = [row for row in rows if not row.is_subscription]
        subscriptions = [row for row in rows if row.is_subscription]
        members: list[tables.Member] = []
        error = _left_out([found])
        if any(row.is_active for row in subscriptions):
            try:
                members = await self._read_members(poll, connections, single, subscriptions)
            except SourceError as failed:
                error = f"members of subscriptions: {failed}"
        told = {member.subscription.consumer_id for member in members if member.subscription}
        untold = {m.row.destination_name for m in members if not m.subscription}
        stand_in = [
            row
            for row in subscriptions
            if row.is_active and row.consumer_id not in told and row.destination_name not in untold
        ]
        return tables.Listing([*single, *stand_in], subscriptions, members), error

    async def _read_members(
        self,
        poll: _Poll,
        connections: Mapping[int, wire.Connection],
        single: Sequence[wire.Consumer],
        subscriptions: Sequence[wire.Consumer],
    ) -> list[tables.Member]:
        """
        Members of durable and shared subscriptions: a connection's consumers that are not listed on their own.

        Which they are is asked only where the number of a connection's consumers says that there are some others than
        known.
        """
        alone: dict[int, set[int]] = {}
        for row in single:
            alone.setdefault(row.connection_id or -1, set()).add(row.consumer_id)
        counted = {key: row.num_consumers - len(alone.get(key, ())) for key, row in connections.items()}
        known = {key: (count, ids) for key, (count, ids) in self._members.items() if counted.get(key, 0) == count > 0}
        fresh = [key for key, count in counted.items() if count > 0 and key not in known]
        if fresh:
            _, found = await self._ask(poll, [ask.consumer_ids(key) for key in fresh])
            for key, reply in zip(fresh, found, strict=True):
                if reply.status == 200:
                    ids = self._decoders.ids(reply) - alone.get(key, set())
                    known[key] = float(len(ids)), ids
        wanted = [(key, one) for key, (_, ids) in known.items() for one in sorted(ids)]
        members: list[tables.Member] = []
        self._members = known
        if wanted:
            _, found = await self._ask(poll, [ask.consumer(one) for _, one in wanted])
            for (key, one), reply in zip(wanted, found, strict=True):
                if reply.status != 200:  # it went away: what else this connection has is asked again
                    self._members.pop(key, None)
                    continue
                row = self._decoders.consumer.one(reply, f"consumer {one}")
                via = connections.get(key)
                members.append(tables.Member(row, via, tables.subscription_of(row, via, subscriptions)))
        return members

    async def _read_listings(self, poll: _Poll) -> tuple[Rows[wire.Producer] | None, Rows[wire.Transaction] | None]:
        """Both in one call; one that broke because something in it went away is asked again by itself."""
        requests = [ask.producers(), ask.transactions()]
        asked: list[wire.Reply] | SourceError
        try:
            _, asked = await self._ask(poll, requests)
        except SourceError as error:
            asked = error

        async def listed(number: int, decoder: wire.Decoder[RowT], what: str) -> tuple[Rows[RowT], str]:
            if isinstance(asked, SourceError):
                raise asked
            reply = asked[number]
            if reply.worth_a_retry:
                _, (reply,) = await self._ask(poll, [requests[number]])
            found = await self._work(decoder.listed, reply, what)
            return found, _left_out([found])

        producers = await self._collect(
            poll, "producers", lambda _: listed(0, self._decoders.producer, "getProducerInfo")
        )
        if producers is not None:
            rows = [row for row in producers.rows if row.service_name != tables.ADMIN]
            producers = Rows(rows, len(rows))
        transactions = await self._collect(
            poll, "transactions", lambda _: listed(1, self._decoders.transaction, "getTransactionInfo")
        )
        if transactions is not None:
            open_now = [row for row in transactions.rows if row.state is not None]
            transactions = Rows(open_now, len(open_now))
        return producers, transactions

    async def _read_destinations(
        self, poll: _Poll, totals: wire.TotalAttributes, connections: Mapping[int, wire.Connection]
    ) -> tuple[list[wire.Destination], str]:
        """All destinations with their free counters; the expensive ones as far as the budget goes."""
        depths, decoder = self._depths, self._decoders.destination
        messages = totals.num_msgs + np.nan_to_num(totals.num_msgs_in_dmq)
        everything = depths.may_read_all(messages)
        attributes = ask.CHEAP_ATTRIBUTES + ask.DEPTH_ATTRIBUTES if everything else ask.CHEAP_ATTRIBUTES
        answer, (reply,) = await self._ask(poll, [ask.destinations(attributes)])
        found = await self._work(decoder.many, reply, "destinations")
        rows = [row for row in found.rows if not _of_admin(row, connections)]
        depths.forget_all_but(rows)
        if everything:
            depths.spend_on_all(messages, len(rows), answer.seconds)
            for row in rows:
                depths.note(row, _depth(row))
            return rows, _left_out([found])
        await self._read_depths(poll, rows)
        return rows, _left_out([found])

    async def _read_depths(self, poll: _Poll, rows: Sequence[wire.Destination]) -> None:
        """The expensive attributes of those destinations whose turn it is; one that is gone is passed over."""
        by_name: dict[Name, wire.Destination] = {(row.type, row.name): row for row in rows}
        light, costly = self._depths.due(rows)
        for names in ([light] if light else []) + [[name] for name in costly]:
            answer, found = await self._ask(poll, [ask.depth(*name) for name in names])
            for name, reply in zip(names, found, strict=True):
                if reply.status == 200:
                    self._depths.note(by_name[name], self._decoders.depth.one(reply, f"depth of {name[1]!r}"))
            if names is not light:
                self._depths.spend(names[0], answer.seconds)

    async def _refresh_settings(self, poll: _Poll, rows: Sequence[wire.Destination]) -> tuple[None, str]:
        """Settings of the destinations that are new or were read longest ago, a bounded number a poll."""
        stamps = self._settings_stamp
        names = [(row.type, row.name) for row in rows]
        due = [name for name in names if poll.now - stamps.get(name, -np.inf) >= SETTINGS_AGE]
        if not due:
            return None, ""
        cost = sum(self._depths.cost_of(row) for row in rows)
        errors: list[str] = []
        read: list[wire.Settings] = []
        if len(due) > SETTINGS_AT_ONCE and cost < 0.5:
            _, (reply,) = await self._ask(poll, [ask.all_settings()])
            read = (await self._work(self._decoders.settings.many, reply, "settings")).rows
        else:
            due = due[:SETTINGS_AT_ONCE]
            _, found = await self._ask(poll, [ask.settings(*name) for name in due])
            for name, reply in zip(due, found, strict=True):
                try:
                    read.append(self._decoders.settings.one(reply, f"settings of {name[1]!r}"))
                except SourceError as error:
                    if not reply.nothing_found:  # destroyed a moment ago
                        errors.append(str(error))
        stamps.update(dict.fromkeys(due, poll.now))
        self._settings |= {(one.type, one.name): one for one in read}
        if len(stamps) > 2 * len(rows) + SLACK:
            here = set(names)
            self._settings_stamp = {name: stamp for name, stamp in stamps.items() if name in here}
            self._settings = {name: one for name, one in self._settings.items() if name in here}
        return None, f"{len(errors)} of {len(due)} failed; the first: {errors[0]}" if errors else ""

    # --- tables

    def _destination_tables(
        self, rows: Sequence[wire.Destination], listing: tables.Listing | None
    ) -> tuple[Table[AddressRow], Table[QueueRow]]:
        """Without consumers, the subscriptions last seen stay with their last numbers."""
        self._listing = listing or self._listing
        single = None if listing is None else listing.single
        depths = [self._depths.carried(row) for row in rows]
        held = tables.delivering(rows, depths, single)
        called, settings = self._called, self._settings
        return (
            self._destinations.addresses(rows, depths, held, settings, called),
            self._destinations.queues(rows, depths, held, settings, called, self._listing),
        )

    def _snapshot(
        self,
        poll: _Poll,
        broker: Broker,
        found: tuple[Table[AddressRow], Table[QueueRow]] | None,
        listing: tables.Listing | None,
        linked: Sequence[wire.Connection] | None,
        producers: Rows[wire.Producer] | None,
        transactions: Rows[wire.Transaction] | None,
    ) -> Snapshot:
        nothing: Keys = np.empty(0, np.int64)
        consumers = self._consumers.table(listing, self._called, self._destinations.serials) if listing else None
        rows = [row for row in linked or () if row.service_name != tables.ADMIN]
        by_id = {row.connection_id: row for row in rows}
        by_end = {(row.host or "", row.port or 0): row for row in rows}
        made = self._connection_tables
        connections: Table[ConnectionRow] | None = None if linked is None else made.table(rows)
        produced: tuple[Table[ProducerRow], Keys] | None = (
            None if producers is None else made.producers(producers.rows, by_id, self._called)
        )
        open_now: tuple[Table[TransactionRow], Keys] | None = (
            None if transactions is None else made.transactions(transactions.rows, by_end)
        )
        return Snapshot(
            stamp=poll.now,
            broker=broker,
            addresses=found[0] if found else None,
            queues=found[1] if found else None,
            consumers=consumers[0] if consumers else None,
            connections=connections,
            producers=produced[0] if produced else None,
            transactions=open_now[0] if open_now else None,
            consumer_queue=consumers[1] if consumers else nothing,
            consumer_connection=consumers[2] if consumers else nothing,
            producer_connection=produced[1] if produced else nothing,
            transaction_connection=open_now[1] if open_now else nothing,
            collectors=poll.collectors,
            notes=NOTES,
        )


class _Decoders:
    """One decoder a kind of row; made once."""

    def __init__(self) -> None:
        self._broker = wire.Decoder(wire.BrokerAttributes)
        self._runtime = wire.Decoder(wire.RuntimeAttributes)
        self._heap = wire.Decoder(wire.HeapAttributes)
        self._totals = wire.Decoder(wire.TotalAttributes)
        self._limits = wire.Decoder(wire.TotalLimits)
        self._count = wire.Decoder(wire.ConnectionCount)
        self.connection = wire.Decoder(wire.Connection)
        self.consumer = wire.Decoder(wire.Consumer)
        self.producer = wire.Decoder(wire.Producer)
        self.transaction = wire.Decoder(wire.Transaction)
        self.destination = wire.Decoder(wire.Destination)
        self.depth = wire.Decoder(wire.Depth)
        self.settings = wire.Decoder(wire.Settings)

    def about(self, found: Sequence[wire.Reply]) -> _About:
        broker, runtime, heap, totals, limits, count = found
        if broker.nothing_found:
            raise BadAnswer("the JVM answers, but shows no OpenMQ broker: it is starting, stopping, or not an OpenMQ")
        return _About(
            self._broker.one(broker, "broker attributes"),
            self._runtime.one(runtime, "runtime attributes"),
            self._heap.one(heap, "heap"),
            self._totals.one(totals, "totals"),
            self._limits.one(limits, "limits"),
            self._count.one(count, "number of connections"),
        )

    def ids(self, reply: wire.Reply) -> frozenset[int]:
        return frozenset(int(text) for text in wire.texts(reply, "getConsumerIDs") if text.isdigit())


def _depth(row: wire.Destination) -> wire.Depth:
    return wire.Depth(
        row.num_msgs,
        row.num_msgs_pending_acks,
        row.num_msgs_held_in_transaction,
        row.num_msgs_in_delay_delivery,
        row.total_msg_bytes,
    )


def _of_admin(row: wire.Destination, connections: Mapping[int, wire.Connection]) -> bool:
    """Whether it is a temporary queue of the broker's own bridges or of an administrator's tool."""
    via = connections.get(row.connection_id or -1)
    return via is not None and via.service_name == tables.ADMIN


def _left_out(pages: Iterable[Rows[RowT]]) -> str:
    count = sum(page.unreadable for page in pages)
    return f"{count} values could not be read and are left out" if count else ""
