"""`surge`: much more comes in five minutes than in any of the last 28 days."""

from functools import partial

import numpy as np

from penstock.conditions.condition import Condition, Raised, always, declared
from penstock.conditions.evidence import numbers, trend
from penstock.core.table import Column, Positions
from penstock.observation.activity import FLOW_IN
from penstock.observation.onset import onset, seconds, where_asked
from penstock.observation.poll import RuleInputs

TIMES = 1.5
FEWEST = 100.0
"""The highest of 28 days; messages in five minutes."""
KNOWN = 14 * 86400.0
"""Seconds for which a queue must be known: in its first days everything is a surge."""


def rule(poll: RuleInputs) -> Raised:
    found = poll.found
    rate = poll.trend.rate_in
    with np.errstate(invalid="ignore"):
        mask = (300 * rate >= FEWEST) & (rate > TIMES * poll.usual.peak)
    mask &= found.judged & ~found.parked & poll.usual.known_for(found.now, KNOWN)
    return Raised(mask, where_asked(mask, partial(surging_since, poll)))


def surging_since(poll: RuleInputs, queues: Positions) -> Column:
    """When more began to come to these queues than in any five minutes before."""
    flow = poll.activity.trend
    most_usual = TIMES * poll.usual.peak[queues] * seconds(flow)[:, None]
    return onset(flow, flow.of(FLOW_IN, queues) - most_usual)


SURGE = Condition(
    rule=rule,
    evidence=numbers(rate_in="trend.rate_in", usual_high="usual.peak"),
    notice=always,
    window=trend,
    **declared("surge"),
)
