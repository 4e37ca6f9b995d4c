"""`falling_behind`: consumers work, and the backlog keeps growing."""

from functools import partial

import numpy as np

from penstock.causes import backlog
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import numbers, trend
from penstock.conditions.slowed import SLOWED
from penstock.conditions.stalled import openmq_rule as stalled_rule
from penstock.core.table import Column, Mask, Positions
from penstock.observation.activity import DEPTH, TREND_GROWTH, TREND_MESSAGES
from penstock.observation.onset import growth_onset, where_asked
from penstock.observation.poll import RuleInputs

KNOWN = 2 * 86400.0
"""Seconds for which a queue must be known, before its backlog may be usual."""


def rule(poll: RuleInputs) -> Raised:
    """A ring ends growing at its size: there it is its losses that count."""
    mask = poll.found.judged & poll.trend.behind & np.isnan(poll.found.ring)
    return Raised(mask, where_asked(mask, partial(growing_since, poll)))


def growing_since(poll: RuleInputs, queues: Positions) -> Column:
    """When the backlog of these queues began to grow."""
    return growth_onset(
        poll.activity.trend, DEPTH, queues, poll.trend.growth_rate[queues]
    )


def openmq_rule(poll: RuleInputs) -> Raised:
    """Not where the backlog grows by what a stalled consumer is given."""
    raised = rule(poll)
    is_stalled = poll.of(stalled_rule).mask
    stuck = poll.found.of_queue(np.where(is_stalled, poll.found.consumer.held, 0.0))
    return raised._replace(
        mask=raised.mask & ~((stuck > 0) & (stuck >= poll.trend.growth))
    )


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """A backlog as it was on other days, as of a batch."""
    usual = poll.usual
    found = poll.found
    with np.errstate(invalid="ignore"):
        known = usual.known_for(found.now, KNOWN) & (found.messages <= usual.backlog)
    return np.asarray(known[queues])


FALLING_BEHIND = Condition(
    rule=rule,
    notice=notice,
    evidence=numbers(
        growth="trend.growth",
        rate_in="trend.comes",
        # It counts scheduled messages when they are sent: no measure of what fell due.
        usual_high=lambda poll: np.where(
            poll.trend.comes == poll.trend.rate_in, poll.usual.inflow, np.nan
        ),
        rate_out="trend.rate_out",
        usual_out="usual.outflow",
        usual_backlog="usual.backlog",
        consumers="found.consumers",
    ),
    decide=backlog.grows,
    silenced_by=(SLOWED,),
    window=trend,
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            decide=backlog.grows_openmq,
            **declared("falling_behind", "openmq"),
        )
    },
    **declared("falling_behind", messages=TREND_MESSAGES, growth=100 * TREND_GROWTH),
)
