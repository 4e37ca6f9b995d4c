"""`crash_looping`: a client fails again and again with messages buffered, beside others that work."""

from collections.abc import Iterator

from penstock.causes.verdict import possible
from penstock.conditions.condition import Condition, Reported, declared
from penstock.learned.churn import LEAST, LEAST_POLLS, MORE, SECONDS, Churn
from penstock.observation.poll import RuleInputs

LOG = possible(
    "its log shows whether it fails or is stopped: the broker sees consumers go"
)


def reports(churn: Churn, poll: RuleInputs) -> Iterator[Reported]:
    """Not where the queue settles nothing at all: `churn_without_progress` says that. Nor where settling is unknown."""
    stopped = churn.standing()
    openmq = poll.openmq.said if poll.openmq else None
    known = (
        None if openmq is None else {*poll.found.queues.keys[openmq.balanced].tolist()}
    )
    for client, loop in churn.crash_loops.loops.items():
        if loop.on and (known is None or loop.queue in known) and client not in stopped:
            numbers = {
                "consumers_seen": loop.consumers,
                "given_back": loop.held,
                "age": poll.found.now - loop.begin,
            }
            yield Reported(client, loop.begin, numbers, verdicts={"crashes": LOG})


CRASH_LOOPING = Condition(
    reports=reports,
    **declared(
        "crash_looping", minutes=SECONDS / 60, least=LEAST, polls=LEAST_POLLS, more=MORE
    ),
)
