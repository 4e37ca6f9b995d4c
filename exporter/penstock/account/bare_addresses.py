"""Addresses without a queue of their own: what was sent to them reached no queue, or one of a wildcard or a divert.

An address outlives its queues, and its account of what was unrouted goes on when it gets a queue or loses its last one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.account.address_books import AddressBooks
from penstock.account.wildcards import Wildcards, rises
from penstock.core.state import RowState, column, mask, unindexed
from penstock.core.table import Column, Mask, Table, put, take_or_fill
from penstock.model import AddressRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero

INTERNAL = ("$", "activemq.", "ActiveMQ.Advisory.")
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
        before, size = self.returned(addresses, restarted=found.restarted), len(addresses)
        unrouted, routed = addresses["messages_unrouted"], addresses["messages_added"]
        bare = np.ones(size, np.bool_)
        bare[join.at[join.at >= 0]] = False
        bare &= ~(addresses.index.column("of the broker", lambda row: row.name.startswith(INTERNAL)) > 0)
        bare &= ~(addresses["temporary"] > 0)
        from_zero = watched or found.restarted
        came = rises(before.counter, unrouted, self.index, addresses.index, watched=from_zero)
        routed_now = rises(before.own, routed, self.index, addresses.index, watched=from_zero)
        new = np.zeros(size, np.bool_)
        new[addresses.index.new_since(self.index)] = True
        # What was routed while it still had a queue went there.
        without_queue = bare & (before.bare | new)
        diverted = np.zeros(size, np.bool_)
        if snapshot.diverts:
            sources = {source for source, _ in snapshot.diverts}
            diverted[addresses.index.where("name", lambda row: row.name, sources)] = True
        return BareAddresses(
            index=addresses.index,
            bare=bare,
            since=put(before.since, np.isnan(before.since), found.now),
            unrouted=before.unrouted + np.where(bare, came, 0.0),
            routed=before.routed + np.where(without_queue, routed_now, 0.0),
            counter=np.where(np.isnan(unrouted), before.counter, unrouted),
            own=np.where(np.isnan(routed), before.own, routed),
            to_wildcard=wildcards.reaches,
            diverted=diverted,
            kept=before.kept,
        )

    def returned(self, addresses: Table[AddressRow], *, restarted: bool) -> "BareAddresses":
        """By the rows of `addresses`, with what is kept of those that are listed again; others are kept."""
        if addresses.index is self.index:
            return self
        moved, kept = self.reindexed(addresses.index), dict(self.kept)
        gone = addresses.index.positions(self.index.keys) < 0
        for at in np.flatnonzero(gone & (self.unrouted > 0)).tolist():
            kept[self.index.rows[at].name] = Kept(*map(float, (self.unrouted[at], self.counter[at], self.since[at])))
        new = addresses.index.new_since(self.index).tolist() if kept else []
        back = {at: kept.pop(name) for at in new if (name := addresses.index.rows[at].name) in kept}
        while len(kept) > MOST_KEPT:
            del kept[next(iter(kept))]
        if not back:
            return replace(moved, kept=kept)
        places, (total, counter, since) = [*back], (np.array(one) for one in zip(*back.values(), strict=True))
        columns = {name: getattr(moved, name).copy() for name in ("unrouted", "counter", "since")}
        columns["unrouted"][places] = total
        columns["counter"][places] = 0.0 if restarted else counter  # a broker counts from 0 on when it starts
        columns["since"][places] = since
        return replace(moved, kept=kept, **columns)

    def with_queues(self, join: AddressJoin, books: AddressBooks) -> "BareAddresses":
        """With what the account of addresses with queues says, so that it goes on when the last queue goes."""
        if books.index is not join.queues or not len(join.at):
            return self
        here = join.at >= 0
        unrouted = self.unrouted.copy()
        unrouted[join.at[here]] = or_zero(books.unrouted - books.refused)[here]
        return replace(self, unrouted=unrouted)

    def by_queue(self, join: AddressJoin) -> Column:
        """What was unrouted at each queue's address until the last poll, 0 where that is not known."""
        if join.addresses is None or not len(self.index):
            return np.zeros(len(join.at))
        at = join.addresses.positions_in(self.index)
        return take_or_fill(take_or_fill(self.unrouted, at, 0.0), join.at, 0.0)

    def begun_anew(self) -> "BareAddresses":
        """Another process counts from now on, and numbers addresses otherwise: what was unrouted is kept by name."""
        some = np.flatnonzero(self.unrouted > 0).tolist()
        names = {self.index.rows[at].name: Kept(float(self.unrouted[at]), 0.0, float(self.since[at])) for at in some}
        return BareAddresses(kept={**self.kept, **names})

    @property
    def totals(self) -> dict[str, Kept]:
        """By name, also of those that are not listed."""
        some = np.flatnonzero(self.unrouted > 0).tolist()
        listed = {
            self.index.rows[at].name: Kept(*map(float, (self.unrouted[at], self.counter[at], self.since[at])))
            for at in some
        }
        return {**self.kept, **listed}
