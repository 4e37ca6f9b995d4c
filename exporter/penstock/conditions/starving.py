"""Queues that get nothing delivered though a consumer could take it, and whether what a queue settles counts."""

import numpy as np

from penstock.conditions.condition import Raised
from penstock.conditions.evidence import dispatch_timeout, nearly
from penstock.core.table import Column, Mask
from penstock.core.windows import longer
from penstock.observation.facts import Facts
from penstock.observation.poll import RuleInputs


def starving(poll: RuleInputs, timeout: Column | None = None) -> Raised:
    """Since when messages wait and nothing moves; for longer than `timeout`, by default as long as is usual."""
    timeout = dispatch_timeout(poll) if timeout is None else timeout
    since = np.fmax(poll.timers.ready, poll.timers.still)
    return Raised(undelivered(poll, nearly(poll, timeout)), since, timeout)


def undelivered(poll: RuleInputs, timeout: Column) -> Mask:
    """Messages wait, a consumer that could take them buffers nothing, and nothing has moved for longer than usual."""
    facts = poll.found
    unacked = poll.unacked
    waits = longer(poll.timers.ready, facts.now, timeout) & longer(
        poll.timers.still, facts.now, timeout
    )
    waits = waits & facts.judged & (facts.consumers > 0)
    if not waits.any():
        return waits
    consumer = facts.consumer
    size = len(waits)
    at = consumer.of(waits)
    idle = at[
        np.isnan(unacked.hold_since[at])
        & longer(unacked.seen_since[at], facts.now, timeout[consumer.queue[at]])
    ]
    free = np.bincount(consumer.queue[idle], minlength=size)
    selective = np.bincount(
        consumer.queue[idle[consumer.selective[idle]]], minlength=size
    )
    none_buffered = facts.held + facts.uncommitted == 0
    served = (facts.exclusive == 0) | none_buffered
    wanted = (
        (selective < free) | (facts.d_added > 0) | (poll.trend.rate_in > 0)
    )  # some come in bursts
    starves = waits & (free > 0) & served & wanted
    return starves & ~may_keep(facts, starves)


def destructive(facts: Facts, asked: Mask) -> Mask:
    """Of the queues `asked`, those whose settlements are known to count.

    A non-destructive one settles nothing and attempts nothing; a loop delivers more than was ever added.
    """
    consumer = facts.consumer
    at = consumer.of(asked)
    queue = consumer.queue[at]
    again = facts.queues_of(at[consumer.delivered[at] > facts.added[queue]])
    return (facts.settled > 0) | (facts.attempts > 0) | again


def may_keep(facts: Facts, asked: Mask) -> Mask:
    """Of the queues `asked`, those whose consumers let go of messages though nothing shows that this counts."""
    consumer = facts.consumer
    at = consumer.of(asked)
    let_go = facts.queues_of(at[consumer.left[at] - consumer.uncommitted[at] > 0])
    return let_go & ~destructive(facts, asked)
