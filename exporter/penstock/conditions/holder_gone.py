"""`holder_gone`: a consumer went away with messages that it had not settled for long."""

from collections.abc import Iterator

from penstock.conditions.condition import Condition, Reported, always, declared
from penstock.learned.churn import LONG, Churn
from penstock.observation.poll import RuleInputs


def reports(churn: Churn, poll: RuleInputs) -> Iterator[Reported]:
    for client, left in churn.left.items():
        if poll.found.now - left.at <= poll.constants.event:
            yield Reported(client, left.begin, {"held": left.held, "age": left.age, "returned": left.returned})


HOLDER_GONE = Condition(reports=reports, notice=always, **declared("holder_gone", seconds=LONG))
