"""Messages that were routed and reach no queue for good: rolled back by their producer, or for no known reason.

R (of the address) counts a message as soon as it is sent, A (of its queues) only when its transaction is committed.
What the queues *lack* are the missing messages of `address_books` that have no other reason. These may be in a
transaction that is open, or was rolled back, or they were never meant to reach the queues: sent with a routing type
that none of them has, or taken by an exclusive divert. The broker does not say which. Two things prove that no
transaction will bring it any more: the only producer has committed something that it sent later; or no producer is
there, no transaction is prepared and nothing comes for a while, as a session may outlive its producer (JmsTemplate).

A message was rolled back for sure only where messages of the same producer do reach the queues, and this producer alone
has sent to the address since they lack it: that time is its *tenure*. Where no producer ever committed anything the
message is `missing`: possibly lost. Else it is one of the two.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.account.address_books import AddressBooks, Missing, with_siblings
from penstock.account.duplicates import Duplicates, Sent
from penstock.account.reading import anonymous, read
from penstock.account.visits import Visits
from penstock.core.state import By, RowState, column, counter, mask
from penstock.core.table import Column, Keys, Mask, Table, take_or_fill
from penstock.model import ProducerRow, QueueKind, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero

LEFT_ALONE = 3
"""After so many polls without a producer and without an arrival, and `QUIET`, all transactions are over."""
QUIET = 30.0
"""Seconds from the first of these polls to the last."""
NO_PRODUCER = -1
"""In place of a producer's key: none has sent to the address since it was compared first."""
SEVERAL = -2
"""In place of a producer's key: more than one did, or one that is not listed."""


@dataclass(frozen=True, slots=True)
class Tenure(RowState):
    """The time in which one producer alone sends to an address; all columns are by queue."""

    producer: Keys = column(NO_PRODUCER, dtype=np.int64, saved=False)
    """The key of this producer, also once it has gone; else `NO_PRODUCER` or `SEVERAL`."""
    lacked: Column = column(0.0, saved=False)
    """Messages that the queues lacked when the tenure began, at most: these are of other producers."""
    rolled_back: Column = column(0.0, saved=False)
    """Messages that had been rolled back when the tenure began."""
    delivers: Mask = mask(saved=False)
    """True where something came to the queues while the producer was alone: its messages reach them."""
    listed: Mask = mask(saved=False)
    """True where any producer was listed at the last poll."""

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
        """Return the tenure after one more poll; all arrays are by queue.

        It begins with a producer that is alone and not the one of before, with several producers it is over, and it
        goes on while none is there: messages that are rolled back late are of the last one.

        Args:
            join: of this poll.
            present: the producer that is there now, `NO_PRODUCER` or `SEVERAL`.
            lacked: messages that the queues lacked at the poll before.
            rolled_back: messages that were rolled back by then.
            arrives: True where something came to the queues since then.
            begins: True where the queues are compared first at this poll.
        """
        last = with_siblings(self, join)
        is_alone = present >= 0
        # The first producer of the address, or one that replaces another.
        is_other = is_alone & (present != last.producer)
        starts = begins | is_other
        nobody = present == NO_PRODUCER
        last_producer = np.where(begins, NO_PRODUCER, last.producer)
        lacked_at_start = np.where(begins, 0.0, lacked)
        delivers_now = is_alone & arrives & ~begins
        return Tenure(
            index=last.index,
            producer=np.where(nobody, last_producer, present),
            lacked=np.where(starts, lacked_at_start, last.lacked),
            rolled_back=np.where(starts, rolled_back, last.rolled_back),
            delivers=(last.delivers & ~starts) | delivers_now,
            listed=~nobody,
        )

    @property
    def known(self) -> Mask:
        """(queues,) True where one producer alone has sent since `lacked`, and its messages reach the queues."""
        return (self.producer >= 0) & self.delivers


@dataclass(frozen=True, slots=True)
class Rollbacks(RowState):
    """Messages of each queue's address that reach no queue; all columns are by queue."""

    BY = By.QUEUE
    STORED_AS = "account_"
    rolled_back: Column = counter(0.0, outlives=True)
    """At least so many."""
    missing: Column = counter(0.0, outlives=True)
    """At least so many, for no known reason."""
    before: Column = column(saved=False)
    """`rolled_back` and `missing` together as they were when the queues were compared first."""
    lacking: Column = column(0.0, saved=False)
    """Messages that the queues lack at the last poll, at least."""
    at_most: Column = column(saved=False)
    """Messages that the queues lack at the last poll, at most."""
    came: Column = column(saved=False)
    """Messages that came to all queues of the address by the last poll, in all."""
    routed: Column = column(saved=False)
    """R at the last poll."""
    diverted: Column = column(0.0, saved=False)
    """The part of `lacking` that a divert may have taken to other addresses, at most."""
    alone: Column = column(0.0, saved=False)
    """Polls in a row without a producer and, after the first of them, without an arrival."""
    since: Column = column(saved=False)
    """When the first of these polls was."""
    over: Mask = mask(saved=False)
    """True where no transaction with messages for the address can still be open."""
    transacts: Mask = mask(saved=False)
    """True where a producer has committed a transaction with messages for the address."""

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        arrivals: AddressBooks,
        duplicates: Duplicates,
        visits: Visits,
        tenure: Tenure,
    ) -> tuple["Rollbacks", Tenure]:
        """Return the state after one more poll, and the tenure; both as they were if producers were not read.

        Args:
            facts: of this poll.
            snapshot: of this poll.
            join: of this poll.
            arrivals: of this poll.
            duplicates: of this poll.
            visits: of this poll.
            tenure: of the poll before.
        """
        last = with_siblings(self, join)
        producers = snapshot.producers
        not_read = producers is None or not len(duplicates.rose)
        # An index is one object for one listing: both parts must have gone on with this poll.
        has_addresses = arrivals.addresses is visits.index and len(visits.index) > 0
        if producers is None or not_read or not has_addresses:
            return last, with_siblings(tenure, join)
        begins = arrivals.begins | np.isnan(last.before)
        present = Senders.of(duplicates, visits, join, producers)
        none_prepared = has_none_prepared(snapshot)
        now = last.with_lacking(facts, arrivals, begins)
        now = now.with_arrivals(arrivals, join)
        now = now.with_diverted(last, visits, join, begins)
        is_deserted = present.is_none & none_prepared
        now = now.with_alone(last, is_deserted, arrivals.still, facts.now)

        tenure_before = with_siblings(tenure, join)
        tenure_now = now.tenure_after(last, tenure_before, join, present, begins)
        # Its only producer has decided all that it had sent before it committed what came now.
        is_only = tenure_now.known & (present.count == 1)
        commits_now = (now.came > last.came) & ~begins & none_prepared
        now = now.with_rolled_back(last, tenure_now, is_only & commits_now)
        was_committed = now.has_committed(last, tenure_before, present, begins)
        return now.with_missing(tenure_now.known | was_committed), tenure_now

    def tenure_after(
        self,
        last: "Rollbacks",
        tenure: Tenure,
        join: AddressJoin,
        present: "Senders",
        begins: Mask,
    ) -> Tenure:
        """Return the tenure after this poll.

        What was routed while no producer is listed is from one that no poll has listed. But at the first poll without a
        producer it may be from the last one that was listed.

        last, tenure: of the poll before. begins: (queues,) True where the queues are compared first at this poll.
        """
        is_sent = (self.routed > last.routed) & ~begins
        by_unlisted = present.is_none & ~tenure.listed & is_sent
        return tenure.advance(
            join,
            present.keys(is_unlisted=by_unlisted),
            last.at_most,
            last.rolled_back,
            self.came > last.came,
            begins=begins,
        )

    def has_committed(
        self, last: "Rollbacks", tenure: Tenure, present: "Senders", begins: Mask
    ) -> Mask:
        """(queues,) True where a producer has committed, or may have, since the poll before.

        It has where the queues lack fewer messages than before. What came as the last producer went it may have
        committed, after it had rolled back what they lack.

        last, tenure: of the poll before. begins: (queues,) True where the queues are compared first at this poll.
        """
        arrives = self.came > last.came
        last_one_commits = present.is_none & tenure.listed & arrives
        return ~begins & ((self.at_most < last.lacking) | last_one_commits)

    def with_lacking(
        self, facts: Facts, arrivals: AddressBooks, begins: Mask
    ) -> "Rollbacks":
        """Return the state with the messages that the queues lack and that have no other reason.

        They are 0 where there may be another reason: a full address, filters of all queues, a wildcard, or a link to
        another broker of the cluster, which may have got them.
        """
        links = facts.queues.column("linked", lambda row: row.kind is QueueKind.LINK)
        has_no_reason = (arrivals.policy == Missing.UNKNOWN) & (arrivals.unfiltered > 0)
        is_judged = has_no_reason & ~arrivals.wildcard & (not links.any())
        booked = or_zero(arrivals.booked)
        least = np.fmax(or_zero(arrivals.least) - booked, 0.0)
        most = np.fmax(or_zero(arrivals.most) - booked, 0.0)
        in_all = self.rolled_back + self.missing
        return replace(
            self,
            lacking=np.where(is_judged, least, 0.0),
            at_most=np.where(is_judged, most, 0.0),
            before=np.where(begins, in_all, self.before),
        )

    def with_arrivals(self, arrivals: AddressBooks, join: AddressJoin) -> "Rollbacks":
        """Return the state with what the address routed and what came to all its queues together."""
        to_queues = join.of_all_queues(or_zero(arrivals.came))
        return replace(self, came=to_queues, routed=arrivals.routed)

    def with_diverted(
        self, last: "Rollbacks", visits: Visits, join: AddressJoin, begins: Mask
    ) -> "Rollbacks":
        """Return the state with the lacking messages that a divert may have taken to another address.

        There they look like messages of strangers (see `visits`): no more can have gone there than came from these.
        """
        strange = visits.grew.sum(axis=0)
        at_own_address = take_or_fill(strange, join.at, 0.0, join.unknown)
        elsewhere = strange.sum() - at_own_address
        rose = np.where(begins, self.lacking, self.lacking - last.lacking)
        diverted = last.diverted + np.clip(rose, 0.0, elsewhere)
        return replace(self, diverted=np.fmin(diverted, self.lacking))

    def with_alone(
        self, last: "Rollbacks", is_deserted: Mask, is_still: Mask, now: float
    ) -> "Rollbacks":
        """Return the state with the polls in a row without a producer and without an arrival.

        At the first of them something may still arrive, from before the producer went.

        is_deserted: (queues,) True where no producer is there, and no transaction is prepared.
        is_still: (queues,) True where nothing came since the poll before.
        """
        is_alone = is_deserted & (is_still | (last.alone == 0))
        alone = np.where(is_alone, last.alone + 1, 0.0)
        since = np.where(alone > 1, last.since, now)
        is_over = (alone >= LEFT_ALONE) & (now - since >= QUIET)
        return replace(self, alone=alone, since=since, over=is_over)

    def with_rolled_back(
        self, last: "Rollbacks", tenure: Tenure, decides: Mask
    ) -> "Rollbacks":
        """Return the state with the messages that were rolled back for sure, during a tenure that is known.

        Once all transactions are over, all that is lacking reaches no queue for good. As long as the producer goes on,
        it is what was lacking before it committed, less what came by that commit. What was lacking before its tenure,
        or may have been diverted, does not count.

        decides: (queues,) True where the only producer has committed what came at this poll.
        """
        came_now = self.came - last.came
        decided = np.where(decides, last.lacking - came_now, 0.0)
        for_good = np.where(self.over, self.lacking, np.fmin(decided, self.lacking))
        in_tenure = np.fmax(for_good - tenure.lacked - self.diverted, 0.0)
        proven = np.where(tenure.known, tenure.rolled_back + in_tenure, 0.0)
        return replace(self, rolled_back=np.fmax(last.rolled_back, proven))

    def with_missing(self, commits: Mask) -> "Rollbacks":
        """Return the state with what is missing for no known reason: possibly lost.

        It counts once all transactions are over, and only where no producer has ever committed one: else it is not
        known whether the messages were rolled back or lost.

        commits: (queues,) True where a producer has committed a transaction.
        """
        transacts = self.transacts | commits | (self.rolled_back > 0)
        not_diverted = np.fmax(self.lacking - self.diverted, 0.0)
        is_lost = self.over & ~transacts
        for_good = np.where(is_lost, self.before + not_diverted, 0.0)
        missing = np.fmax(self.missing, for_good - self.rolled_back)
        return replace(self, transacts=transacts, missing=missing)

    @property
    def for_good(self) -> Column:
        """(queues,) Messages, at least, that reached no queue for good since the queues were compared first."""
        total = self.rolled_back + self.missing
        return np.fmax(total - np.nan_to_num(self.before), 0.0)

    @property
    def unsettled(self) -> Column:
        """(queues,) Messages, at least, that reached no queue so far: not committed, rolled back or lost.

        Messages that were diverted do not count.
        """
        return np.fmax(self.lacking - self.diverted - self.for_good, 0.0)


def has_none_prepared(snapshot: Snapshot) -> bool:
    """Return whether it is known that no transaction is prepared.

    A prepared one (XA) outlives its producer, and the broker does not say for which addresses it has messages.
    """
    prepared = read(snapshot, snapshot.transactions, "transactions")
    return prepared is not None and not len(prepared)


@dataclass(frozen=True, slots=True)
class Senders:
    """The producers of each queue's address at one poll; all arrays are by queue.

    count: producers that are listed.
    only: the key of one of them.
    is_none: True where none is there, and none on the broker names an address with each message.
    may_have_others: True where one that is not listed for the address may have sent: one that names an address with
        each message, or, as more was routed than the listed ones sent, one that no poll has listed.
    """

    count: Column
    only: Keys
    is_none: Mask
    may_have_others: Mask

    @classmethod
    def of(
        cls,
        duplicates: Duplicates,
        visits: Visits,
        join: AddressJoin,
        producers: Table[ProducerRow],
    ) -> "Senders":
        """Return the producers that are listed at this poll, and whether others may have sent."""
        count, only = senders(duplicates.producers, visits, join)
        any_anonymous = bool(anonymous(producers).any())
        is_none = (count == 0) & (not any_anonymous)
        # Negative: sent by the listed ones less routed.
        more_than_they_sent = ~is_none & (duplicates.unsent[-1] < 0)
        return cls(count, only, is_none, any_anonymous | more_than_they_sent)

    def keys(self, *, is_unlisted: Mask) -> Keys:
        """(queues,) The producer that is there, `NO_PRODUCER` or `SEVERAL`. is_unlisted: True where another one is."""
        are_several = (self.count > 1) | self.may_have_others | is_unlisted
        single = np.where(self.count == 1, self.only, NO_PRODUCER)
        return np.where(are_several, SEVERAL, single)


def senders(sent: Sent, visits: Visits, join: AddressJoin) -> tuple[Column, Keys]:
    """Return two columns by queue: how many producers are listed for its address, and the key of one of them."""
    addresses = visits.index.positions(sent.address)
    size = len(visits.index)
    is_listed = addresses >= 0
    targets = addresses[is_listed]
    count = np.bincount(targets, minlength=size).astype(np.float64)
    keys = np.full(size, NO_PRODUCER, np.int64)
    keys[targets] = sent.index.keys[is_listed]
    return (
        take_or_fill(count, join.at, np.nan, join.unknown),
        take_or_fill(keys, join.at, NO_PRODUCER, join.unknown),
    )
