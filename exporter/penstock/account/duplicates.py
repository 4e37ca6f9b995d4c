"""Messages that producers sent and no address routed: duplicates, which the broker drops without a counter.

A duplicate has the id of an earlier message. With R (routed) and U (unrouted) of the address:

    duplicates = sent by the listed producers - (R + U)

Producers are read after their addresses, so that what they sent may be ahead of what was routed; what they had sent by
the poll before is not. A producer that names an address with each message shows no number for any address.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.account.address_books import AddressBooks, with_siblings
from penstock.account.last_polls import shifted
from penstock.account.reading import anonymous, read
from penstock.core.gone_rows import GoneRows
from penstock.core.state import By, RowState, column, counter, unindexed
from penstock.core.table import (
    Column,
    Index,
    Keys,
    Mask,
    Matrix,
    Table,
    take_or_fill,
)
from penstock.model import AddressRow, ProducerRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero
from penstock.series.labels import sum_by


@dataclass(frozen=True, slots=True)
class Sent(RowState):
    """What each listed producer has sent, and to which address."""

    produced: Column = column(saved=False)
    """(producers,) Messages that each has sent."""
    address: Keys = column(-1, dtype=np.int64, saved=False)
    """(producers,) The key of its address, -1 while that is not listed."""
    unlisted: GoneRows = unindexed(GoneRows)
    """Messages sent by producers that the last listings lacked: their numbers go on from there when they come back."""

    def advance(
        self,
        producers: Table[ProducerRow],
        addresses: Index[AddressRow],
        *,
        watched: bool,
    ) -> tuple["Sent", Column]:
        """Return the state after one more poll, and (addresses,) how many messages were sent since the poll before.

        watched: producers were read before, so that a new one began at 0 since.
        """
        before = self.with_returned(producers.index)
        produced = producers["produced"]
        keys = before.address_keys(addresses)
        sent_by_new = produced if watched else np.zeros(len(produced))
        # A number that fell has begun at 0 again.
        fell = produced < before.produced
        rose = np.where(fell, produced, produced - before.produced)
        rose = np.where(np.isnan(before.produced), sent_by_new, rose)
        after = Sent(
            producers.index,
            np.where(np.isnan(produced), before.produced, produced),
            keys,
            before.unlisted,
        )
        return after, sum_by(addresses.positions(keys), or_zero(rose), len(addresses))

    def address_keys(self, addresses: Index[AddressRow]) -> Keys:
        """(producers,) The key of each one's address, -1 where that is not listed; only unknown ones are looked up."""
        unknown = np.flatnonzero(self.address < 0)
        if not len(unknown):
            return self.address
        names = [row.name for row in addresses]
        by_name = dict(zip(names, addresses.keys.tolist(), strict=True))
        keys = self.address.copy()
        keys[unknown] = [
            by_name.get(row.address, -1) for row in self.index.rows[unknown]
        ]
        return keys

    def with_returned(self, producers: Index[ProducerRow]) -> "Sent":
        """Return the state by the rows of `producers`.

        A producer that a listing lacked has what it had sent when it was listed last.
        """
        if producers is self.index:
            return self
        returned, remembered = self.unlisted.come_back(self.index, producers)
        after = self.reindexed(producers)
        produced = after.produced.copy()
        if len(returned):
            produced[returned] = self.unlisted.values[0, remembered]
        unlisted = self.unlisted.after(self.index, producers, self.produced[np.newaxis])
        return replace(after, produced=produced, unlisted=unlisted)


@dataclass(frozen=True, slots=True)
class Duplicates(RowState):
    """Duplicates of each queue's address: sums begin (`sent`) again where R + U fell, or polls are missing."""

    BY = By.QUEUE
    STORED_AS = "account_"
    duplicate: Column = counter(outlives=True)
    """(queues,) At least so many."""
    unseen: Column = counter(0.0, outlives=True)
    """(queues,) 1 where the agent was away or the broker restarted: what was sent then is not known."""
    duplicate0: Column = column(saved=False)
    """(queues,) `duplicate` when `sent` began."""
    routed0: Column = column(saved=False)
    """(queues,) R + U when `sent` began."""
    sent: Column = column(saved=False)
    """(queues,) Messages that the listed producers sent since the sums began."""
    routed: Column = column(saved=False)
    """(queues,) R + U of the last poll."""
    unsent: Matrix = column(lines=3, saved=False)
    """(polls, queues) Sent and not routed, at the last polls; negative: others send here, too."""
    most: Column = column(saved=False)
    """(queues,) Duplicates at most; NaN: not known."""
    anonymous: bool = unindexed(bool)
    """Whether a producer that names an address with each message was ever listed."""
    watched: bool = unindexed(bool)
    """Whether producers have been read of this process, so that a new one began at 0."""
    producers: Sent = unindexed(Sent)
    rose: Column = unindexed(lambda: np.empty(0))
    """(addresses,) Messages that listed producers sent since the poll before; empty where that was not read."""

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        arrivals: AddressBooks,
    ) -> "Duplicates":
        """Return the duplicates after one more poll; as they were if it read no producers or no addresses.

        arrivals: the address books of this poll, which have R.
        """
        before = replace(with_siblings(self, join), rose=np.empty(0))
        addresses = read(snapshot, snapshot.addresses, "addresses")
        producers = listed_producers(snapshot)
        if producers is None or addresses is None:
            return before
        # The address books did not go on with the listing of this poll.
        if arrivals.addresses is not addresses.index:
            return before
        sent, by_address = self.producers.advance(
            producers,
            addresses.index,
            watched=self.watched,
        )
        rose = take_or_fill(by_address, join.at, np.nan, join.unknown)
        routed = arrivals.routed + join.by_queue(addresses, "messages_unrouted")
        any_anonymous = self.anonymous or bool(anonymous(producers).any())
        after = replace(before, index=facts.queues, anonymous=any_anonymous)
        after = after.with_numbers(before, rose, routed, arrivals.born & self.watched)
        return replace(
            after,
            watched=True,
            producers=sent,
            rose=by_address,
        )

    def with_numbers(
        self, before: "Duplicates", rose: Column, routed: Column, born: Mask
    ) -> "Duplicates":
        """Return the state with the numbers of a poll.

        Args:
            before: the poll before.
            rose: (queues,) messages sent to the address since then.
            routed: (queues,) R + U of the address.
            born: (queues,) True where the address was made since then, so that its numbers began at 0.
        """
        begins = np.isnan(before.sent) | (routed < before.routed)
        routed_at_begin = np.where(born, 0.0, routed)
        sent_at_begin = np.where(born, rose, 0.0)
        was_known = ~np.isnan(before.duplicate)
        after = replace(
            self,
            unseen=np.where(begins & was_known, 1.0, before.unseen),
            duplicate0=np.where(begins, or_zero(before.duplicate), before.duplicate0),
            routed0=np.where(begins, routed_at_begin, before.routed0),
            sent=np.where(begins, sent_at_begin, before.sent + rose),
            routed=routed,
        )
        after = after.with_unsent(before, begins)
        rests = (rose == 0) & (routed == before.routed) & ~begins
        # Under load only what was sent by the poll before is sure: any number may have come between the two reads.
        sent_before = np.where(begins, 0.0, before.sent - after.routed_since)
        return after.with_bounds(sent_before, rests, begins)

    @property
    def routed_since(self) -> Column:
        """(queues,) Messages that were routed since `sent` began."""
        return self.routed - self.routed0

    def with_unsent(self, before: "Duplicates", begins: Mask) -> "Duplicates":
        """Return the state with what was sent and not routed at this poll; polls before a begin do not count."""
        unsent = shifted(before.unsent, self.sent - self.routed_since)
        unsent[:2, begins] = np.nan
        return replace(self, unsent=unsent)

    def with_bounds(
        self, sent_before: Column, rests: Mask, begins: Mask
    ) -> "Duplicates":
        """Return the state with duplicates at least and at most.

        While nothing is sent or routed, the number of this poll is exact. Else it is at least what had been sent by the
        poll before and is not routed, and at most the highest number of three polls. The most is not known where
        another producer than the listed ones may have sent, or polls are missing.

        sent_before: (queues,) sent until the poll before, and not routed by now. rests: (queues,) True where nothing
        was sent or routed.
        """
        unsent_now = self.unsent[2]
        surely = np.where(rests, unsent_now, sent_before)
        least = self.duplicate0 + np.fmax(or_zero(surely), 0.0)
        duplicate = np.fmax(or_zero(self.duplicate), least)
        highest = np.where(rests, unsent_now, np.max(self.unsent, axis=0))
        most = np.fmax(duplicate, self.duplicate0 + highest)
        only_listed_send = np.min(self.unsent, axis=0) >= 0
        saw_all = ~begins & (self.unseen == 0) & (not self.anonymous)
        return replace(
            self,
            duplicate=duplicate,
            most=np.where(saw_all & only_listed_send, most, np.nan),
        )

    def begun_anew(self) -> "Duplicates":
        after = super(Duplicates, self).begun_anew()
        return replace(after, producers=Sent(), anonymous=False, watched=False)


def listed_producers(snapshot: Snapshot) -> Table[ProducerRow] | None:
    """Return the producers; None where connections, which list them, were not read."""
    if "connections" not in snapshot.collectors:
        return None
    return read(snapshot, snapshot.producers, "connections")
