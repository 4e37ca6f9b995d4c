"""`holder_gone`: a consumer went away with messages that it had not settled for long."""

from collections.abc import Iterator

from penstock.causes.backlog import gone
from penstock.conditions.condition import Condition, Reported, always, declared
from penstock.learned.churn import LONG, Churn
from penstock.observation.poll import RuleInputs


def reports(churn: Churn, poll: RuleInputs) -> Iterator[Reported]:
    for client, left in churn.left.items():
        if poll.found.now - left.at <= poll.constants.event:
            numbers = {"held": left.held, "age": left.age, "returned": left.returned}
            yield Reported(
                client, left.begin, numbers, verdicts=gone(poll, client.client, left.at)
            )


HOLDER_GONE = Condition(
    reports=reports, notice=always, **declared("holder_gone", seconds=LONG)
)
