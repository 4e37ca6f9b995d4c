"""Messages that an address routed and its queues did not get, booked to a reason where settings name one.

The counters of an address are R (routed) and U (unrouted, as it had no queue). *Missing* is what R says and the A
(added) of its queues does not, since the address and its queues were first *compared*:

    missing = (R - routed0) - (what came to the queues - came0)

R and U are read before the queues' A, so that the order of reads makes this too low, never too high; the lowest of
three polls counts as at least, and at most has `reading.meanwhile` added. Comparing begins again where R fell, the
address has another queue than before, or polls are missing in between. The numbers belong to addresses but stand in the
rows of their queues: all queues of an address have the same.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np

from penstock.account.last_polls import shifted
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
    """Numbers of other parts of the account at this poll."""

    wildcards: Wildcards
    unrouted: Column
    """(queues,) Messages that the address did not route until the last poll, also while it had no queue."""
    returned: Mask
    """(queues,) True where this poll lists the queue again that the last one did not list, and one before it did."""


@dataclass(frozen=True, slots=True)
class AddressBooks(RowState):
    """The account of each queue's address; all columns are by queue."""

    BY = By.QUEUE
    STORED_AS = "account_"
    routed0: Column = counter()
    """R when the address and its queues were compared first."""
    came0: Column = counter()
    """Messages that had come to this queue then."""
    earlier: Column = counter(0.0, outlives=True)
    """R between `since` of the queue's books and `routed0`, so that both accounts begin at the same moment."""
    slack: Column = counter()
    """What `low` is too high by, at most: missing already when comparing began, or came between those two reads.

    It is negative where fewer have been missing since than at the begin.
    """
    floor: Column = counter()
    """What `high` is too high by, at least: the lowest number that was missing at a poll while nothing came."""
    booked: Column = counter()
    """The part of the missing messages that is in `dropped`, `rejected` or `unwanted`."""
    aside: Column = counter()
    """Messages that were missing before settings gave a reason: these are not booked to it."""
    dropped: Column = counter(outlives=True)
    rejected: Column = counter(outlives=True)
    unwanted: Column = counter(outlives=True)
    unrouted0: Column = counter()
    """U less `unrouted`, so that the sum goes on where U begins at 0 again."""
    unrouted: Column = column(0.0, outlives=True, saved=False)
    refused: Column = counter(0.0, outlives=True)
    """The part of `unrouted` that the filters of the queues refused; also in `unwanted`."""
    partly: Column = counter(0.0, outlives=True)
    """1 where comparing began again, and it is not known what was missing before."""
    full: Column = counter(0.0, outlives=True)
    """1 where the address was nearly full once."""
    reason: Column = column(saved=False)
    """A `Missing`; NaN where settings or several queues do not say."""
    policy: Column = column(saved=False)
    """A `Missing` by the setting for what a full address does, even if it was never full; NaN: not known."""
    unfiltered: Column = column(saved=False)
    """Queues of the address without a filter."""
    low: Matrix = column(lines=3, saved=False)
    """(polls, queues) Messages that were missing at the last polls, at least; `slack` is not subtracted yet."""
    high: Matrix = column(lines=3, saved=False)
    """(polls, queues) Messages that were missing at the last polls, at most; `floor` is not subtracted yet."""
    least: Column = column(saved=False)
    """Messages, at least, that are missing since comparing began, whatever the reason."""
    most: Column = column(saved=False)
    """`least`, but at most."""
    routed: Column = column(saved=False)
    """R at the last poll."""
    came: Column = column(saved=False)
    """Messages that had come to this queue by the last poll, in all."""
    unsure0: Column = column(0.0, saved=False)
    """Messages for a wildcard address that may have gone elsewhere, when it was compared first."""
    wildcard: Mask = mask(saved=False)
    """True where it is a wildcard address."""
    still: Mask = mask(saved=False)
    """True where nothing came since the poll before: what is missing is exact."""
    begins: Mask = mask(saved=False)
    """True where the address and its queues are compared first at this poll."""
    born: Mask = mask(saved=False)
    """True where the address was made since the poll before."""
    addresses: Index[AddressRow] = unindexed(Index.empty)

    def advance(
        self,
        facts: Facts,
        snapshot: Snapshot,
        join: AddressJoin,
        books: QueueBooks,
        also: AlsoKnown,
        *,
        watched: bool,
    ) -> "AddressBooks":
        """Return the books after one more poll. also: from other parts of the account.

        watched: as for `QueueBooks.advance`.
        """
        addresses = read(snapshot, snapshot.addresses, "addresses")
        if addresses is None:
            # R of an earlier poll cannot be compared with A of this one.
            return self.reindexed(facts.queues)
        before = with_siblings(self, join).with_unrouted(also.unrouted)
        routed = RoutedNow.of(facts.queues, addresses, join, also.wildcards)
        begins = self.compares_first(before, routed.routed, join, also, watched=watched)
        is_new = take_or_fill(
            new_rows(addresses.index, self.addresses), join.at, fill=False
        )
        was_listed = self.was_listed(before, facts.queues, watched=watched)

        compared = before.with_begin(begins, is_new & watched, was_listed)
        compared = compared.with_base(before, routed, books, restarted=facts.restarted)
        moved = moved_since(before, routed.routed, books, join)
        noise = meanwhile(facts, snapshot, moved, "addresses", "queues")
        compared = compared.with_missing(before, routed, books, join, noise)
        compared = compared.with_slack(before, routed, moved)
        compared = compared.with_bounds(books, join)
        compared = replace(
            compared,
            routed=routed.routed,
            came=books.came,
            wildcard=routed.is_wildcard,
            addresses=addresses.index,
        )
        return compared.with_reasons(before, facts, addresses, join, also.wildcards)

    def with_unrouted(self, unrouted: Column) -> "AddressBooks":
        """Return the books of new queues with what was unrouted while the address had no queue.

        unrouted: (queues,) by `BareAddresses`.
        """
        is_unknown = np.isnan(self.unrouted0)
        highest = np.fmax(unrouted, self.unrouted)
        return replace(self, unrouted=np.where(is_unknown, highest, self.unrouted))

    def compares_first(
        self,
        before: "AddressBooks",
        routed: Column,
        join: AddressJoin,
        also: AlsoKnown,
        *,
        watched: bool,
    ) -> Mask:
        """(queues,) True where comparing begins at this poll: for the first time, or again.

        It begins again where R fell, where the address has a queue more or less, where one of its queues was not listed
        for a time, and for all after the agent was away.
        """
        assert join.queues is not None  # noqa: S101 - the caller has advanced it
        is_unknown = np.isnan(before.routed0)
        fell = routed < before.routed
        begins = is_unknown | fell | other_queues(self.index, join.queues, join)
        if not watched:
            # It is not known what came to queues that came or went while the agent was away.
            begins[:] = True
        # While one of several queues was not listed, the others were compared without it.
        one_returned = also.returned & (join.queues_of > 1)
        begins |= join.of_all_queues(one_returned.astype(np.float64)) > 0
        return begins & ~np.isnan(routed)

    def was_listed(
        self, before: "AddressBooks", queues: Index[QueueRow], *, watched: bool
    ) -> Mask:
        """(queues,) True where the queue and its address were both there before, so that messages may be missing.

        A queue may be listed one poll before its address.
        """
        was_there = queues.positions_in(self.index) >= 0
        had_address = ~np.isnan(before.routed0) | (not watched)
        return was_there & had_address

    def with_begin(
        self, begins: Mask, is_new: Mask, was_listed: Mask
    ) -> "AddressBooks":
        """Return the books with the queues for which comparing begins at this poll.

        begins: as `compares_first` returns it. is_new: (queues,) True where the address was made since the poll before.
        was_listed: as `was_listed` returns it: for these it is not known what was missing before.
        """
        return replace(
            self,
            begins=begins,
            born=begins & is_new,
            partly=put(self.partly, begins & was_listed, 1.0),
        )

    def at_begin(self, before: Column, number: Column) -> Column:
        """(queues,) A number as it was when comparing began.

        That is 0 for an address that was just made, `number` where comparing begins now, else `before`, as it was.
        """
        return put(before, self.begins, put(number, self.born, 0.0))

    def with_base(
        self,
        before: "AddressBooks",
        routed: "RoutedNow",
        books: QueueBooks,
        *,
        restarted: bool,
    ) -> "AddressBooks":
        """Return the books with the numbers at which comparing began: R and what had come to the queues.

        What was routed before that, since the last time that comparing began, goes into `earlier`. After a restart of
        the broker that is all that R shows.
        """
        until_now = routed_until(before, routed.routed)
        if restarted:
            until_now = or_zero(routed.routed)
        # `routed0` of a new address is 0: nothing was routed before.
        begins_later = self.begins & ~self.born
        earlier = np.where(begins_later, until_now, 0.0)
        return replace(
            self,
            routed0=self.at_begin(before.routed0, routed.routed),
            came0=self.at_begin(before.came0, books.came),
            unsure0=self.at_begin(before.unsure0, routed.unsure),
            earlier=before.earlier + earlier,
        )

    def with_missing(
        self,
        before: "AddressBooks",
        routed: "RoutedNow",
        books: QueueBooks,
        join: AddressJoin,
        noise: Column,
    ) -> "AddressBooks":
        """Return the books with what is missing at this poll: R less what came to the queues, at least and at most.

        Polls before comparing began do not count: their lines are NaN.

        noise: (queues,) messages that may have come between the reads of addresses and queues.
        """
        came_since = books.came - self.came0
        came_least, came_most = came_to_address(join, books.index, came_since)
        routed_since = routed.routed - self.routed0
        unsure = routed.unsure - self.unsure0
        low = shifted(before.low, routed_since - came_most - unsure)
        high = shifted(before.high, routed_since - came_least + noise)
        low[:2, self.begins] = np.nan
        high[:2, self.begins] = np.nan
        return replace(self, low=low, high=high)

    def with_slack(
        self, before: "AddressBooks", routed: "RoutedNow", moved: Column
    ) -> "AddressBooks":
        """Return the books with `slack` and `floor`: how much was missing when comparing began, at most and at least.

        `slack` is known one poll later, and is 0 for a new address. Both fall with every lower number of missing
        messages: what was not missing later was not lost at the begin. `floor` takes only polls while nothing came.

        moved: (queues,) messages that came to the address since the poll before.
        """
        low = self.low[2]
        still = (moved == 0) & ~self.begins
        # All that was routed until the next poll may have come between the first two reads, as in a burst.
        rose = put(routed.routed - before.routed, self.begins, np.nan)
        slack = put(before.slack, np.isnan(before.slack), rose)
        # What is missing falls when a transaction is committed that was open then: it was less from the begin.
        slack = np.fmin(slack, low + moved)
        slack = put(slack, self.begins, np.nan)
        floor = np.where(still, np.fmin(before.floor, low), before.floor)
        return replace(
            self,
            still=still,
            slack=put(slack, self.born, 0.0),
            floor=put(floor, self.begins, 0.0),
        )

    def with_bounds(self, books: QueueBooks, join: AddressJoin) -> "AddressBooks":
        """Return the books with what is missing since comparing began, at least and at most.

        While nothing comes, the numbers of this poll are exact; else the lowest and highest of three polls count.
        """
        # R has counted messages that expired on arrival, and `came` only as many of them as are sure.
        late = join.of_all_queues(or_zero(books.late - books.on_arrival))
        low = np.where(self.still, self.low[2], np.min(self.low, axis=0))
        high = np.where(self.still, self.high[2], np.max(self.high, axis=0))
        least = np.maximum(low - self.slack - late, 0.0)
        most = np.maximum(high - self.floor, or_zero(least))
        return replace(self, least=least, most=most)

    def begun_anew(self) -> "AddressBooks":
        """Return the books for a broker that counts from 0 again: what it routed by now is in `earlier`."""
        routed = np.fmax(or_zero(self.routed - self.routed0), 0.0)
        closed = replace(self, earlier=self.earlier + routed)
        return super(AddressBooks, closed).begun_anew()

    @property
    def routed_in_all(self) -> Column:
        """(queues,) R since the queues' books began; NaN where it was not read."""
        total: Column = self.earlier + self.routed - self.routed0
        return total

    def with_reasons(
        self,
        before: "AddressBooks",
        facts: Facts,
        addresses: Table[AddressRow],
        join: AddressJoin,
        wildcards: Wildcards,
    ) -> "AddressBooks":
        """Return the books with the missing messages booked to a reason: dropped, rejected or unwanted."""
        has_no_filter = self.index.column("unfiltered", lambda row: not row.filter)
        reaches = wildcards.reaches
        has_others = take_or_fill(reaches, join.at, fill=False, new=join.unknown)
        is_full = nearly_full(facts, addresses, join)
        books = replace(
            self,
            full=put(before.full, is_full, 1.0),
            policy=missing_by_policy(addresses, join),
            unfiltered=join.of_all_queues(has_no_filter),
        )
        books = books.with_reason(has_others)
        unrouted = join.by_queue(addresses, "messages_unrouted")
        books = books.with_unrouted_now(before, unrouted, restarted=facts.restarted)
        return books.with_missing_booked(before)

    def with_reason(self, has_others: Mask) -> "AddressBooks":
        """Return the books with the reason for which messages are missing; NaN where none can be compared.

        has_others: as for `reasons`.
        """
        reason = reasons(
            self.policy,
            self.unfiltered,
            self.full,
            has_others,
            self.index,
        )
        is_unknown = np.isnan(self.low[2])
        return replace(self, reason=put(reason, is_unknown, np.nan))

    def with_unrouted_now(
        self, before: "AddressBooks", unrouted: Column, *, restarted: bool
    ) -> "AddressBooks":
        """Return the books with the unrouted messages: U less `unrouted0`, which goes on where U begins at 0 again.

        If all queues of an address have filters, none of them wanted what is unrouted now.

        unrouted: (queues,) U now.
        """
        fell = unrouted - before.unrouted0 < before.unrouted
        restarts = np.isnan(before.unrouted0) | fell
        at_begin = put(unrouted, self.born | restarted, 0.0) - before.unrouted
        unrouted0 = put(before.unrouted0, restarts, at_begin)
        total = np.fmax(before.unrouted, unrouted - unrouted0)
        # Newer brokers (2.55) count what no filter wants as unrouted; older ones (2.44) as routed: there it is missing.
        has_filters = (self.unfiltered == 0) & ~self.begins
        refused = np.where(has_filters, or_zero(total - before.unrouted), 0.0)
        return replace(
            self,
            unrouted0=unrouted0,
            unrouted=total,
            refused=before.refused + refused,
        )

    def with_missing_booked(self, before: "AddressBooks") -> "AddressBooks":
        """Return the books with the missing messages that are new added to dropped, rejected or unwanted.

        Each is booked once, `booked` says how many were. What was missing before there was a reason stays `aside`.
        """
        booked = or_zero(put(before.booked, self.begins, 0.0))
        aside = or_zero(put(before.aside, self.begins, 0.0))
        has_reason = self.reason > Missing.UNKNOWN
        not_booked = np.fmax(or_zero(self.least) - aside - booked, 0.0)
        grown = np.where(has_reason, not_booked, 0.0)

        def with_grown(amount: Column, reason: Missing) -> Column:
            """Return the amount with the new messages where they have this reason."""
            amount = or_zero(amount)
            return put(amount, self.reason == reason, amount + grown)

        # While nothing comes, all that is missing; else the highest of three polls, so that no reason gets too much.
        missing = np.where(self.still, self.most, self.low.max(axis=0))
        before_reason = np.fmax(or_zero(missing) - booked, 0.0)
        may_get_reason = self.policy > Missing.UNKNOWN
        keeps_aside = has_reason | ~may_get_reason
        refused = self.refused - before.refused
        return replace(
            self,
            booked=booked + grown,
            aside=np.where(keeps_aside, aside, before_reason),
            dropped=with_grown(before.dropped, Missing.DROPPED),
            rejected=with_grown(before.rejected, Missing.REJECTED),
            unwanted=with_grown(before.unwanted, Missing.UNWANTED) + refused,
        )


class RoutedNow(NamedTuple):
    """Messages that each queue's address has routed, at one poll."""

    routed: Column
    """(queues,) R; at a wildcard address that of all addresses that it matches."""
    unsure: Column
    """(queues,) The part of `routed` that may have gone elsewhere."""
    is_wildcard: Mask
    """(queues,) True where the queue is on a wildcard address."""

    @classmethod
    def of(
        cls,
        queues: Index[QueueRow],
        addresses: Table[AddressRow],
        join: AddressJoin,
        wildcards: Wildcards,
    ) -> "RoutedNow":
        """Return R of each queue's address; NaN for wildcard addresses if not all pairs of them are known."""
        is_wildcard = queues.column("wildcard", is_on_wildcard) > 0
        routed = join.by_queue(addresses, "messages_added")
        if not is_wildcard.any():
            return cls(routed, np.zeros(len(routed)), is_wildcard)
        matched = take_or_fill(wildcards.total, join.at, 0.0, join.unknown)
        unsure = take_or_fill(wildcards.unsure, join.at, 0.0, join.unknown)
        is_unknown = is_wildcard & (not wildcards.matches.complete)
        return cls(put(routed + matched, is_unknown, np.nan), unsure, is_wildcard)


def is_on_wildcard(row: QueueRow) -> bool:
    return is_wildcard(row.address)


def moved_since(
    before: AddressBooks, routed: Column, books: QueueBooks, join: AddressJoin
) -> Column:
    """(queues,) Messages that came to the address since the poll before, by R or by its queues: the higher number.

    NaN where R of one of the two polls is missing.
    """
    to_queues = join.of_all_queues(or_zero(books.came - before.came))
    return np.maximum(routed - before.routed, to_queues)


def routed_until(before: AddressBooks, routed: Column) -> Column:
    """(queues,) Messages that were routed since comparing began last, as it begins again now.

    Where R fell it is what had been routed by the last poll: at least so many.

    before: the books of the poll before. routed: R now.
    """
    goes_on = routed >= np.fmax(before.routed0, or_zero(before.routed))
    until = np.where(goes_on, routed, before.routed)
    return np.fmax(or_zero(until - before.routed0), 0.0)


def with_siblings(state: StateT, join: AddressJoin) -> StateT:
    """Return the state by the queues of `join`; a new queue gets the row of another queue of its address.

    This is for state that belongs to the address. A new queue whose address has no other queue has the fill values.
    """
    assert join.queues is not None  # noqa: S101 - the caller has advanced it
    index = join.queues
    moved = state.reindexed(index)
    if index is state.index:
        return moved
    new = index.new_since(state.index)
    if not len(new) or len(new) == len(index):
        return moved
    is_old = np.ones(len(index), np.bool_)
    is_old[new] = False
    # For each address the row of one old queue, or -1. Queues of unknown addresses (position -1) use element 0.
    sibling_of = np.full(int(join.at.max(initial=-1)) + 2, -1, np.intp)
    sibling_of[join.at[is_old] + 1] = np.flatnonzero(is_old)
    sibling_of[0] = -1
    siblings = sibling_of[join.at[new] + 1]
    source = np.arange(len(index))
    source[new] = np.where(siblings >= 0, siblings, new)
    columns = {
        name: getattr(moved, name)[..., source] for name in declared(type(moved))
    }
    return replace(moved, **columns)


def other_queues(
    before: Index[QueueRow], queues: Index[QueueRow], join: AddressJoin
) -> Mask:
    """(queues,) True where the address has got or lost a queue. before: the queues of the poll before."""
    changed = np.zeros(len(queues), np.bool_)
    if queues is before:
        return changed
    changed[queues.new_since(before)] = True
    is_gone = queues.positions(before.keys) < 0
    addresses = {row.address for row in before.rows[is_gone]}
    if addresses:
        lost_one = (row.address in addresses for row in queues)
        changed |= np.fromiter(lost_one, np.bool_, len(queues))
    return join.of_all_queues(changed.astype(np.float64)) > 0


def came_to_address(
    join: AddressJoin, queues: Index[QueueRow], to_queues: Column
) -> tuple[Column, Column]:
    """Return two columns by queue: how many different messages came to the queues of its address, at least and at most.

    Anycast queues share the messages: the sum of all is exact. Each multicast queue gets a copy of all that its filter
    wants: a queue without a filter has got all; without such a queue they are at least the most that one queue got, at
    most the sum. NaN where an address has queues of both kinds.

    to_queues: (queues,) messages that came to each queue.
    """
    count = join.queues_of
    has_several = count > 1
    if not has_several.any():
        return to_queues, to_queues
    amounts = or_zero(to_queues)
    total = join.of_all_queues(amounts)
    multicast = queues.column("multicast", lambda row: row.routing_type == "multicast")
    copies = join.of_all_queues(multicast)
    is_anycast = copies == 0
    unfiltered = of_unfiltered(join, queues, amounts)
    has_unfiltered = np.isfinite(unfiltered)
    one_copy = np.where(has_unfiltered, unfiltered, max_of_address(join, amounts))
    least = np.where(is_anycast, total, one_copy)
    most = np.where(is_anycast | ~has_unfiltered, total, unfiltered)
    is_mixed = has_several & (copies > 0) & (copies < count)
    least = put(np.where(has_several, least, to_queues), is_mixed, np.nan)
    most = put(np.where(has_several, most, to_queues), is_mixed, np.nan)
    return least, most


def of_unfiltered(
    join: AddressJoin, queues: Index[QueueRow], to_queues: Column
) -> Column:
    """(queues,) The most that came to a queue of the address without a filter; -inf where all have filters."""
    has_no_filter = queues.column("unfiltered", lambda row: not row.filter) > 0
    return max_of_address(join, np.where(has_no_filter, to_queues, -np.inf))


def max_of_address(join: AddressJoin, values: Column) -> Column:
    """(queues,) The largest of `values` over the queues of the address."""
    # Element 0 is for queues whose address is unknown: position -1.
    largest = np.full(int(join.at.max(initial=-1)) + 2, -np.inf)
    np.maximum.at(largest, join.at + 1, values)
    return largest[join.at + 1]


def missing_by_policy(addresses: Table[AddressRow], join: AddressJoin) -> Column:
    """(queues,) A `Missing`, by the address's setting for when it is full; NaN while that is not known.

    An address that pages does so until its page limit; then `page-full-policy` says what it does.
    """
    policies = {"drop": Missing.DROPPED, "fail": Missing.REJECTED, "": np.nan}

    def by_settings(row: AddressRow) -> float:
        policy = row.policy
        if pages(row) and row.page_full_policy:
            policy = row.page_full_policy
        return policies.get(policy, Missing.UNKNOWN)

    reason = addresses.index.column("missing", by_settings)
    return take_or_fill(reason, join.at, np.nan, join.unknown)


def pages(row: AddressRow) -> bool:
    """Return whether the address writes messages to page files when it is full."""
    return row.policy == "page"


def nearly_full(facts: Facts, addresses: Table[AddressRow], join: AddressJoin) -> Mask:
    """(queues,) True where the address is so full that it may have dropped or refused messages between two polls.

    An address that pages when it is full is so only while it pages and nears a page limit; others as they near the
    limit of their memory.
    """
    is_paging = join.by_queue(addresses, "paging") > 0
    fills_memory = join.by_queue(addresses, "limit_percent") >= NEARLY_FULL
    writes_pages = addresses.index.column("pages", pages)
    pages_when_full = take_or_fill(writes_pages, join.at, 0.0, join.unknown) > 0
    is_at_limit = fills_pages(addresses, join) | fills_messages(facts, addresses, join)
    return np.where(pages_when_full, is_paging & is_at_limit, fills_memory | is_paging)


def fills_pages(addresses: Table[AddressRow], join: AddressJoin) -> Mask:
    """(queues,) True where the address has nearly as many page files as it may have."""
    most = NEARLY_FULL / 100 * join.by_queue(addresses, "page_limit_pages")
    return join.by_queue(addresses, "pages") >= most


def fills_messages(
    facts: Facts, addresses: Table[AddressRow], join: AddressJoin
) -> Mask:
    """(queues,) True where the address has nearly as many messages as it may page."""
    limit = join.by_queue(addresses, "page_limit_messages")
    messages = join.of_all_queues(or_zero(facts.messages))
    return (limit >= 0) & (messages >= NEARLY_FULL / 100 * limit)


def reasons(
    policy: Column,
    unfiltered: Column,
    full: Column,
    has_others: Mask,
    queues: Index[QueueRow],
) -> Column:
    """(queues,) A `Missing` for the address; NaN where its policy is not known or two reasons are possible.

    If a queue has no filter, only the limit can be the reason, once the address was full. If all have filters and the
    limit cannot, the filters are. In a cluster a link may have passed any message on to another broker: no reason is
    certain.

    has_others: (queues,) True where queues of a wildcard address get the messages, too, and may want what no filter of
        the address's own queues wants.
    """
    was_never_full = (policy > Missing.UNKNOWN) & ~(full > 0)
    by_limit = np.where(was_never_full, Missing.UNKNOWN, policy)
    has_unfiltered = unfiltered > 0
    in_cluster = queues.column("linked", lambda row: row.kind is QueueKind.LINK).any()
    if in_cluster:
        is_certain = has_unfiltered & ~(by_limit > Missing.UNKNOWN)
        return np.where(is_certain, by_limit, np.nan)
    may_be_unwanted = (by_limit == Missing.UNKNOWN) & ~has_others
    by_filters = np.where(may_be_unwanted, Missing.UNWANTED, np.nan)
    return np.where(has_unfiltered, by_limit, by_filters)
