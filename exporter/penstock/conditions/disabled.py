"""`disabled`: a queue is disabled, and loses what is sent to it."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import ready_and_consumers
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    queues = poll.snapshot.queues
    return Raised(poll.found.judged & (queues is not None and queues["enabled"] == 0))


DISABLED = Condition(rule=rule, evidence=ready_and_consumers, **declared("disabled"))
