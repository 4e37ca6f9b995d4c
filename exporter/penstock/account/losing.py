"""What the account says of losses that conditions judge: how much of each, so far."""

import numpy as np

from penstock.account.address_books import AddressBooks, Missing
from penstock.account.duplicates import Duplicates
from penstock.account.in_doubt import InDoubt
from penstock.account.queue_books import QueueBooks
from penstock.core.windows import Mask
from penstock.model import Snapshot
from penstock.observation.facts import SKEW, Facts
from penstock.observation.losses import Losses


def losses(
    before: Losses,
    found: Facts,
    snapshot: Snapshot,
    books: QueueBooks,
    of: AddressBooks,
    duplicates: Duplicates,
    in_doubt: InDoubt,
) -> Losses:
    nothing = np.full(len(found.queues), np.nan)
    compared, counted = of.index is found.queues, duplicates.index is found.queues
    drops = found.parked & (of.policy == Missing.DROPPED) if compared else False
    moves = found.d_added + found.d_settled + found.d_expired + found.d_killed > 0
    gap = np.abs(books.unexplained)
    amounts = (
        duplicates.duplicate if counted else nothing,
        of.unwanted if compared else nothing,
        np.where(placeless(found, snapshot), books.killed, np.nan),
        np.where(drops, of.dropped, np.nan) if compared else nothing,
        np.where(gap > np.where(moves, SKEW, 0.0), gap, 0.0 * gap),
    )
    came = of.routed if compared else books.came
    prepared = in_doubt.since if in_doubt.read else {}
    return before.advance(found, amounts, came, in_doubt.bounds[1], prepared, snapshot.producers)


def placeless(found: Facts, snapshot: Snapshot) -> Mask:
    """
    Queues whose messages are gone after their last delivery: no dead-letter address, or, of those that gave some up at
    this poll, one that has no queue. One that was ever sent any passes them on.
    """
    queues, addresses = snapshot.queues, snapshot.addresses
    if queues is None or addresses is None:
        return np.zeros(len(found.queues), np.bool_)
    lost: Mask = (queues["has_dead_letter_address"] == 0) & ~found.parked
    sends = np.flatnonzero((found.d_killed > 0) & (queues["has_dead_letter_address"] > 0))
    if len(sends):
        used = addresses.index.rows[(addresses["messages_added"] > 0) | (addresses["makes_dead_letter_queues"] > 0)]
        there = {row.address for row in found.queues} | {row.name for row in used}
        lost[[i for i in sends.tolist() if found.queues.rows[i].dead_letter_address not in there]] = True
    return lost
