"""In how many of the last polls consumers could take more, had nothing, or were saturated.

A broker gives a consumer what waits at once, as long as its window or credit has room. So while messages wait, a
consumer that holds some is at its limit, and one that holds none is starved. Neither is unhealthy by itself. A
selective consumer may lawfully hold nothing: it is left out.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import RowState, column
from penstock.core.table import Column, Index, Mask, Positions
from penstock.core.windows import since
from penstock.observation.facts import Facts
from penstock.series.labels import ClientSeries, Grouping

SECONDS = 300.0
"""What the shares are of."""
POLLS = 64
"""As many fit a word; where polls come faster some are left out."""

Bits = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Bits64(RowState):
    """Of the last polls, the newest lowest, a bit each: per row whether it was looked at, and so: (answers, rows)."""

    seen: Bits = column(0, dtype=np.uint64, saved=False)
    so: Bits = column(0, dtype=np.uint64, lines=1, saved=False)

    def push(self, index: Index[Any], seen: Mask, so: NDArray[np.bool_]) -> Self:
        """With one more poll; so: (answers, rows), counts only where `seen`."""
        one = np.uint64(1)
        before = self.reindexed(index)
        return replace(
            before, seen=before.seen << one | seen, so=before.so << one | so & seen
        )

    def shares(self, polls: int) -> NDArray[np.float64]:
        """(answers, rows): 0 to 1 of those of the last `polls` that were looked at; NaN where none was."""
        last = np.uint64(2**polls - 1)
        seen = np.bitwise_count(self.seen & last)
        shares: NDArray[np.float64] = np.bitwise_count(self.so & last) / np.where(
            seen > 0, seen, np.nan
        )
        return shares


@dataclass(frozen=True, slots=True)
class ClientBits(Bits64):
    """Two answers: it was starved, it was at its limit."""

    so: Bits = column(0, dtype=np.uint64, lines=2, saved=False)


@dataclass(frozen=True, slots=True)
class Saturation:
    """starved, at_limit: per client, by the clients' rows; capacity: per queue."""

    clients: ClientBits = field(default_factory=ClientBits)
    queues: Bits64 = field(default_factory=Bits64)
    stamp: float = -np.inf
    """Of the poll that was last looked at."""
    starved: Column = field(default_factory=lambda: np.empty(0))
    at_limit: Column = field(default_factory=lambda: np.empty(0))
    capacity: Column = field(default_factory=lambda: np.empty(0))

    def advance(self, found: Facts, clients: Grouping[ClientSeries]) -> "Saturation":
        if not found.counted:
            unknown = np.full(len(clients.index), np.nan)
            return Saturation(
                starved=unknown,
                at_limit=unknown,
                capacity=np.full(len(found.queues), np.nan),
            )
        stamp = self.stamp
        if 0 <= found.now - stamp < SECONDS / POLLS:
            of_clients = self.clients.reindexed(clients.index)
            of_queues = self.queues.reindexed(found.queues)
        else:
            stamp = found.now
            taking = takers(found)
            of_clients = looked_at_clients(self.clients, taking, clients)
            of_queues = looked_at_queues(self.queues, taking, found)
        polls = polls_in(found.interval)
        starved, at_limit = of_clients.shares(polls)
        return Saturation(
            of_clients, of_queues, stamp, starved, at_limit, of_queues.shares(polls)[0]
        )


def polls_in(interval: float) -> int:
    """How many of those looked at make SECONDS, at least one; polls come every `interval` seconds."""
    if not interval > 0:
        return 1
    between = interval * np.ceil(SECONDS / POLLS / interval - 0.01)
    return int(np.clip(np.ceil(SECONDS / max(between, interval)), 1, POLLS))


class Takers(NamedTuple):
    """Per consumer: whether it takes whatever comes; which of all hold something, and for which messages wait."""

    takes: Mask
    holds: Positions
    waits: Positions


def takers(found: Facts) -> Takers:
    consumer = found.consumer
    takes = (consumer.queue >= 0) & ~consumer.selective
    return Takers(takes, np.flatnonzero(consumer.holds), consumer.of(waiting(found)))


def waiting(found: Facts) -> Mask:
    """Queues that would deliver: messages wait, and no operator holds them."""
    return (found.ready > 0) & ~(found.paused > 0) & ~(found.address.paused > 0)


def looked_at_clients(
    before: ClientBits, taking: Takers, clients: Grouping[ClientSeries]
) -> ClientBits:
    # At 0 are those that are not shown, or do not take whatever comes.
    place = np.where(taking.takes, clients.member + 1, 0)
    size = len(clients.index) + 1
    some, holding, wanted = (
        np.bincount(one, minlength=size)[1:]
        for one in (place, place[taking.holds], place[taking.waits])
    )
    return before.push(
        clients.index,
        some > 0,
        (wanted > 0) & np.stack([holding == 0, holding == some]),
    )


def looked_at_queues(before: Bits64, taking: Takers, found: Facts) -> Bits64:
    place = np.where(taking.takes, found.consumer.place, 0)
    size = len(found.queues) + 1
    some, holding = (
        np.bincount(one, minlength=size)[1:] for one in (place, place[taking.holds])
    )
    return before.push(
        found.queues, some > 0, ((holding < some) | ~waiting(found))[None]
    )


RATE_POLLS = 3


@dataclass(frozen=True, slots=True)
class ServiceRate(RowState):
    """rates: (polls, consumers), what each settled per second at the last polls, newest first; NaN before it came.
    best: the highest of each. since: when it began to settle without a pause of so many polls (broker's clock); NaN
    while it does not.
    """

    rates: NDArray[np.float32] = column(lines=RATE_POLLS, dtype=np.float32, saved=False)
    since: Column = column(saved=False)
    best: Column = column(saved=False, carried=False)

    def advance(self, found: Facts, step: float) -> "ServiceRate":
        """step: seconds since the poll before."""
        index = found.consumer.index
        before = self.reindexed(index)
        rates = np.empty((RATE_POLLS, len(index)), np.float32)
        rates[0] = found.consumer.d_left / step if step > 0 else 0.0
        rates[1:] = before.rates[:-1]
        best = np.fmax.reduce(rates).astype(np.float64)
        return ServiceRate(index, rates, since(best > 0, before.since, found.now), best)
