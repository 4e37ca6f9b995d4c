"""Messages that came to addresses: from listed producers, as expired messages and dead letters, or from strangers.

A *visit* is one message that came to an address, whoever sent it. The broker counts all visits of an address in R. Of
these the account knows what listed producers sent, and what queues expired or killed whose expiry or dead-letter
address this is. The rest is from *strangers*: producers that no poll has listed, diverts, or an operator who moved it:

    strange = R - sent - expired into it - dead letters
"""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.account.address_books import came_to_address
from penstock.account.last_polls import shifted
from penstock.account.queue_books import QueueBooks
from penstock.account.wildcards import new_rows
from penstock.core.state import RowState, column, unindexed
from penstock.core.table import (
    Column,
    Index,
    Mask,
    Matrix,
    Positions,
    Table,
    take_or_fill,
)
from penstock.model import AddressRow, QueueRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero
from penstock.series.labels import sum_by

WINDOW = 4
"""Polls within which a message that is moved shows both where it left and where it came."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The addresses that dead letters and expired messages of each queue go to.

    dead, expired: (queues,) position of the address, -1 where there is none.
    """

    queues: Index[QueueRow] = field(default_factory=Index.empty)
    addresses: Index[AddressRow] = field(default_factory=Index.empty)
    dead: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    expired: Positions = field(default_factory=lambda: np.empty(0, np.intp))

    def advance(
        self, queues: Index[QueueRow], addresses: Index[AddressRow]
    ) -> "Targets":
        """Return the targets of these queues; only those that are not known yet are looked up by name."""
        if queues is self.queues and addresses is self.addresses:
            return self
        # Where the addresses of the last poll are now; -1 as position of an address takes the last element, -1 again.
        moved_to = np.append(addresses.positions(self.addresses.keys), -1)
        origin = queues.unchanged_in(self.queues)
        dead = take_or_fill(moved_to[self.dead], origin, -1)
        expired = take_or_fill(moved_to[self.expired], origin, -1)
        has_dead = queues.column("has_dead", has_dead_letter_address) > 0
        has_expiry = queues.column("has_expiry", has_expiry_address) > 0
        sought_dead = np.flatnonzero(has_dead & (dead < 0))
        sought_expired = np.flatnonzero(has_expiry & (expired < 0))
        if len(sought_dead) or len(sought_expired):
            by_name = {row.name: position for position, row in enumerate(addresses)}
            dead[sought_dead] = [
                by_name.get(row.dead_letter_address, -1)
                for row in queues.rows[sought_dead]
            ]
            expired[sought_expired] = [
                by_name.get(row.expiry_address, -1)
                for row in queues.rows[sought_expired]
            ]
        return Targets(queues, addresses, dead, expired)


def has_dead_letter_address(row: QueueRow) -> bool:
    return bool(row.dead_letter_address)


def has_expiry_address(row: QueueRow) -> bool:
    return bool(row.expiry_address)


@dataclass(frozen=True, slots=True)
class Visits(RowState):
    """Messages that came to each address in all; all columns are by address."""

    arrived: Column = column(saved=False)
    """R; where a full address refuses messages, what came to its queues: R counts a dead letter at each attempt."""
    sent: Column = column(0.0, saved=False)
    """Sent by listed producers."""
    others: Column = column(saved=False)
    """Sent by listed producers, or expired into it."""
    strange: Column = column(saved=False)
    """From strangers, in all: the highest number so far."""
    grew: Matrix = column(0.0, lines=WINDOW, saved=False)
    """(polls, addresses) By how much `strange` grew."""
    begins: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    """True where its counter fell or is polled first, so that there is nothing to compare it with."""
    new: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    """True where the address was made since the poll before."""
    has_queue: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    takes_moves: Mask = column(saved=False, dtype=np.bool_, fill=0.0)
    """True where messages can be moved to it.

    It has a queue, had one at the poll before, or a queue of a wildcard gets what is sent to it.
    """
    targets: Targets = unindexed(Targets)

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        books: QueueBooks,
        sent: Column,
        to_wildcard: Mask,
        *,
        watched: bool,
    ) -> "Visits":
        """Return the visits after one more poll, but for those of strangers: `with_strangers` needs the dead letters.

        Args:
            facts: of this poll.
            snapshot: of this poll.
            join: of this poll.
            books: of this poll.
            sent: (addresses,) messages that listed producers sent since the poll before; empty where not read.
            to_wildcard: (addresses,) True where a queue of a wildcard gets what is sent to it.
            watched: as for `QueueBooks.advance`.
        """
        addresses = snapshot.addresses
        assert addresses is not None  # noqa: S101 - the caller has looked
        before = self.reindexed(addresses.index)
        size = len(addresses)
        targets = self.targets.advance(facts.queues, addresses.index)
        expired = sum_by(targets.expired, or_zero(books.expired), size)
        total = before.sent + sent if len(sent) else before.sent
        # The element more at the end is for queues whose address is not listed: position -1.
        has_queue = np.zeros(size + 1, np.bool_)
        has_queue[join.at] = True
        has_queue = has_queue[:-1]
        is_new = new_rows(addresses.index, self.index) & watched
        arrived = arrived_at(addresses, facts.queues, join, books)
        # False, too, where one of the two is missing.
        went_on = arrived >= before.arrived
        after = replace(
            before,
            arrived=arrived,
            begins=~is_new & ~went_on,
            new=is_new,
            targets=targets,
        )
        return replace(
            after,
            sent=total,
            others=total + expired,
            has_queue=has_queue,
            takes_moves=has_queue | before.has_queue | to_wildcard,
        )

    @property
    def may_have_moved(self) -> Matrix:
        """(polls, addresses) Messages of strangers that an operator may have moved to the address.

        None can be moved to an address that no queue reads: what comes there is from a divert.
        """
        return np.where(self.takes_moves, self.grew, 0.0)

    def with_strangers(self, dead: Column) -> "Visits":
        """Return the visits with the messages that came from strangers: what no known sender explains.

        Senders are read later than addresses and may be ahead, so only what exceeds the highest number so far is new.
        An address that is polled first starts at the number of this poll; one that was just made starts at 0.

        dead: (queues,) dead letters in all, at least.
        """
        letters = sum_by(self.targets.dead, dead, len(self.index))
        strange = self.arrived - self.others - letters
        starts = self.begins | np.isnan(self.strange)
        highest = np.where(starts, strange, self.strange)
        highest = np.where(self.new, 0.0, highest)
        grew = np.fmax(or_zero(strange - highest), 0.0)
        return replace(
            self,
            strange=np.fmax(highest, strange),
            grew=shifted(self.grew, grew),
        )


def arrived_at(
    addresses: Table[AddressRow],
    queues: Index[QueueRow],
    join: AddressJoin,
    books: QueueBooks,
) -> Column:
    """(addresses,) Messages that arrived: R, or the most that came to the queues of an address that refuses.

    An address that refuses when it is full counts a dead letter in R again at each attempt to send it there.
    """
    routed = addresses["messages_added"]
    refuses = addresses.index.column("refuses", is_refusing) > 0
    if not refuses.any():
        return routed
    _, most = came_to_address(join, queues, books.came)
    # The element more at the end is for queues whose address is not listed: position -1.
    to_queues = np.full(len(addresses) + 1, np.nan)
    to_queues[join.at] = most
    return np.where(refuses, to_queues[:-1], routed)


def is_refusing(row: AddressRow) -> bool:
    return row.policy == "fail"


def movers(facts: Facts) -> Mask:
    """(queues,) True where a consumer joined or left since the poll before."""
    has_changed = facts.came.copy()
    left = facts.consumer.gone.queue
    has_changed[left[left >= 0]] = True
    return has_changed
