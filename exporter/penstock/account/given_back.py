"""
What clients took and gave back: acknowledgements that were rolled back or came to nothing, which the broker counts as
attempts; where it counts none (killed clients, AMQP, OpenWire) what was buffered by consumers that went.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.account.moves import Moves
from penstock.account.queue_books import QueueBooks
from penstock.account.reading import attempted_in_vain, left_by, meanwhile
from penstock.core.state import By, RowState, column, counter
from penstock.core.table import Column
from penstock.core.windows import Mask
from penstock.model import Snapshot
from penstock.observation.facts import Facts, Seen, or_zero

CORE = "CORE"
"""The protocol of which each acknowledgement that is rolled back counts as attempted."""


@dataclass(frozen=True, slots=True)
class GivenBack(RowState):
    """Per queue. given_back: at least so many; from_rows: the part that consumers had buffered when they went.

    attempted: attempts that neither settled a message nor are open, at the last polls; attempted0: when these were
    compared first, less what was given back before. paged: the broker attempts less for messages of page files. vague:
    a consumer went, is not of Core or beyond the budget, or nobody looked for a time: there may be more.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    given_back: Column = counter(0.0, outlives=True)
    from_rows: Column = counter(0.0, outlives=True)
    paged: Column = counter(0.0, outlives=True)
    vague: Column = counter(0.0, outlives=True)
    attempted: NDArray[np.float64] = column(lines=3, saved=False)
    attempted0: Column = column(saved=False)

    def advance(
        self, found: Facts, snapshot: Snapshot, last: Seen, books: QueueBooks, moves: Moves, *, watched: bool
    ) -> "GivenBack":
        """last: as seen at the poll before. moves: of this poll. watched: as of `QueueBooks.advance`."""
        before = self.reindexed(found.queues)
        left = found.settled + found.expired + found.killed
        hidden = any(one.what == "consumers" for one in snapshot.observation.left_out)  # who is not listed is not gone
        now = attempted_in_vain(found, snapshot, books) - found.killed - np.fmax(or_zero(books.unheld[-1]), 0.0)
        now = now + (np.nan if hidden else 0.0)
        still = (now == before.attempted[2]) & (found.d_settled == 0)
        begins = np.isnan(before.attempted0) | found.set_back
        older = books.since < found.now  # than this poll: what was given back meanwhile is not known
        fresh = ~found.set_back & ~older & watched
        attempted0 = np.where(begins, np.where(fresh, 0.0 * now, now) - before.given_back, before.attempted0)
        # It may have begun with attempts that were ahead of what they settled.
        attempted0 = np.where(still, np.fmin(attempted0, now - before.given_back), attempted0)
        attempted = np.vstack([before.attempted[1:], now])
        ahead = meanwhile(found, snapshot, or_zero(found.d_settled), "queues", "sizes")
        surely = np.where(still, now, np.min(attempted, axis=0) - ahead) - attempted0
        # Fewer attempts than messages that left: some of them were in page files.
        paged = np.where((found.address.paging > 0) | (still & (found.attempts < left)), 1.0, before.paged)
        went, held = left_by(found, last)
        rows = np.fmax(held - np.fmax(moves.unseen[-1] - moves.unseen[-3], 0.0) - or_zero(found.d_expired), 0.0)
        from_rows = before.from_rows + np.where(found.known & (not hidden), rows, 0.0)
        others = found.consumer.index.column("not_core", lambda row: row.protocol != CORE)
        return GivenBack(
            index=found.queues,
            given_back=np.fmax(before.given_back, np.fmax(from_rows, np.where(paged > 0, 0.0, or_zero(surely)))),
            from_rows=from_rows,
            paged=paged,
            vague=np.where(went | hidden | (begins & older) | (found.of_queue(others) > 0), 1.0, before.vague),
            attempted=attempted,
            attempted0=attempted0,
        )

    def pages(self, found: Facts) -> Mask:
        """Queues that have paged, so that the broker attempts less than it settles."""
        pages: Mask = (self.reindexed(found.queues).paged > 0) | (found.address.paging > 0)
        return pages

    @property
    def most(self) -> Column:
        """Infinite where no most is known."""
        high = np.fmax(self.attempted[2] - self.attempted0, self.given_back)
        return np.where((self.paged > 0) | (self.vague > 0) | np.isnan(self.attempted[2]), np.inf, high)
