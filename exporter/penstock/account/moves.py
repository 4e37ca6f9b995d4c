"""What operators moved: it raises K though no listed consumer settled anything, and R of addresses to which no listed
producer sent. What else does so (docs/account.md) makes these bounds, save where one explanation is left.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.account.reading import anonymous, attempted_in_vain, meanwhile
from penstock.account.visits import Visits, movers
from penstock.core.state import By, RowState, column, counter, mask, unindexed
from penstock.core.table import Column, Mask, Matrix, put
from penstock.model import Snapshot
from penstock.observation.facts import Facts, or_zero

QUIET = 10
"""Polls without a consumer that comes or goes, after which none is expected that comes and goes between two polls."""
RETURNED = 1.0
"""At most so many messages that it had not looked at come back from a consumer for each that it rolls back."""
DOUBT = 10
"""Polls in which all may have been moved, after more came back than that."""
CALM = 2
"""Polls without any client that comes or goes, so that none can have brought what came."""


class Move(NamedTuple):
    """Proven at a poll. queue: its key; to: names of addresses."""

    queue: int
    messages: int
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moves(RowState):
    """Per queue, of what it counts as acknowledged. moved: so many for sure. acknowledged: at least; others: either.

    unseen: K less what the rows of its consumers settled, at the last polls; peak: the part that is accounted for, of
    which not all of these polls have seen `fresh`. vain: attempts that settled nothing, at the last polls, NaN: never
    known; vain0: when `either` began to grow. rolls: consumers roll back, so that peak and fresh count these attempts,
    too; doubt: polls for which all may have been moved. quiet, calm: polls since a consumer of it, or any client, came
    or went; calm also ends when a producer that names an address with each message sends one. proven: at this poll.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    moved: Column = counter(0.0, outlives=True)
    acknowledged: Column = counter(0.0, outlives=True)
    either: Column = counter(0.0, outlives=True)
    unseen: Matrix = column(0.0, lines=5, saved=False)
    peak: Column = column(0.0, saved=False)
    fresh: Column = column(0.0, saved=False)
    vain: Matrix = column(lines=5, saved=False)
    vain0: Column = column(saved=False)
    rolls: Mask = mask(saved=False)
    doubt: Column = column(0.0, saved=False)
    quiet: Column = column(0.0, saved=False)
    calm: int = unindexed(int)
    clients: tuple[bytes, ...] = unindexed(tuple)
    proven: tuple[Move, ...] = unindexed(tuple)

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        books: QueueBooks,
        visits: Visits | None,
        paged: Mask,
    ) -> "Moves":
        """visits: None where addresses and producers were not both read: what is unseen waits for that. paged: queues
        whose attempts the broker does not count in full.
        """
        before = self.reindexed(found.queues)
        settled = or_zero(found.d_settled)
        unseen = before.unseen[-1] + settled - found.d_left + found.d_uncommitted
        vain = put(attempted_in_vain(found, snapshot, books), paged, np.nan)
        came = 0.0 if visits is None else float(visits.may_have_moved.sum())
        # What a link takes is not listed at all.
        listed = found.consumers <= found.listed
        by_rows = (found.d_left == 0) & (
            found.d_uncommitted == 0
        )  # nothing of which a row could be behind
        now = before.seeing(unseen, vain, found.set_back)
        seen = now.seen
        rest = by_rows & (settled == 0) & (seen[-1] == seen[-2])
        noise = meanwhile(
            found,
            snapshot,
            np.where(now.rolls, found.d_left, settled),
            "consumers",
            "sizes",
        )
        surely = np.where(rest, seen[-1], seen.min(axis=0) - noise)
        clients = present_clients(snapshot)
        unread = visits is None and bool(self.clients)
        now = now.shrunk(~np.isnan(vain), np.where(rest, seen[-1], seen.max(axis=0)))
        # What was unseen while no stranger came was not moved: it is accounted for as soon as it is sure. Addresses are
        # read before their queues: what was moved shows one poll later at most.
        sure = np.fmax(surely - (now.peak - now.fresh), 0.0)
        booked = np.fmax(np.fmin(seen[-1] - now.peak, came - now.fresh), 0.0)
        peak = now.peak + booked
        fresh = np.fmax(now.fresh + booked - sure, 0.0)
        either = now.either + np.where(
            listed, np.where(now.doubt > 0, np.fmin(settled, came), booked), 0.0
        )
        tail = surely if came else np.where(by_rows, seen[-2:].min(axis=0), surely)
        peak = peak + (0.0 if unread else np.fmax(tail - peak, 0.0))
        moved = before.moved
        proven: tuple[Move, ...] = ()
        calm = self.calm + 1 if clients and clients == self.clients else 0
        quiet = put(before.quiet + 1, movers(found), 0.0)
        (at,) = np.nonzero(np.where(listed, sure, 0.0) if came else np.zeros(len(sure)))
        alone = (
            len(at) == 1
            and sure[at[0]] == came
            and rest[at[0]]
            and either[at[0]] >= came
        )
        # What clients that come and go settle is never seen whole.
        if visits is not None and alone and quiet[at[0]] >= QUIET and calm >= CALM:
            moved = moved.copy()
            either = either.copy()
            moved[at] += came
            either[at] -= came
            to = visits.index.rows[visits.may_have_moved.any(axis=0)]
            proven = (
                Move(
                    int(found.queues.keys[at[0]]),
                    int(came),
                    tuple(row.name for row in to),
                ),
            )
        # What no poll is sure of may have been moved.
        pending = np.fmax(
            seen[-1] - peak - (0.0 if came else np.where(by_rows, 0.0, noise)), 0.0
        )
        pending = np.where(listed & (unread | (visits is not None)), pending, 0.0)
        return replace(
            now,
            moved=moved,
            acknowledged=np.fmax(
                before.acknowledged,
                or_zero(books.acknowledged) - moved - either - pending,
            ),
            either=either,
            peak=peak,
            fresh=fresh,
            vain0=np.where(
                (either > 0) & ~np.isnan(now.vain0), now.vain0, now.vain[-1]
            ),
            quiet=quiet,
            calm=calm,
            clients=clients or self.clients,
            proven=proven,
        )

    @property
    def seen(self) -> Matrix:
        """What `peak` accounts for, at the last polls."""
        some = self.rolls.any()
        return (
            self.unseen + np.where(self.rolls, (1 + RETURNED) * self.vain, 0.0)
            if some
            else self.unseen
        )

    def seeing(self, unseen: Column, vain: Column, set_back: Mask) -> "Moves":
        """With the numbers of a poll, and whether consumers have rolled back: their rows settled less than they say."""
        vain = put(vain, np.isnan(vain), self.vain[-1])
        lines = np.vstack(
            [put(self.vain[1:], set_back | np.isnan(self.vain[-1]), vain), vain]
        )
        sure = self.peak - self.fresh
        begins = ~self.rolls & (unseen < sure) & (vain > lines[0])
        rolls = self.rolls | begins
        now = replace(
            self,
            unseen=np.vstack([self.unseen[1:], unseen]),
            vain=lines,
            rolls=rolls,
            peak=put(self.peak, begins, self.peak + (1 + RETURNED) * lines[0]),
        )
        return replace(
            now,
            doubt=put(
                np.fmax(self.doubt - 1, 0.0), self.rolls & (now.seen[-1] < sure), DOUBT
            ),
        )

    def shrunk(self, known: Mask, most: Column) -> "Moves":
        """Without what rows have settled since: they are read before their queue. What consumers rolled back they have
        not settled: where attempts grew that settled nothing, it stays. known: these attempts; most: accounted for.
        """
        fell = put(np.fmax(self.peak - self.seen[-1], 0.0), self.doubt > 0, 0.0)
        in_vain = np.where(self.rolls, 0.0, np.maximum(self.vain[-1] - self.vain0, 0.0))
        later = np.fmax(np.where(known, fell - in_vain, 0.0), np.fmin(fell, self.fresh))
        later = np.fmin(later, self.either)
        peak = np.fmin(self.peak - later, most)
        return replace(
            self,
            peak=peak,
            fresh=np.fmax(self.fresh - (self.peak - peak), 0.0),
            either=self.either - later,
        )

    def begun_anew(self) -> "Moves":
        return replace(super(Moves, self).begun_anew(), calm=0, clients=(), proven=())


def present_clients(snapshot: Snapshot) -> tuple[bytes, ...]:
    """Which connections and producers there are, and what those without an address of their own have sent."""
    producers = snapshot.producers
    connections = snapshot.connections
    if producers is None:
        return ()
    sent = or_zero(producers["produced"][anonymous(producers)])
    return (
        producers.index.keys.tobytes(),
        connections.index.keys.tobytes() if connections else b"",
        sent.tobytes(),
    )
