"""Messages that clients took and gave back: rolled back, or buffered by a consumer as it left.

A message counts each time that it is given back. The broker counts *attempts* to acknowledge, so what was given back
are the attempts that came to nothing:

    given back = attempts - (K + E + X + lost) - uncommitted

Where the broker counts no attempt (killed clients, AMQP, OpenWire), they are the messages that consumers had buffered
when they left. The higher of the two numbers is given back at least.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.account.moves import Moves
from penstock.account.queue_books import QueueBooks, ledgered
from penstock.account.reading import hides_consumers, left_by, read
from penstock.core.state import By, RowState, column, counter
from penstock.core.table import Column, Mask, put
from penstock.model import ConsumerRow, Snapshot
from penstock.observation.facts import Facts, Seen, or_zero

CORE = "CORE"
"""The protocol of which each acknowledgement that is rolled back counts as attempted."""


@dataclass(frozen=True, slots=True)
class GivenBack(RowState):
    """Messages given back, at least and at most; all columns are by queue.

    The broker counts an attempt for each message that a ring removes, too; that they were removed shows a poll later.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    given_back: Column = counter(0.0, outlives=True)
    """Messages that were given back, at least."""
    from_rows: Column = counter(0.0, outlives=True)
    """The part that consumers had buffered when they left."""
    paged: Column = counter(0.0, outlives=True)
    """1 where the address has paged: the broker counts fewer attempts for messages of page files."""
    vague: Column = counter(0.0, outlives=True)
    """1 where more may have been given back than attempts show: a consumer left, is not of Core or beyond the budget,
    or the agent was away for a time.
    """
    visited: Column = counter(0.0, outlives=True)
    """1 where it had a consumer, or something was settled; else nothing was delivered."""
    attempts: Column = column(saved=False)
    """Attempts in all, at the last poll."""
    attempted: Column = column(saved=False)
    """Attempts that neither settled a message nor are open, at most."""
    attempted0: Column = column(saved=False)
    """`attempted` when the attempts were compared first, less what was given back before: `given_back` is the rest."""

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        last: Seen,
        books: QueueBooks,
        moves: Moves,
        *,
        watched: bool,
    ) -> "GivenBack":
        """Return the state after one more poll.

        Args:
            facts: of this poll.
            snapshot: of this poll.
            last: the numbers of the poll before.
            books: of this poll.
            moves: of this poll.
            watched: as for `QueueBooks.advance`.
        """
        before = self.reindexed(facts.queues)
        attempts = Attempts.of(facts, snapshot, books)
        begins = np.isnan(before.attempted0) | facts.set_back
        # Books that began before this poll: what was given back in between is not known.
        is_older = books.since < facts.now
        from_zero = ~facts.set_back & ~is_older & watched
        after = before.with_attempts(attempts, begins, from_zero)
        has_left, buffered = left_by(facts, last)
        after = after.with_rows(facts, snapshot, buffered, books, moves)
        after = after.with_paged(before, facts, attempts)
        is_unsure = has_left | (begins & is_older) | hides_consumers(snapshot)
        after = after.with_doubts(facts, is_unsure)
        after = after.with_visits(before, facts, has_left, attempts)
        return after.with_given_back(before, attempts)

    def with_attempts(
        self, attempts: "Attempts", begins: Mask, from_zero: Mask
    ) -> "GivenBack":
        """Return the state with the attempts of this poll that settled nothing, and those from before the comparison.

        begins: (queues,) True where attempts are compared first at this poll. from_zero: (queues,) True where none was
        made before that.
        """
        at_begin = np.where(from_zero, 0.0 * attempts.in_vain, attempts.in_vain)
        attempted0 = put(self.attempted0, begins, at_begin - self.given_back)
        # At the begin some attempts may not have settled their messages yet: at rest the lower number is the true one.
        rests = attempts.rest_since(self)
        lowest = np.fmin(attempted0, attempts.in_vain - self.given_back)
        return replace(
            self,
            attempts=attempts.attempts,
            attempted=attempts.in_vain,
            attempted0=np.where(rests, lowest, attempted0),
        )

    def with_rows(
        self,
        facts: Facts,
        snapshot: Snapshot,
        buffered: Column,
        books: QueueBooks,
        moves: Moves,
    ) -> "GivenBack":
        """Return the state with what consumers gave back as they left since the poll before.

        It is what they had buffered, less what may have become of it otherwise: held by a transaction in doubt,
        settled between the last poll and their end, or expired.

        buffered: (queues,) messages that these had buffered at the poll before.
        """
        transactions = snapshot.transactions
        if transactions is None or len(transactions):
            # A transaction is prepared, or that is not known: it may hold messages of such a consumer.
            new_unheld = books.unheld[-1] - books.unheld[-2]
            buffered = buffered - np.fmax(or_zero(new_unheld), 0.0)
        # K of the last two polls that no row of a consumer shows.
        settled_unseen = np.fmax(moves.unseen[-1] - moves.unseen[-3], 0.0)
        returned = buffered - settled_unseen - or_zero(facts.d_expired)
        is_certain = facts.known & (not hides_consumers(snapshot))
        now = np.where(is_certain, np.fmax(returned, 0.0), 0.0)
        return replace(self, from_rows=self.from_rows + now)

    def with_paged(
        self, before: "GivenBack", facts: Facts, attempts: "Attempts"
    ) -> "GivenBack":
        """Return the state with the queues that have paged: now, or some time, by attempts fewer than what left."""
        has_too_few = attempts.rest_since(before) & (facts.attempts < attempts.left)
        has_paged = (facts.address.paging > 0) | has_too_few
        return replace(self, paged=put(self.paged, has_paged, 1.0))

    def with_doubts(self, facts: Facts, is_unsure: Mask) -> "GivenBack":
        """Return the state with the queues at which more may have been given back.

        is_unsure: (queues,) True where a consumer left or is not listed, or the agent was away.
        """
        not_core = facts.consumer.index.column("not_core", is_not_core) > 0
        has_others = facts.of_queue(not_core) > 0
        return replace(self, vague=put(self.vague, is_unsure | has_others, 1.0))

    def with_visits(
        self, before: "GivenBack", facts: Facts, has_left: Mask, attempts: "Attempts"
    ) -> "GivenBack":
        """Return the state with the queues that had a consumer, or at which something was settled.

        In a queue that may evict, more attempts are no sign of a consumer.

        has_left: (queues,) True where a consumer left since the poll before.
        """
        has_consumer = (facts.consumers > 0) | (facts.listed > 0)
        has_delivered = has_consumer | (facts.delivering > 0)
        has_settled = (facts.settled > 0) | (before.given_back > 0)
        attempts_grew = attempts.attempts > before.attempts
        has_settled |= ~ledgered(facts) & attempts_grew
        is_visited = has_left | has_delivered | has_settled
        return replace(self, visited=put(self.visited, is_visited, 1.0))

    def with_given_back(self, before: "GivenBack", attempts: "Attempts") -> "GivenBack":
        """Return the state with what was given back at least: by rows of consumers or by attempts, the higher number.

        Attempts are read last, so those since the poll before may be ahead of what they settle: only those of the poll
        before are surely settled, open or given back by now. At rest there are no new ones.
        """
        rests = attempts.rest_since(before)
        new_attempts = np.where(rests, 0.0, attempts.attempts - before.attempts)
        attempts_before = attempts.unsettled - new_attempts - self.attempted0
        surely = attempts_before - attempts.may_be_open
        by_attempts = np.where(self.paged > 0, 0.0, or_zero(surely))
        now = np.fmax(self.from_rows, by_attempts)
        return replace(self, given_back=np.fmax(before.given_back, now))

    def pages(self, facts: Facts) -> Mask:
        """(queues,) True where the address has paged, so that the broker counts fewer attempts than it settles."""
        has_paged = self.reindexed(facts.queues).paged > 0
        return np.asarray(has_paged | (facts.address.paging > 0))

    @property
    def most(self) -> Column:
        """(queues,) Messages that were given back, at most; infinite where that is not known."""
        high = np.fmax(self.attempted - self.attempted0, self.given_back)
        is_unbounded = (self.paged > 0) | (self.vague > 0) | np.isnan(self.attempted)
        most = np.where(is_unbounded, np.inf, high)
        return np.where(self.visited > 0, most, self.given_back)


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts to acknowledge of one poll, by queue.

    attempts: all of them; NaN where they are not read, or consumers are beyond the budget.
    left: messages that were settled, expired or killed.
    unsettled: attempts that settled no message.
    in_vain: the part of `unsettled` that is not open with a consumer, at most.
    may_be_open: the part of `unsettled`, at most, that a consumer may still settle, or that a ring may have removed.
    rests: True where nothing came or left since the poll before.
    """

    attempts: Column
    left: Column
    unsettled: Column
    in_vain: Column
    may_be_open: Column
    rests: Mask

    @classmethod
    def of(cls, facts: Facts, snapshot: Snapshot, books: QueueBooks) -> "Attempts":
        """Return the attempts of this poll: in_vain = attempts - left - lost - uncommitted, at rest less unheld."""
        is_read = read(snapshot, snapshot.queues, "sizes") is not None
        left = facts.settled + facts.expired + facts.killed
        attempts = np.full(len(left), np.nan)
        if is_read and not hides_consumers(snapshot):
            attempts = facts.attempts
        rests = is_at_rest(facts)
        # Under load unheld messages may be on their way between two reads; at rest they have no holder: in doubt.
        held_by_none = np.fmax(or_zero(books.unheld[-1]), 0.0)
        unsettled = attempts - left - or_zero(books.lost)
        not_open = unsettled - facts.uncommitted
        may_be_removed = np.fmax(or_zero(books.lacking - books.lost), 0.0)
        return cls(
            attempts=attempts,
            left=left,
            unsettled=unsettled,
            in_vain=not_open - np.where(rests, held_by_none, 0.0),
            may_be_open=facts.uncommitted + held_by_none + may_be_removed,
            rests=rests,
        )

    def rest_since(self, before: GivenBack) -> Mask:
        """(queues,) True where nothing came or left, and no attempt was made, since the poll before."""
        return self.rests & (self.in_vain == before.attempted)


def is_at_rest(facts: Facts) -> Mask:
    """(queues,) True where nothing came or left since the poll before."""
    came_and_left = facts.d_added + facts.d_settled + facts.d_expired + facts.d_killed
    return np.asarray(came_and_left + facts.d_delivered == 0)


def is_not_core(row: ConsumerRow) -> bool:
    return row.protocol != CORE
