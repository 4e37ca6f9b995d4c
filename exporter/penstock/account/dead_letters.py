"""What was killed: dead-lettered, or purged by an operator; a dead letter raises R of the dead-letter address.

Others may send there, too: what has one explanation only is booked. R is read before the queues' X, so that a dead
letter is never seen to arrive before it is killed.
"""

from dataclasses import dataclass, replace

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
    """Per address, when its dead letters were last booked: what had arrived, and what of it was no dead letter. fed:
    others send there, too.
    """

    arrived: Column = column(saved=False)
    others: Column = column(saved=False)
    fed: Mask = mask(saved=False)


@dataclass(frozen=True, slots=True)
class DeadLetters(RowState):
    """Per queue. dead, purged: at least so many of the killed; each of the others is one of the two. placeless: what
    has had its last attempt is gone: no dead-letter address is set, or it has no queue. killed0: X when this was last
    booked. idle: no consumer could have had a last attempt, nor one that no poll lists.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    dead: Column = counter(0.0, outlives=True)
    purged: Column = counter(0.0, outlives=True)
    killed0: Column = column(saved=False)
    placeless: Mask = mask(saved=False)
    idle: Mask = mask(saved=False)
    booked: Booked = unindexed(Booked)

    def advance(
        self, found: Facts, has_address: Column, books: QueueBooks, last: Visits, visits: Visits,
        *, watched: bool, unlisted: bool,
    ) -> "DeadLetters":  # fmt: skip
        """has_address: of each queue; NaN: not read. last: of the poll before. watched, unlisted: as of `QueueBooks`
        and `RingLosses`.
        """
        before = self.reindexed(found.queues)
        killed = books.killed
        killed0 = put(
            before.killed0, np.isnan(before.killed0), 0.0 if watched else killed
        )
        at = np.where(
            np.append(visits.has_queue, np.False_)[visits.targets.dead],
            visits.targets.dead,
            -1,
        )
        grew = np.fmax(or_zero(killed - killed0), 0.0)
        idle = (
            (found.consumers == 0)
            & (found.delivering == 0)
            & ~movers(found)
            & (not unlisted)
        )
        placeless = (at < 0) & (has_address >= 0)
        surely = placeless & (
            (found.address.max_delivery_attempts <= 0) | (idle & before.idle)
        )
        rests = visits.arrived == last.reindexed(visits.index).arrived
        rests &= sum_by(at, or_zero(found.d_killed), len(rests)) == 0
        dead, purged, closed, booked = split(
            grew, at, self.booked.reindexed(visits.index), visits, rests
        )
        return DeadLetters(
            index=found.queues,
            dead=before.dead + dead,
            purged=before.purged + np.where(surely, grew, purged),
            killed0=np.where(closed, killed, killed0 + dead),
            placeless=placeless,
            idle=idle,
            booked=booked,
        )

    def begun_anew(self) -> "DeadLetters":
        return replace(super(DeadLetters, self).begun_anew(), booked=Booked())

    def unsure(self, queues: Index[QueueRow]) -> "DeadLetters":
        """By the rows of `queues`, after a time in which not all that came and went was seen."""
        return replace(self.reindexed(queues), idle=np.zeros(len(queues), np.bool_))


def split(
    grew: Column, at: Positions, booked: Booked, visits: Visits, rests: Mask
) -> tuple[Column, Column, Mask, Booked]:
    """Of each queue, of what was killed and not booked (`grew`): dead letters and purged for sure, and whether no more
    can be said of it. at: the dead-letter address; rests: addresses at which nothing moves.
    """
    unknown = visits.begins | (np.isnan(booked.arrived) & ~visits.new)
    arrived0, others0 = (
        np.where(visits.new, 0.0, one) for one in (booked.arrived, booked.others)
    )
    total = sum_by(at, grew, len(rests))
    rose = np.where(
        unknown, np.nan, visits.arrived - arrived0 - (visits.others - others0)
    )
    fed = booked.fed | (rose > total)
    # What is less than was killed may be from others, once they are known to send there.
    sure = ~fed | (rose == total) | (rose <= 0)
    most = np.clip(rose, 0.0, total)
    least = np.where(sure, or_zero(most), 0.0)
    closed = (rose == total) | rests | np.isnan(rose)
    least = np.append(least, 0.0)[at]
    most = np.append(most, np.nan)[at]
    total_of = np.append(total, 0.0)[at]
    dead = np.where(at < 0, 0.0, np.fmax(least - (total_of - grew), 0.0))
    done = np.append(closed, np.True_)[at]
    purged = np.where(done, np.fmax(or_zero(grew - most), 0.0), 0.0)
    arrived = np.where(closed, visits.arrived, arrived0 + sum_by(at, dead, len(rests)))
    booked = replace(
        booked,
        arrived=arrived,
        others=np.where(closed, visits.others, others0),
        fed=fed,
    )
    return dead, purged, done, booked
