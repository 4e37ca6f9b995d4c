"""Consumers that come and go: clients that reconnect without getting anything done, clients that crash again and again
beside others that work (their consumers vanish with messages, and settled none), and holders that vanish.

Sparse: only clients that gained a consumer on a queue without progress, or lost one which buffered something. Who
acknowledges just before it goes is not seen to, but its queue settles more than its consumers show: `unseen`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import NamedTuple

import numpy as np

from penstock.core.state import RowState, column, mask, unindexed
from penstock.core.table import Column, Mask, Positions
from penstock.observation.facts import CONSUMER_NUMBERS, Facts, Seen, or_zero
from penstock.observation.poll import RuleInputs
from penstock.observation.unacked import Unacked
from penstock.series.labels import ClientSeries, Grouping
from penstock.settings.constants import POLLS

OLD = 3
"""Polls at which consumers of a streak came, before it can be a condition."""
KEEP = 3600.0
"""Seconds after which a streak in which no one came any more is forgotten."""
SHOWN = 300.0
"""Seconds for which it is kept that a holder left."""
LONG = 30.0
"""Seconds; a client that buffered for a shorter time and leaves is not reported."""
SECONDS = 600.0
"""What is counted is not older."""
LEAST = 5
LEAST_POLLS = 3
"""Consumers that vanished, and polls at which some did: a pool that stops once is no loop."""
MORE = 2
"""Consumers more for each that had settled something: instances that are stopped in their first job are no loop."""
UNSEEN = 3.0
UNSEEN_SHARE = 0.2
"""Messages of the queue, and for each of these consumers, that may have been settled unseen."""
SWEEP_SECONDS = 60.0
MOST = 10_000
"""Clients that are followed."""
HELD = CONSUMER_NUMBERS.index("buffered")
SETTLED = CONSUMER_NUMBERS.index("acknowledged")


class Went(NamedTuple):
    """Consumers that went away with messages: client, place at the poll before, queue now, what they had and did."""

    client: Positions
    at: Positions
    queue: Positions
    held: Column
    settled: Column


def those_that_went(found: Facts, clients: Grouping[ClientSeries], seen: Seen) -> Went:
    """clients, seen: at the poll before."""
    gone = found.consumer.gone
    here = (gone.queue >= 0) & (gone.at < len(clients.member))
    at = gone.at[here]
    queue = gone.queue[here]
    client = clients.member[at]
    held = or_zero(seen.consumers.numbers[HELD, at])
    counts = np.flatnonzero((client >= 0) & found.judged[queue] & (held > 0))
    settled = or_zero(seen.consumers.numbers[SETTLED, at[counts]])
    return Went(client[counts], at[counts], queue[counts], held[counts], settled)


def after(
    run: int, *, on: bool, holds: bool, may_come: bool = True
) -> tuple[int, bool]:
    """Of a streak or a loop: polls in a row with the same result of its rule, and whether its condition is active."""
    run = max(run, 0) + 1 if holds else min(run, 0) - 1
    return run, (run >= POLLS and may_come) or (on and run > -POLLS)


# --- crash loops


@dataclass(frozen=True, slots=True)
class Vanished:
    """Consumers of a client that went between two polls and had settled nothing; settled: how many went that had."""

    at: float
    consumers: float
    settled: float
    held: float
    unseen: float
    """Of the queue at the poll before."""


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """queue: its key. run, on: see `after`."""

    queue: int
    vanished: tuple[Vanished, ...] = ()
    run: int = 0
    on: bool = False

    @property
    def begin(self) -> float:
        return self.vanished[0].at

    @property
    def consumers(self) -> float:
        return sum(one.consumers for one in self.vanished)

    @property
    def held(self) -> float:
        """What they had, by their last sight: at least so many were given back."""
        return sum(one.held for one in self.vanished)

    def advance(self, now: float, unseen: float, *, served: bool) -> "CrashLoop":
        """unseen: of its queue. served: others settled messages of the queue since it began."""
        loop = replace(
            self,
            vanished=tuple(one for one in self.vanished if now - one.at <= SECONDS),
        )
        gone, settled, marks = (
            np.array([(v.consumers, v.settled, v.unseen) for v in loop.vanished])
            .reshape(-1, 3)
            .T
        )
        others = np.diff(marks, append=unseen)
        # Beyond what reading explains, each message that was settled unseen may have been one of those that went then.
        worked = np.where(
            others.sum() < UNSEEN + UNSEEN_SHARE * gone.sum(),
            0.0,
            np.clip(others, 0.0, gone),
        )
        polls = np.count_nonzero(gone > worked)
        enough = LEAST + MORE * (settled + worked).sum()
        holds = served and bool(
            polls >= LEAST_POLLS and (gone - worked).sum() >= enough
        )
        run, on = after(self.run, on=self.on and bool(loop.vanished), holds=holds)
        return replace(loop, run=run, on=on)


@dataclass(frozen=True, slots=True)
class CrashLoops(RowState):
    """Per queue, and per client. unseen: settled by consumers that no poll saw settle it, in all."""

    unseen: Column = column(0.0, saved=False)
    loops: Mapping[ClientSeries, CrashLoop] = unindexed(dict)
    pending: tuple[ClientSeries, ...] = unindexed(tuple)
    """Those whose condition is active, or may be from the next poll on."""
    swept: float = unindexed(lambda: -np.inf)

    def advance(
        self,
        found: Facts,
        went: Went,
        clients: Grouping[ClientSeries],
        unsettled: Column,
    ) -> "CrashLoops":
        """clients: at the poll before. unsettled: per queue since when nothing is settled, NaN where it is."""
        before = self.reindexed(found.queues).unseen
        unseen = before + or_zero(found.d_settled) - found.d_left + found.d_uncommitted
        loops = dict(self.loops)
        came = vanished(found, went, clients, before)
        for client, (queue, one) in came.items():
            loop = loops.get(client, CrashLoop(queue))
            if client in loops or (one.consumers and len(loops) < MOST):
                loops[client] = replace(loop, vanished=(*loop.vanished, one))
        sweeps = found.now - self.swept > SWEEP_SECONDS
        asked = (
            [*loops]
            if sweeps
            else [client for client in {*came, *self.pending} if client in loops]
        )
        at = found.queues.positions(
            np.array([loops[client].queue for client in asked], np.int64)
        ).tolist()
        for client, i in zip(asked, at, strict=True):
            loop = loops.pop(client)
            if i < 0:  # the queue is gone
                continue
            loop = loop.advance(
                found.now, float(unseen[i]), served=not unsettled[i] <= loop.begin
            )
            if loop.vanished:
                loops[client] = loop
        pending = tuple(
            client
            for client in asked
            if client in loops and (loops[client].on or loops[client].run > 0)
        )
        return CrashLoops(
            found.queues, unseen, loops, pending, found.now if sweeps else self.swept
        )

    def kept(self) -> Iterator[tuple[ClientSeries, CrashLoop]]:
        """The loops as the next agent begins: of queues of which nothing was settled unseen yet."""
        for client, loop in self.loops.items():
            (unseen,) = np.append(self.unseen, 0.0)[
                self.index.positions(np.array([loop.queue]))
            ].tolist()
            yield (
                client,
                replace(
                    loop,
                    vanished=tuple(
                        replace(v, unseen=v.unseen - unseen) for v in loop.vanished
                    ),
                ),
            )


def vanished(
    found: Facts, went: Went, clients: Grouping[ClientSeries], unseen: Column
) -> dict[ClientSeries, tuple[int, Vanished]]:
    """Of the clients that lost consumers which buffered something: the queue's key, and what went."""
    counts = ~found.keeps[went.queue]
    if not counts.any() or found.settling:
        return {}
    members, first, which = np.unique(
        went.client[counts], return_index=True, return_inverse=True
    )
    at = went.queue[counts][first]
    worked = went.settled[counts] > 0
    sums = (
        np.bincount(which, one)
        for one in (~worked, worked, went.held[counts] * ~worked)
    )
    went_of = map(
        Vanished, repeat(found.now), *(one.tolist() for one in (*sums, unseen[at]))
    )
    rows = zip(
        clients.index.rows[members],
        found.queues.keys[at].tolist(),
        went_of,
        strict=True,
    )
    return {client: (key, one) for client, key, one in rows}


# --- clients that settle nothing, and holders


@dataclass(frozen=True, slots=True)
class Streak:
    """A time without true progress. ids: consumers that held or received in it; polls: when such came. See `after`."""

    begin: float
    queue: str
    ids: int = 0
    polls: int = 0
    last: float = 0.0
    patience: float = np.nan
    run: int = 0
    on: bool = False


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
    crash_loops: CrashLoops = unindexed(CrashLoops)

    def advance(self, poll: RuleInputs, seen: Seen, unacked_before: Unacked) -> "Churn":
        """seen, unacked_before: at the poll before."""
        found = poll.found
        unacked = poll.unacked
        clients = poll.groups.clients
        patience = poll.client_patience
        lasting, ended = self._lasting(found)
        went = those_that_went(found, self.clients, seen)
        first = found.now if np.isnan(self.first) else self.first
        holders = idle_holders(found, clients, unacked.seen_since > first) & ~np.isnan(
            patience
        )
        # Progress on a queue ends the streak, and with it who was counted. Only those that have just come can be churn.
        recent = found.now - unacked.seen_since <= 3 * found.interval
        counted = self.reindexed(found.consumer.index).counted
        came = np.flatnonzero(holders & recent & ~counted)
        streaks = joined(lasting, came, found, clients, patience, unacked)
        # Too young a streak has nothing to be judged by; after a start all clients of a large broker have one.
        old = {
            client: one
            for client, one in streaks.items()
            if one.polls >= OLD or one.on or one.run > 0
        }
        present = clients.count() if old else np.empty(0)
        streaks |= {
            client: advance_streak(
                streak,
                found,
                clients.number_of(client, present),
                poll.constants.churn_ids,
            )
            for client, streak in old.items()
        }
        return Churn(
            found.consumer.index,
            holders & (recent | counted),
            streaks,
            self._left(found, went, seen.times.now, unacked_before),
            clients,
            ended,
            first,
            self.crash_loops.advance(found, went, self.clients, poll.timers.unsettled),
        )

    def _lasting(
        self, found: Facts
    ) -> tuple[dict[ClientSeries, Streak], dict[ClientSeries, Streak]]:
        """The streaks that go on, and those that were active and have ended."""
        if not self.streaks:
            return {}, {}
        idle = {
            row.name
            for row in found.queues.rows[~(found.d_settled > 0) & found.known].tolist()
        }
        lasting = {
            client: streak
            for client, streak in self.streaks.items()
            if streak.queue in idle and found.now - streak.last <= KEEP
        }
        return lasting, {
            c: streak
            for c, streak in self.streaks.items()
            if streak.on and c not in lasting
        }

    def _left(
        self, found: Facts, went: Went, now: float, unacked_before: Unacked
    ) -> dict[ClientSeries, Departure]:
        left = {
            client: event
            for client, event in self.left.items()
            if found.now - event.at <= SHOWN
        }
        age = now - unacked_before.unacked_since[went.at]
        returned = went.held - found.d_settled[went.queue]
        for i in np.flatnonzero((age >= LONG) & (returned > 0)).tolist():
            numbers = (float(one[i]) for one in (went.held, age, returned))
            left[self.clients.index.rows[went.client[i]]] = Departure(
                found.now, now - float(age[i]), *numbers
            )
        return left

    def standing(self) -> dict[ClientSeries, Streak]:
        """Clients that reconnect and settle nothing."""
        return {
            **self.ended,
            **{client: streak for client, streak in self.streaks.items() if streak.on},
        }


def idle_holders(found: Facts, clients: Grouping[ClientSeries], came: Mask) -> Mask:
    """Consumers that hold something from a queue that settles nothing, or have received it since they `came`."""
    consumer = found.consumer
    idle = consumer.at_queue((found.d_settled <= 0) & found.known, np.False_)
    return (
        idle
        & (clients.member >= 0)
        & ((consumer.held > 0) | ((consumer.delivered > 0) & came))
    )


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
        streak = streaks.get(client) or Streak(
            begin_of(found, unacked.hold_since[of]), rows[of[0]].queue
        )
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
    return float(
        np.clip(np.fmin.reduce(hold_since, initial=found.now), before, found.now)
    )


def advance_streak(streak: Streak, found: Facts, present: float, ids: int) -> Streak:
    """Whether it is active: at least `ids` consumers came, at three polls, in longer than their patience."""
    age = found.now - streak.begin
    # It may agree one poll early, as all that patience decides.
    lasts = age >= streak.patience - found.interval and streak.polls >= OLD
    holds = lasts and streak.ids >= max(ids, 2 * present + 1) and not found.settling
    run, on = after(
        streak.run, on=streak.on, holds=holds, may_come=age >= streak.patience
    )
    return replace(streak, run=run, on=on)
