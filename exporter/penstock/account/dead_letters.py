"""Messages that were killed (X): dead-lettered, or purged by an operator.

A *dead letter* is a message that failed its last delivery attempt and was sent to the queue's dead-letter address: it
raises R there, a purged message does not. Of the queues of one dead-letter address together:

    purged = killed - (arrived at the address - sent there by others)

Only a message that has one explanation is *booked* as the one or the other; the rest waits for the next poll. R is read
before the queues' X, so that a dead letter is never seen to arrive before it is killed.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.account.visits import Visits, movers
from penstock.core.state import By, RowState, column, counter, mask, unindexed
from penstock.core.table import Column, Index, Mask, Positions, put
from penstock.model import QueueRow
from penstock.observation.facts import Facts, or_zero
from penstock.series.labels import sum_by


@dataclass(frozen=True, slots=True)
class Booked(RowState):
    """The dead-letter addresses when their dead letters were last booked."""

    arrived: Column = column(saved=False)
    """(addresses,) Messages that had arrived by then: those of all booked dead letters, and of others."""
    others: Column = column(saved=False)
    """(addresses,) Those of them that were no dead letters."""
    fed: Mask = mask(saved=False)
    """(addresses,) True where others were once seen to send there, too."""


@dataclass(frozen=True, slots=True)
class DeadLetters(RowState):
    """The killed messages of each queue: dead letters and purged ones, as far as booked."""

    BY = By.QUEUE
    STORED_AS = "account_"
    dead: Column = counter(0.0, outlives=True)
    """(queues,) Killed messages that are dead letters, at least."""
    purged: Column = counter(0.0, outlives=True)
    """(queues,) Killed messages that were purged, at least; each of the others is one of the two."""
    killed0: Column = column(saved=False)
    """(queues,) X without the messages that are not booked yet."""
    placeless: Mask = mask(saved=False)
    """(queues,) True where a message that had its last attempt is lost: no dead-letter address is set, or it has no
    queue."""
    idle: Mask = mask(saved=False)
    """(queues,) True where no consumer, listed or not, could have had a last attempt."""
    booked: Booked = unindexed(Booked)

    def advance(
        self,
        facts: Facts,
        has_address: Column,
        books: QueueBooks,
        last: Visits,
        visits: Visits,
        *,
        watched: bool,
        unlisted: bool,
    ) -> "DeadLetters":
        """Return the state after one more poll: all killed messages that are not booked yet are taken apart.

        Args:
            facts: of this poll.
            has_address: (queues,) above 0 where a dead-letter address is set; NaN: not read.
            books: of this poll.
            last: visits of the poll before.
            visits: of this poll.
            watched: as for `QueueBooks.advance`.
            unlisted: as in `RingLosses`.
        """
        before = self.reindexed(facts.queues)
        killed0 = before.killed_before(books.killed, watched=watched)
        grew = np.fmax(or_zero(books.killed - killed0), 0.0)
        targets = targets_with_queue(visits)
        rests = resting_addresses(facts, targets, last, visits)
        parts = split(grew, targets, self.booked.reindexed(visits.index), visits, rests)
        killed_booked = killed0 + parts.dead
        after = replace(
            before,
            dead=before.dead + parts.dead,
            killed0=np.where(parts.is_closed, books.killed, killed_booked),
            placeless=(targets < 0) & (has_address >= 0),
            idle=is_idle(facts) & (not unlisted),
            booked=parts.booked,
        )
        is_purged = after.surely_purges(facts, before.idle)
        purged = np.where(is_purged, grew, parts.purged)
        return replace(after, purged=before.purged + purged)

    def killed_before(self, killed: Column, *, watched: bool) -> Column:
        """(queues,) X without the messages that are not booked yet. killed: (queues,) X now.

        For a queue that was made since the poll before (`watched`) that is 0; for one with an unknown past it is all.
        """
        at_begin = 0.0 if watched else killed
        return put(self.killed0, np.isnan(self.killed0), at_begin)

    def surely_purges(self, facts: Facts, was_idle: Mask) -> Mask:
        """(queues,) True where each killed message was surely purged, though no dead-letter address shows it.

        No message can have had its last attempt: attempts have no limit, or no consumer was there at both polls.
        """
        no_last_attempt = facts.address.max_delivery_attempts <= 0
        return self.placeless & (no_last_attempt | (self.idle & was_idle))

    def begun_anew(self) -> "DeadLetters":
        return replace(super(DeadLetters, self).begun_anew(), booked=Booked())

    def unsure(self, queues: Index[QueueRow]) -> "DeadLetters":
        """Return the state by the rows of `queues`, after a time in which a consumer may have come and gone unseen."""
        return replace(self.reindexed(queues), idle=np.zeros(len(queues), np.bool_))


def targets_with_queue(visits: Visits) -> Positions:
    """(queues,) Position of the dead-letter address, -1 where none is set or it has no queue."""
    addresses = visits.targets.dead
    # The element more at the end is for queues without a dead-letter address: position -1.
    has_queue = np.append(visits.has_queue, np.False_)[addresses]
    return np.where(has_queue, addresses, -1)


def is_idle(facts: Facts) -> Mask:
    """(queues,) True where no consumer was there since the poll before, so that none failed a last attempt.

    A consumer that comes and goes between two polls is not seen here.
    """
    has_none = (facts.consumers == 0) & (facts.delivering == 0)
    return has_none & ~movers(facts)


def resting_addresses(
    facts: Facts, targets: Positions, last: Visits, visits: Visits
) -> Mask:
    """(addresses,) True where nothing arrived at this poll, and no queue killed messages that go there."""
    arrived_before = last.reindexed(visits.index).arrived
    killed_now = sum_by(targets, or_zero(facts.d_killed), len(arrived_before))
    return (visits.arrived == arrived_before) & (killed_now == 0)


class Parts(NamedTuple):
    """Killed messages that were not booked before, taken apart.

    Attributes:
        dead, purged: (queues,) Those that are surely the one or the other.
        is_closed: (queues,) True where no later poll will say more: the rest stays undecided.
        booked: the dead-letter addresses after that.
    """

    dead: Column
    purged: Column
    is_closed: Mask
    booked: Booked


class LetterArrivals(NamedTuple):
    """What happened to each dead-letter address since it was last booked.

    Attributes:
        killed: (addresses,) Messages that were killed in all its queues together.
        rose: (addresses,) Messages that arrived, without those that known others sent; NaN where it is not known.
    """

    killed: Column
    rose: Column

    @classmethod
    def since(cls, booked: Booked, visits: Visits, killed: Column) -> "LetterArrivals":
        """Return the arrivals since `booked`; not known where the counter of an address began again."""
        from_others = visits.others - booked.others
        rose = visits.arrived - booked.arrived - from_others
        return cls(killed, np.where(visits.begins, np.nan, rose))

    @property
    def are_all_dead(self) -> Mask:
        """(addresses,) True where as many arrived as were killed."""
        return np.asarray(self.rose == self.killed)

    @property
    def are_too_many(self) -> Mask:
        """(addresses,) True where more arrived than were killed, so that others send there."""
        return np.asarray(self.rose > self.killed)


def split(
    grew: Column, targets: Positions, booked: Booked, visits: Visits, rests: Mask
) -> Parts:
    """Return dead letters and purged messages among those that were killed and not booked.

    An address is closed where nothing is left to wait for: as many arrived as were killed, nothing moves any more, or
    the arrivals are not known. Before that a killed message may still arrive as a dead letter, so none is purged.

    Args:
        grew: (queues,) killed and not booked.
        targets: (queues,) position of the dead-letter address, -1: none.
        booked: the addresses when they were last booked.
        visits: of this poll.
        rests: (addresses,) True where nothing moves, as `resting_addresses`.
    """
    # A new address begins at 0.
    booked = replace(
        booked,
        arrived=np.where(visits.new, 0.0, booked.arrived),
        others=np.where(visits.new, 0.0, booked.others),
    )
    arrivals = LetterArrivals.since(booked, visits, sum_by(targets, grew, len(rests)))
    is_closed = arrivals.are_all_dead | rests | np.isnan(arrivals.rose)
    booked = replace(booked, fed=booked.fed | arrivals.are_too_many)
    dead = least_dead(grew, targets, arrivals, booked.fed)
    # Queues without a dead-letter address (position -1) are always closed.
    is_closed_queue = np.append(is_closed, np.True_)[targets]
    purged = np.where(is_closed_queue, least_purged(grew, targets, arrivals), 0.0)
    arrived = booked.arrived + sum_by(targets, dead, len(rests))
    after = replace(
        booked,
        arrived=np.where(is_closed, visits.arrived, arrived),
        others=np.where(is_closed, visits.others, booked.others),
    )
    return Parts(dead, purged, is_closed_queue, after)


def least_dead(
    grew: Column, targets: Positions, arrivals: LetterArrivals, fed: Mask
) -> Column:
    """(queues,) Dead letters at least: what arrived, less what other queues of the address killed.

    Once others are known to send there (`fed`), arrivals count only if they are as many as were killed.
    """
    killed, rose = arrivals
    is_sure = ~fed | arrivals.are_all_dead | (rose <= 0)
    arrived = np.where(is_sure, or_zero(np.clip(rose, 0.0, killed)), 0.0)
    # The element more at the end is for queues without a dead-letter address: position -1.
    killed_elsewhere = np.append(killed, 0.0)[targets] - grew
    least = np.append(arrived, 0.0)[targets] - killed_elsewhere
    return np.where(targets < 0, 0.0, np.fmax(least, 0.0))


def least_purged(grew: Column, targets: Positions, arrivals: LetterArrivals) -> Column:
    """(queues,) Purged messages at least: those of the queue that exceed all arrivals at its dead-letter address."""
    most_dead = np.clip(arrivals.rose, 0.0, arrivals.killed)
    most_dead = np.append(most_dead, np.nan)[targets]
    return np.fmax(or_zero(grew - most_dead), 0.0)
