"""
What polls teach about how clients and queues are used, for the findings: no broker tells windows or prefetches.

The most that one consumer held while messages waited and none was delivered to it is its window, in messages. The most
that one ever held is the least that its window can be.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.state import RowState, column
from penstock.core.table import Column
from penstock.learned.arrivals import ConsumerArrivals
from penstock.learned.saturation import waiting
from penstock.observation.facts import Facts
from penstock.series.labels import ClientSeries, Grouping


@dataclass(frozen=True, slots=True)
class ClientBuffers(RowState):
    """Per client, messages of one consumer. window: NaN until sighted."""

    window: Column = column(saved=False)
    largest: Column = column(0.0, saved=False)


@dataclass(frozen=True, slots=True)
class QueueDepths(RowState):
    """Per queue. deepest: the most messages ever there."""

    deepest: Column = column(0.0, saved=False)


@dataclass(frozen=True, slots=True)
class PrefetchEstimate:
    clients: ClientBuffers = field(default_factory=ClientBuffers)
    queues: QueueDepths = field(default_factory=QueueDepths)
    arrivals: ConsumerArrivals = field(default_factory=ConsumerArrivals)

    def advance(self, found: Facts, clients: Grouping[ClientSeries]) -> "PrefetchEstimate":
        consumer = found.consumer
        before = self.clients.reindexed(clients.index)
        window, largest = before.window.copy(), before.largest.copy()
        mine = (clients.member >= 0) & (consumer.queue >= 0) & (consumer.held > 0)
        at = np.flatnonzero(mine)
        np.maximum.at(largest, clients.member[at], consumer.held[at])
        stands_still = (consumer.d_delivered[at] == 0) & ~consumer.new[at] & waiting(found)[consumer.queue[at]]
        at = at[stands_still]
        np.fmax.at(window, clients.member[at], consumer.held[at])
        deepest = np.fmax(self.queues.reindexed(found.queues).deepest, found.messages)
        return PrefetchEstimate(
            ClientBuffers(clients.index, window, largest),
            QueueDepths(found.queues, deepest),
            self.arrivals.advance(found, clients),
        )
