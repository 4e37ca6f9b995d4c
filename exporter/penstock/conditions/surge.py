"""`surge`: much more comes in five minutes than in any of the last 28 days."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, always, declared
from penstock.conditions.evidence import numbers, trend, window_begin
from penstock.observation.poll import RuleInputs

TIMES, FEWEST = 1.5, 100.0
"""The highest of 28 days; messages in five minutes."""
KNOWN = 14 * 86400.0
"""Seconds for which a queue must be known: in its first days everything is a surge."""


def rule(poll: RuleInputs) -> Raised:
    found, rate = poll.found, poll.trend.rate_in
    with np.errstate(invalid="ignore"):
        mask = (300 * rate >= FEWEST) & (rate > TIMES * poll.usual.peak)
    return Raised(found.judged & ~found.parked & mask & poll.usual.known_for(found.now, KNOWN), window_begin(poll))


SURGE = Condition(
    rule=rule,
    evidence=numbers(rate_in="trend.rate_in", usual_high="usual.peak"),
    notice=always,
    window=trend,
    **declared("surge"),
)
