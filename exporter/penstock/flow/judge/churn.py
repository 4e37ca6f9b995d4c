"""
Consumers that come and go: clients that reconnect without getting anything done, and holders that vanish.

Sparse: only clients that gained or lost a consumer on a queue without progress are looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.flow.judge.facts import CONSUMER_NUMBERS, Facts, Seen
from penstock.flow.judge.holds import Holds
from penstock.flow.judge.spans import Mask, moved
from penstock.flow.judge.standing import POLLS
from penstock.flow.series import ClientSeries, Grouping
from penstock.model import ConsumerRow
from penstock.table import Column, Index, Positions

OLD = 3
"""Polls at which consumers of a spell came, before it can be a condition."""
KEEP = 3600.0
"""Seconds after which a spell in which nobody came any more is forgotten."""
SHOWN = 300.0
"""Seconds for which it is kept that a holder left."""
LONG = 30.0
"""Seconds; who held for a shorter time and goes away is nothing to tell."""
HELD = CONSUMER_NUMBERS.index("buffered")


@dataclass(frozen=True, slots=True)
class Spell:
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
class Left:
    """A consumer that went away holding: when, what it held, for how long, how much of that went back."""

    at: float
    begin: float
    held: float
    age: float
    returned: float


@dataclass(frozen=True, slots=True)
class Churn:
    spells: Mapping[ClientSeries, Spell] = field(default_factory=dict)
    left: Mapping[ClientSeries, Left] = field(default_factory=dict)
    consumers: Index[ConsumerRow] = field(default_factory=Index.empty)
    counted: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """By the rows of `consumers`: those that their client's spell has counted."""
    clients: Grouping[ClientSeries] = field(default_factory=Grouping)
    """The clients at the poll before: whose a vanished consumer was."""
    ended: Mapping[ClientSeries, Spell] = field(default_factory=dict)
    """Spells with a condition that ended at this poll: it takes a second one to leave."""
    first: float = np.nan
    """The first poll: who was found at it may have received what it did long before."""

    def follow(
        self,
        found: Facts,
        holds: Holds,
        clients: Grouping[ClientSeries],
        patience: Column,
        seen: Seen,
        held: Holds,
        ids: int,
    ) -> "Churn":
        """
        patience: per consumer. ids: so many consumers are no accident. seen, held: consumers' numbers and holds at the
        poll before.
        """
        lasting, ended = self._lasting(found)
        first = found.now if np.isnan(self.first) else self.first
        holders = idle_holders(found, clients, holds.seen_since > first) & ~np.isnan(patience)
        # Progress on a queue ends the spell, and with it who was counted. Only those that have just come can be churn.
        recent = found.now - holds.seen_since <= 3 * found.interval
        counted = moved(found.consumer.index, self.consumers, self.counted, False)
        came = np.flatnonzero(holders & recent & ~counted)
        spells = joined(lasting, came, found, clients, patience, holds)
        # Too young a spell has nothing to be judged by; after a start all clients of a large broker have one.
        old = {client: spell for client, spell in spells.items() if spell.polls >= OLD or spell.on or spell.run > 0}
        present = clients.count() if old else np.empty(0)
        spells |= {
            client: judged(spell, found, clients.number_of(client, present), ids) for client, spell in old.items()
        }
        return Churn(
            spells,
            self._left(found, seen, held),
            found.consumer.index,
            holders & (recent | counted),
            clients,
            ended,
            first,
        )

    def _lasting(self, found: Facts) -> tuple[dict[ClientSeries, Spell], dict[ClientSeries, Spell]]:
        """The spells that go on, and those that stood and have ended."""
        if not self.spells:
            return {}, {}
        idle = {row.name for row in found.queues.rows[~(found.d_settled > 0) & found.known].tolist()}
        lasting = {
            client: spell
            for client, spell in self.spells.items()
            if spell.queue in idle and found.now - spell.last <= KEEP
        }
        if len(lasting) == len(self.spells):
            return lasting, {}
        return lasting, {c: spell for c, spell in self.spells.items() if spell.on and c not in lasting}

    def _left(self, found: Facts, seen: Seen, held: Holds) -> dict[ClientSeries, Left]:
        left = {client: event for client, event in self.left.items() if found.now - event.at <= SHOWN}
        gone = found.consumer.gone
        known = (gone.queue >= 0) & (gone.at < len(self.clients.member))
        at, queue = gone.at[known], gone.queue[known]
        had, age = seen.consumer_numbers[HELD, at], seen.times.now - held.mark[at]
        returned = had - found.d_settled[queue]
        tells = (self.clients.member[at] >= 0) & found.judged[queue] & (had > 0) & (age >= LONG) & (returned > 0)
        for i in np.flatnonzero(tells).tolist():
            client = self.clients.index.rows[self.clients.member[at[i]]]
            numbers = (float(one[i]) for one in (had, age, returned))
            left[client] = Left(found.now, seen.times.now - float(age[i]), *numbers)
        return left

    def standing(self) -> dict[ClientSeries, Spell]:
        """Clients of which the condition stands."""
        return {**self.ended, **{client: spell for client, spell in self.spells.items() if spell.on}}


def idle_holders(found: Facts, clients: Grouping[ClientSeries], came: Mask) -> Mask:
    """Consumers that hold something from a queue that settles nothing, or have received it since they `came`."""
    consumer = found.consumer
    idle = consumer.at_queue((found.d_settled <= 0) & found.known, np.False_)
    return idle & (clients.member >= 0) & ((consumer.held > 0) | ((consumer.delivered > 0) & came))


def joined(
    spells: dict[ClientSeries, Spell],
    came: Positions,
    found: Facts,
    clients: Grouping[ClientSeries],
    patience: Column,
    holds: Holds,
) -> dict[ClientSeries, Spell]:
    """With the consumers that `came`; the first of a client begins its spell, when it got what it holds."""
    by_client: dict[ClientSeries, list[int]] = {}
    for i in came.tolist():
        by_client.setdefault(clients.index.rows[clients.member[i]], []).append(i)
    rows = found.consumer.index.rows
    for client, of in by_client.items():
        spell = spells.get(client) or Spell(begin_of(found, holds.hold_since[of]), rows[of[0]].queue)
        spells[client] = replace(
            spell,
            ids=spell.ids + len(of),
            polls=spell.polls + 1,
            last=found.now,
            patience=float(patience[of[0]]),
        )
    return spells


def begin_of(found: Facts, hold_since: Column) -> float:
    """Not before the poll before: up to then the queue may have settled something."""
    before = found.now - np.nan_to_num(found.interval)
    return float(np.clip(np.fmin.reduce(hold_since, initial=found.now), before, found.now))


def judged(spell: Spell, found: Facts, present: float, ids: int) -> Spell:
    """Whether it stands: at least `ids` consumers came, at three polls, in longer than their patience."""
    age = found.now - spell.begin
    # It may agree one poll early, as all that patience decides.
    lasts = age >= spell.patience - found.interval and spell.polls >= OLD
    holds = lasts and spell.ids >= max(ids, 2 * present + 1) and not found.settling
    run = max(spell.run, 0) + 1 if holds else min(spell.run, 0) - 1
    comes = run >= POLLS and age >= spell.patience
    return replace(spell, run=run, on=comes or (spell.on and run > -POLLS))
