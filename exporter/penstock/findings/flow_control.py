"""
What the rules read of flow control on OpenMQ, per consumer and per connection.

The broker does not show limits: they are measured, or those of the destination, which a client can only lower.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.table import Column, Keys, Positions, Table
from penstock.core.windows import Mask
from penstock.findings.limits import DEFAULT_LIMIT, SHARED_LIMIT
from penstock.findings.usage import ConnectionCounts
from penstock.learned.saturation import Saturation
from penstock.model import ConsumerRow, QueueKind, Snapshot
from penstock.observation.flow_window import WindowEstimate
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ClientSeries, Grouping


@dataclass(frozen=True, slots=True)
class FlowControl:
    """
    Columns per consumer: connection, its key; limit in force or its bound, messages; mean_bytes of a message.

    memory, connection_limit: what the operator configured for its client, else NaN. clients: their series.
    """

    consumers: Table[ConsumerRow]
    connection: Keys
    connections: ConnectionCounts
    clients: Grouping[ClientSeries]
    windows: WindowEstimate
    shares: Saturation
    limit: Column
    mean_bytes: Column
    memory: Column
    connection_limit: Column

    @property
    def members(self) -> tuple[Mask, Positions]:
        """Which consumers are on a known connection, and its position in `connections`."""
        known = np.isin(self.connection, self.connections.keys)
        return known, np.searchsorted(self.connections.keys, self.connection[known]).astype(np.intp)

    def summed(self, values: Column) -> Column:
        """Per connection."""
        known, at = self.members
        weights = np.nan_to_num(values[known])
        return np.bincount(at, weights=weights, minlength=len(self.connections.keys)).astype(np.float64)

    def least(self, values: Column) -> Column:
        """Per connection, NaN where nothing is known."""
        known, at = self.members
        least = np.full(len(self.connections.keys), np.nan)
        np.fmin.at(least, at, values[known])
        return least

    def average(self, values: Column) -> Column:
        """Per connection over its consumers of which it is known."""
        known = self.summed((~np.isnan(values)).astype(np.float64))
        return np.where(known > 0, self.summed(values) / np.where(known > 0, known, 1), np.nan)


def flow_control(
    snapshot: Snapshot, clients: Grouping[ClientSeries], judgement: Judgement, connections: ConnectionCounts
) -> FlowControl | None:
    consumers, windows = snapshot.consumers, judgement.openmq.windows
    if consumers is None:
        return None
    measured = np.append(windows.limits()[0], np.nan)[windows.index.positions(consumers.index.keys)]
    bound, mean_bytes = of_destinations(snapshot, consumers)
    memory = clients.index.column("client memory", lambda row: row.said.client_memory or np.nan)
    limits = clients.index.column("connection flow limit", lambda row: row.said.connection_flow_limit or np.nan)
    return FlowControl(
        consumers=consumers,
        connection=snapshot.consumer_connection,
        connections=connections,
        clients=clients,
        windows=windows,
        shares=judgement.shares,
        limit=np.where(np.isnan(measured), bound, measured),
        mean_bytes=mean_bytes,
        memory=np.append(memory, np.nan)[clients.member],
        connection_limit=np.append(limits, np.nan)[clients.member],
    )


def of_destinations(snapshot: Snapshot, consumers: Table[ConsumerRow]) -> tuple[Column, Column]:
    """Per consumer: the highest limit it can have unless the client raises it; mean bytes of what came in."""
    addresses, queues = snapshot.addresses, snapshot.queues
    if addresses is None or queues is None or "consumer_flow_limit" not in addresses:
        return np.full(len(consumers), np.nan), np.full(len(consumers), np.nan)
    rows = {row.name: i for i, row in enumerate(addresses.index)}
    at = np.array([rows.get(row.address, -1) for row in consumers.index], np.intp)
    limit = np.append(addresses["consumer_flow_limit"], np.nan)[at]
    limit = np.where(np.isnan(limit), DEFAULT_LIMIT, limit)
    shared = queues.index.column("subscription", lambda row: float(row.kind is QueueKind.SUBSCRIPTION)) > 0
    shared &= queues["consumers"] >= 2
    limit = np.where(np.append(shared, False)[queues.index.positions(snapshot.consumer_queue)], SHARED_LIMIT, limit)
    came = addresses["messages_added"]
    mean = np.where(came > 0, addresses["added_bytes"] / np.where(came > 0, came, 1), np.nan)
    return limit, np.append(mean, np.nan)[at]
