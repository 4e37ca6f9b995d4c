"""`purged`: an operator has purged a queue, or removed messages of it by a filter."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope, always
from penstock.conditions.evidence import lost
from penstock.observation.losses import PURGED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """What an operator does once is worth a notice."""
    last, found = poll.losses.last[PURGED], poll.found
    return Raised(found.judged & (found.now - last <= poll.constants.event), poll.losses.since[PURGED])


MESSAGES_PURGED = Condition(
    name="purged",
    scope=Scope.QUEUE,
    title="Messages of a queue were purged.",
    rule=rule,
    when="messages were purged, or removed by a filter, and are surely no dead letters, a short while ago",
    quiet_on="dead letters, expired and moved messages; what may have been either",
    evidence=lost(PURGED),
    causes={
        "operator": "an operator purged it",
        "no_consumers": "the queue is purged when its last consumer goes (purge-on-no-consumers)",
    },
    action="{lost:.0f} messages were purged and are gone: the broker's audit log says who did it",
    notice=always,
    may_be_critical=False,
    event=True,
    brokers=ARTEMIS,
)
