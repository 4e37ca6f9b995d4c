"""
What was killed: dead-lettered after its last delivery attempt, or purged by an operator. The broker counts them alike.

A dead letter raises R of the dead-letter address, a purge does not. Several queues may share that address, and others
may send to it: what has one explanation only is booked, the rest lies between. R is read before the queues' X, so that
a dead letter is never seen to arrive before it is killed.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from penstock.account.address_books import AddressBooks, came_to_address
from penstock.account.queue_books import QueueBooks
from penstock.core.state import By, RowState, column, counter, mask, unindexed
from penstock.core.table import Column, Index, Positions, take_or_fill
from penstock.core.windows import Mask
from penstock.model import AddressRow, QueueRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero


@dataclass(frozen=True, slots=True)
class Visited(RowState):
    """
    Per address. arrived: R, in all; sent: by listed producers; others: with what expired into it. arrived0, others0:
    the same when its dead letters were last booked. fed: more came than is known of: others send there, too.
    """

    arrived: Column = column(saved=False)
    sent: Column = column(0.0, saved=False)
    others: Column = column(saved=False)
    arrived0: Column = column(saved=False)
    others0: Column = column(saved=False)
    fed: Mask = mask(saved=False)


@dataclass(frozen=True, slots=True)
class Targets:
    """Position of the address that each queue's dead letters, and expired messages, go to, -1 where there is none."""

    queues: Index[QueueRow] = field(default_factory=Index.empty)
    addresses: Index[AddressRow] = field(default_factory=Index.empty)
    dead: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    expired: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def advance(self, queues: Index[QueueRow], addresses: Index[AddressRow]) -> "Targets":
        if queues is self.queues and addresses is self.addresses:
            return self
        now = np.append(addresses.positions(self.addresses.keys), -1)
        origin = queues.unchanged_in(self.queues)
        dead, expired = (take_or_fill(now[at], origin, -1) for at in (self.dead, self.expired))
        has_dead = queues.column("has_dead", lambda row: bool(row.dead_letter_address)) > 0
        has_expiry = queues.column("has_expiry", lambda row: bool(row.expiry_address)) > 0
        sought = [np.flatnonzero(has_dead & (dead < 0)), np.flatnonzero(has_expiry & (expired < 0))]
        if any(map(len, sought)):
            named = {row.name: i for i, row in enumerate(addresses)}
            dead[sought[0]] = [named.get(row.dead_letter_address, -1) for row in queues.rows[sought[0]]]
            expired[sought[1]] = [named.get(row.expiry_address, -1) for row in queues.rows[sought[1]]]
        return Targets(queues, addresses, dead, expired)


@dataclass(frozen=True, slots=True)
class DeadLetters(RowState):
    """
    Per queue. dead, purged: at least so many of the killed; each of the others is one of the two.

    placeless: what has had its last attempt is gone: no dead-letter address is set, or it has no queue. killed0: X when
    this was last booked.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    dead: Column = counter(0.0, outlives=True)
    purged: Column = counter(0.0, outlives=True)
    killed0: Column = column(saved=False)
    placeless: Mask = mask(saved=False)
    idle: Mask = mask(saved=False)
    """No consumer was there that could have had a last attempt."""
    watched: bool = unindexed(bool)
    """The same process was polled before, so that what is new was made since."""
    visited: Visited = unindexed(Visited)
    targets: Targets = unindexed(Targets)

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        books: QueueBooks,
        arrivals: AddressBooks,
        sent: Column,
    ) -> "DeadLetters":
        """sent: by listed producers to each address since the poll before; empty: not read."""
        before, killed, queues, addresses = (
            self.reindexed(found.queues),
            books.killed,
            snapshot.queues,
            snapshot.addresses,
        )
        if queues is None or addresses is None or arrivals.addresses is not addresses.index:
            return before  # R of an earlier poll says nothing beside X of this one
        size = len(addresses)
        sent = sent if len(sent) else np.zeros(size)
        targets = self.targets.advance(found.queues, addresses.index)
        visited = self.visited.reindexed(addresses.index)
        others = visited.sent + sent + summed(targets.expired, or_zero(books.expired), size)
        # A full address that refuses a dead letter has it counted again at each attempt.
        refuses = addresses.index.column("refuses", lambda row: row.policy == "fail") > 0
        came = at_addresses(came_to_address(join, found.queues, books.came)[1], join, size)
        arrived = np.where(refuses, came, addresses["messages_added"])
        begins = np.isnan(visited.arrived0) | (arrived < visited.arrived)
        new = np.zeros(size, np.bool_)
        if before.watched:
            new[addresses.index.new_since(self.visited.index)] = True
        visited = replace(
            visited,
            arrived0=np.where(begins, np.where(new, 0.0, arrived), visited.arrived0),
            others0=np.where(begins, np.where(new, 0.0, others), visited.others0),
            sent=visited.sent + sent,
            others=others,
        )
        killed0 = np.where(np.isnan(before.killed0), 0.0 if before.watched else killed, before.killed0)
        has_queue = np.append(~np.isnan(at_addresses(killed, join, size)), np.False_)
        at = np.where(has_queue[targets.dead], targets.dead, -1)
        idle = (found.consumers == 0) & (found.delivering == 0) & ~movers(found)
        placeless = (at < 0) & (queues["has_dead_letter_address"] >= 0)
        alone = placeless & ((found.address.delivery_attempts <= 0) | (idle & before.idle))
        grew = np.fmax(or_zero(killed - killed0), 0.0)
        at_rest = (arrived == visited.arrived) & (summed(at, or_zero(found.d_killed), size) == 0)
        split = explained(grew, at, visited, arrived, known=~begins | new, at_rest=at_rest)
        return replace(
            before,
            dead=before.dead + split.dead,
            purged=before.purged + np.where(alone, grew, split.purged),
            killed0=np.where((at < 0) | split.closed[at], killed, killed0 + split.dead),
            placeless=placeless,
            idle=idle,
            visited=split.visited,
            targets=targets,
            watched=True,
        )

    def begun_anew(self) -> "DeadLetters":
        begun = super(DeadLetters, self).begun_anew()
        return replace(begun, visited=Visited(), watched=False)


class Split(NamedTuple):
    """Of what was killed, per queue so many for sure; closed: of each address, and of none: nothing is open."""

    dead: Column
    purged: Column
    closed: Mask
    visited: Visited


def explained(grew: Column, at: Positions, visited: Visited, arrived: Column, *, known: Mask, at_rest: Mask) -> Split:
    """
    grew: killed and not booked, of each queue; at: its dead-letter address. Of each address, known: what came to it
    since; at_rest: nothing moves there.
    """
    total = summed(at, grew, len(arrived))
    rose = np.where(known, arrived - visited.arrived0 - (visited.others - visited.others0), np.nan)
    fed = visited.fed | (rose > total)
    # What is less than was killed may be from others, once they are known to send there.
    taken = np.where((rose == total) | ~fed, np.clip(or_zero(rose), 0.0, total), 0.0)
    closed = np.append((rose == total) | at_rest | np.isnan(rose), np.False_)
    of_others = np.append(total, 0.0)[at] - grew
    dead = np.fmax(np.append(taken, 0.0)[at] - of_others, 0.0)
    most = np.where((rose <= 0) | ~fed | (rose == total), taken, np.fmin(rose, total))
    most = np.append(np.where(np.isnan(rose), np.inf, most), np.inf)
    purged = np.where(closed[at], np.fmax(grew - most[at], 0.0), 0.0)
    booked = summed(at, np.where(at < 0, 0.0, dead), len(arrived))
    done = closed[:-1]
    return Split(
        np.where(at < 0, 0.0, dead),
        purged,
        closed,
        replace(
            visited,
            arrived=arrived,
            arrived0=np.where(done, arrived, visited.arrived0 + booked),
            others0=np.where(done, visited.others, visited.others0),
            fed=fed,
        ),
    )


def at_addresses(values: Column, join: AddressJoin, size: int) -> Column:
    """Of each address what all its queues have alike; NaN where it has none."""
    found = np.full(size + 1, np.nan)
    found[join.at] = values
    return found[:-1]


def summed(at: Positions, values: Column, size: int) -> Column:
    """Sums of `values` by the positions `at`, of which there are `size`; -1 counts nowhere."""
    sums: Column = np.bincount(at + 1, weights=values, minlength=size + 1)[1:].astype(np.float64, copy=False)
    return sums


def movers(found: Facts) -> Mask:
    """Queues at which a consumer came or went."""
    changed = found.of_queue(found.consumer.new) > 0
    changed[found.consumer.gone.queue[found.consumer.gone.queue >= 0]] = True
    return changed
