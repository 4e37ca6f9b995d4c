"""`holder_gone`: a consumer went away with messages that it had not settled for long."""

from collections.abc import Iterator

from penstock.conditions.condition import Condition, Reported, Scope, always
from penstock.conditions.texts import texts
from penstock.learned.churn import LONG, Churn
from penstock.observation.poll import RuleInputs


def reports(churn: Churn, poll: RuleInputs) -> Iterator[Reported]:
    for client, left in churn.left.items():
        if poll.found.now - left.at <= poll.constants.event:
            yield Reported(client, left.begin, {"held": left.held, "age": left.age, "returned": left.returned})


HOLDER_GONE = Condition(
    name="holder_gone",
    scope=Scope.CLIENT,
    reports=reports,
    when=f"a consumer went away that had held messages for {LONG:.0f} s or more without settling any, and they went"
    " back to the queue",
    notice=always,
    may_be_critical=False,
    event=True,
    **texts("holder_gone"),
)
