"""What became of messages, by fate: at least and at most so many. Columns by the queues' rows."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

import numpy as np

from penstock.account.account import MessageAccount
from penstock.account.address_books import Missing
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
"""What is to become of messages."""
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
    """Never that all is well of a fate that the catalogue does not know."""
    return OUTCOMES.get(fate, FateOutcome.POSSIBLY_LOST)


Bounds = tuple[Column, Column]
"""At least and at most; infinite where no most is known."""


def queue_fates(account: MessageAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """By fate; NaN where nothing is known of it."""
    polled = polled_fates(account, queues)
    if not account.books.partly.any():
        return polled
    loses = {
        "evicted": ~np.isnan(queues["ring_limit"]),
        "replaced": queues["last_value"] > 0,
    }
    partly = account.books.partly > 0
    more = {fate: partly & loses.get(fate, True) for fate in polled}
    return {
        fate: (low, np.where(more[fate], np.inf, high))
        for fate, (low, high) in polled.items()
    }


def polled_fates(account: MessageAccount, queues: Table[QueueRow]) -> dict[str, Bounds]:
    """Without what came and left unseen as the broker went down: these sum up to what came."""
    books = account.books
    most = np.where(
        np.isnan(books.lost), np.nan, np.fmax(books.lost, books.lacking + account.late)
    )
    ring = ~np.isnan(queues["ring_limit"])
    lasts = queues["last_value"] > 0
    either = ring & lasts
    nothing = np.zeros(len(most))

    def lost(where: Mask) -> Bounds:
        return np.where(where, np.where(either, nothing, books.lost), 0.0), np.where(
            where, most, 0.0
        )

    killed = np.nan_to_num(books.killed)
    letters = account.dead_letters
    settled = np.nan_to_num(books.acknowledged)
    moves = account.moves
    return {
        "acknowledged": (
            moves.acknowledged,
            np.fmax(settled - moves.moved, moves.acknowledged),
        ),
        "moved": (moves.moved, np.fmax(settled - moves.acknowledged, moves.moved)),
        "expired": (books.expired, books.expired),
        "dead_lettered": (letters.dead, np.fmax(killed - letters.purged, letters.dead)),
        "purged": (letters.purged, np.fmax(killed - letters.dead, letters.purged)),
        "evicted": lost(ring),
        "replaced": lost(lasts),
        "lost_at_restart": (books.lost_at_restart, books.lost_at_restart),
    }


def kept_elsewhere(
    account: MessageAccount,
    queues: Table[QueueRow],
    addresses: Table[AddressRow] | None,
) -> dict[str, Mask]:
    """Of fates whose outcome is `KEPT_OR_LOST`: the queues whose messages of that fate are in another address's."""
    return {
        "expired": (queues["has_expiry_address"] > 0)
        & ~expiry_reaches_no_queue(queues.index, addresses),
        "dead_lettered": ~account.dead_letters.placeless,
        "purged": np.zeros(len(queues), np.bool_),
    }


def expiry_reaches_no_queue(
    queues: Index[QueueRow], addresses: Table[AddressRow] | None
) -> Mask:
    """The queues whose expiry address is known, and has no queue that gets what expires.

    addresses: None where they were not read. One that has routed all that came to it had a queue.
    """
    with_queue = {row.address for row in queues}
    wildcards = [
        expression_of(address) for address in with_queue if is_wildcard(address)
    ]
    if addresses is not None:
        routed_all = (addresses["messages_added"] > 0) & (
            addresses["messages_unrouted"] == 0
        )
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
    """By fate, and `UNCOMMITTED`; NaN where the address was not read."""
    of = account.address_books
    duplicates = account.duplicates
    read = ~np.isnan(of.routed0)
    # What is missing and not booked may be of any reason that is possible.
    rest = np.where(np.isnan(of.most), np.inf, np.fmax(of.most - of.booked, 0.0))
    rest = np.where(of.partly > 0, np.inf, rest)
    possible = {
        "dropped": np.isnan(of.policy) | (of.policy == Missing.DROPPED),
        "rejected": np.isnan(of.policy) | (of.policy == Missing.REJECTED),
        "unwanted": of.unfiltered == 0,
    }
    bounds = {
        name: (getattr(of, name), getattr(of, name) + np.where(where, rest, 0.0))
        for name, where in possible.items()
    }
    # A client may be refused before its message is routed.
    refuses = (of.policy == Missing.REJECTED) & (of.full > 0)
    bounds["rejected"] = of.rejected, np.where(refuses, np.inf, bounds["rejected"][1])
    rollbacks = account.rollbacks.reindexed(of.index)
    rolled_back = rollbacks.rolled_back
    missing = rollbacks.missing
    undecided = np.fmax(rest - rollbacks.for_good, 0.0)
    # Nothing that was read excludes a rollback, also where the reason is not known.
    bounds["rolled_back"] = rolled_back, rolled_back + missing + undecided
    bounds["missing"] = missing, missing + undecided
    bounds[UNCOMMITTED] = np.zeros(len(read)), np.where(rollbacks.over, 0.0, undecided)
    bounds["unrouted"] = (of.unrouted - of.refused,) * 2
    if duplicates.index is of.index:
        bounds["duplicate"] = (
            duplicates.duplicate,
            np.where(np.isnan(duplicates.most), np.inf, duplicates.most),
        )
    else:
        bounds["duplicate"] = np.zeros(len(read)), np.full(len(read), np.inf)
    return {
        name: (np.where(read, low, np.nan), np.where(read, high, np.nan))
        for name, (low, high) in bounds.items()
    }


def lost_to_clients(
    account: MessageAccount, queues: Index[QueueRow]
) -> Iterator[tuple[int, str, str, float, float]]:
    """Of each client that is known to have lost messages: key of the queue, fate, client, at least, at most."""
    for key, clients in account.ring_losses.by_client.items():
        if queues.positions(np.array([key]))[0] >= 0:
            for client, (least, most, *_) in clients.items():
                if most > 0:
                    yield key, "evicted", client, least, most
