"""One poll of an OpenMQ broker: which calls, in which order, what to do when one fails.

Order. Connections, then producers, then the destinations' own counters, then consumers with the members of
subscriptions: what was sent and did not come, and what left and no consumer let go, is never too much by skew.

Cost. What walks messages is read under a budget (`depths`), settings every ten minutes, all else at every poll.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

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
        *about, connections = await poll.begin([*ask.ABOUT, ask.CONNECTIONS])
        said, unread = wire.about(about)
        poll.leave_out(unread)
        before = self.process
        session = await self._session(poll, said.port) or before.session
        # It may start again in its process, which the port mapper's session shows: its counters begin again.
        if self.begins(Process("", *said.process, session)) and self.process.same_start(
            before
        ):
            self._session_since = poll.now
        broker = self._broker(said, poll.now, about[0].timestamp)
        self._depths.begin(poll.now)
        linked = await poll.collect(
            "connections", self._read_connections(poll, connections)
        )
        by_id = {row.connection_id: row for row in linked or ()}
        producers, transactions = await self._read_listings(poll)
        destinations = await poll.collect(
            "queues",
            self._read_destinations(
                poll, said.num_msgs + np.nan_to_num(said.num_msgs_in_dmq), by_id
            ),
        )
        listing = await poll.collect("consumers", self._read_consumers(poll, by_id))
        found = None
        if destinations is not None:
            await poll.collect("settings", self._refresh_settings(poll, destinations))
            self._called = DestinationNames.of(row.key for row in destinations)
            found = await poll.work(self._destination_tables, destinations, listing)
        return await poll.work(
            self._snapshot,
            poll,
            broker,
            found,
            listing,
            linked,
            producers,
            transactions,
        )

    # --- the broker itself

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

    def _broker(self, said: wire.About, now: float, timestamp: float) -> Broker:
        clock, uptime = said.process
        # A runtime whose start was taken before the clock was set is believed less than the time of the answer.
        if abs(clock - (timestamp + 0.5)) > 2.0:
            clock = timestamp + 0.5
        host = said.host or ""
        known_as = (
            self.options.name
            if host in ("", "localhost") or host.startswith("127.")
            else ""
        )
        state = str(said.resource_state).strip().upper()
        return Broker(
            kind=BrokerKind.OPENMQ,
            version=said.version,
            product_version="",
            node_id=known_as or f"{host}:{said.port}",
            role=Role.ACTIVE,
            clock=clock,
            uptime=min(uptime, now - self._session_since),
            connections=said.num_connections,
            memory_used_bytes=said.total_msg_bytes,
            memory_limit_bytes=limit(said.max_total_msg_bytes),
            heap_used_bytes=said.total_memory - said.free_memory,
            heap_limit_bytes=limit(said.max_memory),
            resource_state=float(ResourceState[state])
            if state in ResourceState.__members__
            else np.nan,
        )

    async def _listed(
        self,
        poll: Poll,
        request: Request,
        reply: wire.Reply,
        decoder: Decoder[RowT],
        what: str,
    ) -> Rows[RowT]:
        """The rows of a listing, asked a second time: it fails as a whole when one of its rows goes away meanwhile."""
        if reply.status == 500:
            (reply,) = await poll.ask([request])
        return await poll.work(decoder.listed, reply, what)

    async def _read_connections(
        self, poll: Poll, reply: wire.Reply
    ) -> tuple[list[wire.Connection], str]:
        _, found = await poll.work(_CONNECTION.many, reply, "connections")
        rows = self.budgets["connections"].largest_of(
            found.rows, lambda row: -row.connection_id
        )  # the oldest
        return list(rows), unreadable([found])

    async def _read_consumers(
        self, poll: Poll, connections: Mapping[int, wire.Connection]
    ) -> tuple[tables.Listing, str]:
        (reply,) = await poll.ask([ask.CONSUMERS])
        found = await self._listed(
            poll, ask.CONSUMERS, reply, _CONSUMER, "getConsumerInfo"
        )
        rows = [row for row in found.rows if row.service_name != tables.ADMIN]
        behind: list[tuple[int, int]] = []
        members: list[tables.Member] = []
        error = unreadable([found])
        active = [row for row in rows if row.is_subscription and row.is_active]
        try:
            if active:
                behind = await self._member_ids(
                    poll,
                    connections,
                    [row for row in found.rows if not row.is_subscription],
                )
        except SourceError as failed:
            error = f"members of subscriptions: {failed}"
        ids = [*(row.consumer_id for row in rows), *(one for _, one in behind)]
        kept = set(
            self.budgets["consumers"].largest_of(ids, lambda one: -one)
        )  # the oldest
        single = [
            row for row in rows if row.consumer_id in kept and not row.is_subscription
        ]
        subscriptions = [
            row for row in rows if row.consumer_id in kept and row.is_subscription
        ]
        try:
            members = await self._read_members(
                poll, connections, [one for one in behind if one[1] in kept], active
            )
        except SourceError as failed:
            error = f"members of subscriptions: {failed}"
        listed = {
            member.subscription.consumer_id for member in members if member.subscription
        }
        unclear = {m.row.destination_name for m in members if not m.subscription}
        stand_in = [
            row
            for row in subscriptions
            if row.is_active
            and row.consumer_id not in listed
            and row.destination_name not in unclear
        ]
        return tables.Listing([*single, *stand_in], subscriptions, members), error

    async def _member_ids(
        self,
        poll: Poll,
        connections: Mapping[int, wire.Connection],
        single: Sequence[wire.Consumer],
    ) -> list[tuple[int, int]]:
        """Members of durable and shared subscriptions, each by its connection: consumers that are not listed on their
        own. They are asked where the number of a connection's consumers says that there are others than known.
        """
        alone: dict[int, set[int]] = {}
        for row in single:
            alone.setdefault(row.connection_id or -1, set()).add(row.consumer_id)
        counted = {
            key: row.consumers - len(alone.get(key, ()))
            for key, row in connections.items()
        }
        known = {
            key: (count, ids)
            for key, (count, ids) in self._members.items()
            if counted.get(key, 0) == count > 0
        }
        fresh = [
            key for key, count in counted.items() if count > 0 and key not in known
        ]
        if fresh:
            found = await poll.ask([ask.consumer_ids(key) for key in fresh])
            for key, reply in zip(fresh, found, strict=True):
                if reply.status == 200:
                    ids = wire.numbers(reply, "getConsumerIDs") - alone.get(key, set())
                    known[key] = float(len(ids)), ids
        self._members = known
        return [(key, one) for key, (_, ids) in known.items() for one in sorted(ids)]

    async def _read_members(
        self,
        poll: Poll,
        connections: Mapping[int, wire.Connection],
        wanted: Sequence[tuple[int, int]],
        subscriptions: Sequence[wire.Consumer],
    ) -> list[tables.Member]:
        members: list[tables.Member] = []
        if wanted:
            found = await poll.ask([ask.consumer(one) for _, one in wanted])
            for (key, one), reply in zip(wanted, found, strict=True):
                if (
                    reply.status != 200
                ):  # it went away: what else this connection has is asked again
                    self._members.pop(key, None)
                    continue
                row = _CONSUMER.one(reply, f"consumer {one}")
                via = connections.get(key)
                members.append(
                    tables.Member(
                        row, via, tables.subscription_of(row, via, subscriptions)
                    )
                )
        return members

    async def _read_listings(
        self, poll: Poll
    ) -> tuple[Rows[wire.Producer] | None, Rows[wire.Transaction] | None]:
        """Both in one call; one that broke because something in it went away is asked again by itself."""
        requests = [ask.PRODUCERS, ask.TRANSACTIONS]
        both = asyncio.ensure_future(
            poll.ask(requests)
        )  # where it fails, it fails for each

        async def listed(
            number: int, decoder: Decoder[RowT], what: str
        ) -> tuple[Rows[RowT], str]:
            found = await self._listed(
                poll, requests[number], (await both)[number], decoder, what
            )
            return found, unreadable([found])

        producers = await poll.collect(
            "producers", listed(0, _PRODUCER, "getProducerInfo")
        )
        if producers is not None:
            rows = [row for row in producers.rows if row.service_name != tables.ADMIN]
            kept = self.budgets["producers"].largest_of(
                rows, lambda row: -row.producer_id
            )
            producers = Rows(list(kept), len(kept))
        transactions = await poll.collect(
            "transactions", listed(1, _TRANSACTION, "getTransactionInfo")
        )
        if transactions is not None:
            open_now = [row for row in transactions.rows if row.state is not None]
            transactions = Rows(open_now, len(open_now))
        return producers, transactions

    async def _read_destinations(
        self, poll: Poll, messages: float, connections: Mapping[int, wire.Connection]
    ) -> tuple[list[wire.Destination], str]:
        """All destinations with their free counters; the expensive ones, of so many messages, as the budget goes."""
        depths = self._depths
        everything = depths.may_read_all(messages)
        attributes = (
            ask.CHEAP_ATTRIBUTES + ask.DEPTH_ATTRIBUTES
            if everything
            else ask.CHEAP_ATTRIBUTES
        )
        began = poll.asked
        (reply,) = await poll.ask([ask.destinations(attributes)])
        _, found = await poll.work(_DESTINATION.many, reply, "destinations")
        rows = self.budgets["queues"].largest_of(
            [row for row in found.rows if not _of_admin(row, connections)],
            lambda row: row.messages_added - row.removed,
        )
        depths.forget_all_but(rows)
        if everything:
            depths.spend_on_all(messages, len(rows), poll.asked - began)
            for row in rows:
                depths.note(row, row)
        else:
            await self._read_depths(poll, rows)
        return list(rows), unreadable([found])

    async def _read_depths(self, poll: Poll, rows: Sequence[wire.Destination]) -> None:
        """The expensive attributes of those destinations whose turn it is; one that is gone is passed over."""
        by_name: dict[Name, wire.Destination] = {row.key: row for row in rows}
        light, costly = self._depths.due(rows)
        for names in ([light] if light else []) + [[name] for name in costly]:
            began = poll.asked
            found = await poll.ask([ask.depth(*name) for name in names])
            for name, reply in zip(names, found, strict=True):
                if reply.status == 200:
                    self._depths.note(
                        by_name[name], _DEPTH.one(reply, f"depth of {name[1]!r}")
                    )
            if names is not light:
                self._depths.spend(names[0], poll.asked - began)

    async def _refresh_settings(
        self, poll: Poll, rows: Sequence[wire.Destination]
    ) -> tuple[None, str]:
        """Settings of the destinations that are new or were read longest ago, a bounded number a poll."""
        due = self._settings.due([row.key for row in rows], poll.now)
        if not due:
            return None, ""
        if (
            len(due) > SETTINGS_AT_ONCE
            and sum(self._depths.cost_of(row) for row in rows) < 0.5
        ):
            (reply,) = await poll.ask([ask.ALL_SETTINGS])
            _, found = await poll.work(_SETTINGS.many, reply, "settings")
            read = {(one.type, one.name): one for one in found.rows}
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
        single = None if listing is None else listing.single
        depths = [self._depths.carried(row) for row in rows]
        found = self._destinations.tables(
            rows,
            depths,
            self._settings.values,
            self._settings.read_at,
            self._called,
            self._listing,
            single,
        )
        self.budgets["queues"].shown(found[1].index)
        return found

    def _snapshot(
        self,
        poll: Poll,
        broker: Broker,
        found: tuple[Table[AddressRow], Table[QueueRow]] | None,
        listing: tables.Listing | None,
        linked: Sequence[wire.Connection] | None,
        producers: Rows[wire.Producer] | None,
        transactions: Rows[wire.Transaction] | None,
    ) -> Snapshot:
        rows = [row for row in linked or () if row.service_name != tables.ADMIN]
        by_id = {row.connection_id: row for row in rows}
        by_end = {(row.host or "", row.port or 0): row for row in rows}
        notes = [
            *NOTES["always"],
            *NOTES["in_server"] * any(row.service_name == EMBEDDED for row in rows),
        ]
        made = self._connection_tables
        called = self._called
        read = dict[str, Any]()
        if found is not None:
            read["addresses"], read["queues"] = found
        if listing:
            read["consumers"], read["consumer_queue"], read["consumer_connection"] = (
                self._consumers.table(listing, called, self._destinations.queue_keys)
            )
        if linked is not None:
            read["connections"] = made.table(rows)
        if producers is not None:
            read["producers"], read["producer_connection"] = made.producers(
                producers.rows, by_id, called
            )
        if transactions is not None:
            read["transactions"], read["transaction_connection"] = made.transactions(
                transactions.rows, by_end
            )
        for name in read.keys() & {"consumers", "producers"}:
            self.budgets[name].shown(read[name].index)
        return Snapshot(
            stamp=poll.now,
            broker=broker,
            collectors=poll.collectors,
            notes=tuple(notes),
            **read,
        )


def _settings(reply: wire.Reply, name: Name) -> wire.Settings | None:
    """None of a destination that was destroyed a moment ago."""
    return (
        None
        if reply.nothing_found
        else _SETTINGS.one(reply, f"settings of {name[1]!r}")
    )


def _of_admin(
    row: wire.Destination, connections: Mapping[int, wire.Connection]
) -> bool:
    """Whether it is a temporary queue of the broker's own bridges or of an administrator's tool."""
    via = connections.get(row.connection_id or -1)
    return via is not None and via.service_name == tables.ADMIN
