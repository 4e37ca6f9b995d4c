"""
What polls teach about how clients and queues are used, for the findings: no broker tells windows or prefetches.

The most that one consumer held while messages waited and none was delivered to it is its window, in messages. The most
that one ever held is the least that its window can be.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.flow.judge.comings import Comings
from penstock.flow.judge.facts import Facts
from penstock.flow.judge.shares import waiting
from penstock.flow.judge.spans import moved
from penstock.flow.series import ClientSeries, Grouping
from penstock.table import Column, Index


@dataclass(frozen=True, slots=True)
class Sightings:
    """
    Per row of `clients`: window (NaN until sighted) and largest, messages of one consumer. Per row of `queues`:
    deepest, the most messages ever there.
    """

    clients: Index[Any] = field(default_factory=Index.empty)
    window: Column = field(default_factory=lambda: np.empty(0))
    largest: Column = field(default_factory=lambda: np.empty(0))
    queues: Index[Any] = field(default_factory=Index.empty)
    deepest: Column = field(default_factory=lambda: np.empty(0))
    comings: Comings = field(default_factory=Comings)

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
        comings = self.comings.follow(found, clients)
        return Sightings(clients.index, window, largest, found.queues, deepest, comings)
