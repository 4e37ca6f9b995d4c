"""What the judgement measures of each queue and client beside its conditions. Where a number cannot be known it is NaN.

Times by the broker's clock, seconds.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer, since
from penstock.observation.losses import scheduled_at_risk
from penstock.observation.poll import RuleInputs

WORD_BITS = 63
"""Of a whole number that is not negative."""
HALF_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Measures(RowState):
    """Per queue. oversize_since: since when a ring has more ready messages than its limit. columns: of this poll."""

    BY = By.QUEUE
    oversize_since: Column = column(outlives=True)
    columns: dict[str, Column] = unindexed(dict)

    def advance(self, poll: RuleInputs) -> "Measures":
        found = poll.found
        paging = found.address.paging > 0
        oversize = (found.ready > found.ring) & ~paging
        before = self.reindexed(found.queues, found.known)
        rate_in = poll.trend.comes
        rate_out = poll.trend.rate_out
        columns = {
            "ring_at_risk": poll.at_risk,
            "ring_scheduled_at_risk": scheduled_at_risk(found),
            # The time span that a full ring covers at the present rate, and that until it starts to evict.
            "ring_retention": seconds_at(found.ring, rate_in, ~paging),
            "ring_overflow": seconds_at(
                np.maximum(found.ring - found.ready, 0), rate_in - rate_out, ~paging
            ),
            "lost_by_consumer": poll.evictions.by_consumers,
            "evicted": evicted(poll),
            "drain": seconds_at(found.ready, rate_out - rate_in, drains(poll)),
            "imbalance": imbalance(poll),
        }
        return Measures(
            found.queues, since(oversize, before.oversize_since, found.now), columns
        )


def evicted(poll: RuleInputs) -> Column:
    """By a ring, or on OpenMQ by a limit: removed, at least so many; NaN where nothing is thrown away."""
    openmq = poll.openmq
    if openmq is None or openmq.said is None:
        return poll.evictions.evicted
    return np.where(
        openmq.said.removes & openmq.said.balanced,
        poll.accounted.get("removed", np.nan),
        np.nan,
    )


def seconds_at(messages: Column, rate: Column, where: Mask) -> Column:
    """How long so many take at this rate; NaN elsewhere than `where`, and at none."""
    where = where & (rate > 0)
    return np.where(where, messages / np.where(where, rate, 1), np.nan)


def drains(poll: RuleInputs) -> Mask:
    """Queues of which somebody takes what waits; rates are means, and outlast the last one that did."""
    found = poll.found
    held_up = (found.consumers == 0) | (found.paused > 0) | (found.address.paused > 0)
    return (
        (found.ready > 0)
        & ~held_up
        & ~longer(poll.timers.unsettled, found.now, poll.queue_patience)
    )


def imbalance(poll: RuleInputs) -> Column:
    """Gini coefficient of what a queue's consumers hold: 0 even, towards 1 all with one; NaN below two consumers."""
    consumer = poll.found.consumer
    size = len(poll.found.queues)
    count = poll.found.listed
    if not poll.found.counted:
        return np.full(size, np.nan)
    # Who holds nothing has the lowest ranks, and adds nothing to the sums: only the others are sorted.
    at, held = sorted_pairs(
        consumer.queue[consumer.holding], consumer.held[consumer.holding]
    )
    holders = np.bincount(at, minlength=size)
    rank = np.arange(len(at)) - (np.cumsum(holders) - count)[at] + 1
    total = np.bincount(at, weights=held, minlength=size)
    weighted = np.bincount(at, weights=rank * held, minlength=size)
    meant = (count >= 2) & (total > 0)
    gini = 2 * weighted / np.where(meant, count * total, 1) - (count + 1) / np.maximum(
        count, 1
    )
    return np.where(meant, np.maximum(gini, 0.0), np.where(count >= 2, 0.0, np.nan))


def sorted_pairs(at: Positions, held: Column) -> tuple[Positions, Column]:
    """Sorted by `at`, then by `held` (whole, not negative), as one number: several times faster than by two keys. Two
    that are too large for one number are sorted as two.
    """
    held_bits = int(held.max(initial=0.0)).bit_length()
    bits = int(at.max(initial=0)).bit_length() + held_bits
    if bits > WORD_BITS:
        order = np.lexsort((held, at))
        return at[order], held[order]
    pairs = at.astype(np.int64) << held_bits | held.astype(np.int64)
    pairs = np.sort(
        pairs.astype(np.uint32) if bits <= HALF_WORD_BITS else pairs
    )  # half the time
    first = pairs >> held_bits
    rest = pairs & (2**held_bits - 1)
    return first.astype(np.intp), rest.astype(np.float64)


def blocked_since(poll: RuleInputs) -> Column:
    """Per client since when the oldest of its consumers holds something and settles nothing; NaN where none does."""
    clients = poll.groups.clients
    begun = poll.unacked.unacked_since
    here = np.flatnonzero(~np.isnan(begun) & (clients.member >= 0))
    earliest = np.full(len(clients.index), np.inf)
    np.minimum.at(earliest, clients.member[here], begun[here])
    return np.where(np.isinf(earliest), np.nan, earliest)
