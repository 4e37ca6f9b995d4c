"""What is in delivery to no listed consumer: in doubt (prepared transactions), sent by a link, or by none known.

It counts at four polls, if it is more than comes between the reads of consumers and queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.account.reading import hides_consumers, meanwhile, read
from penstock.core.state import RowState, column, unindexed
from penstock.core.table import Column, Matrix, put
from penstock.model import Snapshot
from penstock.observation.facts import Facts, or_zero


@dataclass(frozen=True, slots=True)
class InDoubt(RowState):
    """Per queue. counted: messages of prepared transactions, at the last polls. sure: those that no consumer has taken.
    unlisted: consumers that are not listed, at the last polls. links, rest: by a link, and by none known; at least and
    at most; NaN where consumers are beyond the budget. since: first sight of each prepared transaction by its Xid,
    broker's clock, as the broker's own time of one is that of its last start. read: they were, at this poll.
    """

    counted: Matrix = column(lines=2, saved=False)
    sure: Matrix = column(lines=2, saved=False)
    unlisted: Matrix = column(lines=4, saved=False)
    links: Matrix = column(lines=2, saved=False)
    rest: Matrix = column(lines=2, saved=False)
    since: Mapping[str, float] = unindexed(dict)
    read: bool = unindexed(bool)

    def advance(self, found: Facts, snapshot: Snapshot, books: QueueBooks) -> "InDoubt":
        before = self.reindexed(found.queues)
        unheld = books.unheld
        queues = snapshot.queues
        assert queues is not None  # noqa: S101 - facts are made of them
        since = self.since
        transactions = read(snapshot, snapshot.transactions, "transactions")
        counted = np.full(len(queues), np.nan)
        if transactions is not None:
            since = {
                row.id: self.since.get(row.id, found.now) for row in transactions.index
            }
            # None where none was seen twice, or nothing is in delivery beyond what consumers have.
            twice = bool(since.keys() & self.since.keys())
            counted = (
                np.where(unheld[3] > 0, queues["in_doubt"], 0.0)
                if twice
                else np.zeros(len(queues))
            )
        counted = np.vstack([before.counted[1:], counted])
        unlisted = found.consumers - found.listed
        beyond = (unlisted > 0) & hides_consumers(
            snapshot
        )  # they may have any of what the listed ones have not
        sure = np.vstack(
            [
                before.sure[1:],
                put(np.fmax(counted[1] - found.uncommitted, 0.0), beyond, 0.0),
            ]
        )
        unlisted = np.vstack([before.unlisted[1:], unlisted])
        moved = np.fmax(np.fmax(found.d_added, found.d_settled), found.d_delivered)
        noise = meanwhile(found, snapshot, moved, "consumers", "queues")
        least = put(np.fmax(unheld.min(axis=0), 0.0), np.isnan(unheld).any(axis=0), 0.0)
        least = np.where(least > noise, least, 0.0)
        now = replace(
            before,
            counted=counted,
            sure=sure,
            unlisted=unlisted,
            since=since,
            read=transactions is not None,
        )
        low, high = now.bounds
        rest = np.stack(
            [np.fmax(least - high, 0.0), np.fmax(unheld[3] - or_zero(low), 0.0)]
        )
        linked = (unlisted > 0).all(axis=0)
        rest[:, beyond] = np.nan
        return replace(
            now, links=put(0.0 * rest, linked, rest), rest=put(rest, linked, 0.0 * rest)
        )

    @property
    def bounds(self) -> tuple[Column, Column]:
        """In doubt at least and at most; at most NaN: not known."""
        return or_zero(self.sure).min(axis=0), self.counted.min(axis=0)
