"""What the judgement measures about each queue and client beside its conditions; NaN where a number is not known.

Times are by the broker's clock, in seconds. A *ring* is a queue with a limit of messages, which evicts its oldest ones
when it is full; while its address is paging it evicts none.
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
        """Return the measures of a poll, by name, as the metrics have them."""
        facts = poll.found
        before = self.reindexed(facts.queues, facts.known)
        is_oversize = (facts.ready > facts.ring) & ~is_paging(poll)
        columns = ring_measures(poll) | {
            "lost_by_consumer": poll.evictions.by_consumers,
            "evicted": evicted_messages(poll),
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
        # How far back the messages of a full ring go.
        "ring_retention": seconds_at(facts.ring, inflow, is_in_memory),
        # How long it takes until the ring evicts.
        "ring_overflow": seconds_at(room, growth, is_in_memory),
    }


def evicted_messages(poll: RuleInputs) -> Column:
    """(queues,) Messages that a ring evicted, or that a full OpenMQ queue removed; NaN: neither is possible."""
    openmq = poll.openmq
    if openmq is None or openmq.said is None:
        return poll.evictions.evicted
    may_remove = openmq.said.removes & openmq.said.balanced
    removed = poll.accounted.get("removed", np.nan)
    return np.where(may_remove, removed, np.nan)


def seconds_at(messages: Column, rate: Column, where: Mask) -> Column:
    """(queues,) Seconds that so many messages take at this rate; NaN where not `where`, or the rate is not above 0."""
    is_known = where & (rate > 0)
    divisor = np.where(is_known, rate, 1)
    return np.where(is_known, messages / divisor, np.nan)


def drain_seconds(poll: RuleInputs) -> Column:
    """(queues,) Seconds until the queue is empty at the present rates; NaN where it does not drain."""
    net_outflow = poll.trend.rate_out - poll.trend.comes
    return seconds_at(poll.found.ready, net_outflow, drains(poll))


def drains(poll: RuleInputs) -> Mask:
    """(queues,) Whether consumers take the ready messages now.

    The outflow alone does not show it: it is a mean over minutes, and above 0 long after the last consumer left.
    """
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
    # The Gini coefficient needs the sum of the messages, and the sum of each consumer's messages times its rank.
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
    """(holders,) The rank of each consumer with messages among all of its queue, from 1; the most messages are last.

    Args:
        queue: (holders,) The queue of each consumer with messages; sorted, and within a queue by these messages.
        count: (queues,) All consumers of each queue; those without messages have the lowest ranks.
    """
    holders = np.bincount(queue, minlength=len(count))
    # The last holder of a queue, at position `end` - 1, has the rank `count`.
    end = np.cumsum(holders)
    position_of_rank_1 = end - count
    return np.arange(len(queue)) - position_of_rank_1[queue] + 1


def gini(count: Column, total: Column, by_rank: Column) -> Column:
    """(queues,) The Gini coefficient; 0 where consumers buffer nothing, NaN with less than two consumers.

    Args:
        count: (queues,) Consumers.
        total: (queues,) Sum of their messages.
        by_rank: (queues,) The same sum, with each consumer's messages times its rank.
    """
    # 2 * by_rank / (count * total) - (count + 1) / count, with divisors that are never 0.
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
    """Return both sorted by `queue`, then by `buffered`; both are whole and not negative.

    A pair becomes one whole number, the queue in its high bits and the messages in its low ones: to sort these is
    several times faster than to sort by two keys. Pairs that do not fit into one number are sorted by two keys.
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
    mask_of_low_bits = 2**low_bits - 1
    sorted_queue = pairs >> low_bits
    sorted_buffered = pairs & mask_of_low_bits
    return sorted_queue.astype(np.intp), sorted_buffered.astype(np.float64)


def blocked_since(poll: RuleInputs) -> Column:
    """(clients,) The earliest time since which a consumer of it buffers messages and settles none; NaN: none does."""
    clients = poll.groups.clients
    unacked_since = poll.unacked.unacked_since
    # A hidden consumer has the client -1.
    has_client = clients.member >= 0
    consumers = np.flatnonzero(~np.isnan(unacked_since) & has_client)
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
