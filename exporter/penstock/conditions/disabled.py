"""`disabled`: a queue is disabled, and loses what is sent to it."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import of_queues
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    queues = poll.snapshot.queues
    disabled = queues is not None and queues["enabled"] == 0
    return Raised(poll.found.judged & disabled)


DISABLED = Condition(rule=rule, evidence=of_queues("ready", "consumers"), **declared("disabled"))
