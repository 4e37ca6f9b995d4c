"""`slowed`: consumers need several times as long for a message as usual."""

import numpy as np

from penstock.causes import slowness
from penstock.causes.backlog import STUCK
from penstock.conditions import stalled
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.conditions.paused import PAUSED
from penstock.conditions.redelivery_loop import rule as redelivery_rule
from penstock.core.table import Column, Mask, Positions
from penstock.core.windows import longer
from penstock.learned.service import BUSY_CONSUMERS, BUSY_SETTLED, DEEP
from penstock.observation.buffers import RISES
from penstock.observation.onset import onset, where_asked
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import SERVICE, WINDOWS

TIMES = 2.5
ABOVE_HIGHEST = 1.3
ABOVE_BOUND = 1.6
"""The usual; the highest of 28 days; what the best pace ever seen allows, for queues that never had a backlog."""
SECONDS = 120.0
"""Of the window."""


def rule(poll: RuleInputs) -> Raised:
    """Against a bound only while more comes than goes: who is busy all the time need not be slow.

    Nothing of it in a redelivery loop, where the same messages come again: `falling_behind` may say so then. Nor while
    a consumer is stalled or leaks: what that buffers is no backlog of the others, nor its own.
    """
    found = poll.found
    usual = poll.usual
    flow = poll.trend
    highest = np.fmax(
        TIMES * usual.base, ABOVE_HIGHEST * usual.expected.highs[SERVICE] / 1000
    )
    with np.errstate(invalid="ignore"):
        bound = np.where(flow.comes > flow.rate_out, ABOVE_BOUND * usual.base, np.nan)
        limit = np.where(usual.windows >= WINDOWS, highest, bound)
        mask = usual.service > limit
    mask &= found.judged & ~found.parked & ~poll.of(redelivery_rule).mask
    if mask.any():
        mask = mask & ~held_up(poll, mask)
    return Raised(
        mask, where_asked(mask, lambda queues: slow_since(poll, queues, limit[queues]))
    )


def slow_since(poll: RuleInputs, queues: Positions, limit: Column) -> Column:
    """When the consumers of these queues became slow.

    Compared with `limit`, the seconds for a message from which on they are slow, or with half of what they need now,
    where that is more: a small backlog that they worked off before may have taken a little longer than usual, too.
    """
    window = poll.service_window
    spent = window.of(BUSY_CONSUMERS, queues)
    settled = window.of(BUSY_SETTLED, queues)
    compared_with = np.fmax(limit, poll.usual.service[queues] / 2)
    return onset(window, spent - compared_with * settled)


def held_up(poll: RuleInputs, asked: Mask) -> Mask:
    """Of `asked` those with a stalled or leaking consumer, or whose backlog some have that settle nothing, not all."""
    found = poll.found
    consumer = poll.found.consumer
    at = poll.found.consumer.of(asked)
    stalls = poll.of(
        stalled.openmq_rule if poll.openmq and poll.openmq.said else stalled.rule
    ).mask
    patience = np.fmax(STUCK, TIMES * poll.usual.service[consumer.queue[at]])
    stuck = at[
        longer(poll.unacked.unacked_since[at], found.now, patience)
        & (consumer.held[at] > 0)
    ]
    number, held = (
        np.bincount(consumer.queue[stuck], one, len(asked))
        for one in (None, consumer.held[stuck])
    )
    part = (
        (number > 0)
        & (number < found.consumers)
        & (found.messages - held < DEEP * found.consumers)
    )
    leaks = found.queues_of(poll.buffers.at[poll.buffers.rows[RISES] > 0])
    return np.asarray(found.queues_of(at[stalls[at]]) | part | leaks)


SLOWED = Condition(
    rule=rule,
    evidence=numbers(
        service_time="usual.service",
        usual_service_time="usual.base",
        times="usual.times",
        consumers="found.consumers",
        rate_out="trend.rate_out",
    ),
    window=lambda _, __: SECONDS,
    decide=slowness.slowed,
    silenced_by=(PAUSED,),
    **declared("slowed"),
)
