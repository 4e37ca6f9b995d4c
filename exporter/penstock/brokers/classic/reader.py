"""One poll of an ActiveMQ Classic: which calls, in which order, what to do when one fails.

Order. Consumers, then their connections, then producers, then the counters of the destinations last.

Cost. Attributes are what a read costs: those that change seldom are read each minute. The broker has two topics of its
own for each queue in use, so that topics are looked for each minute, and then read by their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from penstock.model import (
    Broker,
    BrokerKind,
    Process,
    Role,
    Snapshot,
)
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
        self._sending: tables.ClassicProducers | None = None
        """The producers as last read, which is not at every poll."""
        self._blocked: Mapping[str, float] | None = None

    async def read(self, poll: Poll) -> Snapshot:
        brokers, machine = await poll.begin(ask.ABOUT)
        broker, process = _broker_and_process(poll, brokers, machine)
        name = broker.node_id
        self.begins(process)
        if broker.role is Role.PASSIVE:
            self.start_again()
            return Snapshot(poll.now, broker, collectors=poll.collectors, notes=NOTES)
        read = _Read()
        read.consumers = await poll.collect(
            "consumers", self._read_consumers(poll, name)
        )
        read.connections = await poll.collect(
            "connections",
            self._read(poll, [ask.connections(name)], [_CONNECTION], "clients"),
        )
        await self._refresh_settings(poll, name)
        if self._producers_read.due(poll.now):
            read.producers = await poll.collect(
                "producers", self._read_producers(poll, name)
            )
        read.destinations = await poll.collect(
            "queues", self._read_destinations(poll, name)
        )
        return await poll.work(self._snapshot, poll, broker, read)

    # --- what is read

    async def _read(
        self,
        poll: Poll,
        requests: Sequence[Request],
        decoders: Sequence[Decoder[Any]],
        kind: str,
    ) -> tuple[list[tuple[MBeanName, Any]], str]:
        """The rows of several pattern reads, each with the name of its MBean."""
        replies = await poll.ask(requests)
        rows: list[tuple[MBeanName, Any]] = []
        pages = []
        for reply, decoder in zip(replies, decoders, strict=True):
            names, listed = await poll.work(decoder.many, reply, kind)
            rows += zip(map(mbean_name, names), listed.rows, strict=True)
            pages.append(listed)
        return rows, unreadable(pages)

    async def _read_consumers(
        self, poll: Poll, name: str
    ) -> tuple[list[Consuming], str]:
        requests = [
            ask.consumers(name, ask.QUEUE, wire.Consumer),
            ask.consumers(name, ask.TOPIC, wire.Subscriber),
        ]
        listed, error = await self._read(
            poll, requests, [_CONSUMER, _SUBSCRIBER], "consumers"
        )
        rows = [
            (mbean, row)
            for mbean, row in listed
            if not mbean.destination.startswith(tables.ADVISORY)
        ]
        # All have the same size: the first ones are kept.
        kept = self.budgets["consumers"].largest_of(rows, lambda _: 0.0)
        return list(kept), error

    async def _read_producers(
        self, poll: Poll, name: str
    ) -> tuple[list[tuple[MBeanName, wire.Producer]], str]:
        began = poll.asked
        listed, error = await self._read(
            poll, [ask.producers(name)], [_PRODUCER], "producers"
        )
        self._producers_read = Cadence(poll.now, poll.asked - began)
        rows = [(mbean, row) for mbean, row in listed if _sends_to_clients(row)]
        return list(self.budgets["producers"].largest_of(rows, lambda _: 0.0)), error

    async def _refresh_settings(self, poll: Poll, name: str) -> None:
        """Read the settings of all destinations each minute, with the names of topics."""
        if not self._settings_read.due(poll.now, SETTINGS_AGE):
            return
        began = poll.asked
        listed = await poll.collect("settings", self._read_settings(poll, name))
        self._settings_read = Cadence(poll.now, poll.asked - began)
        if listed is not None:
            self._destinations.settings = {
                (mbean.kind, mbean.destination): row for mbean, row in listed
            }
            self._destinations.settings_stamp = poll.now

    async def _read_settings(
        self, poll: Poll, name: str
    ) -> tuple[list[tuple[MBeanName, wire.Settings]], str]:
        """The settings of all destinations. The names of topics are read first: most are the broker's own."""
        requests = [
            ask.destinations(name, ask.QUEUE, wire.Settings),
            ask.destinations(name, ask.TOPIC, wire.Topic),
        ]
        listed, error = await self._read(
            poll, requests, [_SETTINGS, _TOPIC], "settings"
        )
        queues = [(mbean, row) for mbean, row in listed if mbean.kind == "q"]
        topics = [
            mbean
            for mbean, _ in listed
            if mbean.kind == "t" and not mbean.destination.startswith(tables.ADVISORY)
        ]
        of_topics = await self._read_each(poll, name, topics, _SETTINGS, wire.Settings)
        return [*queues, *of_topics], error

    async def _read_each(
        self,
        poll: Poll,
        name: str,
        topics: Sequence[MBeanName],
        decoder: Decoder[RowT],
        row: type[RowT],
    ) -> list[tuple[MBeanName, RowT]]:
        """The rows of topics, read by their names; a topic that was removed meanwhile has none."""
        if not topics:
            return []
        replies = await poll.ask(
            [
                ask.destinations(name, ask.TOPIC, row, topic.destination)
                for topic in topics
            ]
        )
        return [
            (topic, decoder.one(reply, f"topic {topic.destination!r}"))
            for topic, reply in zip(topics, replies, strict=True)
            if not reply.nothing_found
        ]

    async def _read_destinations(
        self, poll: Poll, name: str
    ) -> tuple[list[tuple[MBeanName, wire.Destination]], str]:
        """The numbers of all queues, and of topics by their names."""
        request = ask.destinations(name, ask.QUEUE, wire.Destination)
        queues, error = await self._read(
            poll, [request], [_DESTINATION], "destinations"
        )
        rows = list(
            self.budgets["queues"].largest_of(queues, lambda queue: queue[1].messages)
        )
        topics = [
            MBeanName("Topic", destination)
            for kind, destination in self._destinations.settings
            if kind == "t"
        ]
        rows += await self._read_each(
            poll, name, topics, _DESTINATION, wire.Destination
        )
        self._destinations.called = DestinationNames.of(
            (mbean.kind, mbean.destination) for mbean, _ in rows
        )
        return rows, error

    # --- tables

    def _snapshot(self, poll: Poll, broker: Broker, read: "_Read") -> Snapshot:
        """Without consumers, the subscriptions last seen stay with their last numbers, and so do producers."""
        if read.consumers is not None:
            self._subscribers = [
                (mbean, row)
                for mbean, row in read.consumers
                if isinstance(row, wire.Subscriber)
            ]
        snapshot = Snapshot(
            stamp=poll.now, broker=broker, collectors=poll.collectors, notes=NOTES
        )
        if read.connections is not None:
            connections, self._links = self._connections(read.connections, broker.clock)
            snapshot = replace(snapshot, connections=connections)
        if read.producers is not None:
            self._sending = self._producers(
                read.producers, self._links, self._destinations.called
            )
            self._blocked = self._sending.blocked
            self.budgets["producers"].shown(self._sending.table.index)
        elif "producers" in poll.collectors:  # it failed
            self._blocked = None
        if read.destinations is not None:
            addresses, queues = self._destinations.tables(
                read.destinations, self._subscribers, self._blocked
            )
            self.budgets["queues"].shown(queues.index)
            snapshot = replace(snapshot, addresses=addresses, queues=queues)
        if read.consumers is not None:
            snapshot = self._with_consumers(snapshot, read.consumers)
        if self._sending is None:
            return snapshot
        return replace(
            snapshot,
            producers=self._sending.table,
            producer_connection=self._sending.connections,
        )

    def _with_consumers(
        self, snapshot: Snapshot, rows: Sequence[Consuming]
    ) -> Snapshot:
        """The snapshot with its consumers; a durable subscription without a consumer is none."""
        active = [
            (mbean, row)
            for mbean, row in rows
            if not isinstance(row, wire.Subscriber) or row.active is not False
        ]
        consumers, queue, connection = self._consumers(
            active, self._links, self._destinations
        )
        self.budgets["consumers"].shown(consumers.index)
        return replace(
            snapshot,
            consumers=consumers,
            consumer_queue=queue,
            consumer_connection=connection,
        )


@dataclass(slots=True)
class _Read:
    """The rows of one poll, each with the name of its MBean; None: this part was not read."""

    consumers: list[Consuming] | None = None
    connections: list[tuple[MBeanName, wire.Connection]] | None = None
    producers: list[tuple[MBeanName, wire.Producer]] | None = None
    destinations: list[tuple[MBeanName, wire.Destination]] | None = None


def _sends_to_clients(row: wire.Producer) -> bool:
    """Whether a producer sends to a destination of the broker's users; False while it has sent nothing."""
    destination = row.destination_name or NOTHING
    return not destination.startswith((tables.ADVISORY, NOTHING))


def _broker_and_process(
    poll: Poll, brokers: wire.ClassicReply, machine: wire.ClassicReply
) -> tuple[Broker, Process]:
    """The broker that is read, and its process. Notes in the poll which of its values could not be read.

    brokers, machine: the answers to the two requests of `ask.ABOUT`.
    """
    mbeans, rows = _ABOUT.many(brokers, "broker attributes")
    if not mbeans:
        raise BadAnswer(
            "the JVM answers, but shows no ActiveMQ broker: it is starting or stopping"
        )
    # A policy may refuse the runtime: then the clock is that of the answer.
    runtime = wire.Machine()
    unread = rows.unread
    if machine.status == 200:
        runtime, missing = _MACHINE.counted(machine, "runtime")
        unread = unread + missing
    poll.leave_out(unread)
    # Several brokers in one JVM: always the same one is read.
    mbean = min(mbeans)
    about = rows.rows[mbeans.index(mbean)]
    name = key_of(mbean, "brokerName")
    broker = _broker(about, name, _clock(runtime, brokers.timestamp))
    return broker, Process(name, broker.clock, broker.uptime, about.broker_id)


def _clock(runtime: wire.Machine, timestamp: float) -> float:
    """Seconds: the broker's clock. A start that was taken before the clock was set is believed less than the answer."""
    clock = (runtime.start_time + runtime.uptime) / 1000
    answered = timestamp + 0.5
    return clock if abs(clock - answered) <= 2.0 else answered


def _broker(about: wire.About, name: str, clock: float) -> Broker:
    role = Role.PASSIVE if about.slave is True else Role.ACTIVE
    memory_limit = limit(about.memory_limit)
    memory_used = about.memory_percent_usage / 100 * memory_limit
    return Broker(
        kind=BrokerKind.CLASSIC,
        version=about.broker_version,
        product_version="",
        node_id=name,
        role=role,
        clock=clock,
        uptime=about.uptime_millis / 1000,
        connections=about.current_connections_count,
        memory_used_bytes=memory_used,
        memory_limit_bytes=memory_limit,
        disk_used_ratio=about.store_percent_usage / 100,
        disk_limit_ratio=1.0,
    )
