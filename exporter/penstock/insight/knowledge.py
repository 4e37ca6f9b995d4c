"""The state of an object with its proof, and the objects of which nothing can be said.

"healthy" needs as much proof as an alarm.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from penstock.assessment.assess import State
from penstock.assessment.object_state import OF_SEVERITY, ObjectState, object_state
from penstock.assessment.states import BY_NAME, OF_BROKER, not_judged, severity_of
from penstock.assessment.watching import (
    EARLY,
    WAITING,
    waiting_queues,
    window_is_young,
    window_seconds,
)
from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.not_dispatching import NOT_DISPATCHING
from penstock.conditions.stalled import STALLED
from penstock.conditions.unknown import UNKNOWN
from penstock.incidents.incident import Incident
from penstock.insight.answers import WINDOW, Knowledge, QueueClient, Watched
from penstock.insight.formatting import duration, moment
from penstock.learned.warm_up import POLLS, SECONDS, SeenPolls
from penstock.model import QueueKind, Snapshot
from penstock.observation.facts import JUDGED
from penstock.series.labels import ClientSeries, QueueSeries
from penstock.settings.policy import Policy

WAITS = {
    NO_CONSUMER.name: "messages wait; the first consumer that connects ends this",
    NOT_DISPATCHING.name: "messages wait; the first message that is delivered ends this",
}
ADVICE_YOUNG = "wait for more polls"
ADVICE_UNREAD = "see why a part of the broker could not be read: `penstock check`"
ADVICE_NO_NUMBERS = "upgrade the broker; until then see the numbers of the queue itself"
ADVICE_OWN_QUEUE = (
    "do not wait: no rule judges queues that the broker makes for itself; see its depth and its consumers, and"
    " `penstock account` for what came to it and what left it"
)
ADVICE_BY_KIND: Mapping[QueueKind, str] = {
    QueueKind.INTERNAL: ADVICE_OWN_QUEUE,
    QueueKind.RETROACTIVE: ADVICE_OWN_QUEUE,
    QueueKind.LINK: "do not wait: no rule judges the queue of a link; see the link itself and what it has not sent yet",
    QueueKind.TEMPORARY: (
        "do not wait: no rule judges temporary queues; see their depth, and the client that made them: it should take"
        " the answers that it asked for"
    ),
}
"""Of queues that are never judged: what to look at."""
NO_NUMBERS = (
    "this version of the broker shows no numbers per consumer; "
    "Artemis shows them from 2.28 (AMQ Broker 7.11) on"
)


class Failing(NamedTuple):
    """Why the knowledge of a broker is stale: its polls failed. Times by the agent's clock.

    Attributes:
        since: when the first of them failed.
        error: of the last one.
        read: when the last good poll was.
    """

    since: float
    error: str
    read: float


@dataclass(frozen=True, slots=True)
class Concerning:
    """All that decides the state of an object.

    Attributes:
        conditions: that are active and concern it, silenced ones too.
        incidents: of which it is the root or a victim.
        unknown: why nothing of it is judged; empty where something is.
        watched: what would be a condition if it lasted.
        judged: by which polls and conditions it would be called healthy, in words.
    """

    conditions: Sequence[ActiveCondition] = ()
    incidents: Sequence[Incident] = ()
    unknown: str = ""
    watched: Sequence[Watched] = ()
    judged: str = ""

    @property
    def severity(self) -> Severity | None:
        """The worst of all; None where nothing is active."""
        severities = [
            severity_of(condition)
            for condition in self.conditions
            if condition.name != UNKNOWN.name
        ]
        severities += [BY_NAME[incident.severity] for incident in self.incidents]
        return max(severities, default=None)

    def state(
        self, unread: ObjectState | None = None, *, watching: bool = False
    ) -> ObjectState:
        """The state of the object.

        Args:
            unread: its broker cannot be read.
            watching: parts of it are watched that `watched` does not name.
        """
        return object_state(
            self.severity,
            unknown=bool(self.unknown),
            watched=watching or bool(self.watched),
            unread=unread,
        )


def knowledge(
    state: ObjectState, about: Concerning, failing: Failing | None
) -> Knowledge:
    """The state of an object with the reason. failing: why its broker cannot be read now, where that is so."""
    watched = [*about.watched]
    match state:
        case ObjectState.DOWN | ObjectState.STALE:
            assert failing is not None  # noqa: S101 - else it is read
            return knowledge_of_unread(state, failing)
        case ObjectState.CRITICAL | ObjectState.WARNING | ObjectState.NOTICE:
            why, since = reason(about, state)
            return Knowledge(state, why, since, watched)
        case ObjectState.UNKNOWN:
            return Knowledge(state, about.unknown, unknown_since(about), [])
        case ObjectState.WATCHING:
            why = f"no warnings so far; {about.judged}"
            return Knowledge(state, why, None, watched)
        case _:
            return Knowledge(state, about.judged, None, [])


def knowledge_of_unread(state: ObjectState, failing: Failing) -> Knowledge:
    """The state of an object whose broker cannot be read, with the reason."""
    since = moment(failing.since)
    last_read = moment(failing.read)
    why = f"broker down since {since}, last seen {last_read}: {failing.error}"
    return Knowledge(state, why, round(failing.since, 3), [])


def unknown_since(about: Concerning) -> float | None:
    """Since when nothing is judged of the object; None where that is not known."""
    for condition in about.conditions:
        if condition.name == UNKNOWN.name:
            return round(condition.since, 3)
    return None


def reason(about: Concerning, state: ObjectState) -> tuple[str, float | None]:
    """What makes the object critical, a warning or a notice, and since when the first of that is active."""
    conditions = [
        condition
        for condition in about.conditions
        if condition.name != UNKNOWN.name
        and OF_SEVERITY[severity_of(condition)] is state
    ]
    if conditions:
        names = dict.fromkeys(map(name_of, conditions))
        since = min(condition.since for condition in conditions)
        return ", ".join(names), round(since, 3)
    for incident in about.incidents:
        if OF_SEVERITY[BY_NAME[incident.severity]] is state:
            return incident.title, round(incident.begin, 3)
    return "", None


def name_of(condition: ActiveCondition) -> str:
    """The name of a condition, and whether it is silenced."""
    return f"{condition.name} (silenced)" if condition.silenced else condition.name


def unread_as(failing: Failing | None, *, broker: bool = False) -> ObjectState | None:
    """The state of an object whose broker cannot be read: a broker is down, all on it is stale; None: it is read."""
    if failing is None:
        return None
    return ObjectState.DOWN if broker else ObjectState.STALE


def concerns_queue(condition: ActiveCondition) -> bool:
    """Whether a condition that is shown with a queue counts for it: of those of the broker only critical ones do."""
    of_broker = (condition.address, condition.queue) == OF_BROKER
    return not of_broker or severity_of(condition) is Severity.CRITICAL


def judged(state: State, kind: str, interval: float, *scopes: Scope) -> str:
    """The polls and conditions by which an object of the broker is called healthy, in words.

    Args:
        state: of the broker.
        kind: of the broker.
        interval: seconds between two polls.
        *scopes: of the conditions.
    """
    polls, due = state.judgement.warm_up.judged(-np.inf, interval)
    conditions = for_kind(kind).values()
    count = sum(condition.scope in scopes for condition in conditions)
    period = duration(min(SECONDS, due * interval))
    return (
        f"{count} conditions, judged at {polls} of the {due} polls in the last {period}"
    )


def watched_of_broker(state: State, policy: Policy) -> Iterator[Watched]:
    """What may become a condition of any object of the broker: the agent has not read it for long enough."""
    if window_is_young(state.judgement, policy.constants):
        seconds, needed = window_seconds(state.judgement, policy.constants)
        proves = "growing backlogs and returning messages are found only over that time"
        yield Watched(WINDOW, "", json_seconds(seconds), json_seconds(needed), proves)


def watched_of_queue(
    state: State, policy: Policy, i: int, active: Sequence[ActiveCondition]
) -> Iterator[Watched]:
    """The condition that the queue will have if its messages go on waiting, where it has none of that kind.

    Args:
        state: of the broker.
        policy: of the broker.
        i: the row of the queue in the table of queues.
        active: its conditions.
    """
    waits = waiting_queues(state.judgement, state.queues.grouping, policy.constants)
    is_watched = waits.long_enough[i] and waits.not_yet_due[i]
    if not is_watched or any(condition.name in WAITING for condition in active):
        return
    condition = NO_CONSUMER if waits.without_consumer[i] else NOT_DISPATCHING
    yield Watched(
        condition.name,
        "",
        json_seconds(waits.seconds[i]),
        json_seconds(waits.needed[i]),
        WAITS[condition.name],
    )


def watched_of_clients(
    clients: Sequence[QueueClient], active: Sequence[ActiveCondition], now: float
) -> Iterator[Watched]:
    """Clients that buffer messages and acknowledge none, for a part of their stall threshold.

    Args:
        clients: of a queue.
        active: conditions; clients that have one are left out.
        now: by the agent's clock.
    """
    troubled = {condition.client for condition in active}
    for client in clients:
        since = client.numbers.get("blocked_since")
        threshold = client.patience
        if client.client in troubled or since is None or threshold is None:
            continue
        seconds = now - since
        if seconds <= EARLY * threshold.seconds:
            continue
        buffered = client.numbers.get("buffered", 0)
        yield Watched(
            STALLED.name,
            client.client,
            json_seconds(seconds),
            threshold.seconds,
            f"it buffers {buffered:,} messages; the first that it acknowledges ends this",
        )


def json_seconds(seconds: float) -> float:
    """Seconds as JSON shows them, to a tenth."""
    return round(float(seconds), 1)


# --- objects of which nothing can be said: the condition `unknown`, made when it is asked for


def undecided_conditions(
    state: State, snapshot: Snapshot, series: QueueSeries, clients: Iterable[str] = ()
) -> Iterator[ActiveCondition]:
    """The conditions `unknown` of a queue and of these clients of it.

    Where nothing of the queue is judged only the queue has one.
    """
    why = not_judged(state.judgement, snapshot)
    if why:
        yield undecided(series, "", why, unjudged_since(state, snapshot), ADVICE_UNREAD)
    elif series.kind not in JUDGED:
        why = f"queues of kind {series.kind} are not judged"
        since = queue_seen_since(state, snapshot, series)
        advice = ADVICE_BY_KIND[QueueKind(series.kind)]
        yield undecided(series, "", why, since, advice)
    else:
        yield from undecided_queue(state, snapshot, series)
        yield from undecided_clients(state, snapshot, series, clients)


def undecided_queue(
    state: State, snapshot: Snapshot, series: QueueSeries
) -> Iterator[ActiveCondition]:
    """The condition `unknown` of a queue that was seen at too few polls."""
    key = state.queues.grouping.key_of(series)
    seen = state.judgement.warm_up.queues
    condition = too_young(state, snapshot, series, "", seen, key)
    if condition is not None:
        yield condition


def undecided_clients(
    state: State, snapshot: Snapshot, series: QueueSeries, clients: Iterable[str]
) -> Iterator[ActiveCondition]:
    """The conditions `unknown` of these clients of a queue; a client with another condition has none."""
    place = (series.address, series.queue)
    troubled = clients_with_conditions(state, place)
    consumers = snapshot.consumers
    has_numbers = consumers is not None and "buffered" in consumers
    seen = state.judgement.warm_up.clients
    for client in clients:
        if client in troubled:
            continue
        key = state.consumers.clients.key_of(
            ClientSeries(series.broker, *place, client)
        )
        if not has_numbers:
            yield undecided(
                series,
                client,
                NO_NUMBERS,
                on_agents_clock(state, snapshot, seen.since_of(key)),
                ADVICE_NO_NUMBERS,
            )
            continue
        condition = too_young(state, snapshot, series, client, seen, key)
        if condition is not None:
            yield condition


def clients_with_conditions(state: State, place: tuple[str, str]) -> set[str]:
    """The clients of a queue that have a condition. place: its address and name."""
    return {
        condition.client
        for condition in state.judgement.conditions
        if (condition.address, condition.queue) == place
    }


def too_young(
    state: State,
    snapshot: Snapshot,
    series: QueueSeries,
    client: str,
    seen: SeenPolls,
    key: int | None,
) -> ActiveCondition | None:
    """The condition `unknown` of a queue or client that was seen at fewer polls than it takes; else None.

    Args:
        state: of the broker.
        snapshot: the last poll.
        series: the queue.
        client: empty: the queue itself.
        seen: the polls that have seen queues, or clients.
        key: of the row of the queue or client; None where it has none.
    """
    polls = POLLS if key is None else seen.polls_of(key)
    if polls >= POLLS:
        return None
    first_seen = on_agents_clock(state, snapshot, seen.since_of(key))
    why = f"seen at {polls} of the {POLLS} polls that it takes"
    evidence = {"polls": float(polls)}
    return undecided(series, client, why, first_seen, ADVICE_YOUNG, evidence)


def undecided(
    series: QueueSeries,
    client: str,
    why: str,
    since: float,
    advice: str,
    evidence: Mapping[str, float] = MappingProxyType({}),
) -> ActiveCondition:
    """The condition `unknown`.

    Args:
        series: the queue.
        client: empty: the queue itself.
        why: nothing is judged.
        since: when this began, by the agent's clock: the same at each read while it lasts.
        advice: what to do.
        evidence: numbers.
    """
    return ActiveCondition(
        UNKNOWN.name,
        series.broker,
        series.address,
        series.queue,
        client,
        Severity.INFO,
        since,
        evidence,
        why=why,
        advice=advice,
    )


def unjudged_since(state: State, snapshot: Snapshot) -> float:
    """When the last poll was judged; where none ever was, the first that could not be. By the agent's clock."""
    judged_last = state.judgement.seen.times.now
    if np.isfinite(judged_last):
        return float(judged_last - state.clock.applied)
    since = state.judgement.unjudged_since
    return snapshot.stamp if np.isnan(since) else since


def queue_seen_since(state: State, snapshot: Snapshot, series: QueueSeries) -> float:
    """When a queue was seen first, or the first of those that are shown as one. By the agent's clock."""
    judgement = state.judgement
    grouping = state.queues.grouping
    key = grouping.key_of(series)
    seen = judgement.warm_up.queues.since_of(key)
    account = (
        judgement.openmq_account.queues
        if judgement.openmq_account.watched
        else judgement.account.books
    )
    # The account outlives a restart of the agent.
    if key is not None and account.index is grouping.source:
        row = int(grouping.index.positions(np.array([key], np.int64))[0])
        accounted = account.since[grouping.member == row]
        seen = float(np.fmin.reduce(accounted, initial=seen))
    return on_agents_clock(state, snapshot, seen)


def on_agents_clock(state: State, snapshot: Snapshot, moment_of_broker: float) -> float:
    """A moment of the broker's clock by the clock of the agent; that of the last poll where it is NaN."""
    if np.isnan(moment_of_broker):
        return snapshot.stamp
    return moment_of_broker - state.clock.applied
