"""
What polls teach about how clients and queues are used, for the findings: no broker tells windows or prefetches.

The most that one consumer held while messages waited and none was delivered to it is its window, in messages. The most
that one ever held is the least that its window can be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from penstock.flow.judge.facts import Facts
from penstock.flow.judge.shares import waiting
from penstock.flow.judge.spans import moved
from penstock.flow.series import ClientSeries, Grouping
from penstock.table import Column, Index

COMINGS_SECONDS = 300.0
"""What comings are counted over, at most twice as long."""
MAX_COMINGS = 10_000
SWEEP_SECONDS = 60.0
"""Between two times at which clients that came no more are forgotten."""


class Coming(NamedTuple):
    """Consumers of a client seen since `begin`: in all, those that were new at their poll, what new ones had got."""

    client: ClientSeries
    begin: float
    seen: int = 0
    new: int = 0
    delivered: float = 0.0
    polls: int = 0
    """At which new ones were seen."""
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class Sightings:
    """
    Per row of `clients`: window (NaN until sighted) and largest, messages of one consumer. Per row of `queues`:
    deepest, the most messages ever there; mean_bytes of a message, as last known; idle, whether one takes all at once.
    """

    clients: Index[Any] = field(default_factory=Index.empty)
    window: Column = field(default_factory=lambda: np.empty(0))
    largest: Column = field(default_factory=lambda: np.empty(0))
    queues: Index[Any] = field(default_factory=Index.empty)
    deepest: Column = field(default_factory=lambda: np.empty(0))
    comings: Mapping[int, Coming] = field(default_factory=dict)
    """By the key of the client's series."""
    swept: float = -np.inf

    def follow(self, found: Facts, clients: Grouping[ClientSeries]) -> "Sightings":
        consumer = found.consumer
        window = moved(clients.index, self.clients, self.window, np.nan).copy()
        largest = moved(clients.index, self.clients, self.largest, 0.0).copy()
        mine = (clients.member >= 0) & (consumer.queue >= 0) & (consumer.held > 0)
        at = np.flatnonzero(mine)
        np.maximum.at(largest, clients.member[at], consumer.held[at])
        stands_still = (consumer.d_delivered[at] == 0) & ~consumer.new[at] & waiting(found)[consumer.queue[at]]
        at = at[stands_still]
        np.fmax.at(window, clients.member[at], consumer.held[at])
        deepest = np.fmax(moved(found.queues, self.queues, self.deepest, 0.0), found.messages)
        swept = self.swept if found.now - self.swept <= SWEEP_SECONDS else found.now
        comings = self._came(found, clients)
        return Sightings(clients.index, window, largest, found.queues, deepest, comings, swept)

    def _came(self, found: Facts, clients: Grouping[ClientSeries]) -> dict[int, Coming]:
        """Sparse: only clients of whose consumers half or more are new, on a queue that was known before."""
        consumer, now = found.consumer, found.now
        comings = dict(self.comings)
        if not now - self.swept <= SWEEP_SECONDS:
            comings = {key: coming for key, coming in comings.items() if now - coming.last <= COMINGS_SECONDS}
        fresh = consumer.new & (clients.member >= 0) & (consumer.queue >= 0)
        fresh[fresh] = found.known[consumer.queue[fresh]]
        at = np.flatnonzero(fresh)
        if not len(at):
            return comings
        size = len(clients.index)
        new = np.bincount(clients.member[at], minlength=size)
        delivered = np.bincount(clients.member[at], weights=consumer.delivered[at], minlength=size)
        present = np.bincount(clients.member[clients.member >= 0], minlength=size)
        members = np.unique(clients.member[at])
        members = members[2 * new[members] >= present[members]]
        keys = clients.index.keys[members].tolist()
        counts = zip(present[members].tolist(), new[members].tolist(), delivered[members].tolist(), strict=True)
        for member, key, (seen, came, got) in zip(members.tolist(), keys, counts, strict=True):
            coming = comings.get(key)
            if coming is None:
                if len(comings) >= MAX_COMINGS:
                    continue
                coming = Coming(clients.index.rows[member], now)
            if now - coming.begin > 2 * COMINGS_SECONDS:
                coming = halved(coming, now)
            client, begin, all_seen, all_new, all_got, polls, _ = coming
            comings[key] = Coming(client, begin, all_seen + seen, all_new + came, all_got + got, polls + 1, now)
        return comings


def halved(coming: Coming, now: float) -> Coming:
    """Half as much over half the time: what is older counts less and less."""
    return coming._replace(
        begin=(coming.begin + now) / 2,
        seen=coming.seen // 2,
        new=coming.new // 2,
        delivered=coming.delivered / 2,
        polls=coming.polls // 2,
    )
