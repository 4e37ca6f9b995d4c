"""
Clients that crash again and again beside others that work: their consumers vanish with messages, and settled none.

Sparse: only clients that lost a consumer which buffered something. Who acknowledges just before it goes is not seen
to, but its queue settles more than its consumers show: `unseen`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column
from penstock.observation.facts import CONSUMER_NUMBERS, Facts, Seen, or_zero
from penstock.series.labels import ClientSeries, Grouping
from penstock.settings.constants import POLLS

SECONDS = 600.0
"""What is counted is not older."""
LEAST, LEAST_POLLS = 5, 3
"""Consumers that vanished, and polls at which some did: a pool that stops once is no loop."""
UNSEEN, UNSEEN_SHARE = 3.0, 0.2
"""Messages of the queue, and for each of these consumers, that others may have settled unseen."""
SWEEP_SECONDS = 60.0
MOST = 10_000
"""Clients that are followed."""
HELD, SETTLED = CONSUMER_NUMBERS.index("buffered"), CONSUMER_NUMBERS.index("acknowledged")


@dataclass(frozen=True, slots=True)
class Vanished:
    """Consumers of a client that went between two polls. unseen: of the queue at the poll before."""

    at: float
    consumers: int
    settled: float
    held: float
    unseen: float


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """queue: its key. run: polls in a row at which the rule said the same, negative for "does not hold"."""

    queue: int
    vanished: tuple[Vanished, ...] = ()
    run: int = 0
    on: bool = False

    @property
    def begin(self) -> float:
        return self.vanished[0].at

    @property
    def consumers(self) -> int:
        return sum(one.consumers for one in self.vanished)

    @property
    def held(self) -> float:
        """What they had, by their last sight: at least so many were given back."""
        return sum(one.held for one in self.vanished)

    def advance(self, now: float, unseen: float, *, served: bool) -> "CrashLoop":
        """unseen: of its queue. served: others settled messages of the queue since it began."""
        recent = tuple(one for one in self.vanished if now - one.at <= SECONDS)
        holds = served and len(recent) >= LEAST_POLLS and not any(one.settled for one in recent)
        if holds:
            consumers = sum(one.consumers for one in recent)
            others = unseen - recent[0].unseen
            holds = consumers >= LEAST and others < UNSEEN + UNSEEN_SHARE * consumers
        run = max(self.run, 0) + 1 if holds else min(self.run, 0) - 1
        on = bool(recent) and (run >= POLLS or (self.on and run > -POLLS))
        return CrashLoop(self.queue, recent, run, on)


@dataclass(frozen=True, slots=True)
class CrashLoops(RowState):
    """Per queue, and per client. unseen: settled by consumers that no poll saw settle it, in all."""

    unseen: Column = column(0.0, saved=False)
    loops: Mapping[ClientSeries, CrashLoop] = unindexed(dict)
    pending: tuple[ClientSeries, ...] = unindexed(tuple)
    """Those of which the condition stands, or may do so from the next poll on."""
    swept: float = unindexed(lambda: -np.inf)

    def advance(self, found: Facts, clients: Grouping[ClientSeries], seen: Seen, unsettled: Column) -> "CrashLoops":
        """clients, seen: at the poll before. unsettled: per queue since when nothing is settled, NaN where it is."""
        before = self.reindexed(found.queues).unseen
        unseen = before + or_zero(found.d_settled) - found.d_left + found.d_uncommitted
        loops, came = dict(self.loops), vanished(found, clients, seen, before)
        for client, (queue, one) in came.items():
            loop = loops.get(client)
            # Who once settled something is no crash loop, and remembered only where it might have been one.
            if loop is not None or (not one.settled and len(loops) < MOST):
                loops[client] = replace(loop or CrashLoop(queue), vanished=(*(loop.vanished if loop else ()), one))
        sweeps = found.now - self.swept > SWEEP_SECONDS
        asked = [*loops] if sweeps else [client for client in {*came, *self.pending} if client in loops]
        at = found.queues.positions(np.array([loops[client].queue for client in asked], np.int64)).tolist()
        for client, i in zip(asked, at, strict=True):
            served = i >= 0 and not unsettled[i] <= loops[client].begin
            loops[client] = loops[client].advance(found.now, float(unseen[i]), served=served)
            if i < 0 or not loops[client].vanished:
                del loops[client]
        pending = tuple(client for client in asked if client in loops and (loops[client].on or loops[client].run > 0))
        return CrashLoops(found.queues, unseen, loops, pending, found.now if sweeps else self.swept)

    def standing(self) -> dict[ClientSeries, CrashLoop]:
        """Clients of which the condition stands."""
        return {client: one for client, one in self.loops.items() if one.on}


def vanished(
    found: Facts, clients: Grouping[ClientSeries], seen: Seen, unseen: Column
) -> dict[ClientSeries, tuple[int, Vanished]]:
    """Of the clients that lost consumers which buffered something: the queue's key, and what went."""
    gone = found.consumer.gone
    here = (gone.queue >= 0) & (gone.at < len(clients.member))
    at, queue = gone.at[here], gone.queue[here]
    held, settled = or_zero(seen.consumers.numbers[HELD, at]), or_zero(seen.consumers.numbers[SETTLED, at])
    of = clients.member[at]
    counts = np.flatnonzero((of >= 0) & found.judged[queue] & ~found.keeps[queue] & (held > 0))
    if not len(counts) or found.settling:
        return {}
    members, first, which = np.unique(of[counts], return_index=True, return_inverse=True)
    numbers = zip(
        clients.index.rows[members].tolist(),
        queue[counts[first]].tolist(),
        np.bincount(which).tolist(),
        np.bincount(which, settled[counts]).tolist(),
        np.bincount(which, held[counts]).tolist(),
        strict=True,
    )
    return {
        client: (int(found.queues.keys[i]), Vanished(found.now, consumers, acked, had, float(unseen[i])))
        for client, i, consumers, acked, had in numbers
    }
