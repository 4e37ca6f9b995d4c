"""What clients took and gave back: acknowledgements that came to nothing, which the broker counts as attempts; where it
counts none (killed clients, AMQP, OpenWire) what was buffered by consumers that went.
"""

from dataclasses import dataclass

import numpy as np

from penstock.account.moves import Moves
from penstock.account.queue_books import QueueBooks, ledgered
from penstock.account.reading import hides_consumers, left_by, read
from penstock.core.state import By, RowState, column, counter
from penstock.core.table import Column, Mask, put
from penstock.model import Snapshot
from penstock.observation.facts import Facts, Seen, or_zero

CORE = "CORE"
"""The protocol of which each acknowledgement that is rolled back counts as attempted."""


@dataclass(frozen=True, slots=True)
class GivenBack(RowState):
    """Per queue. given_back: at least so many; from_rows: the part that consumers had buffered when they went.

    attempts: of the last poll; attempted: those that neither settled a message nor are open, at most; attempted0: when
    these were compared first, less what was given back before. paged: the broker attempts less for messages of page
    files. vague: a consumer went, is not of Core or beyond the budget, or no one looked for a time: there may be more.
    visited: it had a consumer, or something was settled: else nothing was delivered. What a ring removes is attempted,
    too, and known to be removed a poll later.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    given_back: Column = counter(0.0, outlives=True)
    from_rows: Column = counter(0.0, outlives=True)
    paged: Column = counter(0.0, outlives=True)
    vague: Column = counter(0.0, outlives=True)
    visited: Column = counter(0.0, outlives=True)
    attempts: Column = column(saved=False)
    attempted: Column = column(saved=False)
    attempted0: Column = column(saved=False)

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        last: Seen,
        books: QueueBooks,
        moves: Moves,
        *,
        watched: bool,
    ) -> "GivenBack":
        """last: as seen at the poll before. moves: of this poll. watched: as of `QueueBooks.advance`."""
        before = self.reindexed(found.queues)
        left = found.settled + found.expired + found.killed
        rests = (
            found.d_added
            + found.d_settled
            + found.d_expired
            + found.d_killed
            + found.d_delivered
            == 0
        )
        held_by_none = np.fmax(
            or_zero(books.unheld[-1]), 0.0
        )  # also what came between the two reads, but at rest
        hidden = hides_consumers(snapshot)
        unread = hidden or read(snapshot, snapshot.queues, "sizes") is None
        attempts = np.full(len(left), np.nan) if unread else found.attempts
        unsettled = attempts - left - or_zero(books.lost)
        now = unsettled - found.uncommitted - np.where(rests, held_by_none, 0.0)
        still = rests & (now == before.attempted)
        begins = np.isnan(before.attempted0) | found.set_back
        older = (
            books.since < found.now
        )  # than this poll: what was given back meanwhile is not known
        fresh = ~found.set_back & ~older & watched
        attempted0 = put(
            before.attempted0,
            begins,
            np.where(fresh, 0.0 * now, now) - before.given_back,
        )
        # It may have begun with attempts that were ahead of what they settled.
        attempted0 = np.where(
            still, np.fmin(attempted0, now - before.given_back), attempted0
        )
        # Attempts are read last: those of the poll before are all settled, open or given back by now.
        surely = (
            unsettled - np.where(still, 0.0, attempts - before.attempts) - attempted0
        )
        surely -= (
            found.uncommitted
            + held_by_none
            + np.fmax(or_zero(books.lacking - books.lost), 0.0)
        )
        # Fewer attempts than messages that left: some of them were in page files.
        paged = put(
            before.paged,
            (found.address.paging > 0) | (still & (found.attempts < left)),
            1.0,
        )
        went, held = left_by(found, last)
        if snapshot.transactions is None or len(
            snapshot.transactions
        ):  # what went may be in doubt
            held = held - np.fmax(or_zero(books.unheld[-1] - books.unheld[-2]), 0.0)
        rows = np.fmax(
            held
            - np.fmax(moves.unseen[-1] - moves.unseen[-3], 0.0)
            - or_zero(found.d_expired),
            0.0,
        )
        from_rows = before.from_rows + np.where(found.known & (not hidden), rows, 0.0)
        has_settled = (found.settled > 0) | (before.given_back > 0)
        has_settled |= ~ledgered(found) & (attempts > before.attempts)
        is_taken = (found.consumers > 0) | (found.listed > 0) | (found.delivering > 0)
        others = (
            found.consumer.index.column("not_core", lambda row: row.protocol != CORE)
            > 0
        )
        return GivenBack(
            index=found.queues,
            given_back=np.fmax(
                before.given_back,
                np.fmax(from_rows, np.where(paged > 0, 0.0, or_zero(surely))),
            ),
            from_rows=from_rows,
            paged=paged,
            vague=put(
                before.vague,
                went | hidden | (begins & older) | (found.of_queue(others) > 0),
                1.0,
            ),
            visited=put(before.visited, went | is_taken | has_settled, 1.0),
            attempts=attempts,
            attempted=now,
            attempted0=attempted0,
        )

    def pages(self, found: Facts) -> Mask:
        """Queues that have paged, so that the broker attempts less than it settles."""
        pages: Mask = (self.reindexed(found.queues).paged > 0) | (
            found.address.paging > 0
        )
        return pages

    @property
    def most(self) -> Column:
        """Infinite where no most is known."""
        high = np.fmax(self.attempted - self.attempted0, self.given_back)
        is_unbounded = (self.paged > 0) | (self.vague > 0) | np.isnan(self.attempted)
        most = np.where(is_unbounded, np.inf, high)
        return np.where(self.visited > 0, most, self.given_back)
