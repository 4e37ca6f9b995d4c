"""`blocked_by_operator`: an operator blocked an address: what is sent there fails."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import of_queues
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.found.address.producers_paused > 0))


BLOCKED_BY_OPERATOR = Condition(rule=rule, evidence=of_queues("ready", "consumers"), **declared("blocked_by_operator"))
