"""`ring_losing`: a ring evicts messages that no one has read."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.conditions.ring_lost_by_consumer import who_returned
from penstock.core.table import Mask, Positions
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs
from penstock.series.queues import TARGETS
from penstock.settings.rules import RingLoss


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.evictions.grew > 0))


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """Discarding is what a ring is for, unless the operator says otherwise or wants it to cover more time."""
    of_queues = poll.groups.queues.by_source
    alert = of_queues(
        "ring alert", lambda series: series.said.ring_loss is RingLoss.ALERT
    )
    target = of_queues("ring_retention_target", TARGETS["ring_retention_target"])
    short = poll.found.ring < target * poll.trend.comes
    return ~((alert > 0) | short)[queues]


def why(poll: RuleInputs, queue: int) -> str:
    """Arrivals at a full ring, because no consumer takes or all are too slow; or what clients gave back."""
    found = poll.found
    lost = poll.evictions
    if lost.low[queue] > 0:
        return who_returned(poll, queue)
    if found.consumers[queue] == 0:
        return "messages come to a full ring that has no consumer: each one evicts the oldest"
    if found.paused[queue] > 0:
        return "messages come to a full ring that is paused: each one evicts the oldest"
    if not found.d_settled[queue]:
        return "messages come to a full ring, and its consumers acknowledge none"
    return "messages come to a full ring faster than its consumers take them"


evidence = numbers(
    evicted="evictions.evicted",
    rate=lambda poll: poll.evictions.grew / max(poll.found.interval, 1e-9),
    ring=lambda poll: or_zero(poll.found.ring),
    consumers="found.consumers",
    rate_in="trend.comes",
    rate_out="trend.rate_out",
)
RING_LOSING = Condition(
    rule=rule, evidence=evidence, why=why, notice=notice, **declared("ring_losing")
)
