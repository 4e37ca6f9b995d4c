"""`purged`: an operator has purged a queue, or removed messages of it by a filter."""

from penstock.causes import failures
from penstock.conditions.condition import Condition, Raised, always, declared
from penstock.conditions.evidence import lost
from penstock.observation.losses import PURGED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """What an operator does once is worth a notice."""
    last = poll.losses.last[PURGED]
    found = poll.found
    return Raised(
        found.judged & (found.now - last <= poll.constants.event),
        poll.losses.since[PURGED],
    )


MESSAGES_PURGED = Condition(
    rule=rule,
    evidence=lost(PURGED),
    notice=always,
    decide=failures.purged,
    **declared("purged"),
)
