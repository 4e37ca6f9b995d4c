"""Messages that operators moved.

A move raises K though no listed consumer settled anything, and R of addresses to which no listed producer sent. Other
things do so, too (docs/account.md): therefore these are bounds, save where one explanation is left.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.account.last_polls import shifted
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
    """What became of the messages that the broker counts as acknowledged."""

    BY = By.QUEUE
    STORED_AS = "account_"
    moved: Column = counter(0.0, outlives=True)
    """(queues,) Messages that operators moved, for sure."""
    acknowledged: Column = counter(0.0, outlives=True)
    """(queues,) Messages that consumers acknowledged, at least."""
    either: Column = counter(0.0, outlives=True)
    """(queues,) Messages that are one or the other."""
    unseen: Matrix = column(0.0, lines=5, saved=False)
    """(polls, queues) K less the messages that the rows of its consumers settled."""
    peak: Column = column(0.0, saved=False)
    """(queues,) The part of `seen` that is accounted for."""
    fresh: Column = column(0.0, saved=False)
    """(queues,) The part of `peak` that not all of the last polls have seen."""
    vain: Matrix = column(lines=5, saved=False)
    """(polls, queues) Attempts that settled nothing; NaN: never known."""
    vain0: Column = column(saved=False)
    """(queues,) The same when `either` began to grow."""
    rolls: Mask = mask(saved=False)
    """(queues,) True where consumers roll back, so that `peak` and `fresh` count these attempts, too."""
    doubt: Column = column(0.0, saved=False)
    """(queues,) Polls for which all may have been moved."""
    quiet: Column = column(0.0, saved=False)
    """(queues,) Polls since a consumer of it joined or left."""
    calm: int = unindexed(int)
    """Polls since any client joined or left, or a producer that names an address with each message sent one."""
    clients: tuple[bytes, ...] = unindexed(tuple)
    proven: tuple[Move, ...] = unindexed(tuple)
    """The moves of this poll."""

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        books: QueueBooks,
        visits: Visits | None,
        paged: Mask,
    ) -> "Moves":
        """Return the moves after one more poll.

        Args:
            facts: of this poll.
            snapshot: of this poll.
            books: of this poll.
            visits: None where addresses and producers were not both read: what is unseen waits for that.
            paged: (queues,) True where the broker does not count all attempts.
        """
        before = self.reindexed(facts.queues)
        vain = put(attempted_in_vain(facts, snapshot, books), paged, np.nan)
        moves = before.seeing(before.unseen_after(facts), vain, facts.set_back)
        poll = MovePoll.of(moves, facts, snapshot, visits)
        moves = moves.shrunk(~np.isnan(vain), poll.most)
        sure = np.fmax(poll.least - moves.sure_before, 0.0)
        moves = moves.with_booked(poll, sure)
        moves = moves.with_movements(facts, present_clients(snapshot))
        moves = moves.with_proven(poll, sure, visits)
        return moves.with_acknowledged(poll, books)

    def unseen_after(self, facts: Facts) -> Column:
        """(queues,) K less what its consumers settled, at this poll."""
        by_consumers = facts.d_left - facts.d_uncommitted
        return self.unseen[-1] + or_zero(facts.d_settled) - by_consumers

    @property
    def seen(self) -> Matrix:
        """(polls, queues) The messages that `peak` accounts for."""
        if not self.rolls.any():
            return self.unseen
        attempts = np.where(self.rolls, (1 + RETURNED) * self.vain, 0.0)
        return self.unseen + attempts

    @property
    def sure_before(self) -> Column:
        """(queues,) The part of `peak` that all of the last polls have seen."""
        return self.peak - self.fresh

    def seeing(self, unseen: Column, vain: Column, set_back: Mask) -> "Moves":
        """Return the moves with the numbers of a poll, and whether consumers have rolled back.

        Consumers that roll back have settled less than their rows say. set_back: (queues,) True where an operator has
        set a counter back.
        """
        last = self.vain[-1]
        vain = put(vain, np.isnan(vain), last)
        starts_again = set_back | np.isnan(last)
        lines = np.vstack([put(self.vain[1:], starts_again, vain), vain])
        grows_in_vain = vain > lines[0]
        begins = ~self.rolls & (unseen < self.sure_before) & grows_in_vain
        with_attempts = self.peak + (1 + RETURNED) * lines[0]
        after = replace(
            self,
            unseen=shifted(self.unseen, unseen),
            vain=lines,
            rolls=self.rolls | begins,
            peak=put(self.peak, begins, with_attempts),
        )
        # More came back from consumers that roll back than was accounted for.
        came_back = self.rolls & (after.seen[-1] < self.sure_before)
        doubt = np.fmax(self.doubt - 1, 0.0)
        return replace(after, doubt=put(doubt, came_back, DOUBT))

    def shrunk(self, is_known: Mask, most: Column) -> "Moves":
        """Return the moves without what rows have settled since: they are read before their queue.

        What consumers rolled back they have not settled: where attempts grew that settled nothing, it stays.

        is_known: (queues,) True where these attempts are read. most: (queues,) messages that may be accounted for.
        """
        fell = put(np.fmax(self.peak - self.seen[-1], 0.0), self.doubt > 0, 0.0)
        new_attempts = np.maximum(self.vain[-1] - self.vain0, 0.0)
        in_vain = np.where(self.rolls, 0.0, new_attempts)
        settled_later = np.where(is_known, fell - in_vain, 0.0)
        later = np.fmax(settled_later, np.fmin(fell, self.fresh))
        later = np.fmin(later, self.either)
        peak = np.fmin(self.peak - later, most)
        removed = self.peak - peak
        return replace(
            self,
            peak=peak,
            fresh=np.fmax(self.fresh - removed, 0.0),
            either=self.either - later,
        )

    def with_booked(self, poll: "MovePoll", sure: Column) -> "Moves":
        """Return the moves with what may have been moved at this poll.

        Addresses are read before their queues: what was moved shows one poll later at most. sure: (queues,) messages
        that all of the last polls have seen.
        """
        not_accounted = poll.seen[-1] - self.peak
        may_be_moved = poll.arrived - self.fresh
        booked = np.fmax(np.fmin(not_accounted, may_be_moved), 0.0)
        any_settled = np.fmin(poll.settled, poll.arrived)
        either = np.where(self.doubt > 0, any_settled, booked)
        peak = self.peak + booked
        if not poll.is_unread:
            # What was unseen while no stranger came was not moved: it is accounted for as soon as it is sure.
            peak = peak + np.fmax(poll.not_moved - peak, 0.0)
        return replace(
            self,
            peak=peak,
            fresh=np.fmax(self.fresh + booked - sure, 0.0),
            either=self.either + np.where(poll.is_listed, either, 0.0),
        )

    def with_movements(self, facts: Facts, clients: tuple[bytes, ...]) -> "Moves":
        """Return the moves with the polls since consumers and clients came and went."""
        is_calm = bool(clients) and clients == self.clients
        return replace(
            self,
            quiet=put(self.quiet + 1, movers(facts), 0.0),
            calm=self.calm + 1 if is_calm else 0,
            clients=clients or self.clients,
        )

    def with_proven(
        self, poll: "MovePoll", sure: Column, visits: Visits | None
    ) -> "Moves":
        """Return the moves with one that is proven: a single queue lost all that came to addresses."""
        queue = self.proven_queue(poll, sure)
        if queue is None or visits is None:
            return replace(self, proven=())
        moved = self.moved.copy()
        either = self.either.copy()
        moved[queue] += poll.arrived
        either[queue] -= poll.arrived
        targets = visits.index.rows[visits.may_have_moved.any(axis=0)]
        names = tuple(row.name for row in targets)
        key = int(self.index.keys[queue])
        move = Move(key, int(poll.arrived), names)
        return replace(self, moved=moved, either=either, proven=(move,))

    def proven_queue(self, poll: "MovePoll", sure: Column) -> int | None:
        """Return the position of the only queue that can have lost the messages that came to addresses."""
        if not poll.arrived:
            return None
        suspects = np.flatnonzero(np.where(poll.is_listed, sure, 0.0))
        if len(suspects) != 1:
            return None
        queue = int(suspects[0])
        is_all = sure[queue] == poll.arrived and self.either[queue] >= poll.arrived
        # What clients that come and go settle is never seen whole.
        is_calm = self.quiet[queue] >= QUIET and self.calm >= CALM
        return queue if is_all and is_calm and poll.rests[queue] else None

    def with_acknowledged(self, poll: "MovePoll", books: QueueBooks) -> "Moves":
        """Return the moves with what consumers acknowledged: all but what was, or may have been, moved."""
        pending = poll.pending(self.peak)
        not_moved = or_zero(books.acknowledged) - self.moved - self.either
        grows = (self.either > 0) & ~np.isnan(self.vain0)
        return replace(
            self,
            acknowledged=np.fmax(self.acknowledged, not_moved - pending),
            vain0=np.where(grows, self.vain0, self.vain[-1]),
        )

    def begun_anew(self) -> "Moves":
        after = super(Moves, self).begun_anew()
        return replace(after, calm=0, clients=(), proven=())


@dataclass(frozen=True, slots=True)
class MovePoll:
    """The numbers of one poll that moves are found by.

    settled: (queues,) K since the poll before.
    seen: (polls, queues) as `Moves.seen`.
    noise: (queues,) messages that may have been settled between two reads.
    arrived: messages that came to addresses and may have been moved there.
    is_listed: (queues,) True where all consumers are listed; those of links are not.
    rows_rest: (queues,) True where no row of a consumer changed, so that none can be behind.
    rests: (queues,) True where nothing was settled, either.
    has_visits: addresses and producers were both read.
    is_unread: they were not, but they were before.
    """

    settled: Column
    seen: Matrix
    noise: Column
    arrived: float
    is_listed: Mask
    rows_rest: Mask
    rests: Mask
    has_visits: bool
    is_unread: bool

    @classmethod
    def of(
        cls, moves: Moves, facts: Facts, snapshot: Snapshot, visits: Visits | None
    ) -> "MovePoll":
        """moves: with the numbers of this poll, but the clients of the poll before."""
        settled = or_zero(facts.d_settled)
        seen = moves.seen
        rows_rest = (facts.d_left == 0) & (facts.d_uncommitted == 0)
        rests = rows_rest & (settled == 0) & (seen[-1] == seen[-2])
        may_be_apart = np.where(moves.rolls, facts.d_left, settled)
        noise = meanwhile(facts, snapshot, may_be_apart, "consumers", "sizes")
        has_visits = visits is not None
        arrived = float(visits.may_have_moved.sum()) if visits else 0.0
        return cls(
            settled=settled,
            seen=seen,
            noise=noise,
            arrived=arrived,
            is_listed=facts.consumers <= facts.listed,
            rows_rest=rows_rest,
            rests=rests,
            has_visits=has_visits,
            is_unread=not has_visits and bool(moves.clients),
        )

    @property
    def least(self) -> Column:
        """(queues,) Unseen messages that all of the last polls have seen."""
        lowest = self.seen.min(axis=0) - self.noise
        return np.where(self.rests, self.seen[-1], lowest)

    @property
    def most(self) -> Column:
        """(queues,) Unseen messages that any of the last polls has seen."""
        return np.where(self.rests, self.seen[-1], self.seen.max(axis=0))

    @property
    def not_moved(self) -> Column:
        """(queues,) Unseen messages that no one can have moved."""
        if self.arrived:
            return self.least
        of_last_two = self.seen[-2:].min(axis=0)
        return np.where(self.rows_rest, of_last_two, self.least)

    def pending(self, peak: Column) -> Column:
        """(queues,) Messages that no poll is sure of and that may have been moved. peak: those accounted for."""
        apart = np.where(self.rows_rest, 0.0, self.noise)
        unsure = self.seen[-1] - peak - (0.0 if self.arrived else apart)
        may_be_moved = self.is_listed & (self.is_unread or self.has_visits)
        return np.where(may_be_moved, np.fmax(unsure, 0.0), 0.0)


def present_clients(snapshot: Snapshot) -> tuple[bytes, ...]:
    """Return what differs if a client joins or leaves, or a producer without an address of its own sends."""
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
