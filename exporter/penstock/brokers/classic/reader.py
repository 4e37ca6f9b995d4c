"""One poll of an ActiveMQ Classic: which calls, in which order, what to do when one fails.

Order. Consumers, then their connections, then producers, then the counters of the destinations last.

Cost. Attributes are what a read costs: those that change seldom are read each minute. The broker has two topics of its
own for each queue in use, so that topics are looked for each minute, and then read by their names.
"""

from collections.abc import Sequence
from typing import Any

from penstock.brokers.cadence import Cadence
from penstock.brokers.classic import answers as wire
from penstock.brokers.classic import requests as ask
from penstock.brokers.classic import tables
from penstock.brokers.classic.tables import Consuming, Links, MBeanName, mbean_name
from penstock.brokers.destinations import DestinationNames
from penstock.brokers.engine import BrokerReader, unreadable
from penstock.brokers.engine import Poll as AnyPoll
from penstock.brokers.replies import Decoder
from penstock.brokers.requests import key_of
from penstock.brokers.rows import RowT, limit
from penstock.core.catalogues import read_toml
from penstock.core.errors import BadAnswer
from penstock.model import Broker, BrokerKind, Process, Role, Snapshot
from penstock.transports.transport import Request

Poll = AnyPoll[wire.ClassicReply]

SETTINGS_AGE = 60.0
"""Seconds after which settings are read again, and topics looked for."""
NOTHING = "NOTSET"
"""Where a producer sends that has sent nothing yet."""
NOTES = tuple(read_toml("penstock.brokers", "texts.toml")["classic"]["notes"]["always"])
_ABOUT = Decoder(wire.About)
_MACHINE = Decoder(wire.Machine)
_CONNECTION = Decoder(wire.Connection)
_PRODUCER = Decoder(wire.Producer)
_DESTINATION = Decoder(wire.Destination)
_SETTINGS = Decoder(wire.Settings)
_TOPIC = Decoder(wire.Topic)
_CONSUMER = Decoder(wire.Consumer)
_SUBSCRIBER = Decoder(wire.Subscriber)


class ClassicReader(BrokerReader[wire.ClassicReply]):
    replies = wire.replies

    def forget(self) -> None:
        self._destinations = tables.Destinations()
        self._consumers = tables.ConsumerBuilder()
        self._connections = tables.ConnectionBuilder(self.options.names)
        self._producers = tables.ProducerBuilder()
        self._settings_read = Cadence()
        self._producers_read = Cadence()
        self._links: Links = {}
        self._subscribers: list[tuple[MBeanName, wire.Subscriber]] = []
        self._sending: dict[str, Any] = {}
        self._blocked: dict[str, float] | None = None

    async def read(self, poll: Poll) -> Snapshot:
        found, machine = await poll.begin(ask.ABOUT)
        names, about = _ABOUT.many(found, "broker attributes")
        if not names:
            raise BadAnswer(
                "the JVM answers, but shows no ActiveMQ broker: it is starting or stopping"
            )
        # A policy may refuse it: then the clock is that of the answer.
        runtime = wire.Machine()
        unread = about.unread
        if machine.status == 200:
            runtime, missing = _MACHINE.counted(machine, "runtime")
            unread = unread + missing
        poll.leave_out(unread)
        # Several in one JVM: always the same one.
        at = names.index(min(names))
        said = about.rows[at]
        name = key_of(names[at], "brokerName")
        broker = _broker(said, name, _clock(runtime, found.timestamp))
        self.begins(Process(name, broker.clock, broker.uptime, said.broker_id))
        if broker.role is Role.PASSIVE:
            self.start_again()
            return Snapshot(poll.now, broker, collectors=poll.collectors, notes=NOTES)
        listing = await poll.collect("consumers", self._read_consumers(poll, name))
        linked = await poll.collect(
            "connections",
            self._read(poll, [ask.connections(name)], [_CONNECTION], "clients"),
        )
        await self._refresh_settings(poll, name)
        due = self._producers_read.due(poll.now)
        producers = (
            await poll.collect("producers", self._read_producers(poll, name))
            if due
            else None
        )
        rows = await poll.collect("queues", self._read_destinations(poll, name))
        return await poll.work(
            self._snapshot, poll, broker, listing, linked, producers, rows
        )

    # --- what is read

    async def _read(
        self,
        poll: Poll,
        requests: Sequence[Request],
        decoders: Sequence[Decoder[Any]],
        what: str,
    ) -> tuple[list[tuple[MBeanName, Any]], str]:
        """The rows of several pattern reads, each with the name of its MBean."""
        replies = await poll.ask(requests)
        rows: list[tuple[MBeanName, Any]] = []
        pages = []
        for reply, decoder in zip(replies, decoders, strict=True):
            names, found = await poll.work(decoder.many, reply, what)
            rows += zip(map(mbean_name, names), found.rows, strict=True)
            pages.append(found)
        return rows, unreadable(pages)

    async def _read_consumers(
        self, poll: Poll, name: str
    ) -> tuple[list[Consuming], str]:
        requests = [
            ask.consumers(name, ask.QUEUE, wire.Consumer),
            ask.consumers(name, ask.TOPIC, wire.Subscriber),
        ]
        found, error = await self._read(
            poll, requests, [_CONSUMER, _SUBSCRIBER], "consumers"
        )
        rows = [
            one for one in found if not one[0].destination.startswith(tables.ADVISORY)
        ]
        return list(
            self.budgets["consumers"].largest_of(rows, lambda _: 0.0)
        ), error  # the first, in their order

    async def _read_producers(
        self, poll: Poll, name: str
    ) -> tuple[list[tuple[MBeanName, wire.Producer]], str]:
        began = poll.asked
        found, error = await self._read(
            poll, [ask.producers(name)], [_PRODUCER], "producers"
        )
        self._producers_read = Cadence(poll.now, poll.asked - began)
        rows = [
            one
            for one in found
            if not (one[1].destination_name or NOTHING).startswith(
                (tables.ADVISORY, NOTHING)
            )
        ]
        return list(self.budgets["producers"].largest_of(rows, lambda _: 0.0)), error

    async def _refresh_settings(self, poll: Poll, name: str) -> None:
        """Of all destinations each minute, with the names of topics."""
        if not self._settings_read.due(poll.now, SETTINGS_AGE):
            return
        began = poll.asked
        found = await poll.collect("settings", self._read_settings(poll, name))
        self._settings_read = Cadence(poll.now, poll.asked - began)
        if found is not None:
            self._destinations.settings = {
                (at.kind, at.destination): row for at, row in found
            }
            self._destinations.settings_stamp = poll.now

    async def _read_settings(
        self, poll: Poll, name: str
    ) -> tuple[list[tuple[MBeanName, wire.Settings]], str]:
        """Of topics the names first: most are the broker's own."""
        requests = [
            ask.destinations(name, ask.QUEUE, wire.Settings),
            ask.destinations(name, ask.TOPIC, wire.Topic),
        ]
        found, error = await self._read(poll, requests, [_SETTINGS, _TOPIC], "settings")
        topics = [
            at
            for at, _ in found
            if at.kind == "t" and not at.destination.startswith(tables.ADVISORY)
        ]
        queues = [one for one in found if one[0].kind == "q"]
        return [
            *queues,
            *await self._read_each(poll, name, topics, _SETTINGS, wire.Settings),
        ], error

    async def _read_each(
        self,
        poll: Poll,
        name: str,
        topics: Sequence[MBeanName],
        decoder: Decoder[RowT],
        row: type[RowT],
    ) -> list[tuple[MBeanName, RowT]]:
        """Topics by their names; one that is gone is passed over."""
        requests = [
            ask.destinations(name, ask.TOPIC, row, at.destination) for at in topics
        ]
        replies = await poll.ask(requests) if requests else []
        there = (
            (at, reply)
            for at, reply in zip(topics, replies, strict=True)
            if not reply.nothing_found
        )
        return [
            (at, decoder.one(reply, f"topic {at.destination!r}")) for at, reply in there
        ]

    async def _read_destinations(
        self, poll: Poll, name: str
    ) -> tuple[list[tuple[MBeanName, wire.Destination]], str]:
        """Queues, and topics by their names."""
        request = ask.destinations(name, ask.QUEUE, wire.Destination)
        found, error = await self._read(poll, [request], [_DESTINATION], "destinations")
        rows = list(
            self.budgets["queues"].largest_of(found, lambda one: one[1].messages)
        )
        topics = [
            MBeanName("Topic", at)
            for kind, at in self._destinations.settings
            if kind == "t"
        ]
        rows += await self._read_each(
            poll, name, topics, _DESTINATION, wire.Destination
        )
        self._destinations.called = DestinationNames.of(
            (at.kind, at.destination) for at, _ in rows
        )
        return rows, error

    # --- tables

    def _snapshot(
        self,
        poll: Poll,
        broker: Broker,
        listing: list[Consuming] | None,
        linked: list[tuple[MBeanName, wire.Connection]] | None,
        producers: list[tuple[MBeanName, wire.Producer]] | None,
        rows: list[tuple[MBeanName, wire.Destination]] | None,
    ) -> Snapshot:
        """Without consumers, the subscriptions last seen stay with their last numbers, and so do producers."""
        if listing is not None:
            self._subscribers = [
                (at, row) for at, row in listing if isinstance(row, wire.Subscriber)
            ]
        read: dict[str, Any] = {}
        if linked is not None:
            read["connections"], self._links = self._connections(linked, broker.clock)
        if producers is not None:
            table, of, self._blocked = self._producers(
                producers, self._links, self._destinations.called
            )
            self._sending = {"producers": table, "producer_connection": of}
            self.budgets["producers"].shown(table.index)
        elif "producers" in poll.collectors:  # not read
            self._blocked = None
        if rows is not None:
            found = self._destinations.tables(rows, self._subscribers, self._blocked)
            read["addresses"], read["queues"] = found
            self.budgets["queues"].shown(found[1].index)
        if listing is not None:
            read["consumers"], read["consumer_queue"], read["consumer_connection"] = (
                self._consumers(
                    [
                        one
                        for one in listing
                        if getattr(one[1], "active", True) is not False
                    ],
                    self._links,
                    self._destinations,
                )
            )
            self.budgets["consumers"].shown(read["consumers"].index)
        return Snapshot(
            stamp=poll.now,
            broker=broker,
            collectors=poll.collectors,
            notes=NOTES,
            **read,
            **self._sending,
        )


def _clock(runtime: wire.Machine, timestamp: float) -> float:
    """Of the broker, in seconds. A start that was taken before the clock was set is believed less than the answer."""
    clock = (runtime.start_time + runtime.uptime) / 1000
    return clock if abs(clock - (timestamp + 0.5)) <= 2.0 else timestamp + 0.5


def _broker(said: wire.About, name: str, clock: float) -> Broker:
    memory_limit = limit(said.memory_limit)
    return Broker(
        kind=BrokerKind.CLASSIC,
        version=said.broker_version,
        product_version="",
        node_id=name,
        role=Role.PASSIVE if said.slave is True else Role.ACTIVE,
        clock=clock,
        uptime=said.uptime_millis / 1000,
        connections=said.current_connections_count,
        memory_used_bytes=said.memory_percent_usage / 100 * memory_limit,
        memory_limit_bytes=memory_limit,
        disk_used_ratio=said.store_percent_usage / 100,
        disk_limit_ratio=1.0,
    )
