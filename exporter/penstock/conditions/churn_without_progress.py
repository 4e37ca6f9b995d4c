"""`churn_without_progress`: a client reconnects again and again and settles nothing."""

from collections.abc import Iterator

from penstock.causes.verdict import proven
from penstock.conditions.condition import Condition, Reported, declared
from penstock.learned.churn import Churn
from penstock.observation.poll import RuleInputs


def reports(churn: Churn, poll: RuleInputs) -> Iterator[Reported]:
    """The streaks that `learned.churn` follows from consumer to consumer."""
    for client, streak in churn.standing().items():
        numbers = {
            "consumers_seen": float(streak.ids),
            "age": poll.found.now - streak.begin,
            "patience": streak.patience,
        }
        known = {
            "reconnects": proven(
                f"{streak.ids} consumers of it came, and no message has been settled since"
            )
        }
        yield Reported(
            client,
            streak.begin,
            numbers,
            idle_queue=streak.queue,
            counts_consumers=True,
            verdicts=known,
        )


CHURN_WITHOUT_PROGRESS = Condition(
    reports=reports, **declared("churn_without_progress")
)
