"""
In how many of the last polls consumers could take more, had nothing, or had their hands full.

A broker gives a consumer what waits at once, as long as its window or credit has room. So while messages wait, a
consumer that holds some is at its limit, and one that holds none is starved. Neither is unhealthy by itself. A
selective consumer may lawfully hold nothing: it is left out.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.flow.judge.facts import Facts
from penstock.flow.judge.spans import Mask, moved
from penstock.flow.series import ClientSeries, Grouping
from penstock.table import Column, Index, Positions

SECONDS = 300.0
"""What the shares are of."""
POLLS = 64
"""As many fit a word; where polls come faster some are left out."""

Bits = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Bits64:
    """Of the last polls, the newest lowest, a bit for each: per row of `index`, whether it was looked at, and so."""

    index: Index[Any] = field(default_factory=Index.empty)
    seen: Bits = field(default_factory=lambda: np.empty(0, np.uint64))
    so: Bits = field(default_factory=lambda: np.empty((0, 0), np.uint64))
    """(answers, rows)."""

    def push(self, index: Index[Any], seen: Mask, so: NDArray[np.bool_]) -> "Bits64":
        """With one more poll; so: (answers, rows), counts only where `seen`."""
        one = np.uint64(1)
        before = moved(index, self.index, self.seen, 0)
        told = moved(index, self.index, self.so, 0) if self.so.size else np.zeros(so.shape, np.uint64)
        return Bits64(index, before << one | seen.astype(np.uint64), told << one | (so & seen).astype(np.uint64))

    def moved(self, index: Index[Any]) -> "Bits64":
        """By the rows of `index`, without another poll."""
        if index is self.index:
            return self
        return Bits64(index, moved(index, self.index, self.seen, 0), moved(index, self.index, self.so, 0))

    def shares(self, polls: int) -> NDArray[np.float64]:
        """(answers, rows): 0 to 1 of those of the last `polls` that were looked at; NaN where none was."""
        last = np.uint64(2**polls - 1)
        seen = np.bitwise_count(self.seen & last).astype(np.float64)
        so = np.bitwise_count(self.so & last)
        shares: NDArray[np.float64] = np.where(seen > 0, so / np.where(seen > 0, seen, 1), np.nan)
        return shares


@dataclass(frozen=True, slots=True)
class Shares:
    """starved, at_limit: per client, by the clients' rows; capacity: per queue."""

    clients: Bits64 = field(default_factory=Bits64)
    queues: Bits64 = field(default_factory=Bits64)
    stamp: float = -np.inf
    """Of the poll that was last looked at."""
    starved: Column = field(default_factory=lambda: np.empty(0))
    at_limit: Column = field(default_factory=lambda: np.empty(0))
    capacity: Column = field(default_factory=lambda: np.empty(0))

    def follow(self, found: Facts, clients: Grouping[ClientSeries]) -> "Shares":
        if not found.counted:
            unknown = np.full(len(clients.index), np.nan)
            return Shares(starved=unknown, at_limit=unknown, capacity=np.full(len(found.queues), np.nan))
        stamp = self.stamp
        if 0 <= found.now - stamp < SECONDS / POLLS:
            of_clients, of_queues = self.clients.moved(clients.index), self.queues.moved(found.queues)
        else:
            stamp = found.now
            taking = takers(found)
            of_clients = looked_at_clients(self.clients, taking, clients)
            of_queues = looked_at_queues(self.queues, taking, found)
        polls = polls_in(found.interval)
        starved, at_limit = of_clients.shares(polls)
        return Shares(of_clients, of_queues, stamp, starved, at_limit, of_queues.shares(polls)[0])


def polls_in(interval: float) -> int:
    """How many of those looked at make SECONDS, at least one; polls come every `interval` seconds."""
    if not interval > 0:
        return 1
    between = interval * np.ceil(SECONDS / POLLS / interval - 0.01)
    return int(np.clip(np.ceil(SECONDS / max(between, interval)), 1, POLLS))


@dataclass(frozen=True, slots=True)
class Takers:
    """Of the consumers that take whatever comes, their positions: whether each holds something, and messages wait."""

    at: Positions
    holds: Mask
    waits: Mask


def takers(found: Facts) -> Takers:
    consumer = found.consumer
    at = np.flatnonzero((consumer.queue >= 0) & ~consumer.selective)
    holds = (consumer.held + consumer.uncommitted)[at] > 0
    return Takers(at, holds, waiting(found)[consumer.queue[at]])


def waiting(found: Facts) -> Mask:
    """Queues that would deliver: messages wait, and no operator holds them."""
    return (found.ready > 0) & ~(found.paused > 0) & ~(found.address.paused > 0)


def looked_at_clients(before: Bits64, taking: Takers, clients: Grouping[ClientSeries]) -> Bits64:
    member, size = clients.member[taking.at], len(clients.index)
    # All four counts at one go: -1 are those that are not shown.
    kind = 2 * taking.holds.astype(np.intp) + taking.waits
    none, waits, holds, both = np.bincount(member + 1 + (size + 1) * kind, minlength=4 * size + 4).reshape(4, -1)[:, 1:]
    wanted, holding = waits + both > 0, holds + both
    all_of = none + waits + holding
    so = np.stack([wanted & (holding == 0), wanted & (holding == all_of)])
    return before.push(clients.index, all_of > 0, so)


def looked_at_queues(before: Bits64, taking: Takers, found: Facts) -> Bits64:
    queue = found.consumer.queue[taking.at]
    kinds = np.bincount(2 * queue + taking.holds, minlength=2 * len(found.queues)).reshape(-1, 2)
    empty, holding = kinds.T
    room = (empty > 0) | ~waiting(found)
    return before.push(found.queues, empty + holding > 0, room[None])
