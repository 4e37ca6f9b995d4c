"""What polls teach about how clients and queues are used, for the findings: no broker reports windows or prefetches.

The most that one consumer held while messages waited and none was delivered to it is its window, in messages. The most
that one ever held is the least that its window can be. Arrivals say whether one is made for each message.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column
from penstock.core.table import Column, Keys, Positions, positions
from penstock.learned.saturation import waiting
from penstock.observation.facts import Facts
from penstock.series.labels import ClientSeries, Grouping

SECONDS = 300.0
"""What comings are counted over, at most twice as long."""
MOST = 10_000
"""Clients that are followed."""
SWEEP_SECONDS = 60.0
"""Between two times at which clients that came no more are forgotten."""
BEGIN, SEEN, NEW, DELIVERED, POLLS, LAST = range(6)


@dataclass(frozen=True, slots=True)
class ConsumerArrivals:
    """A row for each client of which half or more of the consumers once were new, ascending by the key of its series.

    numbers (6, rows): since when it is counted; consumers seen, those that were new at their poll, what new ones had
    got, polls with new ones; the last of these polls.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    clients: NDArray[np.object_] = field(
        default_factory=lambda: np.empty(0, np.object_)
    )
    numbers: NDArray[np.float64] = field(default_factory=lambda: np.empty((6, 0)))
    swept: float = -np.inf

    def advance(
        self, found: Facts, clients: Grouping[ClientSeries]
    ) -> "ConsumerArrivals":
        """Only consumers on a queue that was known before have come: the others may have been there."""
        consumer = found.consumer
        kept = self.swept_at(found.now)
        at = np.flatnonzero(consumer.new)
        member = clients.member[at]
        queue = consumer.queue[at]
        here = (member >= 0) & (queue >= 0)
        here[here] = found.known[queue[here]]
        at = at[here]
        member = member[here]
        if not len(at):
            return kept
        members, of = np.unique(member, return_inverse=True)
        present = np.bincount(clients.member + 1)[members + 1]  # HIDDEN is -1
        came = np.bincount(of)
        got = np.bincount(of, weights=consumer.delivered[at])
        mostly = 2 * came >= present
        members = members[mostly]
        counts = np.stack(
            [present[mostly], came[mostly], got[mostly], np.ones(len(members))]
        )
        return kept.counted(clients, members, counts, found.now)

    def swept_at(self, now: float) -> "ConsumerArrivals":
        """Without clients that came no more, from time to time."""
        if now - self.swept <= SWEEP_SECONDS:
            return self
        kept = now - self.numbers[LAST] <= SECONDS
        return ConsumerArrivals(
            self.keys[kept], self.clients[kept], self.numbers[:, kept], now
        )

    def counted(
        self,
        clients: Grouping[ClientSeries],
        members: Positions,
        counts: NDArray[np.float64],
        now: float,
    ) -> "ConsumerArrivals":
        """With what came at this poll. counts: (seen, new, delivered, polls) of these members."""
        one = self.joined_by(clients, members, now)
        at = positions(one.keys, clients.index.keys[members])
        followed = at >= 0
        at = at[followed]
        numbers = one.numbers.copy()
        old = at[now - numbers[BEGIN, at] > 2 * SECONDS]
        numbers[:, old] = halved(numbers[:, old], now)
        numbers[SEEN:LAST, at] += counts[:, followed]
        numbers[LAST, at] = now
        return replace(one, numbers=numbers)

    def joined_by(
        self, clients: Grouping[ClientSeries], members: Positions, now: float
    ) -> "ConsumerArrivals":
        """And with those of these members that are not followed yet, as far as there is room."""
        keys = clients.index.keys[members]
        new = np.flatnonzero(positions(self.keys, keys) < 0)[: MOST - len(self.keys)]
        if not len(new):
            return self
        numbers = np.zeros((len(self.numbers), len(new)))
        numbers[BEGIN] = now
        keys = np.append(self.keys, keys[new])
        rows = np.append(self.clients, clients.index.rows[members[new]])
        order = np.argsort(keys, kind="stable")
        numbers = np.hstack([self.numbers, numbers]).take(order, axis=1)
        return ConsumerArrivals(keys[order], rows[order], numbers, self.swept)


def halved(numbers: NDArray[np.float64], now: float) -> NDArray[np.float64]:
    """Half as much over half the time: what is older counts less and less."""
    begin, seen, new, delivered, polls, last = numbers
    return np.stack(
        [(begin + now) / 2, seen // 2, new // 2, delivered / 2, polls // 2, last]
    )


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

    def advance(
        self, found: Facts, clients: Grouping[ClientSeries]
    ) -> "PrefetchEstimate":
        consumer = found.consumer
        before = self.clients.reindexed(clients.index)
        window = before.window.copy()
        largest = before.largest.copy()
        at = consumer.holding[clients.member[consumer.holding] >= 0]
        np.maximum.at(largest, clients.member[at], consumer.held[at])
        stands_still = (
            (consumer.d_delivered[at] == 0)
            & ~consumer.new[at]
            & waiting(found)[consumer.queue[at]]
        )
        at = at[stands_still]
        np.fmax.at(window, clients.member[at], consumer.held[at])
        deepest = np.fmax(self.queues.reindexed(found.queues).deepest, found.messages)
        return PrefetchEstimate(
            ClientBuffers(clients.index, window, largest),
            QueueDepths(found.queues, deepest),
            self.arrivals.advance(found, clients),
        )
