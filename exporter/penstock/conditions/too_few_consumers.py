"""`too_few_consumers`: fewer consumers than the operator expects."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.conditions.no_consumer import rule as none_comes
from penstock.core.table import Column, Mask
from penstock.observation.facts import Facts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """None at all may be how a batch is read."""
    return Raised(
        too_few(poll.found, poll.expected) & ~poll.closed & (poll.found.consumers > 0)
    )


def too_few(facts: Facts, expected: Column) -> Mask:
    """Fewer than expected, while messages wait or come."""
    return (
        facts.judged
        & (facts.consumers < expected)
        & ((facts.ready > 0) | (facts.d_added > 0))
    )


def last_left(poll: RuleInputs) -> Mask:
    """That the last one goes, too, ends nothing until `no_consumer` says so; where all may be away, it does."""
    away = poll.closed | poll.of(none_comes).mask | (poll.absence > poll.constants.cold)
    return too_few(poll.found, poll.expected) & ~away


TOO_FEW_CONSUMERS = Condition(
    rule=rule,
    evidence=numbers(consumers="found.consumers", expected="expected"),
    stays=last_left,
    **declared("too_few_consumers"),
)
