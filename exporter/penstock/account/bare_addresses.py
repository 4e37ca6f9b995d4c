"""Addresses without a queue of their own: what was sent to them reached no queue, or one of a wildcard or a divert.

An address outlives its queues, and its account of what was unrouted goes on when it gets a queue or loses its last one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.account.address_books import AddressBooks
from penstock.account.wildcards import INTERNAL, Wildcards, new_rows, rises
from penstock.core.state import RowState, column, mask, unindexed
from penstock.core.table import Column, Index, Mask, Table, put, take_or_fill
from penstock.model import AddressRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero

SENT_TO_BY_BROKER = (*INTERNAL, "ActiveMQ.Advisory.")
"""What the names of addresses begin with to which the broker itself sends."""
MOST_KEPT = 10_000
"""Addresses that are not listed now and whose numbers are kept for their return."""


class Kept(NamedTuple):
    """Of an address that is not listed: what was unrouted in all, the broker's counter of it then, and since when."""

    unrouted: float
    counter: float
    since: float


@dataclass(frozen=True, slots=True)
class BareAddresses(RowState):
    """Per address. bare: it has no queue, and applications send to it. since: when it was polled first, broker's clock.
    unrouted: messages since then, in all. routed: those that the broker counts as routed while it has no queue.
    counter, own: U and R at the last poll. to_wildcard, diverted: a wildcard or a divert gets what is routed. kept: by
    name, of addresses that are not listed.
    """

    bare: Mask = mask(saved=False)
    since: Column = column(saved=False)
    unrouted: Column = column(0.0, saved=False)
    routed: Column = column(0.0, saved=False)
    counter: Column = column(saved=False)
    own: Column = column(saved=False)
    to_wildcard: Mask = mask(saved=False)
    diverted: Mask = mask(saved=False)
    kept: Mapping[str, Kept] = unindexed(dict)

    def advance(
        self, found: Facts, snapshot: Snapshot, join: AddressJoin, addresses: Table[AddressRow], wildcards: Wildcards,
        *, watched: bool,
    ) -> "BareAddresses":  # fmt: skip
        """wildcards: of this poll. watched: as of `QueueBooks.advance`."""
        before = self.returned(addresses, restarted=found.restarted)
        unrouted = addresses["messages_unrouted"]
        routed = addresses["messages_added"]
        from_zero = watched or found.restarted
        unrouted_now = rises(
            before.counter, unrouted, self.index, addresses.index, watched=from_zero
        )
        routed_now = rises(
            before.own, routed, self.index, addresses.index, watched=from_zero
        )
        bare = without_queue(addresses, join)
        # What was routed while it still had a queue went there.
        was_bare = before.bare | new_rows(addresses.index, self.index)
        return BareAddresses(
            index=addresses.index,
            bare=bare,
            since=put(before.since, np.isnan(before.since), found.now),
            unrouted=before.unrouted + np.where(bare, unrouted_now, 0.0),
            routed=before.routed + np.where(bare & was_bare, routed_now, 0.0),
            counter=np.where(np.isnan(unrouted), before.counter, unrouted),
            own=np.where(np.isnan(routed), before.own, routed),
            to_wildcard=wildcards.reaches,
            diverted=with_divert(addresses.index, snapshot),
            kept=before.kept,
        )

    def returned(
        self, addresses: Table[AddressRow], *, restarted: bool
    ) -> "BareAddresses":
        """By the rows of `addresses`, with what is kept of those that are listed again; others are kept."""
        index = addresses.index
        if index is self.index:
            return self
        moved = self.reindexed(index)
        kept = {**self.kept, **self._numbers_of(index.positions(self.index.keys) < 0)}
        rows: list[int] = []
        numbers: list[Kept] = []
        for row in index.new_since(self.index).tolist() if kept else ():
            known = kept.pop(index.rows[row].name, None)
            if known is not None:
                rows.append(row)
                numbers.append(known)
        while len(kept) > MOST_KEPT:
            del kept[next(iter(kept))]
        if not rows:
            return replace(moved, kept=kept)
        unrouted = moved.unrouted.copy()
        unrouted[rows] = [known.unrouted for known in numbers]
        counter = moved.counter.copy()
        counter[rows] = (
            0.0 if restarted else [known.counter for known in numbers]
        )  # a broker that starts counts from 0
        since = moved.since.copy()
        since[rows] = [known.since for known in numbers]
        return replace(
            moved, unrouted=unrouted, counter=counter, since=since, kept=kept
        )

    def _numbers_of(self, wanted: Mask | np.bool_) -> dict[str, Kept]:
        """By name, of the addresses that are `wanted` and have lost something."""
        numbers: dict[str, Kept] = {}
        for row in np.flatnonzero((self.unrouted > 0) & wanted).tolist():
            unrouted = self.unrouted[row]
            counter = self.counter[row]
            since = self.since[row]
            numbers[self.index.rows[row].name] = Kept(
                float(unrouted), float(counter), float(since)
            )
        return numbers

    def with_queues(self, join: AddressJoin, books: AddressBooks) -> "BareAddresses":
        """With what the account of addresses with queues says, so that it goes on when the last queue goes."""
        if books.index is not join.queues or not len(join.at):
            return self
        listed = join.at >= 0
        unrouted = self.unrouted.copy()
        unrouted[join.at[listed]] = or_zero(books.unrouted - books.refused)[listed]
        return replace(self, unrouted=unrouted)

    def by_queue(self, join: AddressJoin) -> Column:
        """What was unrouted at each queue's address until the last poll, 0 where that is not known."""
        if join.addresses is None or not len(self.index):
            return np.zeros(len(join.at))
        at = join.addresses.positions_in(self.index)
        return take_or_fill(take_or_fill(self.unrouted, at, 0.0), join.at, 0.0)

    def begun_anew(self) -> "BareAddresses":
        """Another process counts from 0 on, and numbers addresses otherwise: what was unrouted is kept by name."""
        numbers = {
            name: known._replace(counter=0.0)
            for name, known in self._numbers_of(np.True_).items()
        }
        return BareAddresses(kept={**self.kept, **numbers})

    @property
    def totals(self) -> dict[str, Kept]:
        """By name, also of those that are not listed."""
        return {**self.kept, **self._numbers_of(np.True_)}


def without_queue(addresses: Table[AddressRow], join: AddressJoin) -> Mask:
    """Addresses that have no queue, and to which applications send."""
    bare = np.ones(len(addresses), np.bool_)
    bare[join.at[join.at >= 0]] = False
    by_broker = (
        addresses.index.column(
            "of the broker", lambda row: row.name.startswith(SENT_TO_BY_BROKER)
        )
        > 0
    )
    is_temporary = addresses["temporary"] > 0
    return bare & ~by_broker & ~is_temporary


def with_divert(addresses: Index[AddressRow], snapshot: Snapshot) -> Mask:
    """Addresses of which a divert takes messages."""
    diverted = np.zeros(len(addresses), np.bool_)
    if snapshot.diverts:
        sources = {source for source, _ in snapshot.diverts}
        diverted[addresses.where("name", lambda row: row.name, sources)] = True
    return diverted
