"""What the judgement measures about each queue and client beside its conditions; NaN where a number is not known.

Times are by the broker's clock, in seconds.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.state import By, RowState, column, unindexed
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer, since
from penstock.observation.losses import scheduled_at_risk
from penstock.observation.poll import RuleInputs

WORD_BITS = 63
"""Bits of a whole number that is not negative."""
HALF_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Measures(RowState):
    """What is measured about each queue."""

    BY = By.QUEUE
    oversize_since: Column = column(outlives=True)
    """Since when a ring has more ready messages than its limit."""
    columns: dict[str, Column] = unindexed(dict)
    """The measures of this poll, by name."""

    def advance(self, poll: RuleInputs) -> "Measures":
        """Return the measures of a poll."""
        facts = poll.found
        before = self.reindexed(facts.queues, facts.known)
        is_oversize = (facts.ready > facts.ring) & ~is_paging(poll)
        columns = ring_measures(poll) | {
            "lost_by_consumer": poll.evictions.by_consumers,
            "evicted": evicted(poll),
            "drain": drain_seconds(poll),
            "imbalance": imbalance(poll),
        }
        return Measures(
            index=facts.queues,
            oversize_since=since(is_oversize, before.oversize_since, facts.now),
            columns=columns,
        )


def is_paging(poll: RuleInputs) -> Mask:
    """(queues,) Whether the queue's address is paging."""
    return poll.found.address.paging > 0


def ring_measures(poll: RuleInputs) -> dict[str, Column]:
    """Return what is measured about rings: messages at risk, and how long the ring lasts at the present rates."""
    facts = poll.found
    inflow = poll.trend.comes
    growth = inflow - poll.trend.rate_out
    room = np.maximum(facts.ring - facts.ready, 0)
    is_in_memory = ~is_paging(poll)
    return {
        "ring_at_risk": poll.at_risk,
        "ring_scheduled_at_risk": scheduled_at_risk(facts),
        # How far back the messages of a full ring go, and how long it takes until the ring evicts.
        "ring_retention": seconds_at(facts.ring, inflow, is_in_memory),
        "ring_overflow": seconds_at(room, growth, is_in_memory),
    }


def evicted(poll: RuleInputs) -> Column:
    """(queues,) Messages that a ring evicted, or that OpenMQ removed for a limit; NaN where neither is possible."""
    openmq = poll.openmq
    if openmq is None or openmq.said is None:
        return poll.evictions.evicted
    may_remove = openmq.said.removes & openmq.said.balanced
    removed = poll.accounted.get("removed", np.nan)
    return np.where(may_remove, removed, np.nan)


def seconds_at(messages: Column, rate: Column, where: Mask) -> Column:
    """(queues,) How long so many messages take at this rate; NaN elsewhere than `where`, and where the rate is 0."""
    is_known = where & (rate > 0)
    divisor = np.where(is_known, rate, 1)
    return np.where(is_known, messages / divisor, np.nan)


def drain_seconds(poll: RuleInputs) -> Column:
    """(queues,) Seconds until the queue is empty at the present rates; NaN where it does not drain."""
    net_outflow = poll.trend.rate_out - poll.trend.comes
    return seconds_at(poll.found.ready, net_outflow, drains(poll))


def drains(poll: RuleInputs) -> Mask:
    """(queues,) Whether consumers take the ready messages; rates are means, and outlast the last consumer."""
    facts = poll.found
    is_paused = (facts.paused > 0) | (facts.address.paused > 0)
    is_held_up = is_paused | (facts.consumers == 0)
    is_stalled = longer(
        poll.timers.unsettled,
        facts.now,
        poll.queue_patience,
    )
    return (facts.ready > 0) & ~is_held_up & ~is_stalled


def imbalance(poll: RuleInputs) -> Column:
    """(queues,) Gini coefficient of the messages that the consumers buffer; NaN with less than two consumers.

    0 is even; 1 is the limit where one consumer of many has all.
    """
    facts = poll.found
    consumer = facts.consumer
    size = len(facts.queues)
    if not facts.counted:
        return np.full(size, np.nan)
    count = facts.listed
    # A consumer without messages has the lowest ranks, and adds nothing to the sums: only the others are sorted.
    queue, buffered = sorted_pairs(
        consumer.queue[consumer.holding], consumer.held[consumer.holding]
    )
    rank = ranks(queue, count)
    total = sums_by(queue, buffered, size)
    by_rank = sums_by(queue, rank * buffered, size)
    return gini(count, total, by_rank)


def sums_by(queue: Positions, values: Column, size: int) -> Column:
    """(queues,) The sum of the values of each queue, of which there are `size`."""
    sums = np.bincount(queue, weights=values, minlength=size)
    return sums.astype(np.float64, copy=False)


def ranks(queue: Positions, count: Column) -> Column:
    """(holders,) The rank of each holder among the consumers of its queue, from 1.

    Args:
        queue: (holders,) Its queue; sorted, and for each queue by the buffered messages.
        count: (queues,) All consumers, of which the others have the lowest ranks.
    """
    holders = np.bincount(queue, minlength=len(count))
    first_rank_before = np.cumsum(holders) - count
    return np.arange(len(queue)) - first_rank_before[queue] + 1


def gini(count: Column, total: Column, by_rank: Column) -> Column:
    """(queues,) The Gini coefficient; 0 where consumers buffer nothing, NaN with less than two consumers.

    Args:
        count: (queues,) Consumers.
        total: (queues,) Sum of their messages.
        by_rank: (queues,) The same sum, each times the consumer's rank.
    """
    has_two = count >= 2
    is_defined = has_two & (total > 0)
    divisor = np.where(is_defined, count * total, 1)
    coefficient = 2 * by_rank / divisor - (count + 1) / np.maximum(count, 1)
    without_messages = np.where(has_two, 0.0, np.nan)
    return np.where(
        is_defined,
        np.maximum(coefficient, 0.0),
        without_messages,
    )


def sorted_pairs(queue: Positions, buffered: Column) -> tuple[Positions, Column]:
    """Return both sorted by `queue`, then by `buffered`, which is whole and not negative.

    Each pair is sorted as one number, several times faster than by two keys, if it fits into one.
    """
    low_bits = int(buffered.max(initial=0.0)).bit_length()
    bits = int(queue.max(initial=0)).bit_length() + low_bits
    if bits > WORD_BITS:
        order = np.lexsort((buffered, queue))
        return queue[order], buffered[order]
    pairs = queue.astype(np.int64) << low_bits | buffered.astype(np.int64)
    is_small = bits <= HALF_WORD_BITS
    # Numbers of half the size are sorted in half the time.
    pairs = np.sort(pairs.astype(np.uint32) if is_small else pairs)
    first = pairs >> low_bits
    second = pairs & (2**low_bits - 1)
    return first.astype(np.intp), second.astype(np.float64)


def blocked_since(poll: RuleInputs) -> Column:
    """(clients,) Since when the oldest of its consumers buffers messages and settles none; NaN where none does."""
    clients = poll.groups.clients
    unacked_since = poll.unacked.unacked_since
    counts = ~np.isnan(unacked_since) & (clients.member >= 0)
    consumers = np.flatnonzero(counts)
    earliest = np.full(len(clients.index), np.inf)
    np.minimum.at(
        earliest,
        clients.member[consumers],
        unacked_since[consumers],
    )
    return np.where(
        np.isinf(earliest),
        np.nan,
        earliest,
    )
