"""Which polls could be judged, and what is not known for long enough to say anything of it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.table import Index, Keys, Positions

POLLS = 3
"""A thing seen at fewer polls is not judged: two must agree, and a change needs one before."""
SECONDS = 300.0
"""How far back it is known which polls were judged."""


@dataclass(frozen=True, slots=True)
class SeenPolls:
    """Of the rows of `index` those seen at fewer than POLLS polls: their keys, and at how many they were seen."""

    index: Index[Any] = field(default_factory=Index.empty)
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    polls: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def advance(self, index: Index[Any]) -> "SeenPolls":
        fresh = index.keys[:0] if index is self.index else index.keys[index.new_since(self.index)]
        keys = np.concatenate([self.keys, fresh])
        polls = np.concatenate([self.polls + 1, np.ones(len(fresh), np.intp)])
        stay = (polls < POLLS) & (index.positions(keys) >= 0)
        return SeenPolls(index, keys[stay], polls[stay])

    def polls_of(self, key: int) -> int:
        """At how many polls a row was seen, POLLS at most."""
        at = np.flatnonzero(self.keys == key)
        return int(self.polls[at[0]]) if len(at) else POLLS


@dataclass(frozen=True, slots=True)
class WarmUp:
    """stamps: of the polls of the last SECONDS that were judged, by the broker's clock."""

    stamps: tuple[float, ...] = ()
    queues: SeenPolls = field(default_factory=SeenPolls)
    clients: SeenPolls = field(default_factory=SeenPolls)

    def advance(self, now: float, queues: Index[Any], clients: Index[Any]) -> "WarmUp":
        """After a poll that was judged; `queues` and `clients`: as they are shown."""
        stamps = tuple(stamp for stamp in self.stamps if now - SECONDS <= stamp < now)
        return WarmUp((*stamps, now), self.queues.advance(queues), self.clients.advance(clients))

    def judged(self, since: float, interval: float) -> tuple[int, int]:
        """Of the polls since then, of the last SECONDS at most: how many were judged, and how many were due."""
        if not self.stamps:
            return 0, 0
        now = self.stamps[-1]
        begin = max(since, now - SECONDS)
        made = sum(stamp >= begin - interval / 2 for stamp in self.stamps)
        return made, max(made, round((now - begin) / interval) + 1 if interval > 0 else made)
