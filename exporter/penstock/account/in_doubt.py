"""Messages in delivery to no listed consumer (`QueueBooks.unheld`), by what may hold them.

- *In doubt* are messages that a prepared transaction (XA) holds: its client is gone or waits for its coordinator, and
  only a commit or a rollback of the transaction frees them.
- A link to another broker of the cluster holds messages as a consumer that is not listed.
- The rest has no known holder.

The reads of consumers and queues are apart, so unheld messages count at the least of four polls, and only if they are
more than may have moved between these reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.account.last_polls import shifted
from penstock.account.queue_books import QueueBooks
from penstock.account.reading import hides_consumers, meanwhile, read
from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Mask, Matrix, put
from penstock.model import Snapshot
from penstock.observation.facts import Facts, or_zero


@dataclass(frozen=True, slots=True)
class InDoubt(RowState):
    """The unheld messages of each queue, by what may hold them."""

    counted: Matrix = column(lines=2, saved=False)
    """(polls, queues) Messages of prepared transactions at the last polls, by the broker's number."""
    sure: Matrix = column(lines=2, saved=False)
    """(polls, queues) Those that surely no consumer holds: `counted` less what consumers have not committed."""
    unlisted: Matrix = column(lines=4, saved=False)
    """(polls, queues) Consumers that the queue counts and that are not listed."""
    links: Matrix = column(lines=2, saved=False)
    """(2, queues) Messages in delivery to a link, at least and at most; NaN where consumers are beyond the budget."""
    rest: Matrix = column(lines=2, saved=False)
    """(2, queues) Messages with no known holder, at least and at most; NaN likewise."""
    since: Mapping[str, float] = unindexed(dict)
    """When each prepared transaction was seen first, by its Xid and the broker's clock.

    The broker's own time of a transaction is that of its last start.
    """
    read: bool = unindexed(bool)
    """Whether transactions were read at this poll."""

    def advance(self, facts: Facts, snapshot: Snapshot, books: QueueBooks) -> "InDoubt":
        """Return the state after one more poll: `bounds` of this poll first, as the other holders get what is left."""
        before = self.reindexed(facts.queues)
        transactions = before.with_transactions(facts, snapshot, books)
        sure = transactions.with_sure(facts, snapshot)
        return sure.with_holders(facts, snapshot, books)

    def with_transactions(
        self, facts: Facts, snapshot: Snapshot, books: QueueBooks
    ) -> "InDoubt":
        """Return the state with the messages of prepared transactions at this poll, NaN where they were not read.

        They count only if a transaction was there at the poll before, too: most are prepared and committed at once.
        """
        queues = snapshot.queues
        assert queues is not None  # noqa: S101 - facts are made of them
        transactions = read(snapshot, snapshot.transactions, "transactions")
        if transactions is None:
            not_read = np.full(len(queues), np.nan)
            return replace(self, counted=shifted(self.counted, not_read), read=False)
        ids = [row.id for row in transactions.index]
        since = {xid: self.since.get(xid, facts.now) for xid in ids}
        counted = np.zeros(len(queues))
        is_one_seen_twice = bool(since.keys() & self.since.keys())
        if is_one_seen_twice:
            # Where all that is in delivery is with consumers, no transaction holds any.
            has_unheld = books.unheld[-1] > 0
            counted = np.where(has_unheld, queues["in_doubt"], 0.0)
        return replace(
            self,
            counted=shifted(self.counted, counted),
            since=since,
            read=True,
        )

    def with_sure(self, facts: Facts, snapshot: Snapshot) -> "InDoubt":
        """Return the state with the messages in doubt that no consumer can hold, and with unlisted consumers.

        All that consumers have not committed may be in the prepared transactions; where consumers are hidden, all may.
        """
        not_taken = np.fmax(self.counted[-1] - facts.uncommitted, 0.0)
        sure = put(not_taken, hidden_consumers(facts, snapshot), 0.0)
        unlisted = facts.consumers - facts.listed
        return replace(
            self,
            sure=shifted(self.sure, sure),
            unlisted=shifted(self.unlisted, unlisted),
        )

    def with_holders(
        self, facts: Facts, snapshot: Snapshot, books: QueueBooks
    ) -> "InDoubt":
        """Return the state with the other unheld messages: those of links, or those with no known holder.

        At least: what is unheld at four polls, less the most that is in doubt. At most: what is unheld now, less the
        least that is in doubt. A queue with an unlisted consumer at both polls has a link, which then holds them all.
        """
        low, high = self.bounds
        least = least_unheld(facts, snapshot, books)
        unheld = books.unheld[-1]
        rest = np.stack(
            [
                np.fmax(least - high, 0.0),
                np.fmax(unheld - or_zero(low), 0.0),
            ]
        )
        is_linked = (self.unlisted > 0).all(axis=0)
        rest[:, hidden_consumers(facts, snapshot)] = np.nan
        none = 0.0 * rest  # 0, and NaN where `rest` is NaN
        return replace(
            self,
            links=put(none, is_linked, rest),
            rest=put(rest, is_linked, none),
        )

    @property
    def bounds(self) -> tuple[Column, Column]:
        """(queues,) Messages in doubt at least and at most: the lower number of the last two polls.

        The most is NaN where transactions were not read at both.
        """
        return or_zero(self.sure).min(axis=0), self.counted.min(axis=0)


def hidden_consumers(facts: Facts, snapshot: Snapshot) -> Mask:
    """(queues,) True where the budget hides consumers: these may hold any message that the listed ones do not."""
    has_unlisted = facts.consumers > facts.listed
    return has_unlisted & hides_consumers(snapshot)


def least_unheld(facts: Facts, snapshot: Snapshot, books: QueueBooks) -> Column:
    """(queues,) Messages that are unheld at all of the last four polls; 0 before there are four.

    They are 0, too, where so few may have moved between the reads of consumers and queues.
    """
    is_unknown = np.isnan(books.unheld).any(axis=0)
    lowest = np.fmax(books.unheld.min(axis=0), 0.0)
    least = put(lowest, is_unknown, 0.0)
    moved = np.fmax(np.fmax(facts.d_added, facts.d_settled), facts.d_delivered)
    noise = meanwhile(facts, snapshot, moved, "consumers", "queues")
    return np.where(least > noise, least, 0.0)
