"""`blocked_by_operator`: an operator blocked an address: what is sent there fails."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, of_queues
from penstock.conditions.texts import texts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.found.address.producers_paused > 0), at_this_poll(poll))


BLOCKED_BY_OPERATOR = Condition(
    name="blocked_by_operator",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=of_queues("ready", "consumers"),
    may_be_critical=False,
    of_address=True,
    brokers=ARTEMIS,
    **texts("blocked_by_operator"),
)
