"""What the rules read, made once for all of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.core.table import Column, Positions, Table
from penstock.core.windows import Mask, reindex
from penstock.findings.usage import FlowControl, Usage
from penstock.learned.prefetch import ConsumerArrivals
from penstock.model import AddressRow, Broker, QueueKind, QueueRow, Snapshot
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ClientSeries, Grouping, QueueSeries

APPLICATIONS = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION})
"""Kinds of queue that applications configure."""


@dataclass(frozen=True, slots=True)
class Clients:
    """
    What is known of the clients, columns by the rows of `grouping.index`.

    queue: position of its queue, -1 where that is not shown by itself. window, largest: of a consumer, messages, see
    PrefetchEstimate. longest: the longest gap that was learned, seconds.
    """

    grouping: Grouping[ClientSeries]
    queue: Positions
    window: Column
    largest: Column
    longest: Column
    arrivals: ConsumerArrivals

    def protocols(self, clients: Positions) -> Iterator[str]:
        """Of one consumer of each of these clients."""
        consumer = np.zeros(len(self.grouping.index) + 1, np.intp)  # the last one is for those that are hidden
        consumer[self.grouping.member] = np.arange(len(self.grouping.member))
        return (row.protocol for row in self.grouping.source.rows[consumer[clients]])

    def of_queue(self, column: Column | Mask) -> Column:
        """A column of the queues, by the clients; NaN where the queue is not shown."""
        return np.append(column.astype(np.float64), np.nan)[self.queue]


@dataclass(frozen=True, slots=True)
class FindingContext:
    """
    All that the rules read. Columns of queues by the rows of `queues`.

    name: of the broker. address: position of each queue's address, -1 where unknown. deepest: the most messages seen
    in each queue. clients: None where the broker does not show numbers of its consumers. flow: OpenMQ only. stale:
    removed by a limit while consumers hold them.
    """

    name: str
    snapshot: Snapshot
    broker: Broker
    grouping: Grouping[QueueSeries]
    queues: Table[QueueRow]
    addresses: Table[AddressRow]
    address: Positions
    deepest: Column
    clients: Clients | None
    usage: Usage
    flow: FlowControl | None
    stale: Column

    def of_address(self, name: str) -> Column:
        """A column of the addresses, by the queues."""
        return np.append(self.addresses[name], np.nan)[self.address]

    @property
    def applications(self) -> Mask:
        """Queues of applications that are shown one by one."""
        kind = self.grouping.index.column("of application", lambda s: float(s.kind in APPLICATIONS and not s.summed))
        return np.append(kind, 0.0)[self.grouping.member] > 0

    @property
    def mean_bytes(self) -> Column:
        messages = self.queues["messages"]
        return np.where(messages > 0, self.queues["bytes"] / np.where(messages > 0, messages, 1), np.nan)


def clients_of(
    snapshot: Snapshot, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries], judgement: Judgement
) -> Clients:
    buffers, patience, index = judgement.prefetch.clients, judgement.patience, clients.index
    return Clients(
        grouping=clients,
        queue=queue_of(snapshot, queues, clients),
        window=reindex(index, buffers.index, buffers.window, np.nan),
        largest=reindex(index, buffers.index, buffers.largest, np.nan),
        longest=reindex(index, patience.index, patience.longest, np.nan),
        arrivals=judgement.prefetch.arrivals,
    )


def queue_of(snapshot: Snapshot, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries]) -> Positions:
    """Position of each client's queue; -1 where several queues are shown as one."""
    of = np.full(len(clients.index), -1, np.intp)
    at = queues.source.positions(snapshot.consumer_queue)
    known = (clients.member >= 0) & (at >= 0)
    of[clients.member[known]] = at[known]
    summed = queues.index.column("alone", lambda series: not series.summed) == 0
    hidden = np.append(np.append(summed, True)[queues.member], True)
    return np.where(hidden[of], -1, of)
