"""Bare addresses: those without a queue of their own, to which applications send all the same.

Their messages reached no queue (U, unrouted), or one of a wildcard or a divert (R, routed). An address outlives its
queues, so its sum of unrouted messages goes on when it gets a queue (then in `AddressBooks`) or loses its last one.
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
    """The numbers of an address that is not listed."""

    unrouted: float
    """Unrouted messages since `since`."""
    counter: float
    """The broker's counter of these when the address was listed last."""
    since: float
    """When it was polled first, by the broker's clock."""


@dataclass(frozen=True, slots=True)
class BareAddresses(RowState):
    """The sums of all addresses, with and without queues; all columns are by address."""

    bare: Mask = mask(saved=False)
    """True where it has no queue, and applications send to it."""
    since: Column = column(saved=False)
    """When it was polled first, by the broker's clock."""
    unrouted: Column = column(0.0, saved=False)
    """Unrouted messages since then, in all."""
    routed: Column = column(0.0, saved=False)
    """Messages that the broker counts as routed while the address has no queue."""
    counter: Column = column(saved=False)
    """U at the last poll."""
    own: Column = column(saved=False)
    """R at the last poll."""
    to_wildcard: Mask = mask(saved=False)
    """True where a wildcard gets what is routed."""
    diverted: Mask = mask(saved=False)
    """True where a divert gets what is routed."""
    kept: Mapping[str, Kept] = unindexed(dict)
    """The numbers of addresses that are not listed, by name."""

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        addresses: Table[AddressRow],
        wildcards: Wildcards,
        *,
        watched: bool,
    ) -> "BareAddresses":
        """Return the addresses after one more poll. wildcards: of this poll. watched: as for `QueueBooks.advance`."""
        before = self.returned(addresses, restarted=facts.restarted)
        is_new = new_rows(addresses.index, self.index)
        starts_at_zero = is_new & (watched or facts.restarted)
        is_bare = without_queue(addresses, join)
        after = before.with_counters(addresses, is_new, starts_at_zero, is_bare)
        return replace(
            after,
            bare=is_bare,
            since=put(before.since, np.isnan(before.since), facts.now),
            to_wildcard=wildcards.reaches,
            diverted=with_divert(addresses.index, snapshot),
        )

    def with_counters(
        self,
        addresses: Table[AddressRow],
        is_new: Mask,
        starts_at_zero: Mask,
        is_bare: Mask,
    ) -> "BareAddresses":
        """Return the addresses with what was unrouted and routed since the poll before, where they have no queue.

        is_new, starts_at_zero: (addresses,) True where it was not listed before, or its counters began since then.
        """
        unrouted = addresses["messages_unrouted"]
        routed = addresses["messages_added"]
        unrouted_now = rises(self.counter, unrouted, starts_at_zero)
        routed_now = rises(self.own, routed, starts_at_zero)
        # What was routed while it still had a queue went there.
        was_bare = self.bare | is_new
        return replace(
            self,
            unrouted=self.unrouted + np.where(is_bare, unrouted_now, 0.0),
            routed=self.routed + np.where(is_bare & was_bare, routed_now, 0.0),
            counter=np.where(np.isnan(unrouted), self.counter, unrouted),
            own=np.where(np.isnan(routed), self.own, routed),
        )

    def returned(
        self, addresses: Table[AddressRow], *, restarted: bool
    ) -> "BareAddresses":
        """Return the state by the rows of `addresses`: those that are listed again have the numbers that were kept.

        The numbers of addresses that are no longer listed are kept by name, for at most `MOST_KEPT` addresses: beyond
        them the oldest are dropped.
        """
        index = addresses.index
        if index is self.index:
            return self
        is_gone = index.positions(self.index.keys) < 0
        kept = {**self.kept, **self._numbers_of(is_gone)}
        numbers: dict[int, Kept] = {}
        for row in index.new_since(self.index).tolist() if kept else ():
            name = index.rows[row].name
            if name in kept:
                numbers[row] = kept.pop(name)
        while len(kept) > MOST_KEPT:
            oldest = next(iter(kept))
            del kept[oldest]
        after = replace(self.reindexed(index), kept=kept)
        return after.with_numbers(numbers, restarted=restarted)

    def with_numbers(
        self, numbers: Mapping[int, Kept], *, restarted: bool
    ) -> "BareAddresses":
        """Return the state with these numbers in place of its own. numbers: by position of the address."""
        if not numbers:
            return self
        rows = [*numbers]
        unrouted = self.unrouted.copy()
        counter = self.counter.copy()
        since = self.since.copy()
        unrouted[rows] = [number.unrouted for number in numbers.values()]
        counter[rows] = [number.counter for number in numbers.values()]
        since[rows] = [number.since for number in numbers.values()]
        if restarted:
            counter[rows] = 0.0  # a broker that starts counts from 0
        return replace(self, unrouted=unrouted, counter=counter, since=since)

    def _numbers_of(self, wanted: Mask | np.bool_) -> dict[str, Kept]:
        """Return by name the numbers of the addresses that are `wanted` and have unrouted messages."""
        rows = np.flatnonzero((self.unrouted > 0) & wanted)
        numbers = map(
            Kept,
            self.unrouted[rows].tolist(),
            self.counter[rows].tolist(),
            self.since[rows].tolist(),
        )
        names = [row.name for row in self.index.rows[rows]]
        return dict(zip(names, numbers, strict=True))

    def with_queues(self, join: AddressJoin, books: AddressBooks) -> "BareAddresses":
        """Return the state with the unrouted messages of addresses with queues, by the books of these.

        So the sum of an address goes on when its last queue goes. What filters refused is not unrouted.
        """
        # The books did not go on with this poll, or there are no queues.
        if books.index is not join.queues or not len(join.at):
            return self
        is_listed = join.at >= 0
        of_queues = or_zero(books.unrouted - books.refused)
        unrouted = self.unrouted.copy()
        unrouted[join.at[is_listed]] = of_queues[is_listed]
        return replace(self, unrouted=unrouted)

    def by_queue(self, join: AddressJoin) -> Column:
        """(queues,) Unrouted messages of the address until the last poll, 0 where that is not known."""
        if join.addresses is None or not len(self.index):
            return np.zeros(len(join.at))
        positions = join.addresses.positions_in(self.index)
        by_address = take_or_fill(self.unrouted, positions, 0.0)
        return take_or_fill(by_address, join.at, 0.0)

    def begun_anew(self) -> "BareAddresses":
        """Return the state for another process, which counts from 0 on and has other keys: numbers are kept by name."""
        numbers = {
            name: number._replace(counter=0.0)
            for name, number in self._numbers_of(np.True_).items()
        }
        return BareAddresses(kept={**self.kept, **numbers})

    @property
    def totals(self) -> dict[str, Kept]:
        """The numbers of all addresses by name, also of those that are not listed."""
        return {**self.kept, **self._numbers_of(np.True_)}


def without_queue(addresses: Table[AddressRow], join: AddressJoin) -> Mask:
    """(addresses,) True where it has no queue, and applications send to it."""
    has_queue = np.zeros(len(addresses), np.bool_)
    has_queue[join.at[join.at >= 0]] = True
    by_broker = addresses.index.column("of the broker", is_sent_to_by_broker) > 0
    is_temporary = addresses["temporary"] > 0
    return ~has_queue & ~by_broker & ~is_temporary


def is_sent_to_by_broker(row: AddressRow) -> bool:
    return row.name.startswith(SENT_TO_BY_BROKER)


def with_divert(addresses: Index[AddressRow], snapshot: Snapshot) -> Mask:
    """(addresses,) True where a divert takes messages."""
    diverted = np.zeros(len(addresses), np.bool_)
    if snapshot.diverts:
        sources = {source for source, _ in snapshot.diverts}
        diverted[addresses.where("name", lambda row: row.name, sources)] = True
    return diverted
