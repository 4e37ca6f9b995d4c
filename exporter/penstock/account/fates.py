"""The fates of messages: for each, at least and at most how many messages met it; columns are by queue.

A *fate* is what became of a message that is no longer there: acknowledged, expired, evicted ... An amount with a lower
and an upper bound is two columns; where both are equal, the amount is exact.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

import numpy as np

from penstock.account.account import MessageAccount
from penstock.account.address_books import AddressBooks, Missing
from penstock.account.wildcards import expression_of, is_wildcard
from penstock.core.catalogues import read_toml
from penstock.core.table import Column, Index, Mask, Table
from penstock.model import AddressRow, QueueRow

QUEUE_FATES = (
    "acknowledged", "moved", "expired", "dead_lettered", "purged", "evicted", "replaced", "lost_at_restart",
)  # fmt: skip
"""Of messages that came to a queue; purged: also those that an operator removed by a filter."""
ADDRESS_FATES = (
    "unrouted",
    "dropped",
    "rejected",
    "unwanted",
    "duplicate",
    "rolled_back",
    "missing",
)
"""Of messages that came to no queue; each queue has those of its address."""
FATES = (*QUEUE_FATES, *ADDRESS_FATES)
HANDLED = "acknowledged"
"""The fate that messages should meet."""
UNCOMMITTED = "uncommitted"
"""Sent in transactions that are open, and in no queue yet."""


class FateOutcome(StrEnum):
    """What a fate means for a message; `fates.toml` says more."""

    HANDLED = "handled"
    KEPT_OR_LOST = "kept_or_lost"
    LOST = "lost"
    POSSIBLY_LOST = "possibly_lost"


CATALOGUE = read_toml("penstock.account", "fates.toml")
CAUSES: Mapping[str, str] = CATALOGUE["causes"]
"""Who or what gives a message this fate where no client is known; of all but those that consumers acknowledge."""
OUTCOMES: Mapping[str, FateOutcome] = {
    fate: FateOutcome(outcome) for fate, outcome in CATALOGUE["outcomes"].items()
}
LOSSES = tuple(
    fate
    for fate, outcome in OUTCOMES.items()
    if outcome in {FateOutcome.LOST, FateOutcome.POSSIBLY_LOST}
)
"""Fates by which a message is gone, or may be, and no client has handled it."""


def outcome_of(fate: str) -> FateOutcome:
    """Return the outcome of a fate: of one that the catalogue does not know, that messages may be lost."""
    return OUTCOMES.get(fate, FateOutcome.POSSIBLY_LOST)


Bounds = tuple[Column, Column]
"""(queues,) Messages at least and at most; the most is infinite where no upper bound is known."""


def queue_fates(account: MessageAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """Return the bounds of each fate by queue; NaN where nothing is known.

    Where counters began again, messages came and left unseen as the broker went down. They may have met any fate that
    the queue's settings allow: these have no upper bound.
    """
    polled = polled_fates(account, queues)
    is_partly = account.books.partly > 0
    if not is_partly.any():
        return polled
    has_ring = ~np.isnan(queues["ring_limit"])
    has_last_values = queues["last_value"] > 0
    allows = {"evicted": has_ring, "replaced": has_last_values}
    fates = {}
    for fate, (low, high) in polled.items():
        is_unbounded = is_partly & allows.get(fate, True)
        fates[fate] = (low, np.where(is_unbounded, np.inf, high))
    return fates


def polled_fates(account: MessageAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """Return the bounds of each fate without what came and left unseen as the broker went down.

    Two pairs share a counter: acknowledged and moved (K), dead-lettered and purged (X). The most of the one is the
    counter less the least of the other.
    """
    books = account.books
    letters = account.dead_letters
    moves = account.moves
    evicted, replaced = lost_fates(account, queues)
    killed = np.nan_to_num(books.killed)
    settled = np.nan_to_num(books.acknowledged)
    most_acknowledged = np.fmax(settled - moves.moved, moves.acknowledged)
    most_moved = np.fmax(settled - moves.acknowledged, moves.moved)
    most_dead = np.fmax(killed - letters.purged, letters.dead)
    most_purged = np.fmax(killed - letters.dead, letters.purged)
    return {
        "acknowledged": (moves.acknowledged, most_acknowledged),
        "moved": (moves.moved, most_moved),
        "expired": (books.expired, books.expired),
        "dead_lettered": (letters.dead, most_dead),
        "purged": (letters.purged, most_purged),
        "evicted": evicted,
        "replaced": replaced,
        "lost_at_restart": (books.lost_at_restart, books.lost_at_restart),
    }


def lost_fates(
    account: MessageAccount, queues: Table[QueueRow]
) -> tuple[Bounds, Bounds]:
    """Return the bounds of the messages that a ring evicted, and of those that a last value replaced.

    At least they are what is sure to be lost; at most also what the sum of this poll lacks, and as much as expired on
    arrival, as that hides losses. A queue that does not evict, or replace, has 0.
    """
    books = account.books
    is_unknown = np.isnan(books.lost)
    most = np.fmax(books.lost, books.lacking + account.late)
    most = np.where(is_unknown, np.nan, most)
    has_ring = ~np.isnan(queues["ring_limit"])
    has_last_values = queues["last_value"] > 0
    # With both, each message that is lost may be either.
    least = np.where(has_ring & has_last_values, 0.0, books.lost)

    def lost(where: Mask) -> Bounds:
        """Return the bounds for these queues, 0 for others."""
        return np.where(where, least, 0.0), np.where(where, most, 0.0)

    return lost(has_ring), lost(has_last_values)


def kept_elsewhere(
    account: MessageAccount,
    queues: Table[QueueRow],
    addresses: Table[AddressRow] | None,
) -> dict[str, Mask]:
    """Return a mask for each fate with the outcome `KEPT_OR_LOST`: True where its messages are kept at another address.

    Purged messages never are.
    """
    has_expiry_address = queues["has_expiry_address"] > 0
    goes_nowhere = expiry_reaches_no_queue(queues.index, addresses)
    return {
        "expired": has_expiry_address & ~goes_nowhere,
        "dead_lettered": ~account.dead_letters.placeless,
        "purged": np.zeros(len(queues), np.bool_),
    }


def expiry_reaches_no_queue(
    queues: Index[QueueRow], addresses: Table[AddressRow] | None
) -> Mask:
    """(queues,) True where an expiry address is set that has no queue, so that what expires is lost.

    It has a queue of its own or a wildcard's; or it has routed all that came to it, so that a queue was there then.

    addresses: None where they were not read.
    """
    with_queue = {row.address for row in queues}
    wildcards = [
        expression_of(address) for address in with_queue if is_wildcard(address)
    ]
    if addresses is not None:
        has_routed = addresses["messages_added"] > 0
        routed_all = has_routed & (addresses["messages_unrouted"] == 0)
        with_queue |= {row.name for row in addresses.index.rows[routed_all]}

    def has_queue(address: str) -> bool:
        return address in with_queue or any(
            wildcard.fullmatch(address) for wildcard in wildcards
        )

    nowhere = {
        row.expiry_address
        for row in queues
        if row.expiry_address and not has_queue(row.expiry_address)
    }
    return np.array([row.expiry_address in nowhere for row in queues], np.bool_)


def address_fates(account: MessageAccount) -> dict[str, Bounds]:
    """Return the bounds of each fate and of `UNCOMMITTED` by queue; NaN where the address was not read."""
    books = account.address_books
    unrouted = books.unrouted - books.refused
    bounds = {
        **fates_with_reason(books),
        **fates_of_rollbacks(account),
        "unrouted": (unrouted, unrouted),
        "duplicate": duplicate_fate(account),
    }
    is_read = ~np.isnan(books.routed0)
    return {
        name: (np.where(is_read, low, np.nan), np.where(is_read, high, np.nan))
        for name, (low, high) in bounds.items()
    }


def without_reason(books: AddressBooks) -> Column:
    """(queues,) Messages that are missing and not booked to a reason, at most; infinite where that is not known.

    Each may have met any fate that the settings of its address allow.
    """
    not_booked = np.fmax(books.most - books.booked, 0.0)
    is_unbounded = np.isnan(books.most) | (books.partly > 0)
    return np.where(is_unbounded, np.inf, not_booked)


def fates_with_reason(books: AddressBooks) -> dict[str, Bounds]:
    """Return the bounds of the fates that settings cause: dropped, rejected, unwanted.

    What is missing without a reason adds to the most of each of them that the settings allow.
    """
    rest = without_reason(books)
    is_unknown = np.isnan(books.policy)
    drops = books.policy == Missing.DROPPED
    rejects = books.policy == Missing.REJECTED
    more_dropped = np.where(is_unknown | drops, rest, 0.0)
    more_rejected = np.where(is_unknown | rejects, rest, 0.0)
    # A client may be refused before its message is routed.
    has_refused = rejects & (books.full > 0)
    most_rejected = np.where(has_refused, np.inf, books.rejected + more_rejected)
    more_unwanted = np.where(books.unfiltered == 0, rest, 0.0)
    return {
        "dropped": (books.dropped, books.dropped + more_dropped),
        "rejected": (books.rejected, most_rejected),
        "unwanted": (books.unwanted, books.unwanted + more_unwanted),
    }


def fates_of_rollbacks(account: MessageAccount) -> dict[str, Bounds]:
    """Return the bounds of messages that were rolled back, are missing for no known reason, or are not committed.

    What is undecided may be any of the three; once all transactions are over, nothing is uncommitted.
    """
    books = account.address_books
    rollbacks = account.rollbacks.reindexed(books.index)
    rolled_back = rollbacks.rolled_back
    missing = rollbacks.missing
    undecided = np.fmax(without_reason(books) - rollbacks.for_good, 0.0)
    nothing = np.zeros(len(books.index))
    return {
        # Nothing excludes that what is missing was rolled back.
        "rolled_back": (rolled_back, rolled_back + missing + undecided),
        "missing": (missing, missing + undecided),
        UNCOMMITTED: (nothing, np.where(rollbacks.over, 0.0, undecided)),
    }


def duplicate_fate(account: MessageAccount) -> Bounds:
    """Return the duplicates by queue; without bounds where producers were not read."""
    index = account.address_books.index
    duplicates = account.duplicates
    # They did not go on with the poll of the address books.
    if duplicates.index is not index:
        return np.zeros(len(index)), np.full(len(index), np.inf)
    is_unbounded = np.isnan(duplicates.most)
    return duplicates.duplicate, np.where(is_unbounded, np.inf, duplicates.most)


def lost_to_clients(
    account: MessageAccount, queues: Index[QueueRow]
) -> Iterator[tuple[int, str, str, float, float]]:
    """Yield the clients by which listed queues lost messages: key of the queue, fate, client, at least, at most."""
    for key, clients in account.ring_losses.by_client.items():
        is_listed = queues.positions(np.array([key]))[0] >= 0
        for client, loss in clients.items():
            if is_listed and loss.most > 0:
                yield key, "evicted", client, loss.least, loss.most
