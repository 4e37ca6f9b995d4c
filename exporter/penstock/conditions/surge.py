"""`surge`: much more comes in five minutes than in any of the last 28 days."""

from collections.abc import Mapping

import numpy as np

from penstock.conditions.condition import Condition, Raised, Scope, always
from penstock.conditions.evidence import trend, window_begin
from penstock.conditions.texts import texts
from penstock.core.table import Column, Positions
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import PEAK

TIMES, FEWEST = 1.5, 100.0
"""The highest of 28 days; messages in five minutes."""
KNOWN = 14 * 86400.0
"""Seconds for which a queue must be known: in its first days everything is a surge."""


def rule(poll: RuleInputs) -> Raised:
    usual, came = poll.usual, 300 * poll.trend.rate_in
    with np.errstate(invalid="ignore"):
        mask = (came >= FEWEST) & (came > TIMES * usual.expected.highs[PEAK])
    return Raised(poll.found.judged & ~poll.found.parked & mask & usual.known_for(poll.found.now, KNOWN),
                  window_begin(poll))  # fmt: skip


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    highest = poll.usual.expected.highs[PEAK][at] / 300
    return {"rate_in": poll.trend.rate_in[at], "usual_high": highest}


SURGE = Condition(
    name="surge",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=evidence,
    notice=always,
    may_be_critical=False,
    window=trend,
    **texts("surge"),
)
