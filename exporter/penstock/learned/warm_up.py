"""Which polls could be judged, and which queues and clients are not known for long enough to be judged.

A queue or a client is judged from its third poll on. So that a start of the agent does not interrupt that, another
process of the agent leaves what it has seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from penstock.core.table import Column, Index, Keys, Positions
from penstock.core.windows import reindex
from penstock.series.labels import HIDDEN, ClientSeries, Grouping, QueueSeries

JudgedT = TypeVar("JudgedT", QueueSeries, ClientSeries)

POLLS = 3
"""A thing seen at fewer polls is not judged: two must agree, and a change needs one before."""
SECONDS = 300.0
"""How far back it is known which polls were judged."""
RECENT = 60.0
"""What an earlier process of the agent saw counts for so many seconds, or for POLLS intervals where that is longer."""

Name = tuple[str, ...]
"""The name of a series: address and queue, and the client if it is one of a client."""


@dataclass(frozen=True, slots=True)
class SeenBefore:
    """What another process of the agent had seen when it gave the broker away, or ended.

    Attributes:
        keys: The keys of the rows (queues or consumers) that it knew; ascending.
        polls: By the name of a series that it had seen at fewer than POLLS polls: at how many.
    """

    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    polls: Mapping[Name, int] = field(default_factory=dict)

    def polls_by_series(self, groups: Grouping[JudgedT]) -> Positions:
        """(series,) At how many polls each had been seen: POLLS at most, 0 where it is new.

        A series was seen if one of its queues or consumers was; those that were seen at few polls are in `polls`.
        """
        was_there = np.isin(groups.source.keys, self.keys)
        members = groups.member[was_there]
        polls = np.zeros(len(groups.index), np.intp)
        polls[members[members != HIDDEN]] = POLLS
        if not self.polls:
            return polls
        # Every series that was there has POLLS up to here.
        for series in np.flatnonzero(polls).tolist():
            name = name_of(groups.index.rows[series])
            polls[series] = self.polls.get(name, POLLS)
        return polls


def name_of(series: QueueSeries | ClientSeries) -> Name:
    """Return the name of a queue's or a client's series, without the broker."""
    client = getattr(series, "client", None)
    if client is None:
        return series.address, series.queue
    return series.address, series.queue, client


@dataclass(frozen=True, slots=True)
class SeenPolls:
    """At how many polls the rows of `index` were seen.

    Attributes:
        index: The series.
        keys: The keys of the rows that were seen at fewer than POLLS polls.
        polls: At how many polls each of these was seen.
        since: Per row when it was seen first, by the broker's clock.
        before: What an earlier process had seen; only until the first poll.
    """

    index: Index[QueueSeries] | Index[ClientSeries] = field(default_factory=Index.empty)
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    polls: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    since: Column = field(default_factory=lambda: np.empty(0))
    before: SeenBefore | None = None

    def advance(self, groups: Grouping[JudgedT], now: float) -> "SeenPolls":
        """Return the state after a poll that was judged at `now`, by the broker's clock.

        Only rows that were seen at fewer than POLLS polls are counted: all others are known, and need no number.
        """
        index = groups.index
        since = self.since
        fresh = np.empty(0, np.int64)
        if index is not self.index:
            fresh = index.keys[index.new_since(self.index)]
            since = reindex(index, self.index, self.since, now)
        keys = np.concatenate([self.keys, fresh])
        polls_of_fresh = self._polls_before(groups, fresh)
        polls = np.concatenate([self.polls, polls_of_fresh]) + 1
        is_present = index.positions(keys) >= 0
        is_counted = (polls < POLLS) & is_present
        return SeenPolls(
            index=index,
            keys=keys[is_counted],
            polls=polls[is_counted],
            since=since,
        )

    def _polls_before(self, groups: Grouping[JudgedT], fresh: Keys) -> Positions:
        """(fresh,) At how many polls an earlier process had seen the rows with these keys; 0 where there was none."""
        if self.before is None:
            return np.zeros(len(fresh), np.intp)
        polls = self.before.polls_by_series(groups)
        return polls[groups.index.positions(fresh)]

    def polls_of(self, key: int) -> int:
        """Return at how many polls a row was seen, POLLS at most."""
        positions = np.flatnonzero(self.keys == key)
        if not len(positions):
            return POLLS
        (polls,) = self.polls[positions]
        return int(polls)

    def since_of(self, key: int | None) -> float:
        """Return when a row was seen first, by the broker's clock; NaN where it is not there."""
        if key is None:
            return np.nan
        keys = np.array([key], np.int64)
        (position,) = self.index.positions(keys)
        if position < 0:
            return np.nan
        return float(self.since[position])

    def polls_by_name(self) -> dict[Name, int]:
        """Return at how many polls each row was seen, by name; only rows that were seen at fewer than POLLS polls."""
        positions = self.index.positions(self.keys)
        is_present = positions >= 0
        rows = self.index.rows[positions[is_present]]
        polls = self.polls[is_present].tolist()
        return dict(zip(map(name_of, rows), polls, strict=True))


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Which polls were judged, and at how many of them each series was seen.

    Attributes:
        stamps: Of the polls of the last SECONDS that were judged, by the broker's clock.
        queues: The queues' series.
        clients: The clients' series.
    """

    stamps: tuple[float, ...] = ()
    queues: SeenPolls = field(default_factory=SeenPolls)
    clients: SeenPolls = field(default_factory=SeenPolls)

    def advance(
        self, now: float, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries]
    ) -> "WarmUp":
        """Return the state after a poll that was judged at `now`, by the broker's clock.

        Args:
            now: When the poll was.
            queues: The series of the queues as they are shown; likewise `clients`.
        """
        before = self if self._is_recent(now) else self._without_before()
        stamps = [stamp for stamp in self.stamps if now - SECONDS <= stamp < now]
        return WarmUp(
            stamps=(*stamps, now),
            queues=before.queues.advance(queues, now),
            clients=before.clients.advance(clients, now),
        )

    def _is_recent(self, now: float) -> bool:
        """Return whether the last judged poll, perhaps of an earlier process, is not too long ago: see RECENT."""
        if not self.stamps:
            return False
        *_, last = self.stamps
        interval = 0.0
        if len(self.stamps) > 1:
            interval = last - self.stamps[-2]
        longest = max(RECENT, POLLS * interval)
        return now - last <= longest

    def _without_before(self) -> "WarmUp":
        """Return the state without what an earlier process had seen."""
        queues = replace(self.queues, before=None)
        clients = replace(self.clients, before=None)
        return replace(self, queues=queues, clients=clients)

    def judged(self, since: float, interval: float) -> tuple[int, int]:
        """Return how many polls were judged, and how many were due, since a time or in the last SECONDS.

        Args:
            since: The time, by the broker's clock.
            interval: Seconds between two polls; where it is not known only the judged ones were due.
        """
        if not self.stamps:
            return 0, 0
        now = self.stamps[-1]
        begin = max(since, now - SECONDS)
        # A poll may be half an interval early.
        earliest = begin - interval / 2
        judged = sum(stamp >= earliest for stamp in self.stamps)
        if not interval > 0:
            return judged, judged
        due = round((now - begin) / interval) + 1
        return judged, max(judged, due)
