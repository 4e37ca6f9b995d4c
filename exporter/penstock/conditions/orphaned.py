"""`orphaned`: the broker kept a consumer whose session is gone."""

import numpy as np

from penstock.causes.case import ConsumerCase
from penstock.causes.verdict import Verdicts, proven
from penstock.conditions import evidence
from penstock.conditions.condition import Condition, Raised, declared
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Not a browser, which is listed too: it counts nothing."""
    consumer = poll.found.consumer
    counts = (consumer.delivered > 0) | (consumer.held > 0)
    return Raised(
        consumer.orphaned & counts & ~np.isnan(poll.client_patience),
        poll.unacked.unacked_since,
    )


def decide(_: ConsumerCase) -> Verdicts:
    return {"session_gone": proven("the broker says so")}


ORPHANED = Condition(
    rule=rule, evidence=evidence.buffered, decide=decide, **declared("orphaned")
)
