"""`orphaned`: the broker kept a consumer whose session is gone."""

import numpy as np

from penstock.conditions import evidence
from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Not a browser, which is listed too: it counts nothing."""
    consumer = poll.found.consumer
    counts = (consumer.delivered > 0) | (consumer.held > 0)
    return Raised(consumer.orphaned & counts & ~np.isnan(poll.client_patience), poll.unacked.unacked_since)


ORPHANED = Condition(
    name="orphaned",
    scope=Scope.CLIENT,
    title="A consumer is left over whose session has ended.",
    rule=rule,
    when="the broker says that a consumer which got or holds messages is orphaned: its session is gone",
    quiet_on="browsers, which are listed with the consumers and count nothing",
    evidence=evidence.buffered,
    causes={"session_gone": "its session is gone and the broker has kept the consumer"},
    action="holds {held:.0f} messages and its session is gone: closing its connection returns them{at_risk_text}",
    by_consumer=True,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockConsumerOrphaned",
        description="Consumers of {client} on {in_queue} whose session has ended: {value}; they hold {client.buffered}"
        " messages.",
        runbook="clients",
    ),
)
