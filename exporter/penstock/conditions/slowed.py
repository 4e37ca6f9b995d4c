"""`slowed`: consumers need several times as long for a message as usual."""

import numpy as np

from penstock.causes import slowness
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import ago, numbers
from penstock.conditions.paused import PAUSED
from penstock.conditions.redelivery_loop import rule as redelivery_rule
from penstock.conditions.stalled import openmq_rule as openmq_stalled
from penstock.conditions.stalled import rule as stalled_rule
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import SERVICE, WINDOWS

TIMES, ABOVE_HIGHEST, ABOVE_BOUND = 2.5, 1.3, 1.6
"""The usual; the highest of 28 days; what the best pace ever seen allows, for queues that never had a backlog."""
SECONDS = 120.0
"""Of the window."""


def rule(poll: RuleInputs) -> Raised:
    """Against a bound only while more comes than goes: who is busy all the time need not be slow.

    Nothing of it in a redelivery loop, where the same messages come again: `falling_behind` may say so then. Nor while
    a consumer is stalled: what that buffers is no backlog of the others.
    """
    found, usual, flow = poll.found, poll.usual, poll.trend
    highest = np.fmax(TIMES * usual.base, ABOVE_HIGHEST * usual.expected.highs[SERVICE] / 1000)
    with np.errstate(invalid="ignore"):
        bound = np.where(flow.rate_in > flow.rate_out, ABOVE_BOUND * usual.base, np.nan)
        mask = usual.service > np.where(usual.windows >= WINDOWS, highest, bound)
    stalled = poll.of(openmq_stalled if poll.openmq and poll.openmq.said else stalled_rule).mask
    mask &= ~poll.of(redelivery_rule).mask & ~(found.of_queue(stalled) > 0)
    return Raised(found.judged & ~found.parked & mask, ago(poll, SECONDS))


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
