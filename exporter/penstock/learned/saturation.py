"""In how many of the last polls consumers could take more, had nothing, or were saturated.

A broker delivers ready messages at once, as long as a consumer's window or credit has room. So while messages are
ready, a consumer that buffers some is *at its limit*, and one that buffers none is *starved*. Neither is unhealthy by
itself. A selective consumer may have nothing to get: it is left out.

The answers of the last 64 polls are the bits of one whole number for each row, so that 50,000 consumers cost little.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column
from penstock.core.table import Column, Index, Mask, Positions
from penstock.core.windows import since
from penstock.observation.facts import Facts
from penstock.series.labels import ClientSeries, Grouping

SECONDS = 300.0
"""The shares are those of the polls of so many seconds."""
POLLS = 64
"""As many polls fit into a word; where they come faster some are left out."""

Bits = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Bits64(RowState):
    """Answers to yes-or-no questions at the last polls: a bit for each poll, the newest is the lowest."""

    seen: Bits = column(0, dtype=np.uint64, saved=False)
    """Whether the row could answer."""
    so: Bits = column(0, dtype=np.uint64, lines=1, saved=False)
    """(answers, rows) Whether the answer was yes."""

    def push(
        self, index: Index[object], seen: Mask, answers: NDArray[np.bool_]
    ) -> Self:
        """Return the answers with those of one more poll.

        Args:
            index: The rows.
            seen: (rows,) Whether the row can answer.
            answers: (answers, rows) Whether the answer is yes; it counts only where `seen`.
        """
        one_bit = np.uint64(1)
        before = self.reindexed(index)
        return replace(
            before,
            # The answers move up by a bit; the new one is the lowest.
            seen=before.seen << one_bit | seen,
            so=before.so << one_bit | answers & seen,
        )

    def shares(self, polls: int) -> NDArray[np.float64]:
        """(answers, rows) Share of yes among the answers of the last `polls`, 0 to 1; NaN where there is no answer."""
        bits_of_polls = np.uint64(2**polls - 1)
        seen = np.bitwise_count(self.seen & bits_of_polls)
        yes = np.bitwise_count(self.so & bits_of_polls)
        answered = np.where(seen > 0, seen, np.nan)
        shares: NDArray[np.float64] = yes / answered
        return shares


@dataclass(frozen=True, slots=True)
class ClientBits(Bits64):
    """Two answers: it was starved, it was at its limit."""

    so: Bits = column(0, dtype=np.uint64, lines=2, saved=False)


@dataclass(frozen=True, slots=True)
class Saturation:
    """The shares of the polls at which clients and queues were saturated.

    Attributes:
        clients: The answers of each client.
        queues: The answers of each queue: whether a consumer could take more.
        stamp: When the last poll was that counts.
        starved: Per client the share of polls at which it was starved.
        at_limit: Per client the share of polls at which it was at its limit.
        capacity: Per queue the share of polls at which a consumer could take more.
    """

    clients: ClientBits = field(default_factory=ClientBits)
    queues: Bits64 = field(default_factory=Bits64)
    stamp: float = -np.inf
    starved: Column = field(default_factory=lambda: np.empty(0))
    at_limit: Column = field(default_factory=lambda: np.empty(0))
    capacity: Column = field(default_factory=lambda: np.empty(0))

    def advance(self, facts: Facts, clients: Grouping[ClientSeries]) -> "Saturation":
        """Return the shares after a poll; its answers count if the last one that counts is long enough ago."""
        if not facts.counted:
            return unknown_saturation(len(clients.index), len(facts.queues))
        is_too_soon = 0 <= facts.now - self.stamp < SECONDS / POLLS
        if is_too_soon:
            stamp = self.stamp
            of_clients = self.clients.reindexed(clients.index)
            of_queues = self.queues.reindexed(facts.queues)
        else:
            stamp = facts.now
            takers = takers_of(facts)
            of_clients = push_clients(self.clients, takers, clients)
            of_queues = push_queues(self.queues, takers, facts)
        polls = polls_in(facts.interval)
        starved, at_limit = of_clients.shares(polls)
        (capacity,) = of_queues.shares(polls)
        return Saturation(
            clients=of_clients,
            queues=of_queues,
            stamp=stamp,
            starved=starved,
            at_limit=at_limit,
            capacity=capacity,
        )


def unknown_saturation(clients: int, queues: int) -> Saturation:
    """Return the shares where the broker does not show the numbers of consumers: all NaN."""
    of_clients = np.full(clients, np.nan)
    of_queues = np.full(queues, np.nan)
    return Saturation(starved=of_clients, at_limit=of_clients, capacity=of_queues)


def polls_in(interval: float) -> int:
    """Return how many polls that count make SECONDS, 1 … POLLS, if polls come every `interval` seconds.

    A poll counts when the last one that counts is SECONDS / POLLS ago: that is some whole number of intervals.
    """
    if not interval > 0:
        return 1
    shortest = SECONDS / POLLS
    # Intervals differ a little: one that is 1 % too short counts as long enough.
    intervals = np.ceil(shortest / interval - 0.01)
    between = max(interval * intervals, interval)
    polls = int(np.ceil(SECONDS / between))
    return min(max(polls, 1), POLLS)


class Takers(NamedTuple):
    """Which consumers could take messages at a poll.

    Attributes:
        takes: (consumers,) Whether it takes all messages of a known queue: it has no filter.
        holds: Positions of the consumers that buffer messages.
        waits: Positions of the consumers for which messages are ready.
    """

    takes: Mask
    holds: Positions
    waits: Positions


def takers_of(facts: Facts) -> Takers:
    """Return which consumers could take messages at this poll, which buffer some, and for which some are ready."""
    consumer = facts.consumer
    return Takers(
        takes=(consumer.queue >= 0) & ~consumer.selective,
        holds=np.flatnonzero(consumer.holds),
        waits=consumer.of(waiting(facts)),
    )


def waiting(facts: Facts) -> Mask:
    """(queues,) Whether the queue delivers to any consumer with room: messages are ready, and it is not paused."""
    is_paused = (facts.paused > 0) | (facts.address.paused > 0)
    return (facts.ready > 0) & ~is_paused


def push_clients(
    before: ClientBits, takers: Takers, clients: Grouping[ClientSeries]
) -> ClientBits:
    """Return the answers of the clients with those of a poll.

    While messages are ready for one of its consumers, a client is starved if none of them buffers messages, and at its
    limit if all do.
    """
    # Place 0 takes the consumers that are not shown, and those with a filter.
    place = np.where(
        takers.takes,
        clients.member + 1,
        0,
    )
    size = len(clients.index)
    consumers = count_by(place, size)
    holding = count_by(place[takers.holds], size)
    waiting_for = count_by(place[takers.waits], size)
    is_starved = holding == 0
    is_at_limit = holding == consumers
    answers = (waiting_for > 0) & np.stack([is_starved, is_at_limit])
    return before.push(clients.index, consumers > 0, answers)


def push_queues(before: Bits64, takers: Takers, facts: Facts) -> Bits64:
    """Return the answers of the queues with those of a poll: a consumer buffers nothing, or nothing is ready.

    Then a consumer could take more messages than come.
    """
    # Place 0 takes the consumers whose queue is not known, and those with a filter.
    place = np.where(
        takers.takes,
        facts.consumer.place,
        0,
    )
    size = len(facts.queues)
    consumers = count_by(place, size)
    holding = count_by(place[takers.holds], size)
    has_capacity = (holding < consumers) | ~waiting(facts)
    return before.push(
        facts.queues,
        consumers > 0,
        # One answer: (1, queues).
        has_capacity[None],
    )


def count_by(place: Positions, size: int) -> NDArray[np.intp]:
    """(size,) How many consumers have each of the places 1 … size. place: (consumers,) 0 for those left out."""
    return np.bincount(place, minlength=size + 1)[1:]


RATE_POLLS = 3
"""A consumer may acknowledge in batches: its rate is the highest of so many polls."""


@dataclass(frozen=True, slots=True)
class ServiceRate(RowState):
    """What each consumer settled at the last polls."""

    rates: NDArray[np.float32] = column(lines=RATE_POLLS, dtype=np.float32, saved=False)
    """(polls, consumers) Messages a second, the newest poll first; NaN before the consumer came."""
    since: Column = column(saved=False)
    """Since when it settles without a pause of so many polls, by the broker's clock; NaN while it does not."""
    best: Column = column(saved=False, carried=False)
    """The highest rate."""

    def advance(self, facts: Facts, step: float) -> "ServiceRate":
        """Return the rates after a poll; they are 0 at the first one. step: seconds since the poll before."""
        index = facts.consumer.index
        before = self.reindexed(index)
        rates = np.empty((RATE_POLLS, len(index)), np.float32)
        rates[0] = facts.consumer.d_left / step if step > 0 else 0.0
        rates[1:] = before.rates[:-1]
        best = np.fmax.reduce(rates).astype(np.float64)
        settles_since = since(
            best > 0,
            before.since,
            facts.now,
        )
        return ServiceRate(index=index, rates=rates, since=settles_since, best=best)
