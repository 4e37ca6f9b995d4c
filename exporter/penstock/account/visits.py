"""What came to addresses: from listed producers, as expired messages and dead letters, or from strangers."""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.account.address_books import came_to_address
from penstock.account.queue_books import QueueBooks
from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Index, Mask, Matrix, Positions, take_or_fill
from penstock.model import AddressRow, QueueRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero
from penstock.series.labels import sum_by

WINDOW = 4
"""Polls within which a message is seen to leave one queue and to come to another."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Position of the address that each queue's dead letters, and expired messages, go to, -1 where there is none."""

    queues: Index[QueueRow] = field(default_factory=Index.empty)
    addresses: Index[AddressRow] = field(default_factory=Index.empty)
    dead: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    expired: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def advance(
        self, queues: Index[QueueRow], addresses: Index[AddressRow]
    ) -> "Targets":
        if queues is self.queues and addresses is self.addresses:
            return self
        now = np.append(addresses.positions(self.addresses.keys), -1)
        origin = queues.unchanged_in(self.queues)
        dead, expired = (
            take_or_fill(now[at], origin, -1) for at in (self.dead, self.expired)
        )
        has_dead = (
            queues.column("has_dead", lambda row: bool(row.dead_letter_address)) > 0
        )
        has_expiry = (
            queues.column("has_expiry", lambda row: bool(row.expiry_address)) > 0
        )
        sought = [
            np.flatnonzero(has_dead & (dead < 0)),
            np.flatnonzero(has_expiry & (expired < 0)),
        ]
        if any(map(len, sought)):
            named = {row.name: i for i, row in enumerate(addresses)}
            dead[sought[0]] = [
                named.get(row.dead_letter_address, -1) for row in queues.rows[sought[0]]
            ]
            expired[sought[1]] = [
                named.get(row.expiry_address, -1) for row in queues.rows[sought[1]]
            ]
        return Targets(queues, addresses, dead, expired)


@dataclass(frozen=True, slots=True)
class Visits(RowState):
    """Per address, in all. arrived: R; at an address that refuses, which counts a dead letter at each attempt, what
    came to its queues. sent: by listed producers; others: with what expired into it. strange: from none of them and no
    dead letter, the most so far; grew: by so much at the last polls. begins: its numbers start again; new: made since.
    has_queue: now. takes_moves: messages can be moved to it, as it has a queue, had one at the poll before, or a queue
    of a wildcard gets what is sent to it.
    """

    arrived: Column = column(saved=False)
    sent: Column = column(0.0, saved=False)
    others: Column = column(saved=False)
    strange: Column = column(saved=False)
    grew: Matrix = column(0.0, lines=WINDOW, saved=False)
    begins: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    new: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    has_queue: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    takes_moves: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    targets: Targets = unindexed(Targets)

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        books: QueueBooks,
        sent: Column,
        to_wildcard: Mask,
        *,
        watched: bool,
    ) -> "Visits":
        """sent: to each address since the poll before; empty: not read. to_wildcard: a queue of a wildcard gets it."""
        addresses = snapshot.addresses
        assert addresses is not None  # noqa: S101 - the caller has looked
        before = self.reindexed(addresses.index)
        size = len(addresses)
        targets = self.targets.advance(found.queues, addresses.index)
        refuses = (
            addresses.index.column("refuses", lambda row: row.policy == "fail") > 0
        )
        arrived = addresses["messages_added"]
        if refuses.any():
            came = np.full(size + 1, np.nan)
            came[join.at] = came_to_address(join, found.queues, books.came)[1]
            arrived = np.where(refuses, came[:-1], arrived)
        new = np.zeros(size, np.bool_)
        new[addresses.index.new_since(self.index)] = watched
        has_queue = np.zeros(size + 1, np.bool_)
        has_queue[join.at] = True
        total = before.sent + sent if len(sent) else before.sent
        return replace(
            before,
            arrived=arrived,
            sent=total,
            others=total + sum_by(targets.expired, or_zero(books.expired), size),
            begins=~new & ~(arrived >= before.arrived),
            new=new,
            has_queue=has_queue[:-1],
            takes_moves=has_queue[:-1] | before.has_queue | to_wildcard,
            targets=targets,
        )

    @property
    def may_have_moved(self) -> Matrix:
        """What came at the last polls and may have been moved there: a divert sends to addresses without a queue."""
        return np.where(self.takes_moves, self.grew, 0.0)

    def with_strangers(self, dead: Column) -> "Visits":
        """dead: of each queue, the dead letters."""
        strange = (
            self.arrived
            - self.others
            - sum_by(self.targets.dead, dead, len(self.index))
        )
        most = np.where(
            self.new,
            0.0,
            np.where(self.begins | np.isnan(self.strange), strange, self.strange),
        )
        grew = np.fmax(or_zero(strange - most), 0.0)
        return replace(
            self, strange=np.fmax(most, strange), grew=np.vstack([self.grew[1:], grew])
        )


def movers(found: Facts) -> Mask:
    """Queues at which a consumer came or went."""
    changed = found.came.copy()
    changed[found.consumer.gone.queue[found.consumer.gone.queue >= 0]] = True
    return changed
