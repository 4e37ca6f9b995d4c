"""`disabled`: a queue is disabled, and loses what is sent to it."""

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, of_queues
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    queues = poll.snapshot.queues
    disabled = queues is not None and queues["enabled"] == 0
    return Raised(poll.found.judged & disabled, at_this_poll(poll))


DISABLED = Condition(
    name="disabled",
    scope=Scope.QUEUE,
    title="A queue is disabled: it gets nothing that is sent, and producers see no error.",
    rule=rule,
    when="the broker says that the queue is disabled (`enabled` of listQueues)",
    quiet_on="a paused queue, which keeps what is sent; polls whose listing does not show it",
    evidence=of_queues("ready", "consumers"),
    causes={"operator": "an operator disabled it, or broker.xml does (`enabled`)"},
    action="Enable the queue, or stop its producers: the address counts what they send as routed, and unless it has"
    " another queue no one gets it. {ready:.0f} messages that came before are still delivered",
    may_be_critical=False,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockDisabled",
        description="{in_queue} is disabled: it gets nothing that is sent; {queue.ready} older messages wait.",
        runbook="queues",
    ),
)
