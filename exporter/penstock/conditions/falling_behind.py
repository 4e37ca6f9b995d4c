"""`falling_behind`: consumers work, and the backlog keeps growing."""

from collections.abc import Mapping

import numpy as np

from penstock.causes import backlog
from penstock.conditions.condition import Condition, Raised, Scope, Variant
from penstock.conditions.evidence import ago, trend
from penstock.conditions.slowed import SLOWED
from penstock.conditions.stalled import openmq_rule as stalled_rule
from penstock.conditions.texts import texts
from penstock.core.table import Column, Positions
from penstock.core.windows import Mask
from penstock.model import BrokerKind
from penstock.observation.activity import TREND_GROWTH, TREND_MESSAGES
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import BACKLOG

KNOWN = 2 * 86400.0
"""Seconds for which a queue must be known, before its backlog may be usual."""


def rule(poll: RuleInputs) -> Raised:
    """A ring ends growing at its size: there it is its losses that count."""
    mask = poll.found.judged & poll.trend.behind & np.isnan(poll.found.ring)
    return Raised(mask, ago(poll, poll.trend.seconds))


def openmq_rule(poll: RuleInputs) -> Raised:
    """Not where the backlog grows by what a stalled consumer is given."""
    raised, is_stalled = rule(poll), poll.of(stalled_rule).mask
    stuck = poll.found.of_queue(np.where(is_stalled, poll.found.consumer.held, 0.0))
    return raised._replace(mask=raised.mask & ~((stuck > 0) & (stuck >= poll.trend.growth)))


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """A backlog as it was on other days, as of a batch."""
    usual, found = poll.usual, poll.found
    with np.errstate(invalid="ignore"):
        known = usual.known_for(found.now, KNOWN) & (found.messages <= usual.expected.highs[BACKLOG])
    return np.asarray(known[queues])


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    expected = poll.usual.expected
    return {
        "growth": poll.trend.growth[at],
        "rate_in": poll.trend.rate_in[at],
        "usual_high": expected.inflow[1][at] / 3600,
        "rate_out": poll.trend.rate_out[at],
        "usual_out": expected.outflow[1][at] / 3600,
        "usual_backlog": expected.highs[BACKLOG][at],
        "consumers": poll.found.consumers[at],
    }


FALLING_BEHIND = Condition(
    name="falling_behind",
    scope=Scope.QUEUE,
    rule=rule,
    when="consumers work, and the backlog rises over all four quarters of the trend window, by"
    f" {TREND_MESSAGES:.0f} messages and {TREND_GROWTH:.0%} of what comes",
    evidence=evidence,
    notice=notice,
    decide=backlog.grows,
    silenced_by=(SLOWED,),
    window=trend,
    variants={BrokerKind.OPENMQ.name: Variant(rule=openmq_rule)},
    **texts("falling_behind"),
)
