"""What an address routed and its queues did not get.

R and U are read before the queues' A, so that what is missing is never too high by the order of reads; the least of
three polls counts. The numbers are of addresses, by the rows of their queues: all queues of one have the same.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np

from penstock.account.queue_books import QueueBooks
from penstock.account.reading import meanwhile, read
from penstock.account.wildcards import Wildcards, is_wildcard, new_rows
from penstock.core.state import By, RowState, column, counter, declared, mask, unindexed
from penstock.core.table import Column, Index, Mask, Matrix, Table, put, take_or_fill
from penstock.model import AddressRow, QueueKind, QueueRow, Snapshot
from penstock.observation.facts import AddressJoin, Facts, or_zero

StateT = TypeVar("StateT", bound=RowState)

NEARLY_FULL = 90.0
"""Percent of an address's limit at which it may have been full between two polls."""


class Missing(IntEnum):
    """Why no queue got what an address routed, by the address's settings."""

    UNKNOWN = 0
    """No setting says it: sent in a transaction that is open or was rolled back, taken by an exclusive divert, or sent
    with a routing type that none of its queues has.
    """
    DROPPED = 1
    REJECTED = 2
    UNWANTED = 3
    """No queue's filter wants it."""


class AlsoKnown(NamedTuple):
    """What other parts of the account know at this poll. unrouted: by queue, of its address until the last poll, also
    while that had no queue. returned: queues that the last poll did not list, and one before it did.
    """

    wildcards: Wildcards
    unrouted: Column
    returned: Mask


@dataclass(frozen=True, slots=True)
class AddressBooks(RowState):
    """Per queue, of its address. routed0, came0: R, and what came to this queue, when they were compared first.

    earlier: R from `since` of the queue's books until then; their sheets are of both.
    slack: at most so many were missing then, or came between those two reads, negative: fewer were missing since;
    floor: at least. least, most: missing since then, whatever the reason. booked: the part that is in dropped, rejected
    or unwanted. aside: missing before there was such a reason. refused: of `unrouted`, by the filters of its queues,
    and in unwanted. partly: what was missing before is not known. full: the address was nearly full once. reason: a
    `Missing`, NaN where settings or several queues do not say; policy: by what a full address does, NaN: not known.
    unfiltered: queues without a filter. still: nothing came since the poll before: what is missing is exact. begins:
    compared first at this poll. born: the address was made since the poll before. unsure0: of what is routed to the
    addresses that a wildcard matches, so many may have gone elsewhere when they were compared first. wildcard: it is a
    wildcard address.
    """

    BY = By.QUEUE
    STORED_AS = "account_"
    routed0: Column = counter()
    came0: Column = counter()
    earlier: Column = counter(0.0, outlives=True)
    slack: Column = counter()
    floor: Column = counter()
    booked: Column = counter()
    aside: Column = counter()
    dropped: Column = counter(outlives=True)
    rejected: Column = counter(outlives=True)
    unwanted: Column = counter(outlives=True)
    unrouted0: Column = counter()
    unrouted: Column = column(0.0, outlives=True, saved=False)
    refused: Column = counter(0.0, outlives=True)
    partly: Column = counter(0.0, outlives=True)
    full: Column = counter(0.0, outlives=True)
    reason: Column = column(saved=False)
    policy: Column = column(saved=False)
    unfiltered: Column = column(saved=False)
    low: Matrix = column(lines=3, saved=False)
    high: Matrix = column(lines=3, saved=False)
    least: Column = column(saved=False)
    most: Column = column(saved=False)
    routed: Column = column(saved=False)
    came: Column = column(saved=False)
    unsure0: Column = column(0.0, saved=False)
    wildcard: Mask = mask(saved=False)
    still: Mask = mask(saved=False)
    begins: Mask = mask(saved=False)
    born: Mask = mask(saved=False)
    addresses: Index[AddressRow] = unindexed(Index.empty)

    def advance(
        self,
        found: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        books: QueueBooks,
        known: "AlsoKnown",
        *,
        watched: bool,
    ) -> "AddressBooks":
        """watched: as of `QueueBooks.advance`."""
        addresses = read(snapshot, snapshot.addresses, "addresses")
        if addresses is None:
            return self.reindexed(
                found.queues
            )  # R of an earlier poll cannot be compared with A of this one
        before = with_siblings(self, join)
        goes_on = ~np.isnan(before.unrouted0)
        wildcards = known.wildcards
        unrouted = np.where(
            goes_on, before.unrouted, np.fmax(known.unrouted, before.unrouted)
        )
        before = replace(before, unrouted=unrouted)
        wildcard = (
            found.queues.column("wildcard", lambda row: is_wildcard(row.address)) > 0
        )
        routed = join.by_queue(addresses, "messages_added")
        unsure = np.zeros(len(routed))
        if wildcard.any():
            routed = routed + take_or_fill(wildcards.total, join.at, 0.0, join.unknown)
            unsure = take_or_fill(wildcards.unsure, join.at, 0.0, join.unknown)
            routed = put(routed, wildcard & (not wildcards.matches.complete), np.nan)
        begins = (
            np.isnan(before.routed0)
            | (routed < before.routed)
            | other_queues(self.index, found.queues, join)
        )
        if not watched:  # of queues that came or went while no one looked it is not known what came to them
            begins[:] = True
        # While one of several queues was not listed, the others were compared without it.
        one_returned = known.returned & (join.queues_of > 1)
        begins |= join.of_all_queues(one_returned.astype(np.float64)) > 0
        begins &= ~np.isnan(routed)
        # A queue may be listed one poll before its address.
        was_listed = (found.queues.positions_in(self.index) >= 0) & (
            ~np.isnan(before.routed0) | (not watched)
        )
        new = new_rows(addresses.index, self.addresses)
        born = begins & watched & take_or_fill(new, join.at, fill=False)
        routed0 = put(before.routed0, begins, put(routed, born, 0.0))
        came0 = put(before.came0, begins, put(books.came, born, 0.0))
        since_then = (
            or_zero(routed) if found.restarted else routed_until(before, routed)
        )
        earlier = before.earlier + np.where(begins & ~born, since_then, 0.0)
        unsure0 = put(before.unsure0, begins, put(unsure, born, 0.0))
        came = came_to_address(join, found.queues, books.came - came0)
        # By the poll before; NaN where there is none to compare with.
        moved = np.maximum(
            routed - before.routed,
            join.of_all_queues(or_zero(books.came - before.came)),
        )
        low = np.vstack(
            [before.low[1:], routed - routed0 - came[1] - (unsure - unsure0)]
        )
        high = np.vstack(
            [
                before.high[1:],
                routed
                - routed0
                - came[0]
                + meanwhile(found, snapshot, moved, "addresses", "queues"),
            ]
        )
        low[:2, begins] = high[:2, begins] = np.nan
        still = (moved == 0) & ~begins
        # All that was routed until the next poll may have come between the first two reads: a burst knows no mean.
        slack = put(
            before.slack,
            np.isnan(before.slack),
            put(routed - before.routed, begins, np.nan),
        )
        # What is missing falls when a transaction is committed that was open then: it was less from the begin.
        slack = np.fmin(slack, low[2] + moved)
        floor = put(
            np.where(still, np.fmin(before.floor, low[2]), before.floor), begins, 0.0
        )
        slack = put(put(slack, begins, np.nan), born, 0.0)
        late = join.of_all_queues(
            or_zero(books.late - books.on_arrival)
        )  # may have expired before they were added
        least = np.maximum(
            np.where(still, low[2], np.min(low, axis=0)) - slack - late, 0.0
        )
        most = np.where(still, high[2], np.max(high, axis=0)) - floor
        compared = replace(
            before,
            routed0=routed0,
            came0=came0,
            earlier=earlier,
            slack=slack,
            floor=floor,
            low=low,
            high=high,
            least=least,
            most=np.maximum(most, or_zero(least)),
            still=still,
            partly=put(before.partly, begins & was_listed, 1.0),
            routed=routed,
            came=books.came,
            unsure0=unsure0,
            wildcard=wildcard,
            begins=begins,
            born=born,
            addresses=addresses.index,
        )
        return compared.with_reasons(before, found, addresses, join, wildcards)

    def begun_anew(self) -> "AddressBooks":
        """The broker counts from 0 again."""
        routed = np.fmax(or_zero(self.routed - self.routed0), 0.0)
        closed = replace(self, earlier=self.earlier + routed)
        return super(AddressBooks, closed).begun_anew()

    @property
    def routed_in_all(self) -> Column:
        """R since the queues' books began; NaN where it was not read."""
        total: Column = self.earlier + self.routed - self.routed0
        return total

    def with_reasons(
        self,
        before: "AddressBooks",
        found: Facts,
        addresses: Table[AddressRow],
        join: AddressJoin,
        wildcards: Wildcards,
    ) -> "AddressBooks":
        """With what is missing booked to its reason."""
        restarted = found.restarted  # so that U began at 0
        full = put(before.full, nearly_full(found, addresses, join), 1.0)
        policy = missing_by_policy(addresses, join)
        unfiltered = join.of_all_queues(
            self.index.column("unfiltered", lambda row: not row.filter)
        )
        has_others = take_or_fill(
            wildcards.reaches, join.at, fill=False, new=join.unknown
        )
        reason = put(
            reasons(policy, unfiltered, full, has_others, self.index),
            np.isnan(self.low[2]),
            np.nan,
        )
        booked, aside = (
            or_zero(put(part, self.begins, 0.0))
            for part in (before.booked, before.aside)
        )
        books_it = reason > Missing.UNKNOWN
        grown = np.where(
            books_it, np.fmax(or_zero(self.least) - aside - booked, 0.0), 0.0
        )

        def with_grown(kept: Column, why: Missing) -> Column:
            kept = or_zero(kept)
            return put(kept, reason == why, kept + grown)

        # At rest all that is missing; else what is surely more than the noise of reading.
        before_reason = np.fmax(
            or_zero(np.where(self.still, self.most, self.low.max(axis=0))) - booked, 0.0
        )
        unrouted = join.by_queue(addresses, "messages_unrouted")
        restarts = np.isnan(before.unrouted0) | (
            unrouted - before.unrouted0 < before.unrouted
        )
        unrouted0 = put(
            before.unrouted0,
            restarts,
            put(unrouted, self.born | restarted, 0.0) - before.unrouted,
        )
        unrouted = np.fmax(before.unrouted, unrouted - unrouted0)
        # Newer brokers count what no filter wants as unrouted (2.55), older ones as routed (2.44).
        refused = np.where(
            (unfiltered == 0) & ~self.begins, or_zero(unrouted - before.unrouted), 0.0
        )
        return replace(
            self,
            booked=booked + grown,
            aside=np.where(
                books_it | ~(policy > Missing.UNKNOWN), aside, before_reason
            ),
            dropped=with_grown(before.dropped, Missing.DROPPED),
            rejected=with_grown(before.rejected, Missing.REJECTED),
            unwanted=with_grown(before.unwanted, Missing.UNWANTED) + refused,
            unrouted0=unrouted0,
            unrouted=unrouted,
            refused=before.refused + refused,
            full=full,
            reason=reason,
            policy=policy,
            unfiltered=unfiltered,
        )


def routed_until(before: AddressBooks, routed: Column) -> Column:
    """What was routed since the queues were compared first, until they are compared again: at least, where R fell.

    before: of the poll before. routed: R now.
    """
    goes_on = routed >= np.fmax(before.routed0, or_zero(before.routed))
    until = np.where(goes_on, routed, before.routed)
    return np.fmax(or_zero(until - before.routed0), 0.0)


def with_siblings(state: StateT, join: AddressJoin) -> StateT:
    """`state` by the queues of `join`: a new queue of an address that is known has what the others of it have."""
    assert join.queues is not None  # noqa: S101 - the caller has advanced it
    index = join.queues
    before = state.index
    moved = state.reindexed(index)
    new = index.new_since(before) if index is not before else np.empty(0, np.intp)
    if not len(new) or len(new) == len(index):
        return moved
    known = np.ones(len(index), np.bool_)
    known[new] = False
    others = np.full(int(join.at.max(initial=-1)) + 2, -1, np.intp)
    others[join.at[known] + 1] = np.flatnonzero(known)
    others[0] = -1
    source = np.arange(len(index))
    source[new] = np.where(others[join.at[new] + 1] >= 0, others[join.at[new] + 1], new)
    return replace(
        moved,
        **{name: getattr(moved, name)[..., source] for name in declared(type(moved))},
    )


def other_queues(
    before: Index[QueueRow], queues: Index[QueueRow], join: AddressJoin
) -> Mask:
    """Queues of addresses that have a queue more or less than before."""
    other = np.zeros(len(queues), np.bool_)
    if queues is before:
        return other
    other[queues.new_since(before)] = True
    gone = {row.address for row in before.rows[queues.positions(before.keys) < 0]}
    if gone:
        other |= np.fromiter(
            (row.address in gone for row in queues), np.bool_, len(queues)
        )
    return join.of_all_queues(other.astype(np.float64)) > 0


def came_to_address(
    join: AddressJoin, queues: Index[QueueRow], came: Column
) -> tuple[Column, Column]:
    """How many different messages came to the queues of each address, at least and at most. came: to each queue.
    Anycast queues share them, each multicast queue gets all that its filter wants; NaN where an address has both.
    """
    if not (join.queues_of > 1).any():
        return came, came
    count = join.queues_of
    total = join.of_all_queues(or_zero(came))
    multicast = queues.column("multicast", lambda row: row.routing_type == "multicast")
    unfiltered = queues.column("unfiltered", lambda row: not row.filter)
    copies = join.of_all_queues(multicast)
    most_of_one = max_of_address(join, or_zero(came))
    of_unfiltered = max_of_address(
        join, np.where(unfiltered > 0, or_zero(came), -np.inf)
    )
    some = np.isfinite(of_unfiltered)
    least = np.where(copies == 0, total, np.where(some, of_unfiltered, most_of_one))
    most = np.where((copies == 0) | ~some, total, of_unfiltered)
    mixed = (count > 1) & (copies > 0) & (copies < count)
    return (
        np.where(mixed, np.nan, np.where(count > 1, least, came)),
        np.where(mixed, np.nan, np.where(count > 1, most, came)),
    )


def max_of_address(join: AddressJoin, values: Column) -> Column:
    """Per queue the largest of `values` over the queues of its address."""
    largest = np.full(int(join.at.max(initial=-1)) + 2, -np.inf)
    np.maximum.at(largest, join.at + 1, values)
    return largest[join.at + 1]


def missing_by_policy(addresses: Table[AddressRow], join: AddressJoin) -> Column:
    """A `Missing` by what a full address does; NaN while that is not known."""
    policies = {"drop": Missing.DROPPED, "fail": Missing.REJECTED, "": np.nan}

    def by_settings(row: AddressRow) -> float:
        when_full = (
            row.page_full_policy if pages(row) and row.page_full_policy else row.policy
        )
        return policies.get(when_full, Missing.UNKNOWN)

    policy = addresses.index.column("missing", by_settings)
    return take_or_fill(policy, join.at, np.nan, join.unknown)


def pages(row: AddressRow) -> bool:
    """Whether it writes messages to page files when it is full."""
    return row.policy == "page"


def nearly_full(found: Facts, addresses: Table[AddressRow], join: AddressJoin) -> Mask:
    """Queues of addresses that are so full that they may have dropped or refused messages between two polls."""
    is_paging = join.by_queue(addresses, "paging") > 0
    memory_full = (join.by_queue(addresses, "limit_percent") >= NEARLY_FULL) | is_paging
    pages_when_full = (
        take_or_fill(addresses.index.column("pages", pages), join.at, 0.0, join.unknown)
        > 0
    )
    share = NEARLY_FULL / 100
    page_files_full = join.by_queue(addresses, "pages") >= share * join.by_queue(
        addresses, "page_limit_pages"
    )
    most_messages = join.by_queue(addresses, "page_limit_messages")
    messages_full = (most_messages >= 0) & (
        join.of_all_queues(or_zero(found.messages)) >= share * most_messages
    )
    pages_full = is_paging & (page_files_full | messages_full)
    return np.where(pages_when_full, pages_full, memory_full)


def reasons(
    policy: Column,
    unfiltered: Column,
    full: Column,
    has_others: Mask,
    queues: Index[QueueRow],
) -> Column:
    """A `Missing` for each queue's address; NaN where its policy is not known or two reasons are possible: a queue on a
    wildcard address may want what no filter here does (has_others), another broker of the cluster may have got any.
    """
    limits = np.where((policy > Missing.UNKNOWN) & ~(full > 0), Missing.UNKNOWN, policy)
    if queues.column("linked", lambda row: row.kind is QueueKind.LINK).any():
        return np.where(
            limits > Missing.UNKNOWN, np.nan, np.where(unfiltered > 0, limits, np.nan)
        )
    filters = np.where(
        (limits == Missing.UNKNOWN) & ~has_others, Missing.UNWANTED, np.nan
    )
    return np.where(unfiltered > 0, limits, filters)
