"""`falling_behind`: consumers work, and the backlog keeps growing."""

from collections.abc import Mapping

import numpy as np

from penstock.conditions.condition import Alert, Condition, Raised, Scope, Variant
from penstock.conditions.evidence import ago, trend
from penstock.conditions.stalled import openmq_rule as stalled_rule
from penstock.core.table import Column, Positions
from penstock.model import BrokerKind
from penstock.observation.activity import TREND_GROWTH, TREND_MESSAGES
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """A ring ends growing at its size: there it is its losses that count."""
    mask = poll.found.judged & poll.trend.behind & np.isnan(poll.found.ring)
    return Raised(mask, ago(poll, poll.trend.seconds))


def openmq_rule(poll: RuleInputs) -> Raised:
    """Not where the backlog grows by what a stalled consumer is given."""
    raised, is_stalled = rule(poll), poll.of(stalled_rule).mask
    stuck = poll.found.of_queue(np.where(is_stalled, poll.found.consumer.held, 0.0))
    return raised._replace(mask=raised.mask & ~((stuck > 0) & (stuck >= poll.trend.growth)))


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    """consumers_needed: as many as keep up at the pace of those that are there."""
    consumers, rate_in, rate_out = poll.found.consumers[at], poll.trend.rate_in[at], poll.trend.rate_out[at]
    needed = np.ceil(consumers * rate_in / np.where(rate_out > 0, rate_out, np.nan))
    return {
        "growth": poll.trend.growth[at],
        "rate_in": rate_in,
        "rate_out": rate_out,
        "consumers": consumers,
        "consumers_needed": np.where(rate_out > 0, needed, consumers),
    }


FALLING_BEHIND = Condition(
    name="falling_behind",
    scope=Scope.QUEUE,
    title="More messages come than the consumers work off.",
    rule=rule,
    when="consumers work, and the backlog rises over all four quarters of the trend window, by"
    f" {TREND_MESSAGES:.0f} messages and {TREND_GROWTH:.0%} of what comes",
    quiet_on="what a stalled consumer is given (OpenMQ), bursts that are worked off, a spike (each quarter must have a"
    " tenth of the growth, and the backlog must not have turned), the saw-teeth of batches, rings",
    evidence=evidence,
    causes={"too_few_consumers": "more comes than the consumers work off"},
    action="{rate_in:.1f} come and {rate_out:.1f} go each second: {consumers_needed:.0f} consumers at this pace keep"
    " up",
    window=trend,
    alert=Alert(
        name="PenstockFallingBehind",
        description="The backlog of {in_queue} grows: {queue.ready} messages wait, {queue.added|a second} come each"
        " second, {queue.consumers} consumers.",
        runbook="queues",
        critical=False,
    ),
    variants={BrokerKind.OPENMQ.name: Variant(rule=openmq_rule)},
)
