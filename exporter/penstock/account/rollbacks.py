"""What producers sent in transactions and rolled back. R counts it at once and for good, A only what is committed.

What queues lack is rolled back or open; no more open where no producer could commit it, none is prepared and nothing
comes for a while, as a session may outlive its producer (JmsTemplate). A single producer has decided all that it sent
before its last commit. An exclusive divert looks alike, but brings as many messages to another address.
"""

from dataclasses import dataclass

import numpy as np

from penstock.account.address_books import AddressBooks, Missing, with_siblings
from penstock.account.duplicates import Sent
from penstock.account.reading import anonymous, read
from penstock.account.visits import Visits
from penstock.core.state import By, RowState, column, counter
from penstock.core.table import Column, take_or_fill
from penstock.model import Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero

LEFT_ALONE = 3
QUIET = 30.0
"""After so many polls, and seconds, without a producer and without an arrival all transactions are over."""


@dataclass(frozen=True, slots=True)
class Rollbacks(RowState):
    """Per queue, of its address. rolled_back: at least so many; before: of them, until it was compared first. missing,
    came: the least that queues lack, and what came to them, at the last poll; diverted: at most so many of it.
    alone: polls without a producer and without an arrival; since: when the first of them was.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    rolled_back: Column = counter(0.0, outlives=True)
    before: Column = column(saved=False)
    missing: Column = column(0.0, saved=False)
    came: Column = column(saved=False)
    diverted: Column = column(0.0, saved=False)
    alone: Column = column(0.0, saved=False)
    since: Column = column(saved=False)

    def advance(
        self, found: Facts, snapshot: Snapshot, join: AddressJoin, arrivals: AddressBooks, sent: Sent, visits: Visits
    ) -> "Rollbacks":
        """All of this poll."""
        last, producers = with_siblings(self, join), snapshot.producers
        if producers is None or arrivals.addresses is not visits.index or not len(visits.index):
            return last
        plain = (arrivals.policy == Missing.UNCOMMITTED) & (arrivals.unfiltered > 0)
        missing = np.where(plain, np.fmax(or_zero(arrivals.least) - or_zero(arrivals.booked), 0.0), 0.0)
        begins = arrivals.begins | np.isnan(last.before)
        before = np.where(begins, last.rolled_back, last.before)
        grew = np.where(begins, missing, missing - last.missing)
        strange = visits.grew.sum(axis=0)
        own = take_or_fill(strange, join.at, 0.0, join.unknown)
        diverted = np.fmin(last.diverted + np.clip(grew, 0.0, strange.sum() - own), missing)
        at = visits.index.positions(sent.address)
        count = np.bincount(at[at >= 0], minlength=len(visits.index)).astype(np.float64)
        senders = take_or_fill(count + (2.0 if anonymous(producers).any() else 0.0), join.at, np.nan, join.unknown)
        # A prepared transaction outlives its producer, and names no address.
        prepared = read(snapshot, snapshot.transactions, "transactions")
        over = prepared is not None and not len(prepared)
        alone = np.where((senders == 0) & over & (arrivals.still | (last.alone == 0)), last.alone + 1, 0.0)
        since = np.where(alone > 1, last.since, found.now)
        came = join.of_all_queues(or_zero(arrivals.came))
        decided = np.where(
            over & (senders == 1) & (own == 0) & (came > last.came) & ~begins, last.missing - (came - last.came), 0.0
        )
        over_by_now = (alone >= LEFT_ALONE) & (found.now - since >= QUIET)
        surely = np.where(over_by_now, missing, np.fmin(decided, missing)) - diverted
        return Rollbacks(
            index=found.queues,
            rolled_back=np.fmax(last.rolled_back, before + np.fmax(surely, 0.0)),
            before=before,
            missing=missing,
            came=came,
            diverted=diverted,
            alone=alone,
            since=since,
        )
