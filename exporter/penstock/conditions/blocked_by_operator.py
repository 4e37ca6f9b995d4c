"""`blocked_by_operator`: an operator blocked an address: what is sent there fails."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import ready_and_consumers
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.found.address.producers_paused > 0))


BLOCKED_BY_OPERATOR = Condition(
    rule=rule, evidence=ready_and_consumers, **declared("blocked_by_operator")
)
