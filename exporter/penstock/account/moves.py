"""Messages that operators moved to other queues.

A move raises K (acknowledged) of its queue though no listed consumer settled anything, and R of an address to which no
listed producer sent. So two numbers are compared at each poll:

- *unseen*: K less what the rows of the queue's consumers show as settled. Rows are read before their queue, so that a
  part is seen only at the next poll; what all of the last five polls have not seen is *sure*.
- *arrived*: messages of strangers at addresses to which messages can be moved (see `visits`).

Unseen messages, up to as many as arrived, may have been moved (`either`). Unseen ones while none arrived were not: a
consumer that no poll listed acknowledged them. Other things than moves look alike (docs/account.md): therefore the
amounts are bounds, save where only one explanation is left.
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
"""With each message that a consumer rolls back, at most so many come back from its buffer that it had not looked at."""
DOUBT = 10
"""Polls for which all may have been moved, once more messages came back than `RETURNED` expects."""
CALM = 2
"""Polls without any client that comes or goes, so that none can have brought what came."""


class Move(NamedTuple):
    """A move that is proven at a poll. queue: the key of the queue that lost the messages; to: names of addresses."""

    queue: int
    messages: int
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moves(RowState):
    """What became of the messages that the broker counts as acknowledged: acknowledged, moved, or either."""

    BY = By.QUEUE
    STORED_AS = "account_"
    moved: Column = counter(0.0, outlives=True)
    """(queues,) Messages that operators moved, for sure."""
    acknowledged: Column = counter(0.0, outlives=True)
    """(queues,) Messages that consumers acknowledged, at least."""
    either: Column = counter(0.0, outlives=True)
    """(queues,) Messages that were moved or acknowledged, and it is not known which."""
    unseen: Matrix = column(0.0, lines=5, saved=False)
    """(polls, queues) K less the messages that the rows of its consumers settled, at the last polls."""
    peak: Column = column(0.0, saved=False)
    """(queues,) The part of `seen` that is accounted for: in `either`, in `moved`, or surely not moved."""
    fresh: Column = column(0.0, saved=False)
    """(queues,) The part of `peak` that is not sure yet: rows of the next poll may show it as settled."""
    vain: Matrix = column(lines=5, saved=False)
    """(polls, queues) Attempts to acknowledge that settled nothing; NaN: never known."""
    vain0: Column = column(saved=False)
    """(queues,) These attempts when `either` began to grow."""
    rolls: Mask = mask(saved=False)
    """(queues,) True where consumers roll back, so that `seen` and `peak` count attempts, too."""
    doubt: Column = column(0.0, saved=False)
    """(queues,) For so many more polls, all that is settled may have been moved."""
    quiet: Column = column(0.0, saved=False)
    """(queues,) Polls since a consumer of the queue joined or left."""
    calm: int = unindexed(int)
    """Polls since any client joined or left, or a producer that names an address with each message sent one."""
    clients: tuple[bytes, ...] = unindexed(tuple)
    """`present_clients` of the last poll that read producers."""
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
            visits: of this poll; None where addresses and producers were not both read: what is unseen waits for that.
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
        """(queues,) K less what the rows of its consumers settled, at this poll."""
        by_consumers = facts.d_left - facts.d_uncommitted
        return self.unseen[-1] + or_zero(facts.d_settled) - by_consumers

    @property
    def seen(self) -> Matrix:
        """(polls, queues) The unseen messages, for which `peak` accounts.

        Rows of consumers that roll back show messages as settled that they gave back, so that too few are unseen:
        there the attempts in vain are added, with as many messages as may have come back with them.
        """
        if not self.rolls.any():
            return self.unseen
        attempts = np.where(self.rolls, (1 + RETURNED) * self.vain, 0.0)
        return self.unseen + attempts

    @property
    def sure_before(self) -> Column:
        """(queues,) The part of `peak` that was sure before this poll."""
        return self.peak - self.fresh

    def seeing(self, unseen: Column, vain: Column, set_back: Mask) -> "Moves":
        """Return the moves with the numbers of a poll, and whether consumers have rolled back.

        Consumers that roll back have settled less than their rows say: the unseen messages fall below what was sure,
        while attempts in vain grow. From then on `seen` has these attempts, and `peak` is raised to match.

        unseen, vain: (queues,) the numbers of this poll. set_back: (queues,) True where an operator has set a counter
        back, so that the attempts begin again.
        """
        last = self.vain[-1]
        vain = put(vain, np.isnan(vain), last)
        starts_again = set_back | np.isnan(last)
        lines = np.vstack([put(self.vain[1:], starts_again, vain), vain])
        grows_in_vain = vain > lines[0]
        begins = ~self.rolls & (unseen < self.sure_before) & grows_in_vain
        peak_with_attempts = self.peak + (1 + RETURNED) * lines[0]
        after = replace(
            self,
            unseen=shifted(self.unseen, unseen),
            vain=lines,
            rolls=self.rolls | begins,
            peak=put(self.peak, begins, peak_with_attempts),
        )
        # More came back from consumers that roll back than was accounted for.
        came_back = self.rolls & (after.seen[-1] < self.sure_before)
        doubt = np.fmax(self.doubt - 1, 0.0)
        return replace(after, doubt=put(doubt, came_back, DOUBT))

    def shrunk(self, is_known: Mask, most: Column) -> "Moves":
        """Return the moves without the messages that rows show as settled at this poll, one poll after their queue.

        By these `seen` falls below `peak`, and neither was moved. But where attempts in vain grew, it falls by what
        consumers rolled back, and that was not settled: so much stays.

        is_known: (queues,) True where attempts are read. most: (queues,) messages that may be accounted for.
        """
        fell = put(np.fmax(self.peak - self.seen[-1], 0.0), self.doubt > 0, 0.0)
        new_attempts = np.maximum(self.vain[-1] - self.vain0, 0.0)
        # Where it is known that consumers roll back, `seen` has these attempts already.
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
        """Return the moves with what may have been moved: unseen and not accounted for, if as much has arrived.

        The arrivals are those of several polls, as addresses are read before their queues: `fresh` has been explained
        by as many of them already. While too much came back from consumers (`doubt`), all that was settled may have
        been moved.

        sure: (queues,) unseen messages that became sure at this poll.
        """
        not_accounted = poll.seen[-1] - self.peak
        may_be_moved = poll.arrived - self.fresh
        booked = np.fmax(np.fmin(not_accounted, may_be_moved), 0.0)
        any_settled = np.fmin(poll.settled, poll.arrived)
        either = np.where(self.doubt > 0, any_settled, booked)
        peak = self.peak + booked
        if not poll.is_unread:
            # What was unseen while no message of a stranger came was not moved: it is accounted for once it is sure.
            peak = peak + np.fmax(poll.sure_level - peak, 0.0)
        return replace(
            self,
            peak=peak,
            fresh=np.fmax(self.fresh + booked - sure, 0.0),
            either=self.either + np.where(poll.is_listed, either, 0.0),
        )

    def with_movements(self, facts: Facts, clients: tuple[bytes, ...]) -> "Moves":
        """Return the moves with the polls since consumers and clients came and went. clients: as `present_clients`."""
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
        """Return the moves with one that is proven: a single queue lost all that arrived at addresses.

        It was counted in `either` and is now in `moved`.
        """
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
        """Return the position of the only queue that can have lost the messages that arrived; None if none is certain.

        It is the only one with unseen messages that became sure now, it lost as many as arrived, its consumers have
        stayed for long, no client came or went on the broker, and nothing is being settled.
        """
        if not poll.arrived:
            return None
        suspects = np.flatnonzero(np.where(poll.is_listed, sure, 0.0))
        if len(suspects) != 1:
            return None
        queue = int(suspects[0])
        is_all = sure[queue] == poll.arrived and self.either[queue] >= poll.arrived
        # Clients that come and go between polls settle messages that no row ever shows.
        is_calm = self.quiet[queue] >= QUIET and self.calm >= CALM
        return queue if is_all and is_calm and poll.rests[queue] else None

    def with_acknowledged(self, poll: "MovePoll", books: QueueBooks) -> "Moves":
        """Return the moves with what consumers acknowledged, at least: K less what was, or may have been, moved."""
        pending = poll.pending(self.peak)
        not_moved = or_zero(books.acknowledged) - self.moved - self.either
        has_begun = (self.either > 0) & ~np.isnan(self.vain0)
        return replace(
            self,
            acknowledged=np.fmax(self.acknowledged, not_moved - pending),
            vain0=np.where(has_begun, self.vain0, self.vain[-1]),
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
        """(queues,) Unseen messages at least: the lowest number of the last polls, or at rest that of this one.

        Messages that may have moved between the reads of rows and queue do not count.
        """
        lowest = self.seen.min(axis=0) - self.noise
        return np.where(self.rests, self.seen[-1], lowest)

    @property
    def most(self) -> Column:
        """(queues,) Unseen messages at most: the highest number of the last polls, or at rest that of this one."""
        return np.where(self.rests, self.seen[-1], self.seen.max(axis=0))

    @property
    def sure_level(self) -> Column:
        """(queues,) Unseen messages that are sure, whether moved or not: `peak` is raised to at least this.

        While nothing arrives none is being moved: then two polls are enough for a queue whose consumers' rows rest.
        """
        if self.arrived:
            return self.least
        of_last_two = self.seen[-2:].min(axis=0)
        return np.where(self.rows_rest, of_last_two, self.least)

    def pending(self, peak: Column) -> Column:
        """(queues,) Unseen messages that are not accounted for yet, and may turn out to be moved.

        While nothing arrives, those that may have moved between the reads of rows and queue do not count. It is 0 for
        queues with consumers that are not listed.

        peak: (queues,) messages that are accounted for.
        """
        apart = np.where(self.rows_rest, 0.0, self.noise)
        unsure = self.seen[-1] - peak - (0.0 if self.arrived else apart)
        may_be_moved = self.is_listed & (self.is_unread or self.has_visits)
        return np.where(may_be_moved, np.fmax(unsure, 0.0), 0.0)


def present_clients(snapshot: Snapshot) -> tuple[bytes, ...]:
    """Return a value that differs if a client joins or leaves, or a producer without an address of its own sends.

    It is empty where producers were not read. The numbers are the bytes of their arrays: quick to compare.
    """
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
