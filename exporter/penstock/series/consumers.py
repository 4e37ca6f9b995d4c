"""Clients and consumers as they are shown: every client summed, consumers one by one where they are the worst."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.columns.consumers import ConsumerColumns
from penstock.columns.spec import Kind
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

CLIENT_GAUGES = ConsumerColumns.summed("client")
COUNTERS = tuple(ConsumerColumns.summed("client", counters=True).values())
SHOWN = ConsumerColumns.shown(Kind.COUNT, Kind.FLAG)
"""Columns that a consumer shown by itself has as they are."""
SHOWN_TIMES = ConsumerColumns.shown(Kind.TIME)
"""Columns that it has corrected for the skew of the broker's clock."""
_UNKNOWN_QUEUE = -2
"""In place of the position of a queue that is not read yet; HIDDEN is that of a queue that is not shown."""


@dataclass(frozen=True, slots=True)
class Consumers:
    """The series of the consumers and their clients.

    Attributes:
        clients: The client of each consumer.
        totals: `COUNTERS` of the clients.
        queue_of: The queue of each consumer.
        shown: The consumers that are shown one by one, and for how long yet.
        index: The series of those.
        visible: How many consumers could be shown.
    """

    clients: Grouping[ClientSeries] = field(default_factory=Grouping)
    totals: Totals[ClientSeries] = field(default_factory=Totals)
    queue_of: Join = field(default_factory=Join)
    shown: TopK = field(default_factory=TopK)
    index: Index[ConsumerSeries] = field(default_factory=Index.empty)
    visible: int = 0

    def group(
        self,
        snapshot: Snapshot,
        consumers: Table[ConsumerRow],
        queues: Grouping[QueueSeries],
        policy: Policy,
    ) -> "Consumers":
        """Return the state with the clients of this poll and their totals."""
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
        unsettled_for: Column,
        consumers: Table[ConsumerRow],
        queue: Keys,
        policy: Policy,
    ) -> "Consumers":
        """Return the state with the consumers of this poll that are shown one by one.

        These are the worst: those that buffered messages for longest without settling any, then those that buffer
        most; none that is leaving.

        Args:
            before: The state after the last poll.
            unsettled_for: (consumers,) Seconds for which each has buffered messages and settled none; NaN where it
                buffers none.
            consumers: The consumers of the poll.
            queue: (consumers,) The key of each one's queue.
            policy: What the operator wants.
        """
        visible = self._visible(consumers)
        is_worst = top_k(
            unsettled_for[visible],
            consumers["buffered"][visible],
            queue[visible],
            total=policy.limits.consumers_per_broker,
            per_group=policy.limits.consumers_per_queue,
        )
        worst = self.shown.advance(consumers.index.keys[visible], is_worst)
        positions = consumers.index.positions(worst.keys)
        relabelled = None
        if self.clients is not before.clients:
            # The labels of a consumer are those of its client and its id.
            relabelled = worst.keys[self.clients.relabelled[positions]]

        def labels(new: list[int]) -> list[ConsumerSeries]:
            return [self._label(consumers.index, positions[row]) for row in new]

        index, _ = self.index.advance(worst.keys, labels, changed=relabelled)
        return replace(self, shown=worst, index=index, visible=len(visible))

    def _visible(self, consumers: Table[ConsumerRow]) -> Positions:
        """Return the positions of the consumers that have a client and are not leaving."""
        has_client = self.clients.member >= 0
        if "leaving" in consumers:
            has_client &= consumers["leaving"] == 0
        return np.flatnonzero(has_client)

    def _label(self, consumers: Index[ConsumerRow], position: int) -> ConsumerSeries:
        """Return the labels of the consumer at this position."""
        client = self.clients.index.rows[self.clients.member[position]]
        return ConsumerSeries(
            client.broker,
            client.address,
            client.queue,
            client.client,
            consumers.rows[position].id,
        )

    def with_new_labels(self) -> "Consumers":
        return replace(self, clients=Grouping(), index=Index.empty())


def advance_clients(
    before: Grouping[ClientSeries],
    queue_of: Positions,
    consumers: Table[ConsumerRow],
    queues: Grouping[QueueSeries],
    policy: Policy,
) -> Grouping[ClientSeries]:
    """Return the client of each consumer; it is labelled again where its queue is shown under other labels.

    queue_of: (consumers,) The position of each one's queue, -1 where it is not known.
    """
    has_queue = queue_of >= 0
    series = np.full(len(queue_of), _UNKNOWN_QUEUE, np.intp)
    series[has_queue] = queues.member[queue_of[has_queue]]
    # The context is the key of the queue's series, as positions change; HIDDEN and unknown stay below 0.
    is_shown = series >= 0
    context: Keys = series.astype(np.int64)
    context[is_shown] = queues.index.keys[series[is_shown]]
    label = client_labels(before, consumers.index.rows, queues, series, policy)
    return before.advance(consumers.index, label, context)


def client_labels(
    before: Grouping[ClientSeries],
    rows: NDArray[np.object_],
    queues: Grouping[QueueSeries],
    series_of_queue: Positions,
    policy: Policy,
) -> Callable[[list[int]], list[ClientSeries | None]]:
    """Return a function that makes the labels of the consumers at some positions; None hides a consumer.

    Args:
        before: The clients of the last poll.
        rows: The consumers.
        queues: The series of the queues.
        series_of_queue: (consumers,) The position of the series of each one's queue; HIDDEN or `_UNKNOWN_QUEUE`.
        policy: What the operator wants.
    """

    def is_hidden(consumer: ConsumerRow, series: int) -> bool:
        if series == HIDDEN:
            return True
        is_unknown = series == _UNKNOWN_QUEUE
        return is_unknown and not policy.selection(consumer.address, consumer.queue)

    def label(position: int, names: set[str]) -> ClientSeries | None:
        """Return the labels of one consumer: a sum, where its queue or its name is shown in one. names: in use."""
        consumer: ConsumerRow = rows[position]
        series = int(series_of_queue[position])
        own_name = (consumer.address, consumer.queue, consumer.client)
        settings = policy.rules.resolve(policy.broker, *own_name)
        if settings.ignore or is_hidden(consumer, series):
            return None
        client = client_name(consumer, names, policy)
        name = (consumer.address, consumer.queue, client)
        if series != _UNKNOWN_QUEUE:
            queue: QueueSeries = queues.index.rows[series]
            name = (queue.address, queue.queue, client)
        if name != own_name:
            # It is part of a sum: the settings must be those of the sum's name, the same for all its members.
            settings = policy.rules.resolve(policy.broker, *name)
        return ClientSeries(policy.broker, *name, settings)

    def labels(new: list[int]) -> list[ClientSeries | None]:
        # While there are fewer series than names allowed, the names need not be looked at.
        are_few = len(before.index) + len(new) <= policy.limits.clients
        names = set() if are_few else {client.client for client in before.index}
        names.discard(OTHER)
        return [label(position, names) for position in new]

    return labels


def client_name(consumer: ConsumerRow, names: set[str], policy: Policy) -> str:
    """Return the client under which the consumer is shown: its own, or `OTHER` for a new one where there are too many.

    names: The names that are in use; a new one is added to this set.
    """
    if consumer.client not in names and len(names) >= policy.limits.clients:
        return OTHER
    if consumer.client != OTHER:
        names.add(consumer.client)
    return consumer.client


def client_table(
    state: Consumers, consumers: Table[ConsumerRow]
) -> Table[ClientSeries]:
    """Return the numbers of the clients, over their consumers that are not leaving; counters are totals."""
    clients = state.clients
    columns = {
        name: clients.sum(without_leaving(consumers, column))
        for name, column in CLIENT_GAUGES.items()
        if column in consumers
    }
    columns["consumers"] = clients.count()
    if "leaving" in consumers:
        columns["consumers"] = columns["consumers"] - clients.sum(consumers["leaving"])
    for counter, name in enumerate(COUNTERS):
        if name in consumers:
            columns[name] = state.totals.sum_of(counter)
    return Table(clients.index, columns)


def without_leaving(consumers: Table[ConsumerRow], name: str) -> Column:
    """(consumers,) A gauge; 0 for consumers that are leaving, as the messages are no longer theirs."""
    if "leaving" not in consumers:
        return consumers[name]
    is_leaving = consumers["leaving"] > 0
    return np.where(is_leaving, 0.0, consumers[name])


def consumer_table(
    state: Consumers, consumers: Table[ConsumerRow], clock: Clock
) -> Table[ConsumerSeries]:
    """Return the numbers of the consumers that are shown one by one; times by the agent's clock."""
    positions = consumers.index.positions(state.index.keys)
    columns = {name: consumers[name][positions] for name in SHOWN if name in consumers}
    for name in SHOWN_TIMES:
        if name in consumers:
            columns[name] = consumers[name][positions] - clock.applied
    return Table(state.index, columns)
