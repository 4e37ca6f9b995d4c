"""The condition `unknown`: of what nothing can be said, and why. Made when it is asked for, not at every poll."""

from collections.abc import Iterable, Iterator

from penstock.assessment.assess import State
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.unknown import UNKNOWN
from penstock.learned.warm_up import POLLS
from penstock.model import Snapshot
from penstock.observation.facts import JUDGED, NEEDED, time_of
from penstock.series.labels import ClientSeries, QueueSeries
from penstock.settings.policy import Policy

NO_NUMBERS = (
    "this version of the broker shows no numbers per consumer; Artemis shows them from 2.28 (AMQ Broker 7.11) on"
)


def of_queue(state: State, snapshot: Snapshot, policy: Policy, series: QueueSeries) -> ActiveCondition | None:
    """None where the rules can say something of the queue."""
    why = not_judged(state, snapshot, policy)
    if not why and series.kind not in JUDGED:
        why = f"queues of kind {series.kind} are not judged"
    if why:
        return unknown(state, snapshot, series, "", why)
    key = state.queues.grouping.key_of(series)
    polls = POLLS if key is None else state.judgement.warm_up.queues.polls_of(key)
    return too_young(state, snapshot, series, "", polls)


def of_clients(
    state: State, snapshot: Snapshot, policy: Policy, series: QueueSeries, clients: Iterable[str]
) -> Iterator[ActiveCondition]:
    """Of the queue's `clients`; where nothing of it is judged the queue says so, and they do not."""
    if not_judged(state, snapshot, policy) or series.kind not in JUDGED:
        return
    here = (series.address, series.queue)
    told = {one.client for one in state.judgement.conditions if (one.address, one.queue) == here}
    numbers = snapshot.consumers is not None and "buffered" in snapshot.consumers
    for client in clients:
        if client in told:
            continue
        key = state.consumers.clients.key_of(ClientSeries(series.broker, *here, client))
        polls = POLLS if key is None else state.judgement.warm_up.clients.polls_of(key)
        found = too_young(state, snapshot, series, client, polls)
        if not numbers:
            found = unknown(state, snapshot, series, client, NO_NUMBERS)
        if found is not None:
            yield found


def not_judged(state: State, snapshot: Snapshot, policy: Policy) -> str:
    """Why nothing is judged; empty where it is, or was at a poll whose verdicts still stand."""
    if state.judgement.still_stands(time_of(snapshot), policy.constants):
        return ""
    missing = [name for name in NEEDED if name in snapshot.collectors and not snapshot.collectors[name].usable]
    return f"the last polls could not be judged: {' and '.join(missing) or 'queues or consumers'} could not be read"


def too_young(state: State, snapshot: Snapshot, series: QueueSeries, client: str, polls: int) -> ActiveCondition | None:
    """Of what was seen at so many `polls`."""
    if polls >= POLLS:
        return None
    return unknown(state, snapshot, series, client, f"seen at {polls} of the {POLLS} polls that it takes", polls)


def unknown(
    state: State, snapshot: Snapshot, series: QueueSeries, client: str, why: str, polls: int = 0
) -> ActiveCondition:
    stamps = state.judgement.warm_up.stamps[-polls:] if polls else ()
    begin = stamps[0] - state.clock.applied if stamps else snapshot.stamp
    evidence = {"polls": float(polls)} if polls else {}
    where = (series.broker, series.address, series.queue, client)
    return ActiveCondition(UNKNOWN.name, *where, Severity.INFO, begin, evidence, why=why)
