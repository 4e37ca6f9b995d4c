"""`too_few_consumers`: fewer consumers than the operator expects."""

from collections.abc import Mapping

from penstock.conditions.condition import Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll
from penstock.core.table import Column, Positions
from penstock.core.windows import Mask
from penstock.observation.facts import Facts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(too_few(poll.found, poll.expected) & ~poll.closed, at_this_poll(poll))


def too_few(facts: Facts, expected: Column) -> Mask:
    """Fewer than expected, while messages wait or come."""
    few = (facts.consumers > 0) & (facts.consumers < expected)
    return facts.judged & few & ((facts.ready > 0) | (facts.d_added > 0))


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    return {"consumers": poll.found.consumers[at], "expected": poll.expected[at]}


TOO_FEW_CONSUMERS = Condition(
    name="too_few_consumers",
    scope=Scope.QUEUE,
    title="Fewer consumers are there than the configuration expects.",
    rule=rule,
    when="fewer consumers are there than the configuration expects, while messages wait or come",
    quiet_on="queues of which nothing is expected; outside of business hours; queues in which nothing waits or comes",
    evidence=evidence,
    causes={"instance_down": "an instance of the application is down"},
    action="{consumers:.0f} of {expected:.0f} consumers",
    alert=Alert(
        name="PenstockTooFewConsumers",
        description="{in_queue} has {queue.consumers} of {queue.expected_consumers} consumers; {queue.ready} messages"
        " wait.",
        runbook="queues",
    ),
)
