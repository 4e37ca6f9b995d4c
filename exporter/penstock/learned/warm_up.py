"""Which polls could be judged, and what is not known for long enough to say anything of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.core.table import Column, Index, Keys, Positions
from penstock.core.windows import reindex
from penstock.series.labels import HIDDEN, Grouping

POLLS = 3
"""A thing seen at fewer polls is not judged: two must agree, and a change needs one before."""
SECONDS = 300.0
"""How far back it is known which polls were judged."""
RECENT = 60.0
"""What an earlier process of the agent had seen counts for so many seconds, or POLLS intervals where that is longer."""


@dataclass(frozen=True, slots=True)
class SeenBefore:
    """What another process of the agent had seen when it gave the broker away, or ended.

    Attributes:
        keys: Of the rows (queues or consumers) that it knew; ascending.
        polls: By the name of a series that it had seen at fewer than POLLS polls: at how many.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    polls: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def polls_by_series(self, groups: Grouping[Any]) -> Positions:
        """At how many polls each series of `groups` had been seen: POLLS at most, 0 where it is new."""
        was_there = np.isin(groups.source.keys, self.keys)
        members = groups.member[was_there]
        polls = np.zeros(len(groups.index), np.intp)
        polls[members[members != HIDDEN]] = POLLS
        if self.polls:
            for at in np.flatnonzero(polls).tolist():
                polls[at] = self.polls.get(name_of(groups.index.rows[at]), POLLS)
        return polls


def name_of(series: Any) -> tuple[str, ...]:
    """Of a queue's or a client's series, without the broker."""
    client = getattr(series, "client", None)
    of_queue = (series.address, series.queue)
    return of_queue if client is None else (*of_queue, client)


@dataclass(frozen=True, slots=True)
class SeenPolls:
    """At how many polls the rows of `index` were seen.

    Attributes:
        keys, polls: Of the rows that were seen at fewer than POLLS polls.
        since: Per row when it was seen first, by the broker's clock.
        before: What an earlier process had seen; only until the first poll.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    polls: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    since: Column = field(default_factory=lambda: np.empty(0))
    before: SeenBefore | None = None

    def advance(self, groups: Grouping[Any], now: float) -> "SeenPolls":
        """After a poll that was judged at `now`, by the broker's clock."""
        index = groups.index
        fresh = index.keys[:0]
        since = self.since
        if index is not self.index:
            fresh = index.keys[index.new_since(self.index)]
            since = reindex(index, self.index, self.since, now)
        seen = np.zeros(len(fresh), np.intp)
        if self.before is not None:
            seen = self.before.polls_by_series(groups)[index.positions(fresh)]
        keys = np.concatenate([self.keys, fresh])
        polls = np.concatenate([self.polls, seen]) + 1
        stay = (polls < POLLS) & (index.positions(keys) >= 0)
        return SeenPolls(index, keys[stay], polls[stay], since)

    def polls_of(self, key: int) -> int:
        """At how many polls a row was seen, POLLS at most."""
        at = np.flatnonzero(self.keys == key)
        return int(self.polls[at[0]]) if len(at) else POLLS

    def since_of(self, key: int | None) -> float:
        """When a row was seen first, by the broker's clock; NaN where it is not there."""
        if key is None:
            return np.nan
        at = int(self.index.positions(np.array([key], np.int64))[0])
        return float(self.since[at]) if at >= 0 else np.nan

    def polls_by_name(self) -> dict[tuple[str, ...], int]:
        """Of the rows that were seen at fewer than POLLS polls."""
        at = self.index.positions(self.keys)
        rows = self.index.rows[at[at >= 0]]
        return dict(zip(map(name_of, rows), self.polls[at >= 0].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class WarmUp:
    """stamps: of the polls of the last SECONDS that were judged, by the broker's clock."""

    stamps: tuple[float, ...] = ()
    queues: SeenPolls = field(default_factory=SeenPolls)
    clients: SeenPolls = field(default_factory=SeenPolls)

    def advance(
        self, now: float, queues: Grouping[Any], clients: Grouping[Any]
    ) -> "WarmUp":
        """After a poll that was judged; `queues` and `clients`: as they are shown."""
        warm_up = self if self._goes_on(now) else self._without_before()
        stamps = tuple(stamp for stamp in self.stamps if now - SECONDS <= stamp < now)
        return WarmUp(
            (*stamps, now),
            warm_up.queues.advance(queues, now),
            warm_up.clients.advance(clients, now),
        )

    def _goes_on(self, now: float) -> bool:
        """Whether what an earlier process had seen is recent: not longer ago than a few polls."""
        if not self.stamps:
            return False
        interval = self.stamps[-1] - self.stamps[-2] if len(self.stamps) > 1 else 0.0
        return now - self.stamps[-1] <= max(RECENT, POLLS * interval)

    def _without_before(self) -> "WarmUp":
        return replace(
            self,
            queues=replace(self.queues, before=None),
            clients=replace(self.clients, before=None),
        )

    def judged(self, since: float, interval: float) -> tuple[int, int]:
        """Of the polls since then, of the last SECONDS at most: how many were judged, and how many were due."""
        if not self.stamps:
            return 0, 0
        now = self.stamps[-1]
        begin = max(since, now - SECONDS)
        made = sum(stamp >= begin - interval / 2 for stamp in self.stamps)
        return made, max(
            made, round((now - begin) / interval) + 1 if interval > 0 else made
        )
