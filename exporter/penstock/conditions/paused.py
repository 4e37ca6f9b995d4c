"""`paused`: an operator paused the queue or its address."""

from penstock.conditions.condition import Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, of_queues
from penstock.conditions.texts import texts
from penstock.core.table import Positions
from penstock.core.windows import Mask
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    found = poll.found
    return Raised(found.judged & ((found.paused > 0) | (found.address.paused > 0)), at_this_poll(poll))


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    """Without a backlog."""
    return ~(poll.found.ready[queues] > 0)


PAUSED = Condition(
    name="paused",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=of_queues("ready", "consumers"),
    notice=notice,
    of_address=True,
    **texts("paused"),
)
