"""`ring_lost_by_consumer`: a consumer went, and its messages did not fit back into the ring."""

from collections.abc import Mapping

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.timing import at_this_poll
from penstock.core.table import Column, Positions
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.ledger.lost_now > 0), at_this_poll(poll))


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    ledger = poll.ledger
    return {
        "lost": or_zero(ledger.lost_last[at]),
        "lost_in_all": ledger.by_consumers[at],
        "evicted": ledger.evicted[at],
    }


RING_LOST_BY_CONSUMER = Condition(
    name="ring_lost_by_consumer",
    scope=Scope.QUEUE,
    title="A consumer went and its messages did not fit back into the ring.",
    rule=rule,
    when="more messages were evicted than arrivals can explain, while messages were in delivery",
    quiet_on="overflow by arrivals; scheduled messages that fall due",
    evidence=evidence,
    causes=("a consumer closed, lost its connection or rolled back, and what it returned did not fit",),
    action="{lost:.0f} messages came back to a full ring and were thrown away: a smaller consumerWindowSize holds"
    " fewer",
    event=True,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockRingLostByConsumer",
        description="{queue.lost_by_consumer|increase of 15m} messages of {in_queue} were lost within 15m as consumers"
        " closed or rolled back; {queue.ring_at_risk} more are at risk.",
        runbook="rings",
        critical=False,
        dashboard="penstock-rings",
    ),
)
