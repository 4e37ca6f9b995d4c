"""Messages in delivery to no listed consumer: of prepared transactions, of a link, or of no known holder.

They count at four polls, if they are more than come between the reads of consumers and queues.
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
    counted: Matrix = column(lines=2, saved=False)
    """(polls, queues) Messages of prepared transactions, at the last polls."""
    sure: Matrix = column(lines=2, saved=False)
    """(polls, queues) Those that no consumer has taken."""
    unlisted: Matrix = column(lines=4, saved=False)
    """(polls, queues) Consumers that are not listed."""
    links: Matrix = column(lines=2, saved=False)
    """(2, queues) Messages in delivery to a link, at least and at most; NaN where consumers are beyond the budget."""
    rest: Matrix = column(lines=2, saved=False)
    """(2, queues) The same for messages with no known holder."""
    since: Mapping[str, float] = unindexed(dict)
    """When each prepared transaction was seen first, by its Xid and the broker's clock.

    The broker's own time of a transaction is that of its last start.
    """
    read: bool = unindexed(bool)
    """Whether transactions were read at this poll."""

    def advance(self, facts: Facts, snapshot: Snapshot, books: QueueBooks) -> "InDoubt":
        before = self.reindexed(facts.queues)
        transactions = before.with_transactions(facts, snapshot, books)
        sure = transactions.with_sure(facts, snapshot)
        return sure.with_holders(facts, snapshot, books)

    def with_transactions(
        self, facts: Facts, snapshot: Snapshot, books: QueueBooks
    ) -> "InDoubt":
        """Return the state with the messages of prepared transactions at this poll, NaN where they were not read."""
        queues = snapshot.queues
        assert queues is not None  # noqa: S101 - facts are made of them
        transactions = read(snapshot, snapshot.transactions, "transactions")
        if transactions is None:
            not_read = np.full(len(queues), np.nan)
            return replace(self, counted=shifted(self.counted, not_read), read=False)
        ids = [row.id for row in transactions.index]
        since = {xid: self.since.get(xid, facts.now) for xid in ids}
        counted = np.zeros(len(queues))
        if since.keys() & self.since.keys():
            # One was seen twice. None has messages where all that is in delivery is with consumers.
            is_unheld = books.unheld[-1] > 0
            counted = np.where(is_unheld, queues["in_doubt"], 0.0)
        return replace(
            self,
            counted=shifted(self.counted, counted),
            since=since,
            read=True,
        )

    def with_sure(self, facts: Facts, snapshot: Snapshot) -> "InDoubt":
        """Return the state with the messages that no consumer can have taken, and with unlisted consumers."""
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
        """Return the state with the other messages in delivery: those of links, and those with no known holder."""
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
        none = 0.0 * rest
        return replace(
            self,
            links=put(none, is_linked, rest),
            rest=put(rest, is_linked, none),
        )

    @property
    def bounds(self) -> tuple[Column, Column]:
        """(queues,) Messages in doubt at least and at most; NaN: it is not known how many at most."""
        return or_zero(self.sure).min(axis=0), self.counted.min(axis=0)


def hidden_consumers(facts: Facts, snapshot: Snapshot) -> Mask:
    """(queues,) True where consumers are not listed: they may have any message that the listed ones have not."""
    has_unlisted = facts.consumers > facts.listed
    return has_unlisted & hides_consumers(snapshot)


def least_unheld(facts: Facts, snapshot: Snapshot, books: QueueBooks) -> Column:
    """(queues,) Messages in delivery to no listed consumer at four polls, if more than come between two reads."""
    is_unknown = np.isnan(books.unheld).any(axis=0)
    lowest = np.fmax(books.unheld.min(axis=0), 0.0)
    least = put(lowest, is_unknown, 0.0)
    moved = np.fmax(np.fmax(facts.d_added, facts.d_settled), facts.d_delivered)
    noise = meanwhile(facts, snapshot, moved, "consumers", "queues")
    return np.where(least > noise, least, 0.0)
