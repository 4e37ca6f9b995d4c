"""Recordings of OpenMQ: lines with what was read and lines with what the client itself knew → snapshots."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from penstock.brokers.destinations import DestinationNames
from penstock.brokers.openmq import tables
from penstock.brokers.openmq.answers import (
    Connection,
    Consumer,
    Destination,
    Producer,
    Settings,
    Transaction,
)
from penstock.brokers.openmq.depths import Carried
from penstock.model import Broker, BrokerKind, Observation, Process, Role, Snapshot


def rows(kind: type[Any], values: list[dict[str, Any]] | None) -> list[Any]:
    return [msgspec.convert(value, kind, strict=False) for value in values or ()]


class Samples:
    """Samples of one recording → snapshots, by the reader's own tables."""

    def __init__(self) -> None:
        self._destinations = tables.Destinations()
        self._consumers = tables.ConsumerBuilder(())
        self._connections = tables.ConnectionBuilder(())
        self._settings: dict[tuple[str, str], Settings] = {}
        self._began = np.nan

    def snapshot(self, sample: dict[str, Any]) -> Snapshot:
        now = sample["t"] / 1000
        self._began = now - 3600 if np.isnan(self._began) else self._began
        destinations = rows(Destination, sample["dest"])
        types = {row.name: row.type for row in destinations}
        for one in rows(
            Settings,
            [
                value | {"Type": types.get(value["Name"], "q")}
                for value in sample.get("config") or ()
            ],
        ):
            self._settings[one.type, one.name] = one
        connections = rows(Connection, sample["connections"])
        by_id = {row.connection_id: row for row in connections}
        listing = listing_of(
            rows(Consumer, sample["consumers"]), rows(Consumer, sample.get("children"))
        )
        called = DestinationNames.of(row.key for row in destinations)
        depths = [depth(row) for row in destinations]
        settings_read = dict.fromkeys(self._settings, now)
        addresses, queues = self._destinations.tables(
            tables.DestinationsRead(
                destinations, depths, self._settings, settings_read, called
            ),
            listing,
            None,
        )
        consumers, queue, connection = self._consumers.table(
            listing, called, self._destinations.queue_keys
        )
        producers, producing = self._connections.producers(
            rows(Producer, sample["producers"]), by_id, called
        )
        ends = {(row.host or "", row.port or 0): row for row in connections}
        transactions, of = self._connections.transactions(
            rows(Transaction, sample.get("transactions")), ends
        )
        broker = Broker(
            BrokerKind.OPENMQ,
            "6.5.1",
            "",
            "recorded",
            Role.ACTIVE,
            uptime=now - self._began,
        )
        return Snapshot(
            stamp=now,
            broker=broker,
            observation=Observation(Process.of(broker)),
            addresses=addresses,
            queues=queues,
            consumers=consumers,
            connections=self._connections.table(connections),
            producers=producers,
            transactions=transactions,
            consumer_queue=queue,
            consumer_connection=connection,
            producer_connection=producing,
            transaction_connection=of,
        )


def listing_of(consumers: list[Consumer], members: list[Consumer]) -> tables.Listing:
    """The recordings do not say which connection listed a member."""
    subscriptions = [row for row in consumers if row.is_subscription]
    return tables.Listing(
        [row for row in consumers if not row.is_subscription],
        subscriptions,
        [
            tables.Member(row, None, tables.subscription_of(row, None, subscriptions))
            for row in members
        ],
    )


def depth(row: Destination) -> Carried:
    return Carried(
        row.messages, row.pending, row.uncommitted, row.scheduled, row.bytes, exact=True
    )


def without_the_run_before(lines: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A recording begins with the end of the run before it, up to the first line of its own client."""
    for line in lines:
        if line["kind"] == "truth":
            break
    yield from (line for line in lines if line["kind"] == "sample")
