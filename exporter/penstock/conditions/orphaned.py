"""`orphaned`: the broker kept a consumer whose session is gone."""

import numpy as np

from penstock.conditions import evidence
from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope
from penstock.conditions.texts import texts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Not a browser, which is listed too: it counts nothing."""
    consumer = poll.found.consumer
    counts = (consumer.delivered > 0) | (consumer.held > 0)
    return Raised(consumer.orphaned & counts & ~np.isnan(poll.client_patience), poll.unacked.unacked_since)


ORPHANED = Condition(
    name="orphaned",
    scope=Scope.CLIENT,
    rule=rule,
    evidence=evidence.buffered,
    by_consumer=True,
    brokers=ARTEMIS,
    **texts("orphaned"),
)
