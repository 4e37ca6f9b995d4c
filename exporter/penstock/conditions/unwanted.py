"""`unwanted`: messages come to a queue's address, and no filter wants them."""

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import lost, window
from penstock.observation.losses import UNWANTED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Subscribers of a topic choose what they want: what none of them wants is no surprise."""
    anycast = poll.found.queues.column("anycast", lambda row: row.routing_type == "anycast") > 0
    losses = poll.losses
    return Raised(anycast & losses.go_on(UNWANTED, poll.found, poll.constants), losses.since[UNWANTED])


def why(poll: RuleInputs, queue: int) -> str:
    return f"the filter of the queue is {poll.found.queues.rows[queue].filter}"


UNWANTED_MESSAGES = Condition(
    name="unwanted",
    scope=Scope.QUEUE,
    title="Messages are dropped because no queue's filter wants them.",
    rule=rule,
    when="messages that the address routed and none of its queues got, all of which have a filter, grew at three polls"
    " or more, over {persistent} or longer, the last of them within the window",
    quiet_on="topics (multicast), whose subscribers choose what they want; a queue without a filter on the address; the"
    " selector of a consumer, which leaves messages in the queue; producer transactions that are open",
    evidence=lost(UNWANTED, share=True),
    causes={
        "filter": "the queue has a filter that does not match what is sent",
        "property_missing": "a producer does not set the property",
    },
    why=why,
    action="{lost:.0f} messages ({share:.0f} % of those sent) were dropped without an error: compare the filter with"
    " the properties that the producer sets, or add a queue without a filter",
    may_be_critical=False,
    of_address=True,
    window=window,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockUnwanted",
        description="Messages sent to {in_address} match the filter of none of its queues and are dropped;"
        " {address.producers} producers send there.",
        runbook="brokers",
    ),
)
