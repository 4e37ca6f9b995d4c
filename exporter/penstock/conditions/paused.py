"""`paused`: an operator paused the queue or its address."""

from penstock.conditions.condition import Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, of_queues
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
    title="A queue is paused by an operator while messages wait.",
    rule=rule,
    when="the broker says that the queue or its address is paused",
    quiet_on="a pause without a backlog is a notice",
    evidence=of_queues("ready", "consumers"),
    causes={"paused": "an operator paused the queue or its address"},
    action="{ready:.0f} messages wait: resume it",
    notice=notice,
    of_address=True,
    alert=Alert(
        name="PenstockPausedWithBacklog",
        description="{in_queue} is paused, {queue.ready} messages wait, {queue.added|a second} come each second.",
        runbook="queues",
    ),
)
