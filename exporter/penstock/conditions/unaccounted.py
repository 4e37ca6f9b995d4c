"""`unaccounted`: messages went, or came, and no counter of the broker says why."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, lost
from penstock.conditions.texts import texts
from penstock.observation.facts import SKEW
from penstock.observation.losses import UNEXPLAINED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    grew = poll.losses.last[UNEXPLAINED] == poll.found.now
    return Raised(poll.found.judged & ~poll.found.keeps & grew, at_this_poll(poll))


UNACCOUNTED = Condition(
    name="unaccounted",
    scope=Scope.QUEUE,
    rule=rule,
    when="what came to the queue is neither there nor left by a reason that is known, at three polls in a row, and it"
    f" is more than at any poll before: by more than {SKEW:.0f} while messages move, by one where none does",
    evidence=lost(UNEXPLAINED),
    event=True,
    may_be_critical=False,
    brokers=ARTEMIS,
    **texts("unaccounted"),
)
