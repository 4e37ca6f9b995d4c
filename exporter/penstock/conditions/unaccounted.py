"""`unaccounted`: messages went, or came, and no counter of the broker says why."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import lost
from penstock.observation.facts import SKEW
from penstock.observation.losses import UNEXPLAINED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(
        poll.found.judged
        & ~poll.found.keeps
        & (poll.losses.last[UNEXPLAINED] == poll.found.now)
    )


UNACCOUNTED = Condition(
    rule=rule, evidence=lost(UNEXPLAINED), **declared("unaccounted", messages=SKEW)
)
