"""What producers sent and no address routed: duplicates, which the broker drops without a counter.

Producers are read after their addresses, so what they sent may be ahead of what was routed: what they had sent at the
poll before is not. A producer that names an address with each message shows no number for any.
"""

from dataclasses import dataclass, replace

import numpy as np

from penstock.account.address_books import AddressBooks, with_siblings
from penstock.account.reading import anonymous, read
from penstock.core.gone_rows import GoneRows
from penstock.core.state import By, RowState, column, counter, unindexed
from penstock.core.table import Column, Index, Keys, Matrix, Table, take_or_fill
from penstock.model import AddressRow, ProducerRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero


@dataclass(frozen=True, slots=True)
class Sent(RowState):
    """Per producer: messages sent, and the key of its address, -1 while that is not listed."""

    produced: Column = column(saved=False)
    address: Keys = column(-1, dtype=np.int64, saved=False)
    unlisted: GoneRows = unindexed(GoneRows)
    """What producers have sent that the last listings lacked: they go on from there when they come back."""

    def advance(
        self,
        producers: Table[ProducerRow],
        addresses: Index[AddressRow],
        *,
        watched: bool,
    ) -> tuple["Sent", Column]:
        """And by address what was sent since the poll before."""
        before = self.with_returned(producers.index)
        now = producers["produced"]
        keys = before.address
        unknown = np.flatnonzero(keys < 0)
        if len(unknown):
            known = dict(
                zip(
                    (row.name for row in addresses),
                    addresses.keys.tolist(),
                    strict=True,
                )
            )
            keys = keys.copy()
            keys[unknown] = [
                known.get(row.address, -1) for row in producers.index.rows[unknown]
            ]
        # One that came since it was watched began at 0, and so does one whose number fell.
        fresh = now if watched else np.zeros(len(now))
        rose = np.where(
            np.isnan(before.produced),
            fresh,
            np.where(now < before.produced, now, now - before.produced),
        )
        at = addresses.positions(keys)
        by_address = np.bincount(
            at[at >= 0], weights=or_zero(rose)[at >= 0], minlength=len(addresses)
        )
        produced = np.where(np.isnan(now), before.produced, now)
        return Sent(
            producers.index, produced, keys, before.unlisted
        ), by_address.astype(np.float64)

    def with_returned(self, producers: Index[ProducerRow]) -> "Sent":
        """By the rows of `producers`: one that a listing lacked has what it had sent when it was listed last."""
        if producers is self.index:
            return self
        here, remembered = self.unlisted.come_back(self.index, producers)
        moved = self.reindexed(producers)
        produced = moved.produced.copy()
        if len(here):
            produced[here] = self.unlisted.values[0, remembered]
        unlisted = self.unlisted.after(self.index, producers, self.produced[np.newaxis])
        return replace(moved, produced=produced, unlisted=unlisted)


@dataclass(frozen=True, slots=True)
class Duplicates(RowState):
    """Per queue, of its address. duplicate: at least so many. sent: since `routed0`, which is R + U of that poll, by
    the producers that are listed. unsent: sent and not routed, at the last polls; negative: others send here, too.
    unseen: the agent was away or the broker restarted, and what was sent then is not known.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    duplicate: Column = counter(outlives=True)
    unseen: Column = counter(0.0, outlives=True)
    duplicate0: Column = column(saved=False)
    routed0: Column = column(saved=False)
    sent: Column = column(saved=False)
    routed: Column = column(saved=False)
    unsent: Matrix = column(lines=3, saved=False)
    most: Column = column(saved=False)
    """NaN: not known."""
    anonymous: bool = unindexed(bool)
    watched: bool = unindexed(bool)
    producers: Sent = unindexed(Sent)
    rose: Column = unindexed(lambda: np.empty(0))
    """Per address what listed producers sent since the poll before; empty where that was not read."""

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        arrivals: AddressBooks,
    ) -> "Duplicates":
        before = replace(with_siblings(self, join), rose=np.empty(0))
        addresses = read(snapshot, snapshot.addresses, "addresses")
        listed = (
            read(snapshot, snapshot.producers, "connections")
            if "connections" in snapshot.collectors
            else None
        )
        if (
            listed is None
            or addresses is None
            or arrivals.addresses is not addresses.index
        ):
            return before
        producers, by_address = self.producers.advance(
            listed, addresses.index, watched=self.watched
        )
        rose = take_or_fill(by_address, join.at, np.nan, join.unknown)
        routed = arrivals.routed + join.by_queue(addresses, "messages_unrouted")
        begins = np.isnan(before.sent) | (routed < before.routed)
        born = arrivals.born & self.watched
        routed0 = np.where(begins, np.where(born, 0.0, routed), before.routed0)
        duplicate0 = np.where(begins, or_zero(before.duplicate), before.duplicate0)
        sent = np.where(begins, np.where(born, rose, 0.0), before.sent + rose)
        unsent = np.vstack([before.unsent[1:], sent - routed + routed0])
        unsent[:2, begins] = np.nan
        still = (rose == 0) & (routed == before.routed) & ~begins
        # A burst between the two reads knows no mean: under load only what was sent until the poll before is sure.
        surely = np.where(
            still, unsent[2], np.where(begins, 0.0, before.sent - routed + routed0)
        )
        some = self.anonymous or bool(anonymous(listed).any())
        unseen = np.where(begins & ~np.isnan(before.duplicate), 1.0, before.unseen)
        known = ~begins & (unseen == 0) & (np.min(unsent, axis=0) >= 0) & (not some)
        duplicate = np.fmax(
            or_zero(before.duplicate), duplicate0 + np.fmax(or_zero(surely), 0.0)
        )
        most = np.fmax(
            duplicate, duplicate0 + np.where(still, unsent[2], np.max(unsent, axis=0))
        )
        return Duplicates(
            index=found.queues,
            duplicate=duplicate,
            unseen=unseen,
            duplicate0=duplicate0,
            routed0=routed0,
            sent=sent,
            routed=routed,
            unsent=unsent,
            most=np.where(known, most, np.nan),
            anonymous=some,
            watched=True,
            producers=producers,
            rose=by_address,
        )

    def begun_anew(self) -> "Duplicates":
        return replace(
            super(Duplicates, self).begun_anew(),
            producers=Sent(),
            anonymous=False,
            watched=False,
        )
