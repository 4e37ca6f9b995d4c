"""`blocked_by_operator`: an operator blocked an address: what is sent there fails."""

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, of_queues
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.found.address.producers_paused > 0), at_this_poll(poll))


BLOCKED_BY_OPERATOR = Condition(
    name="blocked_by_operator",
    scope=Scope.QUEUE,
    title="An operator blocked an address: sending to it fails.",
    rule=rule,
    when="the broker says that the address is blocked by management (BlockedViaManagement, from 2.50 on)",
    quiet_on="full addresses, whose producers wait (producers_blocked); older versions, which do not show it",
    evidence=of_queues("ready", "consumers"),
    causes={"operator": "an operator called block() of the address"},
    action="Unblock the address once it is known why it was blocked. Core producers do not wait: each send fails"
    " (AMQ219058, as of a full address), and one that ended there does not come back by itself",
    may_be_critical=False,
    of_address=True,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockBlockedByOperator",
        description="{in_address} is blocked by an operator: what its {address.producers} producers send fails;"
        " {address.messages} messages are there.",
        runbook="brokers",
        dashboard="penstock-broker",
    ),
)
