"""`paused`: an operator paused the queue or its address."""

from penstock.causes import backlog
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import ready_and_consumers
from penstock.core.table import Mask, Positions
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    found = poll.found
    return Raised(found.judged & ((found.paused > 0) | (found.address.paused > 0)))


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """Without a backlog."""
    return ~(poll.found.ready[queues] > 0)


PAUSED = Condition(
    rule=rule,
    evidence=ready_and_consumers,
    notice=notice,
    decide=backlog.paused,
    **declared("paused"),
)
