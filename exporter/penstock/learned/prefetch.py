"""How clients and queues are used, for the findings: no broker reports windows or prefetches.

A *window*, or prefetch, is the number of messages that a consumer may buffer. The most messages that one buffered while
messages were ready and none was delivered to it are its window. The most that it buffered at any time are the least
that its window can be. *Arrivals* of consumers show whether a client makes one for each message.
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
"""Arrivals are counted over so many seconds, at most twice as many."""
MOST = 10_000
"""Clients that are followed."""
SWEEP_SECONDS = 60.0
"""Between two times at which clients without new consumers are forgotten."""
BEGIN, SEEN, NEW, DELIVERED, POLLS, LAST = range(6)
"""Lines of `ConsumerArrivals.numbers`: since when the client is counted; its consumers, summed over its polls with new
ones; the new ones; messages that new ones had got; its polls with new ones; the last of these polls.
"""


@dataclass(frozen=True, slots=True)
class ConsumerArrivals:
    """The clients of which half or more of the consumers were new at some poll.

    Attributes:
        keys: The keys of their series, ascending.
        clients: Their series.
        numbers: (BEGIN … LAST, clients) The counts.
        swept: When clients were last forgotten.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    clients: NDArray[np.object_] = field(
        default_factory=lambda: np.empty(0, np.object_)
    )
    numbers: NDArray[np.float64] = field(default_factory=lambda: np.empty((6, 0)))
    swept: float = -np.inf

    def advance(
        self, facts: Facts, clients: Grouping[ClientSeries]
    ) -> "ConsumerArrivals":
        """Return the arrivals after a poll: the clients are counted of which half or more of the consumers are new."""
        recent = self.without_idle_clients(facts.now)
        new = new_consumers(facts, clients)
        if not len(new):
            return recent
        members, client_of_new = np.unique(clients.member[new], return_inverse=True)
        delivered = facts.consumer.delivered[new]
        counts = np.stack(
            [
                consumers_of(clients, members),
                np.bincount(client_of_new),
                np.bincount(client_of_new, weights=delivered),
                np.ones(len(members)),
            ]
        )
        consumers, arrived = counts[:2]
        are_mostly_new = 2 * arrived >= consumers
        return recent.with_counts(
            clients, members[are_mostly_new], counts[:, are_mostly_new], facts.now
        )

    def without_idle_clients(self, now: float) -> "ConsumerArrivals":
        """Return the arrivals without clients that had no new consumer for long; they are looked for once a minute."""
        if now - self.swept <= SWEEP_SECONDS:
            return self
        is_recent = now - self.numbers[LAST] <= SECONDS
        return ConsumerArrivals(
            keys=self.keys[is_recent],
            clients=self.clients[is_recent],
            numbers=self.numbers[:, is_recent],
            swept=now,
        )

    def with_counts(
        self,
        clients: Grouping[ClientSeries],
        members: Positions,
        counts: NDArray[np.float64],
        now: float,
    ) -> "ConsumerArrivals":
        """Return the arrivals with those of a poll.

        Counts that cover twice SECONDS are halved first, so that they show the last minutes.

        Args:
            clients: All clients.
            members: The positions of those with new consumers.
            counts: (SEEN … POLLS, members) What to add.
            now: When the poll was.
        """
        joined = self.with_clients(clients, members, now)
        rows = positions(joined.keys, clients.index.keys[members])
        is_followed = rows >= 0
        rows = rows[is_followed]
        numbers = joined.numbers.copy()
        seconds_counted = now - numbers[BEGIN, rows]
        long_counted = rows[seconds_counted > 2 * SECONDS]
        numbers[:, long_counted] = halved(numbers[:, long_counted], now)
        numbers[SEEN:LAST, rows] += counts[:, is_followed]
        numbers[LAST, rows] = now
        return replace(joined, numbers=numbers)

    def with_clients(
        self, clients: Grouping[ClientSeries], members: Positions, now: float
    ) -> "ConsumerArrivals":
        """Return the arrivals with these clients followed too, as far as there is room; without counts yet."""
        keys = clients.index.keys[members]
        room = MOST - len(self.keys)
        is_new = positions(self.keys, keys) < 0
        new = np.flatnonzero(is_new)[:room]
        if not len(new):
            return self
        numbers = np.zeros((len(self.numbers), len(new)))
        numbers[BEGIN] = now
        all_keys = np.append(self.keys, keys[new])
        all_clients = np.append(self.clients, clients.index.rows[members[new]])
        # `positions` finds keys only if they are sorted.
        order = np.argsort(all_keys, kind="stable")
        return ConsumerArrivals(
            keys=all_keys[order],
            clients=all_clients[order],
            numbers=np.hstack([self.numbers, numbers]).take(order, axis=1),
            swept=self.swept,
        )


def new_consumers(facts: Facts, clients: Grouping[ClientSeries]) -> Positions:
    """Return the positions of the consumers that came to a queue since the poll before.

    On a queue that was not known then they may have been there for long. Those of hidden clients are left out.
    """
    consumer = facts.consumer
    new = np.flatnonzero(consumer.new)
    is_shown = clients.member[new] >= 0
    has_queue = consumer.queue[new] >= 0
    new = new[is_shown & has_queue]
    is_known_queue = facts.known[consumer.queue[new]]
    return new[is_known_queue]


def consumers_of(
    clients: Grouping[ClientSeries], members: Positions
) -> NDArray[np.intp]:
    """(members,) How many consumers each of these clients has now, new ones included."""
    # Consumers of hidden clients have the member -1: they are counted at place 0.
    counts = np.bincount(clients.member + 1)
    return counts[members + 1]


def halved(numbers: NDArray[np.float64], now: float) -> NDArray[np.float64]:
    """(BEGIN … LAST, clients) Half the counts, as if they had begun in the middle: older ones count less and less."""
    begin, seen, new, delivered, polls, last = numbers
    middle = (begin + now) / 2
    return np.stack(
        [
            middle,
            seen // 2,
            new // 2,
            delivered / 2,
            polls // 2,
            last,
        ]
    )


@dataclass(frozen=True, slots=True)
class ClientBuffers(RowState):
    """Messages that one consumer of a client buffers."""

    window: Column = column(saved=False)
    """The most while messages were ready and none was delivered; NaN until that is seen."""
    largest: Column = column(0.0, saved=False)
    """The most of all times."""


@dataclass(frozen=True, slots=True)
class QueueDepths(RowState):
    """The depths of queues."""

    deepest: Column = column(0.0, saved=False)
    """The most messages that were there."""


@dataclass(frozen=True, slots=True)
class PrefetchEstimate:
    """How clients and queues are used."""

    clients: ClientBuffers = field(default_factory=ClientBuffers)
    queues: QueueDepths = field(default_factory=QueueDepths)
    arrivals: ConsumerArrivals = field(default_factory=ConsumerArrivals)

    def advance(
        self, facts: Facts, clients: Grouping[ClientSeries]
    ) -> "PrefetchEstimate":
        """Return the estimates after a poll: buffers of clients, depths of queues and arrivals of consumers."""
        depths = self.queues.reindexed(facts.queues)
        deepest = np.fmax(depths.deepest, facts.messages)
        return PrefetchEstimate(
            clients=self._buffers_with(facts, clients),
            queues=QueueDepths(facts.queues, deepest),
            arrivals=self.arrivals.advance(facts, clients),
        )

    def _buffers_with(
        self, facts: Facts, clients: Grouping[ClientSeries]
    ) -> ClientBuffers:
        """Return the most messages that consumers of each client buffered, with those of this poll.

        A buffer is full if messages are ready, none was delivered, and the consumer was there at the poll before.
        """
        consumer = facts.consumer
        before = self.clients.reindexed(clients.index)
        window = before.window.copy()
        largest = before.largest.copy()
        is_shown = clients.member[consumer.holding] >= 0
        holding = consumer.holding[is_shown]
        np.maximum.at(
            largest,
            clients.member[holding],
            consumer.held[holding],
        )
        gets_nothing = consumer.d_delivered[holding] == 0
        has_ready_messages = waiting(facts)[consumer.queue[holding]]
        is_full = gets_nothing & has_ready_messages & ~consumer.new[holding]
        full = holding[is_full]
        np.fmax.at(
            window,
            clients.member[full],
            consumer.held[full],
        )
        return ClientBuffers(clients.index, window, largest)
