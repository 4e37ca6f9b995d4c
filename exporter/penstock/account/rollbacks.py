"""What was routed and reaches no queue for good: rolled back by its producer, or for a reason that is not known.

R counts a message as soon as it is sent, A only when its transaction is committed. So what the queues of an address
lack may be in a transaction that is open, was rolled back, or was never meant to reach them: sent with a routing type
that none of them has, or taken by an exclusive divert. The broker says of none which it is. Two things prove that no
transaction will bring it any more: the only producer has committed something it sent later, or no producer is there,
none is prepared and nothing comes for a while, as a session may outlive its producer (JmsTemplate).

It was rolled back for sure only where the same producer's messages do reach the queues, and it alone sent to the
address since. Where no producer ever committed anything it is `missing`: possibly lost. Else it is one of the two.
"""

from dataclasses import dataclass

import numpy as np

from penstock.account.address_books import AddressBooks, Missing, with_siblings
from penstock.account.duplicates import Duplicates, Sent
from penstock.account.reading import anonymous, read
from penstock.account.visits import Visits
from penstock.core.state import By, RowState, column, counter, mask
from penstock.core.table import Column, Keys, Mask, take_or_fill
from penstock.model import QueueKind, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero

LEFT_ALONE = 3
QUIET = 30.0
"""After so many polls, and seconds, without a producer and without an arrival all transactions are over."""
NO_PRODUCER = -1
"""In place of a producer's key: none has sent to the address since it was compared first."""
SEVERAL = -2
"""In place of a producer's key: more than one did, or one that is not listed."""


@dataclass(frozen=True, slots=True)
class Tenure(RowState):
    """Per queue, of its address: the time in which one producer alone sends to it.

    producer: its key, `NO_PRODUCER` or `SEVERAL`. lacked: messages that the queues lacked at its begin, at most: they
    are of others. rolled_back: how many were rolled back by then. delivers: what it sends reaches the queues. listed:
    some producer was, at the last poll.
    """

    producer: Keys = column(NO_PRODUCER, dtype=np.int64, saved=False)
    lacked: Column = column(0.0, saved=False)
    rolled_back: Column = column(0.0, saved=False)
    delivers: Mask = mask(saved=False)
    listed: Mask = mask(saved=False)

    def advance(
        self,
        join: AddressJoin,
        present: Keys,
        lacked: Column,
        rolled_back: Column,
        arrives: Mask,
        *,
        begins: Mask,
    ) -> "Tenure":
        """present: the producer that is there now, `NO_PRODUCER` or `SEVERAL`. lacked, rolled_back: at the poll before.
        arrives: something came to the queues since then. begins: they are compared first at this poll.
        """
        last = with_siblings(self, join)
        alone = present >= 0
        is_first = alone & (last.producer == NO_PRODUCER)
        replaces_another = (
            alone & (last.producer != NO_PRODUCER) & (present != last.producer)
        )
        starts = begins | is_first | replaces_another
        producer = np.where(
            present == NO_PRODUCER,
            np.where(begins, NO_PRODUCER, last.producer),
            present,
        )
        return Tenure(
            index=last.index,
            producer=producer,
            lacked=np.where(starts, np.where(begins, 0.0, lacked), last.lacked),
            rolled_back=np.where(starts, rolled_back, last.rolled_back),
            delivers=(last.delivers & ~starts) | (alone & arrives & ~begins),
            listed=present != NO_PRODUCER,
        )

    @property
    def known(self) -> Mask:
        """One producer alone has sent since `lacked`, and what it sends reaches the queues."""
        return (self.producer >= 0) & self.delivers


@dataclass(frozen=True, slots=True)
class Rollbacks(RowState):
    """Per queue, of its address. rolled_back, missing: at least so many; before: both together, until its queues were
    compared first. lacking, came, routed: the least that queues lack, what came to them, and R, at the last poll;
    at_most: the most that they lack. diverted: at most so many of it. alone: polls without a producer and without an
    arrival; since: when the first of them was. over: no transaction is open. transacts: producers commit to it.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    rolled_back: Column = counter(0.0, outlives=True)
    missing: Column = counter(0.0, outlives=True)
    before: Column = column(saved=False)
    lacking: Column = column(0.0, saved=False)
    at_most: Column = column(saved=False)
    came: Column = column(saved=False)
    routed: Column = column(saved=False)
    diverted: Column = column(0.0, saved=False)
    alone: Column = column(0.0, saved=False)
    since: Column = column(saved=False)
    over: Mask = mask(saved=False)
    transacts: Mask = mask(saved=False)

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        arrivals: AddressBooks,
        duplicates: Duplicates,
        visits: Visits,
        tenure: Tenure,
    ) -> tuple["Rollbacks", Tenure]:
        """arrivals, duplicates, visits: of this poll. tenure: of the poll before."""
        last = with_siblings(self, join)
        producers = snapshot.producers
        not_read = producers is None or not len(duplicates.rose)
        if not_read or arrivals.addresses is not visits.index or not len(visits.index):
            return last, with_siblings(tenure, join)
        assert producers is not None  # noqa: S101 - it was read
        # A full address, filters and wildcards have reasons of their own why a message reaches no queue; another broker
        # of the cluster may have got it.
        in_cluster = found.queues.column(
            "linked", lambda row: row.kind is QueueKind.LINK
        ).any()
        has_no_reason = (arrivals.policy == Missing.UNKNOWN) & (arrivals.unfiltered > 0)
        judged = has_no_reason & ~arrivals.wildcard & (not in_cluster)
        booked = or_zero(arrivals.booked)
        lacking = np.where(judged, np.fmax(or_zero(arrivals.least) - booked, 0.0), 0.0)
        at_most = np.where(judged, np.fmax(or_zero(arrivals.most) - booked, 0.0), 0.0)
        begins = arrivals.begins | np.isnan(last.before)
        before = np.where(begins, last.rolled_back + last.missing, last.before)
        came = join.of_all_queues(or_zero(arrivals.came))
        arrives = came > last.came

        strange = visits.grew.sum(axis=0)
        by_strangers = take_or_fill(strange, join.at, 0.0, join.unknown)
        rose = np.where(begins, lacking, lacking - last.lacking)
        diverted = np.fmin(
            last.diverted + np.clip(rose, 0.0, strange.sum() - by_strangers), lacking
        )

        none_prepared = has_none_prepared(snapshot)
        count, only = senders(duplicates.producers, visits, join)
        unnamed = bool(anonymous(producers).any())
        no_producer = (count == 0) & (not unnamed)
        alone = np.where(
            no_producer & none_prepared & (arrivals.still | (last.alone == 0)),
            last.alone + 1,
            0.0,
        )
        since = np.where(alone > 1, last.since, found.now)
        over = (alone >= LEFT_ALONE) & (found.now - since >= QUIET)

        # What comes at the poll after the last one that listed a producer may be from that one.
        is_sent = (arrivals.routed > last.routed) & ~begins
        was_listed = with_siblings(tenure, join).listed
        by_no_producer = no_producer & ~was_listed & is_sent
        more_than_they_sent = ~no_producer & (duplicates.unsent[-1] < 0)
        unlisted = unnamed | more_than_they_sent | by_no_producer
        present = np.where(
            (count > 1) | unlisted, SEVERAL, np.where(count == 1, only, NO_PRODUCER)
        )
        tenure = tenure.advance(
            join, present, last.at_most, last.rolled_back, arrives, begins=begins
        )

        # Its only producer has decided all that it had sent before it committed what came now.
        decides = tenure.known & (count == 1) & arrives & none_prepared & ~begins
        decided = np.where(decides, last.lacking - (came - last.came), 0.0)
        of_tenure = np.fmax(
            np.where(over, lacking, np.fmin(decided, lacking))
            - tenure.lacked
            - diverted,
            0.0,
        )
        proven = np.where(tenure.known, tenure.rolled_back + of_tenure, 0.0)
        rolled_back = np.fmax(last.rolled_back, proven)
        # What came as the last producer went it may have committed, after it had rolled back what is lacking.
        commits = ~begins & (
            (at_most < last.lacking) | (no_producer & was_listed & arrives)
        )
        transacts = last.transacts | commits | tenure.known | (rolled_back > 0)
        # Where producers commit transactions it is either rolled back or lost, and not known which.
        for_good = np.where(
            over & ~transacts, before + np.fmax(lacking - diverted, 0.0), 0.0
        )
        missing = np.fmax(last.missing, for_good - rolled_back)
        return Rollbacks(
            index=found.queues,
            rolled_back=rolled_back,
            missing=missing,
            before=before,
            lacking=lacking,
            at_most=at_most,
            came=came,
            routed=arrivals.routed,
            diverted=diverted,
            alone=alone,
            since=since,
            over=over,
            transacts=transacts,
        ), tenure

    @property
    def for_good(self) -> Column:
        """So many at least reached no queue for good since the queues were compared first."""
        return np.fmax(
            self.rolled_back + self.missing - np.nan_to_num(self.before), 0.0
        )

    @property
    def unsettled(self) -> Column:
        """So many at least reached no queue so far: not committed, rolled back or lost. Without what was diverted."""
        return np.fmax(self.lacking - self.diverted - self.for_good, 0.0)


def has_none_prepared(snapshot: Snapshot) -> bool:
    """Whether no transaction is prepared: it would outlive its producer, and names no address."""
    prepared = read(snapshot, snapshot.transactions, "transactions")
    return prepared is not None and not len(prepared)


def senders(sent: Sent, visits: Visits, join: AddressJoin) -> tuple[Column, Keys]:
    """Of each queue's address, how many producers are listed there, and the key of one of them."""
    at = visits.index.positions(sent.address)
    size = len(visits.index)
    listed = at >= 0
    count = np.bincount(at[listed], minlength=size).astype(np.float64)
    only = np.full(size, NO_PRODUCER, np.int64)
    only[at[listed]] = sent.index.keys[listed]
    return take_or_fill(count, join.at, np.nan, join.unknown), take_or_fill(
        only, join.at, NO_PRODUCER, join.unknown
    )
