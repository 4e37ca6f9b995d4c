"""One poll of an OpenMQ broker: which calls, in which order, what to do when one fails.

Order. Connections, then producers, then the destinations' own counters, then consumers with the members of
subscriptions: what was sent and did not come, and what left and no consumer let go, is never too much by skew.

Cost. What walks messages is read under a budget (`depths`), settings every ten minutes, all else at every poll.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.brokers.cadence import Aged, read_each
from penstock.brokers.destinations import DestinationNames
from penstock.brokers.engine import BrokerReader, unreadable
from penstock.brokers.engine import Poll as AnyPoll
from penstock.brokers.openmq import answers as wire
from penstock.brokers.openmq import requests as ask
from penstock.brokers.openmq import tables
from penstock.brokers.openmq.depths import Depths, Name
from penstock.brokers.replies import Decoder
from penstock.brokers.rows import Rows, RowT, limit
from penstock.core.catalogues import read_toml
from penstock.core.errors import SourceError
from penstock.core.table import Table
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    Process,
    QueueRow,
    ResourceState,
    Role,
    Snapshot,
)
from penstock.transports.portmapper import read_epoch, request_epoch
from penstock.transports.transport import Request

Poll = AnyPoll[wire.Reply]

SETTINGS_AT_ONCE = 200
"""Destinations whose settings are asked one by one in one poll; of more, all are read in one call."""
EPOCH_SECONDS = 2.0
"""The port mapper answers within this time,"""
EPOCH_RETRY = 60.0
"""or is asked again after so many seconds."""
NOTES = read_toml("penstock.brokers", "texts.toml")["openmq"]["notes"]
EMBEDDED = "jmsdirect"
"""Service of applications in the broker's own JVM, which is that of an application server."""

_CONNECTION = Decoder(wire.Connection)
_CONSUMER = Decoder(wire.Consumer)
_PRODUCER = Decoder(wire.Producer)
_TRANSACTION = Decoder(wire.Transaction)
_DESTINATION = Decoder(wire.Destination)
_DEPTH = Decoder(wire.Depth)
_SETTINGS = Decoder(wire.Settings)


class OpenMQReader(BrokerReader[wire.Reply]):
    replies = wire.replies
    _epoch_retry = -np.inf

    def forget(self) -> None:
        self._session_since = -np.inf
        self._depths = Depths()
        self._destinations = tables.Destinations()
        self._consumers = tables.ConsumerBuilder(self.options.names)
        self._connection_tables = tables.ConnectionBuilder(self.options.names)
        self._settings: Aged[Name, wire.Settings] = Aged()
        self._members: dict[int, tuple[float, frozenset[int]]] = {}
        self._listing = tables.Listing()
        self._called = DestinationNames()

    async def read(self, poll: Poll) -> Snapshot:
        *about_replies, connections = await poll.begin([*ask.ABOUT, ask.CONNECTIONS])
        about, unread = wire.about(about_replies)
        poll.leave_out(unread)
        await self._begin_process(poll, about)
        broker = self._broker(about, poll.now, about_replies[0].timestamp)
        self._depths.begin(poll.now)
        read = _Read()
        read.connections = await poll.collect(
            "connections", self._read_connections(poll, connections)
        )
        by_id = {row.connection_id: row for row in read.connections or ()}
        await self._read_listings(poll, read)
        messages = about.num_msgs + np.nan_to_num(about.num_msgs_in_dmq)
        destinations = await poll.collect(
            "queues", self._read_destinations(poll, messages, by_id)
        )
        read.consumers = await poll.collect(
            "consumers", self._read_consumers(poll, by_id)
        )
        if destinations is not None:
            await poll.collect("settings", self._refresh_settings(poll, destinations))
            self._called = DestinationNames.of(row.key for row in destinations)
            read.addresses, read.queues = await poll.work(
                self._destination_tables, destinations, read.consumers
            )
        return await poll.work(self._snapshot, poll, broker, read)

    # --- the broker itself

    async def _begin_process(self, poll: Poll, about: wire.About) -> None:
        """Note which process answers, and since when its counters count.

        A broker may start again in its process: its port mapper's session shows that, and its counters begin again.
        """
        before = self.process
        session = await self._session(poll, about.port) or before.session
        is_new = self.begins(Process("", *about.process, session))
        if is_new and self.process.same_start(before):
            self._session_since = poll.now

    async def _session(self, poll: Poll, port: int) -> str:
        """Empty while the port mapper does not answer."""
        if poll.now < self._epoch_retry:
            return ""
        try:
            answer = await poll.call([request_epoch(port)], most=EPOCH_SECONDS)
            return read_epoch(answer.body) or ""
        except SourceError:
            self._epoch_retry = poll.now + EPOCH_RETRY
            return ""

    def _broker(self, about: wire.About, now: float, timestamp: float) -> Broker:
        clock, uptime = about.process
        # A runtime whose start was taken before the clock was set is believed less than the time of the answer.
        answered = timestamp + 0.5
        if abs(clock - answered) > 2.0:
            clock = answered
        broker = Broker(
            kind=BrokerKind.OPENMQ,
            version=about.version,
            product_version="",
            node_id=self._node_id(about),
            role=Role.ACTIVE,
            clock=clock,
            uptime=min(uptime, now - self._session_since),
            connections=about.num_connections,
        )
        return replace(
            broker,
            memory_used_bytes=about.total_msg_bytes,
            memory_limit_bytes=limit(about.max_total_msg_bytes),
            heap_used_bytes=about.total_memory - about.free_memory,
            heap_limit_bytes=limit(about.max_memory),
            resource_state=_resource_state(about),
        )

    def _node_id(self, about: wire.About) -> str:
        """Host and port of the broker; where its host is its own machine, its name in the configuration."""
        host = about.host or ""
        is_local = host in ("", "localhost") or host.startswith("127.")
        if is_local and self.options.name:
            return self.options.name
        return f"{host}:{about.port}"

    async def _listed(
        self,
        poll: Poll,
        request: Request,
        reply: wire.Reply,
        decoder: Decoder[RowT],
        operation: str,
    ) -> Rows[RowT]:
        """The rows of a listing, asked a second time: it fails as a whole when one of its rows goes away meanwhile."""
        if reply.status == 500:
            (reply,) = await poll.ask([request])
        return await poll.work(decoder.listed, reply, operation)

    async def _read_connections(
        self, poll: Poll, reply: wire.Reply
    ) -> tuple[list[wire.Connection], str]:
        _, listed = await poll.work(_CONNECTION.many, reply, "connections")
        oldest = self.budgets["connections"].largest_of(
            listed.rows, lambda row: -row.connection_id
        )
        return list(oldest), unreadable([listed])

    async def _read_consumers(
        self, poll: Poll, connections: Mapping[int, wire.Connection]
    ) -> tuple[tables.Listing, str]:
        (reply,) = await poll.ask([ask.CONSUMERS])
        listed = await self._listed(
            poll, ask.CONSUMERS, reply, _CONSUMER, "getConsumerInfo"
        )
        error = unreadable([listed])
        rows = [row for row in listed.rows if row.service_name != tables.ADMIN]
        active = [row for row in rows if row.is_subscription and row.is_active]
        member_ids: list[MemberId] = []
        try:
            if active:
                member_ids = await self._member_ids(poll, connections, listed.rows)
        except SourceError as failed:
            error = f"members of subscriptions: {failed}"
        kept = self._oldest_consumers(rows, member_ids)
        rows = [row for row in rows if row.consumer_id in kept]
        members: list[tables.Member] = []
        try:
            members = await self._read_members(
                poll,
                connections,
                [member for member in member_ids if member.consumer in kept],
                active,
            )
        except SourceError as failed:
            error = f"members of subscriptions: {failed}"
        return _listing(rows, members), error

    def _oldest_consumers(
        self, rows: Sequence[wire.Consumer], members: Sequence["MemberId"]
    ) -> set[int]:
        """The ids of the consumers that the budget allows: the oldest ones, which have the smallest ids."""
        ids = [row.consumer_id for row in rows]
        ids += [member.consumer for member in members]
        budget = self.budgets["consumers"]
        return set(budget.largest_of(ids, lambda consumer_id: -consumer_id))

    async def _member_ids(
        self,
        poll: Poll,
        connections: Mapping[int, wire.Connection],
        listed: Sequence[wire.Consumer],
    ) -> list["MemberId"]:
        """Members of durable and shared subscriptions, each by its connection: consumers that are not listed on their
        own. They are asked where the number of a connection's consumers says that there are others than known.
        """
        alone: dict[int, set[int]] = {}
        for row in listed:
            if not row.is_subscription:
                connection = row.connection_id or -1
                alone.setdefault(connection, set()).add(row.consumer_id)
        counted = {
            key: row.consumers - len(alone.get(key, ()))
            for key, row in connections.items()
        }
        current = {
            key: (count, ids)
            for key, (count, ids) in self._members.items()
            if counted.get(key, 0) == count > 0
        }
        unread = [
            key for key, count in counted.items() if count > 0 and key not in current
        ]
        if unread:
            replies = await poll.ask([ask.consumer_ids(key) for key in unread])
            for key, reply in zip(unread, replies, strict=True):
                if reply.status == 200:
                    consumers = wire.numbers(reply, "getConsumerIDs")
                    ids = consumers - alone.get(key, set())
                    current[key] = float(len(ids)), ids
        self._members = current
        return [
            MemberId(key, consumer)
            for key, (_, ids) in current.items()
            for consumer in sorted(ids)
        ]

    async def _read_members(
        self,
        poll: Poll,
        connections: Mapping[int, wire.Connection],
        wanted: Sequence["MemberId"],
        subscriptions: Sequence[wire.Consumer],
    ) -> list[tables.Member]:
        """The members with these ids, and the subscription of each; a consumer that was closed meanwhile is none."""
        if not wanted:
            return []
        members: list[tables.Member] = []
        replies = await poll.ask([ask.consumer(member.consumer) for member in wanted])
        for member, reply in zip(wanted, replies, strict=True):
            if reply.status != 200:
                # The other members of its connection are asked again.
                self._members.pop(member.connection, None)
                continue
            row = _CONSUMER.one(reply, f"consumer {member.consumer}")
            via = connections.get(member.connection)
            subscription = tables.subscription_of(row, via, subscriptions)
            members.append(tables.Member(row, via, subscription))
        return members

    async def _read_listings(self, poll: Poll, read: "_Read") -> None:
        """Read producers and transactions in one call; a listing that breaks as a row leaves is asked again alone."""
        # Where the call fails, it fails for each of the two.
        replies = asyncio.ensure_future(poll.ask([ask.PRODUCERS, ask.TRANSACTIONS]))

        async def producers() -> tuple[list[wire.Producer], str]:
            reply = (await replies)[0]
            listed = await self._listed(
                poll, ask.PRODUCERS, reply, _PRODUCER, "getProducerInfo"
            )
            return listed.rows, unreadable([listed])

        async def transactions() -> tuple[list[wire.Transaction], str]:
            reply = (await replies)[1]
            listed = await self._listed(
                poll, ask.TRANSACTIONS, reply, _TRANSACTION, "getTransactionInfo"
            )
            return listed.rows, unreadable([listed])

        senders = await poll.collect("producers", producers())
        if senders is not None:
            rows = [row for row in senders if row.service_name != tables.ADMIN]
            read.producers = self.budgets["producers"].largest_of(
                rows, lambda row: -row.producer_id
            )
        listed = await poll.collect("transactions", transactions())
        if listed is not None:
            read.transactions = [row for row in listed if row.state is not None]

    async def _read_destinations(
        self, poll: Poll, messages: float, connections: Mapping[int, wire.Connection]
    ) -> tuple[list[wire.Destination], str]:
        """All destinations with their free counters; the expensive ones, of so many messages, as the budget goes."""
        depths = self._depths
        everything = depths.may_read_all(messages)
        attributes = ask.CHEAP_ATTRIBUTES
        if everything:
            attributes += ask.DEPTH_ATTRIBUTES
        began = poll.asked
        (reply,) = await poll.ask([ask.destinations(attributes)])
        _, listed = await poll.work(_DESTINATION.many, reply, "destinations")
        rows = self.budgets["queues"].largest_of(
            [row for row in listed.rows if not _of_admin(row, connections)], _size
        )
        depths.forget_all_but(rows)
        if everything:
            depths.spend_on_all(messages, len(rows), poll.asked - began)
            for row in rows:
                depths.note(row, row)
        else:
            await self._read_depths(poll, rows)
        return list(rows), unreadable([listed])

    async def _read_depths(self, poll: Poll, rows: Sequence[wire.Destination]) -> None:
        """Read the expensive attributes of the destinations whose turn it is; one that was destroyed is passed over."""
        by_name: dict[Name, wire.Destination] = {row.key: row for row in rows}
        light, costly = self._depths.due(rows)
        if light:
            await self._read_depths_of(poll, [by_name[name] for name in light])
        for name in costly:
            began = poll.asked
            await self._read_depths_of(poll, [by_name[name]])
            self._depths.spend(name, poll.asked - began)

    async def _read_depths_of(
        self, poll: Poll, rows: Sequence[wire.Destination]
    ) -> None:
        """Read the expensive attributes of these destinations in one call."""
        replies = await poll.ask([ask.depth(row.type, row.name) for row in rows])
        for row, reply in zip(rows, replies, strict=True):
            if reply.status == 200:
                depth = _DEPTH.one(reply, f"depth of {row.name!r}")
                self._depths.note(row, depth)

    async def _refresh_settings(
        self, poll: Poll, rows: Sequence[wire.Destination]
    ) -> tuple[None, str]:
        """Settings of the destinations that are new or were read longest ago, a bounded number a poll."""
        due = self._settings.due([row.key for row in rows], poll.now)
        if not due:
            return None, ""
        if len(due) > SETTINGS_AT_ONCE and self._depths.cost_of_all(rows) < 0.5:
            (reply,) = await poll.ask([ask.ALL_SETTINGS])
            _, listed = await poll.work(_SETTINGS.many, reply, "settings")
            read = {
                (settings.type, settings.name): settings for settings in listed.rows
            }
            error = ""
        else:
            due = due[:SETTINGS_AT_ONCE]
            replies = await poll.ask([ask.settings(*name) for name in due])
            read, error = await poll.work(read_each, due, replies, _settings)
        self._settings.note(due, read, poll.now)
        return None, error

    # --- tables

    def _destination_tables(
        self, rows: Sequence[wire.Destination], listing: tables.Listing | None
    ) -> tuple[Table[AddressRow], Table[QueueRow]]:
        """Without consumers, the subscriptions last seen stay with their last numbers."""
        self._listing = listing or self._listing
        read = tables.DestinationsRead(
            rows=rows,
            depths=[self._depths.carried(row) for row in rows],
            settings=self._settings.values,
            settings_read=self._settings.read_at,
            called=self._called,
        )
        single = None if listing is None else listing.single
        addresses, queues = self._destinations.tables(read, self._listing, single)
        self.budgets["queues"].shown(queues.index)
        return addresses, queues

    def _snapshot(self, poll: Poll, broker: Broker, read: "_Read") -> Snapshot:
        connections = [
            row for row in read.connections or () if row.service_name != tables.ADMIN
        ]
        snapshot = Snapshot(
            stamp=poll.now,
            broker=broker,
            addresses=read.addresses,
            queues=read.queues,
            collectors=poll.collectors,
            notes=_notes(connections),
        )
        if read.consumers is not None:
            snapshot = self._with_consumers(snapshot, read.consumers)
        if read.connections is not None:
            table = self._connection_tables.table(connections)
            snapshot = replace(snapshot, connections=table)
        if read.producers is not None:
            snapshot = self._with_producers(snapshot, read.producers, connections)
        if read.transactions is not None:
            snapshot = self._with_transactions(snapshot, read.transactions, connections)
        return snapshot

    def _with_consumers(self, snapshot: Snapshot, listing: tables.Listing) -> Snapshot:
        consumers, queue, connection = self._consumers.table(
            listing, self._called, self._destinations.queue_keys
        )
        self.budgets["consumers"].shown(consumers.index)
        return replace(
            snapshot,
            consumers=consumers,
            consumer_queue=queue,
            consumer_connection=connection,
        )

    def _with_producers(
        self,
        snapshot: Snapshot,
        rows: Sequence[wire.Producer],
        connections: Sequence[wire.Connection],
    ) -> Snapshot:
        by_id = {row.connection_id: row for row in connections}
        producers, connection = self._connection_tables.producers(
            rows, by_id, self._called
        )
        self.budgets["producers"].shown(producers.index)
        return replace(snapshot, producers=producers, producer_connection=connection)

    def _with_transactions(
        self,
        snapshot: Snapshot,
        rows: Sequence[wire.Transaction],
        connections: Sequence[wire.Connection],
    ) -> Snapshot:
        by_end = {(row.host or "", row.port or 0): row for row in connections}
        transactions, connection = self._connection_tables.transactions(rows, by_end)
        return replace(
            snapshot, transactions=transactions, transaction_connection=connection
        )


class MemberId(NamedTuple):
    """A member of a subscription, by its id and that of its connection."""

    connection: int
    consumer: int


@dataclass(slots=True)
class _Read:
    """The rows and tables of one poll; None: this part was not read."""

    connections: Sequence[wire.Connection] | None = None
    producers: Sequence[wire.Producer] | None = None
    transactions: Sequence[wire.Transaction] | None = None
    consumers: tables.Listing | None = None
    addresses: Table[AddressRow] | None = None
    queues: Table[QueueRow] | None = None


def _listing(
    rows: Sequence[wire.Consumer], members: Sequence[tables.Member]
) -> tables.Listing:
    """The consumers of a poll. An active subscription whose members could not be read stands for them."""
    single = [row for row in rows if not row.is_subscription]
    subscriptions = [row for row in rows if row.is_subscription]
    listed = {
        member.subscription.consumer_id for member in members if member.subscription
    }
    unclear = {
        member.row.destination_name for member in members if not member.subscription
    }
    stand_in = [
        row
        for row in subscriptions
        if row.is_active
        and row.consumer_id not in listed
        and row.destination_name not in unclear
    ]
    return tables.Listing([*single, *stand_in], subscriptions, members)


def _notes(connections: Sequence[wire.Connection]) -> tuple[str, ...]:
    """The notes for the operator: which numbers this broker cannot give."""
    in_server = any(row.service_name == EMBEDDED for row in connections)
    if in_server:
        return (*NOTES["always"], *NOTES["in_server"])
    return tuple(NOTES["always"])


def _resource_state(about: wire.About) -> float:
    """The number of the broker's resource state; NaN where it has none that is known."""
    state = str(about.resource_state).strip().upper()
    if state in ResourceState.__members__:
        return float(ResourceState[state])
    return np.nan


def _settings(reply: wire.Reply, name: Name) -> wire.Settings | None:
    """The settings of a destination; None: it was destroyed a moment ago."""
    if reply.nothing_found:
        return None
    return _SETTINGS.one(reply, f"settings of {name[1]!r}")


def _size(row: wire.Destination) -> float:
    """The number of messages in a destination, by its counters."""
    return row.messages_added - row.removed


def _of_admin(
    row: wire.Destination, connections: Mapping[int, wire.Connection]
) -> bool:
    """Whether it is a temporary queue of the broker's own bridges or of an administrator's tool."""
    via = connections.get(row.connection_id or -1)
    return via is not None and via.service_name == tables.ADMIN
