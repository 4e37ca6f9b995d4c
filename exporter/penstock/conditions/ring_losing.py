"""`ring_losing`: a ring evicts messages that nobody has read."""

from collections.abc import Mapping

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll
from penstock.conditions.ring_lost_by_consumer import who_returned
from penstock.core.table import Column, Positions
from penstock.core.windows import Mask
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs
from penstock.series.queues import TARGETS
from penstock.settings.rules import RingLoss


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.evictions.grew > 0), at_this_poll(poll))


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """Discarding is what a ring is for, unless the operator says otherwise or wants it to cover more time."""
    of_queues = poll.groups.queues.by_source
    alert = of_queues("ring alert", lambda series: series.said.ring_loss is RingLoss.ALERT)
    target = of_queues("ring_retention_target", TARGETS["ring_retention_target"])
    short = poll.found.ring < target * poll.trend.rate_in
    return ~((alert > 0) | short)[queues]


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    return {
        "evicted": poll.evictions.evicted[at],
        "rate": poll.evictions.grew[at] / max(poll.found.interval, 1e-9),
        "ring": or_zero(poll.found.ring[at]),
        "consumers": poll.found.consumers[at],
        "rate_in": poll.trend.rate_in[at],
        "rate_out": poll.trend.rate_out[at],
    }


def why(poll: RuleInputs, queue: int) -> str:
    """Arrivals at a full ring, because no consumer takes or all are too slow; or what clients gave back."""
    found, lost = poll.found, poll.evictions
    if lost.low[queue] > 0:
        return who_returned(poll, queue)
    if found.consumers[queue] == 0:
        return "messages come to a full ring that has no consumer: each one evicts the oldest"
    if found.paused[queue] > 0:
        return "messages come to a full ring that is paused: each one evicts the oldest"
    if not found.d_settled[queue]:
        return "messages come to a full ring, and its consumers acknowledge none"
    return "messages come to a full ring faster than its consumers take them"


RING_LOSING = Condition(
    name="ring_losing",
    scope=Scope.QUEUE,
    title="A ring queue throws away messages that the configuration wants kept.",
    rule=rule,
    when="messages were evicted from the ring since the last poll",
    quiet_on="a full ring that evicts nothing, counts above the ring size while messages are in delivery, and last"
    " values that are replaced. It is a warning with `ring_loss: alert`, or while the ring covers less than"
    " `ring_retention`",
    evidence=evidence,
    causes={"ring_too_small": "more comes than the ring holds until it is read"},
    why=why,
    action="{evicted:.0f} messages were evicted unread, {rate:.1f} each second: make the ring larger or its consumers"
    " faster if they are wanted",
    notice=notice,
    may_be_critical=False,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockRingLosing",
        description="The ring {in_queue} evicts messages that were not read.",
        runbook="rings",
        dashboard="penstock-rings",
    ),
)
