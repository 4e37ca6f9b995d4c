"""`crash_looping`: a client fails again and again with messages in hand, beside others that work."""

from collections.abc import Iterator

import numpy as np

from penstock.conditions.condition import Alert, Condition, Reported, Scope
from penstock.learned.churn import LEAST, LEAST_POLLS, SECONDS, Churn
from penstock.observation.poll import RuleInputs


def reports(churn: Churn, poll: RuleInputs) -> Iterator[Reported]:
    """Not where the queue settles nothing at all: `churn_without_progress` says that. Nor where settling is unknown."""
    stopped, queues = churn.standing(), poll.found.queues
    for client, loop in churn.crash_loops.loops.items():
        at = queues.positions(np.array([loop.queue]))[0]
        known = poll.openmq is None or poll.openmq.said is None or bool(poll.openmq.said.balanced[at])
        if loop.on and known and client not in stopped:
            numbers = {
                "consumers_seen": float(loop.consumers),
                "given_back": loop.held,
                "age": poll.found.now - loop.begin,
            }
            yield Reported(client, loop.begin, numbers)


CRASH_LOOPING = Condition(
    name="crash_looping",
    scope=Scope.CLIENT,
    title="A client closes again and again with messages that it has not acknowledged, while others work.",
    reports=reports,
    when=f"within {SECONDS / 60:g} min at least {LEAST} consumers of one client were gone at"
    f" {LEAST_POLLS} polls, each with buffered messages and without any acknowledgement, and the queue"
    " settles no more than its other consumers do",
    quiet_on="rollouts, consumers that acknowledge before they close, short pollers that leave what they prefetched, a"
    " pool that stops once; queues that settle nothing at all: churn_without_progress",
    causes={
        "crashes": "a client that fails at each message that it gets, or shortly after its start, and is started again"
    },
    action="{consumers_seen:.0f} consumers came and went within {age:.0f} s, acknowledged nothing and gave back at"
    " least {given_back:.0f} messages: look at the client's log",
    may_be_critical=False,
    by_consumer=True,
    alert=Alert(
        name="PenstockCrashLooping",
        description="Consumers of {client} on {in_queue} close again and again with messages that they have not"
        " acknowledged, and other consumers work. {queue.ready} messages wait.",
        runbook="clients",
    ),
)
