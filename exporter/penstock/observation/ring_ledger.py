"""
The ring-loss ledger: what a queue threw away unread, which no broker counts.

What was added and is neither settled, expired, killed nor there was evicted. Reads are not atomic, and returning
messages are nowhere for a moment: so a sum counts when it was seen twice, and what is published never falls.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.state import By, RowState, column, counter, mask
from penstock.core.table import Column
from penstock.core.windows import Mask
from penstock.observation.facts import Facts, or_zero

PATIENCE = 60.0
"""Seconds without a usable sighting after which the smallest of the last three counts."""


@dataclass(frozen=True, slots=True)
class Ledger(RowState):
    """
    Per queue, messages since the broker's start. evicted: published, NaN until seen twice and where it cannot be known.

    raw: the running sum as sighted at the last polls, newest last. by_consumers: the part that followed a consumer's
    close or rollback. grew: what evicted rose by at this poll.
    """

    BY = By.QUEUE
    STORED_AS = "ledger_"
    raw: NDArray[np.float64] = column(lines=3)
    usable: Mask = mask()
    usable_at: Column = column()
    evicted: Column = counter()
    by_consumers: Column = counter()
    grew: Column = column(carried=False)
    lost_now: Column = column(carried=False)
    """Of `grew`, the part that followed a consumer's close or rollback."""
    lost_last: Column = column()
    """The same of the last poll at which there was any, NaN while there was none."""
    balance: Column = column()
    routed: Column = column()
    """By how much more the address routed than the queue added, the most so far."""
    returning: Mask = mask()
    d_added: Column = column()
    """Added in the polls that `evicted` does not cover yet; d_due: fallen due."""
    d_due: Column = column()
    set_back: Mask = mask(outlives=True)
    """An operator has set a counter back: nothing can be known until the broker's next start."""
    delivering: Column = column()
    delivering_before: Column = column()

    def advance(self, facts: Facts) -> "Ledger":
        before = self.reindexed(facts.queues, facts.known)
        balance = ledger_by_queue(facts)
        routed = routed_beyond(facts)
        raw = before.raw[2] + increment(facts, before, balance, routed)
        raw = np.where(np.isnan(raw), balance, raw)
        returning = facts.d_left > facts.d_settled + facts.d_expired + facts.d_killed + 3
        usable = ~returning & ~before.returning & ledgered(facts) & facts.counted
        overdue = facts.now - before.usable_at > PATIENCE
        smallest = np.fmin(np.fmin(before.raw[1], before.raw[2]), raw)
        twice = np.where(before.usable & usable, np.fmin(before.raw[2], raw), np.where(overdue, smallest, np.nan))
        twice = np.fmax(twice, np.where(outgrown(facts, before, raw), before.raw[2], np.nan))
        twice = np.where(ledgered(facts) & facts.known, twice, np.nan)
        set_back = before.set_back | facts.set_back
        evicted = np.where(set_back | facts.keeps, np.nan, np.fmax(before.evicted, np.where(twice >= 0, twice, np.nan)))
        grew = np.where(np.isnan(before.evicted), 0.0, or_zero(evicted - before.evicted))
        covered = ~np.isnan(twice) | ~facts.known
        consumers = lost_by_consumer(grew, before)
        return Ledger(
            index=facts.queues,
            raw=np.stack([before.raw[1], before.raw[2], raw]),
            usable=usable,
            usable_at=np.where(usable | np.isnan(before.usable_at), facts.now, before.usable_at),
            evicted=evicted,
            by_consumers=np.where(np.isnan(evicted), np.nan, or_zero(before.by_consumers) + consumers),
            grew=grew,
            lost_now=consumers,
            lost_last=np.where(consumers > 0, consumers, before.lost_last),
            balance=balance,
            routed=np.fmax(before.routed, routed),
            returning=returning,
            d_added=or_zero(facts.d_added) + np.where(covered, 0.0, or_zero(before.d_added)),
            d_due=np.fmax(-facts.d_scheduled, 0.0) + np.where(covered, 0.0, or_zero(before.d_due)),
            set_back=set_back,
            delivering=facts.delivering,
            delivering_before=before.delivering,
        )


def ledgered(facts: Facts) -> Mask:
    """Queues that may throw messages away to keep a limit."""
    return (~np.isnan(facts.ring) | (facts.last_value > 0)) & ~facts.keeps


def ledger_by_queue(facts: Facts) -> Column:
    """R1 = A - K - E - X - M; a last-value queue does not count those in delivery in M."""
    delivering = np.where(facts.last_value > 0, facts.delivering, 0.0)
    return facts.added - facts.settled - facts.expired - facts.killed - facts.messages - delivering


def routed_beyond(facts: Facts) -> Column:
    """What the address routed and the queue, its only one, did not add: among others what expired on arrival."""
    return np.where(facts.address.queues == 1, facts.address.routed - facts.added, np.nan)


def increment(facts: Facts, before: Ledger, balance: Column, routed: Column) -> Column:
    """
    What the sum rose by since the poll before.

    A message that expired on arrival is in E and not in A, but in what the address routed. That is read earlier, so it
    may lag: only a new most counts, and what it rises by while nothing expires is lag caught up. Without it only what
    is certain counts: a fall takes back no more than what was sighted once.
    """
    by_queue = balance - before.balance
    late = np.clip(routed - before.routed, 0.0, np.fmax(facts.d_expired, 0.0))
    least = np.fmin(before.evicted - before.raw[2], 0.0)
    floor = np.where(facts.d_expired > 0, np.fmax(by_queue, least), by_queue)
    return np.where(np.isnan(late), floor, by_queue + late)


def outgrown(facts: Facts, before: Ledger, raw: Column) -> Mask:
    """
    Where the sum has grown beyond all that can be on its way back: the sighting before is then certain.

    At most what is delivered can be nowhere for a moment; twice what was seen in delivery at these polls allows for
    what was in between. Without this nothing counts for a minute under heavy traffic with steady rollbacks.
    """
    delivering = np.fmax(np.fmax(facts.delivering, facts.held), np.fmax(before.delivering, before.delivering_before))
    return raw - before.raw[2] >= 2 * or_zero(delivering) + 3


def lost_by_consumer(grew: Column, before: Ledger) -> Column:
    """
    The part of a growth that arrivals and due messages cannot explain: returned by consumers that went or rolled back.

    The sum is seen twice and so lags one poll: it is held against the arrivals up to the poll before.
    """
    explained = or_zero(before.d_added) + or_zero(before.d_due) + 3
    was_delivering = (before.delivering > 0) | (before.delivering_before > 0)
    return np.where(was_delivering & (grew > explained), grew - explained + 3, 0.0)
