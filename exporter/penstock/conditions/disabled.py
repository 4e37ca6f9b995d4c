"""`disabled`: a queue is disabled, and loses what is sent to it."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, of_queues
from penstock.conditions.texts import texts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    queues = poll.snapshot.queues
    disabled = queues is not None and queues["enabled"] == 0
    return Raised(poll.found.judged & disabled, at_this_poll(poll))


DISABLED = Condition(
    name="disabled",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=of_queues("ready", "consumers"),
    may_be_critical=False,
    brokers=ARTEMIS,
    **texts("disabled"),
)
