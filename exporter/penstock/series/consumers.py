"""Clients and consumers as they are shown: every client summed, consumers one by one where they are the worst."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column, Index, Join, Keys, Positions, Table
from penstock.model import ConsumerRow, Snapshot
from penstock.series.clock import Clock
from penstock.series.labels import (
    HIDDEN,
    OTHER,
    ClientSeries,
    ConsumerSeries,
    Grouping,
    QueueSeries,
    TopK,
    top_k,
)
from penstock.series.totals import Totals
from penstock.settings.policy import Policy

CLIENT_GAUGES = {
    "buffered": "buffered",
    "buffered_bytes": "buffered_bytes",
    "uncommitted": "awaiting_commit",
}
COUNTERS = ("delivered", "acknowledged")
SHOWN = ("buffered", "buffered_bytes", "flow_paused")
"""Columns that a consumer shown by itself has as they are."""
_UNKNOWN_QUEUE = -2


@dataclass(frozen=True, slots=True)
class Consumers:
    """clients: which client series each consumer belongs to. totals: COUNTERS of the clients. shown, index: the
    consumers shown one by one.
    """

    clients: Grouping[ClientSeries] = field(default_factory=Grouping)
    totals: Totals[ClientSeries] = field(default_factory=Totals)
    queue_of: Join = field(default_factory=Join)
    """Of each consumer."""
    shown: TopK = field(default_factory=TopK)
    index: Index[ConsumerSeries] = field(default_factory=Index.empty)
    visible: int = 0
    """How many could be shown."""

    def group(
        self,
        snapshot: Snapshot,
        consumers: Table[ConsumerRow],
        queues: Grouping[QueueSeries],
        policy: Policy,
    ) -> "Consumers":
        """With the clients of this poll and their totals."""
        queue_of = self.queue_of.advance(
            consumers.index, queues.source, snapshot.consumer_queue
        )
        clients = advance_clients(self.clients, queue_of.at, consumers, queues, policy)
        late = snapshot.observation.late.get("consumers")
        counters = [consumers[name] for name in COUNTERS]
        totals = self.totals.advance(clients, counters, late=late, begin_together=True)
        return replace(self, clients=clients, totals=totals, queue_of=queue_of)

    def show(
        self,
        before: "Consumers",
        blocked: Column,
        consumers: Table[ConsumerRow],
        queue: Keys,
        policy: Policy,
    ) -> "Consumers":
        """With the consumers of this poll that are shown one by one. blocked: seconds for which each holds something
        and has settled nothing, NaN where it holds nothing. queue: key of each one's queue. before: of the poll before.
        """
        clients = self.clients
        limits = policy.limits
        of_a_client = clients.member >= 0
        visible = np.flatnonzero(
            of_a_client & (consumers["leaving"] == 0)
            if "leaving" in consumers
            else of_a_client
        )
        held = consumers["buffered"][visible]
        limit = (limits.consumers_per_broker, limits.consumers_per_queue)
        # The worst: longest holding without settling anything, then most held; none that is leaving.
        shown = self.shown.advance(
            consumers.index.keys[visible],
            top_k(blocked[visible], held, queue[visible], *limit),
        )
        at = consumers.index.positions(shown.keys)
        rows = consumers.index.rows
        member = clients.member
        series = clients.index.rows

        def label(new: list[int]) -> list[ConsumerSeries]:
            of = [(series[member[at[i]]], rows[at[i]].id) for i in new]
            return [
                ConsumerSeries(c.broker, c.address, c.queue, c.client, name)
                for c, name in of
            ]

        relabelled = (
            shown.keys[clients.relabelled[at]]
            if clients is not before.clients
            else None
        )
        index, _ = self.index.advance(shown.keys, label, changed=relabelled)
        return replace(self, shown=shown, index=index, visible=len(visible))

    def with_new_labels(self) -> "Consumers":
        return replace(self, clients=Grouping(), index=Index.empty())


def advance_clients(
    before: Grouping[ClientSeries],
    at_queue: Positions,
    consumers: Table[ConsumerRow],
    queues: Grouping[QueueSeries],
    policy: Policy,
) -> Grouping[ClientSeries]:
    """Which client each consumer belongs to; labelled again where its queue is shown under other labels."""
    series = np.full(len(at_queue), _UNKNOWN_QUEUE, np.intp)
    series[at_queue >= 0] = queues.member[at_queue[at_queue >= 0]]
    context: Keys = series.astype(np.int64)
    context[series >= 0] = queues.index.keys[series[series >= 0]]
    label = client_labels(before, consumers.index.rows, queues, series, policy)
    return before.advance(consumers.index, label, context)


def client_labels(
    before: Grouping[ClientSeries],
    rows: NDArray[np.object_],
    queues: Grouping[QueueSeries],
    series_of_queue: Positions,
    policy: Policy,
) -> Callable[[list[int]], list[ClientSeries | None]]:
    """Labels of consumers by position: those of their queue as it is shown, and their client."""

    def label(i: int, names: set[str]) -> ClientSeries | None:
        row: ConsumerRow = rows[i]
        at = series_of_queue[i]
        said = policy.rules.resolve(policy.broker, row.address, row.queue, row.client)
        if at == HIDDEN or said.ignore:
            return None
        if at == _UNKNOWN_QUEUE and not policy.selection(row.address, row.queue):
            return None
        name = (
            row.client
            if row.client in names or len(names) < policy.limits.clients
            else OTHER
        )
        names |= {name} - {OTHER}
        address = row.address
        of = row.queue
        if at != _UNKNOWN_QUEUE:
            queue: QueueSeries = queues.index.rows[at]
            address = queue.address
            of = queue.queue
        if (address, of, name) != (
            row.address,
            row.queue,
            row.client,
        ):  # a sum: all its members have the same
            said = policy.rules.resolve(policy.broker, address, of, name)
        return ClientSeries(policy.broker, address, of, name, said)

    def labels(new: list[int]) -> list[ClientSeries | None]:
        # While there are fewer series than names allowed, the names need not be looked at.
        few = len(before.index) + len(new) <= policy.limits.clients
        names = set() if few else {series.client for series in before.index} - {OTHER}
        return [label(i, names) for i in new]

    return labels


def client_table(
    state: Consumers, consumers: Table[ConsumerRow]
) -> Table[ClientSeries]:
    clients = state.clients
    columns = {
        name: clients.sum(there(consumers, of))
        for name, of in CLIENT_GAUGES.items()
        if of in consumers
    }
    columns["consumers"] = clients.count()
    if "leaving" in consumers:
        columns["consumers"] = columns["consumers"] - clients.sum(consumers["leaving"])
    columns |= {
        name: state.totals.sum_of(n)
        for n, name in enumerate(COUNTERS)
        if name in consumers
    }
    return Table(clients.index, columns)


def there(consumers: Table[ConsumerRow], name: str) -> Column:
    """A gauge, 0 of those that are leaving: it is no longer theirs."""
    return (
        np.where(consumers["leaving"] > 0, 0.0, consumers[name])
        if "leaving" in consumers
        else consumers[name]
    )


def consumer_table(
    state: Consumers, consumers: Table[ConsumerRow], clock: Clock
) -> Table[ConsumerSeries]:
    at = consumers.index.positions(state.index.keys)
    columns = {name: consumers[name][at] for name in SHOWN if name in consumers}
    for name in ("last_delivery", "last_acknowledgement"):
        if name in consumers:
            columns[name] = consumers[name][at] - clock.applied
    return Table(state.index, columns)
