"""`slowed`: consumers need several times as long for a message as usual."""

from collections.abc import Mapping

import numpy as np

from penstock.causes import slowness
from penstock.conditions.condition import Condition, Raised, Scope
from penstock.conditions.evidence import ago
from penstock.conditions.paused import PAUSED
from penstock.conditions.redelivery_loop import REDELIVERY_LOOP
from penstock.conditions.texts import texts
from penstock.core.table import Column, Positions
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import SERVICE

TIMES, ABOVE_HIGHEST, ABOVE_BOUND = 2.5, 1.3, 1.6
"""The usual; the highest of 28 days; what the best pace ever seen allows, for queues that never had a backlog."""
WINDOWS = 20
"""With a backlog, on which the usual must rest."""
SECONDS = 120.0
"""Of a window; it is judged over the last one."""


def rule(poll: RuleInputs) -> Raised:
    usual = poll.usual
    highest = np.fmax(TIMES * usual.usual_service, ABOVE_HIGHEST * usual.expected.highs[SERVICE] / 1000)
    bound = np.where(grows(poll), ABOVE_BOUND * 3600 / usual.pace, np.nan)
    with np.errstate(invalid="ignore"):
        mask = usual.service > np.where(usual.windows >= WINDOWS, highest, bound)
    return Raised(poll.found.judged & ~poll.found.parked & mask, ago(poll, SECONDS))


def grows(poll: RuleInputs) -> Column:
    """More comes than goes: without that, who is busy all the time need not be slow."""
    with np.errstate(invalid="ignore"):
        return np.asarray(poll.trend.rate_in > poll.trend.rate_out)


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    usual = poll.usual
    known = usual.windows[at] >= WINDOWS
    base = np.where(known, usual.usual_service[at], 3600 / usual.pace[at])
    return {
        "service_time": usual.service[at],
        "usual_service_time": base,
        "times": np.round(usual.service[at] / base, 1),
        "consumers": poll.found.consumers[at],
        "rate_out": poll.trend.rate_out[at],
    }


SLOWED = Condition(
    name="slowed",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=evidence,
    may_be_critical=False,
    window=lambda _, __: SECONDS,
    decide=slowness.slowed,
    silenced_by=(REDELIVERY_LOOP, PAUSED),
    **texts("slowed"),
)
