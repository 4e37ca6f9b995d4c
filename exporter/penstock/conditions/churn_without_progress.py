"""`churn_without_progress`: a client reconnects again and again and settles nothing."""

from collections.abc import Iterator

from penstock.conditions.condition import Alert, Condition, Reported, Scope
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
        yield Reported(client, streak.begin, numbers, idle_queue=streak.queue, counts_consumers=True)


CHURN_WITHOUT_PROGRESS = Condition(
    name="churn_without_progress",
    scope=Scope.CLIENT,
    title="A client reconnects again and again and settles nothing.",
    reports=reports,
    when="consumers of one client come and go for longer than its patience, at least {churn_ids} of them and more than"
    " twice those present, while the queue settles nothing",
    quiet_on="short-lived consumers while the queue settles anything; one reconnect",
    causes={"reconnects": "a client that reconnects and fails each time"},
    action="{consumers_seen:.0f} consumers came and went in {age:.0f} s, nothing was settled: look at the client's log",
    alert=Alert(
        name="PenstockChurnWithoutProgress",
        description="Consumers of {client} on {in_queue} come and go (now: {value}), and nothing is settled;"
        " {queue.ready} messages wait.",
        runbook="clients",
    ),
)
