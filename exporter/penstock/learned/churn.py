"""
Consumers that come and go: clients that reconnect without getting anything done, and holders that vanish.

Sparse: only clients that gained or lost a consumer on a queue without progress are looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.state import RowState, mask, unindexed
from penstock.core.table import Column, Positions
from penstock.core.windows import Mask
from penstock.observation.facts import CONSUMER_NUMBERS, Facts, Seen
from penstock.observation.unacked import Unacked
from penstock.series.labels import ClientSeries, Grouping
from penstock.settings.constants import POLLS

OLD = 3
"""Polls at which consumers of a streak came, before it can be a condition."""
KEEP = 3600.0
"""Seconds after which a streak in which nobody came any more is forgotten."""
SHOWN = 300.0
"""Seconds for which it is kept that a holder left."""
LONG = 30.0
"""Seconds; who held for a shorter time and goes away is nothing to tell."""
HELD = CONSUMER_NUMBERS.index("buffered")


@dataclass(frozen=True, slots=True)
class Streak:
    """A time without true progress: begin, consumers that held or received in it, the polls at which such came."""

    begin: float
    queue: str
    ids: int = 0
    polls: int = 0
    last: float = 0.0
    patience: float = np.nan
    run: int = 0
    """Polls in a row at which the rule said the same, negative for "does not hold"."""
    on: bool = False
    """The condition stands."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A consumer that went away holding: when, what it held, for how long, how much of that went back."""

    at: float
    begin: float
    held: float
    age: float
    returned: float


@dataclass(frozen=True, slots=True)
class Churn(RowState):
    """Per consumer, and per client that is looked at."""

    counted: Mask = mask(saved=False)
    """Consumers that their client's streak has counted."""
    streaks: Mapping[ClientSeries, Streak] = unindexed(dict)
    left: Mapping[ClientSeries, Departure] = unindexed(dict)
    clients: Grouping[ClientSeries] = unindexed(Grouping)
    """The clients at the poll before: whose a vanished consumer was."""
    ended: Mapping[ClientSeries, Streak] = unindexed(dict)
    """Streaks with a condition that ended at this poll: it takes a second one to leave."""
    first: float = unindexed(lambda: np.nan)
    """The first poll: who was found at it may have received what it did long before."""

    def advance(
        self,
        found: Facts,
        unacked: Unacked,
        clients: Grouping[ClientSeries],
        patience: Column,
        seen: Seen,
        unacked_before: Unacked,
        ids: int,
    ) -> "Churn":
        """patience: per consumer. ids: so many consumers are no accident. seen, unacked_before: at the poll before."""
        lasting, ended = self._lasting(found)
        first = found.now if np.isnan(self.first) else self.first
        holders = idle_holders(found, clients, unacked.seen_since > first) & ~np.isnan(patience)
        # Progress on a queue ends the streak, and with it who was counted. Only those that have just come can be churn.
        recent = found.now - unacked.seen_since <= 3 * found.interval
        counted = self.reindexed(found.consumer.index).counted
        came = np.flatnonzero(holders & recent & ~counted)
        streaks = joined(lasting, came, found, clients, patience, unacked)
        # Too young a streak has nothing to be judged by; after a start all clients of a large broker have one.
        old = {client: one for client, one in streaks.items() if one.polls >= OLD or one.on or one.run > 0}
        present = clients.count() if old else np.empty(0)
        streaks |= {
            client: advance_streak(streak, found, clients.number_of(client, present), ids)
            for client, streak in old.items()
        }
        return Churn(
            found.consumer.index,
            holders & (recent | counted),
            streaks,
            self._left(found, seen, unacked_before),
            clients,
            ended,
            first,
        )

    def _lasting(self, found: Facts) -> tuple[dict[ClientSeries, Streak], dict[ClientSeries, Streak]]:
        """The streaks that go on, and those that stood and have ended."""
        if not self.streaks:
            return {}, {}
        idle = {row.name for row in found.queues.rows[~(found.d_settled > 0) & found.known].tolist()}
        lasting = {
            client: streak
            for client, streak in self.streaks.items()
            if streak.queue in idle and found.now - streak.last <= KEEP
        }
        if len(lasting) == len(self.streaks):
            return lasting, {}
        return lasting, {c: streak for c, streak in self.streaks.items() if streak.on and c not in lasting}

    def _left(self, found: Facts, seen: Seen, unacked_before: Unacked) -> dict[ClientSeries, Departure]:
        left = {client: event for client, event in self.left.items() if found.now - event.at <= SHOWN}
        gone = found.consumer.gone
        known = (gone.queue >= 0) & (gone.at < len(self.clients.member))
        at, queue = gone.at[known], gone.queue[known]
        had, age = seen.consumers.numbers[HELD, at], seen.times.now - unacked_before.unacked_since[at]
        returned = had - found.d_settled[queue]
        tells = (self.clients.member[at] >= 0) & found.judged[queue] & (had > 0) & (age >= LONG) & (returned > 0)
        for i in np.flatnonzero(tells).tolist():
            client = self.clients.index.rows[self.clients.member[at[i]]]
            numbers = (float(one[i]) for one in (had, age, returned))
            left[client] = Departure(found.now, seen.times.now - float(age[i]), *numbers)
        return left

    def standing(self) -> dict[ClientSeries, Streak]:
        """Clients of which the condition stands."""
        return {**self.ended, **{client: streak for client, streak in self.streaks.items() if streak.on}}


def idle_holders(found: Facts, clients: Grouping[ClientSeries], came: Mask) -> Mask:
    """Consumers that hold something from a queue that settles nothing, or have received it since they `came`."""
    consumer = found.consumer
    idle = consumer.at_queue((found.d_settled <= 0) & found.known, np.False_)
    return idle & (clients.member >= 0) & ((consumer.held > 0) | ((consumer.delivered > 0) & came))


def joined(
    streaks: dict[ClientSeries, Streak],
    came: Positions,
    found: Facts,
    clients: Grouping[ClientSeries],
    patience: Column,
    unacked: Unacked,
) -> dict[ClientSeries, Streak]:
    """With the consumers that `came`; the first of a client begins its streak, when it got what it holds."""
    by_client: dict[ClientSeries, list[int]] = {}
    for i in came.tolist():
        by_client.setdefault(clients.index.rows[clients.member[i]], []).append(i)
    rows = found.consumer.index.rows
    for client, of in by_client.items():
        streak = streaks.get(client) or Streak(begin_of(found, unacked.hold_since[of]), rows[of[0]].queue)
        streaks[client] = replace(
            streak,
            ids=streak.ids + len(of),
            polls=streak.polls + 1,
            last=found.now,
            patience=float(patience[of[0]]),
        )
    return streaks


def begin_of(found: Facts, hold_since: Column) -> float:
    """Not before the poll before: up to then the queue may have settled something."""
    before = found.now - np.nan_to_num(found.interval)
    return float(np.clip(np.fmin.reduce(hold_since, initial=found.now), before, found.now))


def advance_streak(streak: Streak, found: Facts, present: float, ids: int) -> Streak:
    """Whether it stands: at least `ids` consumers came, at three polls, in longer than their patience."""
    age = found.now - streak.begin
    # It may agree one poll early, as all that patience decides.
    lasts = age >= streak.patience - found.interval and streak.polls >= OLD
    holds = lasts and streak.ids >= max(ids, 2 * present + 1) and not found.settling
    run = max(streak.run, 0) + 1 if holds else min(streak.run, 0) - 1
    comes = run >= POLLS and age >= streak.patience
    return replace(streak, run=run, on=comes or (streak.on and run > -POLLS))
