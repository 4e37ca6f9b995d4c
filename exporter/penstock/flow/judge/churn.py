"""
Consumers that come and go: clients that reconnect without getting anything done, and holders that vanish.

Sparse: only clients that gained or lost a consumer on a queue without progress are looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.flow.judge.facts import Facts, Seen
from penstock.flow.judge.holds import Holds
from penstock.flow.judge.standing import POLLS
from penstock.flow.series import ClientSeries, Grouping
from penstock.table import Column, Keys

OLD = 3
"""Polls at which consumers of a spell came, before it can be a condition."""
KEEP = 3600.0
"""Seconds after which a spell in which nobody came any more is forgotten."""


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
    counted: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    """Keys of present consumers that their client's spell has counted."""
    clients: Grouping[ClientSeries] = field(default_factory=Grouping)
    """The clients at the poll before: whose a vanished consumer was."""
    ended: Mapping[ClientSeries, Spell] = field(default_factory=dict)
    """Spells with a condition that ended at this poll: it takes a second one to leave."""

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
        spells = dict(self.spells)
        lasts = {row.name for row in found.queues.rows[~(found.d_settled > 0) & found.known]} if spells else set()
        ended = {}
        for client, spell in self.spells.items():
            if spell.queue not in lasts or found.now - spell.last > KEEP:
                del spells[client]
                if spell.on:
                    ended[client] = spell
        consumer = found.consumer
        at = consumer.queue
        idle = np.zeros(len(at), np.bool_)
        idle[at >= 0] = (found.d_settled[at[at >= 0]] <= 0) & found.known[at[at >= 0]]
        holders = idle & (clients.member >= 0) & ((consumer.held > 0) | (consumer.delivered > 0)) & ~np.isnan(patience)
        # Progress on a queue ends the spell, and with it who was counted. Only those that have just come can be churn.
        recent = found.now - holds.seen_since <= 3 * found.interval
        counted = np.isin(consumer.index.keys, self.counted)
        came: dict[ClientSeries, list[int]] = {}
        for i in np.flatnonzero(holders & recent & ~counted).tolist():
            came.setdefault(clients.index.rows[clients.member[i]], []).append(i)
        for client, rows in came.items():
            spell = spells.get(client, Spell(found.now, consumer.index.rows[rows[0]].queue))
            spells[client] = replace(
                spell,
                ids=spell.ids + len(rows),
                polls=spell.polls + 1,
                last=found.now,
                patience=float(patience[rows[0]]),
            )
        # Too young a spell has nothing to be judged by; after a start all clients of a large broker have one.
        old = [item for item in spells.items() if item[1].polls >= OLD or item[1].on or item[1].run > 0]
        spells |= {client: self._judged(client, spell, found, clients, ids) for client, spell in old}
        return Churn(
            spells,
            self._left(found, seen, held),
            consumer.index.keys[holders & (recent | counted)],
            clients,
            ended,
        )

    def _judged(
        self, client: ClientSeries, spell: Spell, found: Facts, clients: Grouping[ClientSeries], ids: int
    ) -> Spell:
        """Whether it stands: at least `ids` consumers came, at three polls, in longer than their patience."""
        lasts = found.now - spell.begin >= spell.patience and spell.polls >= OLD
        many = spell.ids >= ids and spell.ids > 2 * clients.rows_of(client)
        holds = lasts and many and not found.settling
        run = max(spell.run, 0) + 1 if holds else min(spell.run, 0) - 1
        return replace(spell, run=run, on=run >= POLLS or (spell.on and run > -POLLS))

    def _left(self, found: Facts, seen: Seen, held: Holds) -> dict[ClientSeries, Left]:
        left = {client: event for client, event in self.left.items() if found.now - event.at <= 300.0}
        gone = found.consumer.gone
        for i, queue in zip(gone.at.tolist(), gone.queue.tolist(), strict=True):
            member = self.clients.member[i] if i < len(self.clients.member) else -1
            had = float(seen.consumer_numbers[3, i])
            age = seen.now - float(held.mark[i])
            if member < 0 or queue < 0 or not found.judged[queue] or not had > 0 or not age >= 30.0:
                continue
            returned = had - float(found.d_settled[queue])
            if returned > 0:
                left[self.clients.index.rows[member]] = Left(found.now, seen.now - age, had, age, returned)
        return left

    def standing(self) -> dict[ClientSeries, Spell]:
        """Clients of which the condition stands."""
        return {**self.ended, **{client: spell for client, spell in self.spells.items() if spell.on}}
