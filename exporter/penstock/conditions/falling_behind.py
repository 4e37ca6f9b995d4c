"""`falling_behind`: consumers work, and the backlog keeps growing."""

from collections.abc import Mapping

import numpy as np

from penstock.causes import backlog
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
    return {
        "growth": poll.trend.growth[at],
        "rate_in": poll.trend.rate_in[at],
        "rate_out": poll.trend.rate_out[at],
        "consumers": poll.found.consumers[at],
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
    causes={
        "too_few_consumers": "more comes than the consumers process: add consumers",
        "exclusive": "an exclusive queue is processed by one consumer: make that one faster",
        "max_consumers": "the queue takes no more consumers: raise max-consumers, or make them faster",
        "selector": "all consumers have a selector, and what none selects grows: add a consumer that selects the rest",
        "holders": "consumers buffer messages and acknowledge none: mend these before any is added",
        "slowed": "the consumers became slower: find what slows them, as more consumers add load to it",
    },
    decide=backlog.grows,
    action="{rate_in:.1f} come and {rate_out:.1f} go each second: its causes say whether more consumers help",
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
