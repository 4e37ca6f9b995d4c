"""`too_few_consumers`: fewer consumers than the operator expects."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.core.table import Column, Mask
from penstock.observation.facts import Facts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(too_few(poll.found, poll.expected) & ~poll.closed)


def too_few(facts: Facts, expected: Column) -> Mask:
    """Fewer than expected, while messages wait or come."""
    few = (facts.consumers > 0) & (facts.consumers < expected)
    return facts.judged & few & ((facts.ready > 0) | (facts.d_added > 0))


TOO_FEW_CONSUMERS = Condition(
    rule=rule, evidence=numbers(consumers="found.consumers", expected="expected"), **declared("too_few_consumers")
)
