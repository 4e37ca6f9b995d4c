"""How sure it is what is said of an object, and of what nothing can be: "healthy" needs as much proof as an alarm."""

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
    """Why what is known is stale: the polls since then failed. Times by the agent's clock; read: the last good one."""

    since: float
    error: str
    read: float


@dataclass(frozen=True, slots=True)
class Concerning:
    """What is said of an object. conditions: that are active and make it what it is, silenced ones too. incidents: of
    which it is the root or a victim. unknown: why nothing is judged of it; empty where something is. watched: what
    would be a condition if it lasted. judged: on what it would be called healthy.
    """

    conditions: Sequence[ActiveCondition] = ()
    incidents: Sequence[Incident] = ()
    unknown: str = ""
    watched: Sequence[Watched] = ()
    judged: str = ""

    @property
    def severity(self) -> Severity | None:
        """The worst of all; None where nothing is active."""
        of_conditions = [
            severity_of(one) for one in self.conditions if one.name != UNKNOWN.name
        ]
        of_incidents = [BY_NAME[one.severity] for one in self.incidents]
        return max(of_conditions + of_incidents, default=None)

    def state(
        self, unread: ObjectState | None = None, *, watching: bool = False
    ) -> ObjectState:
        """unread: its broker cannot be read. watching: parts of it are watched that `watched` does not name."""
        watched = watching or bool(self.watched)
        return object_state(
            self.severity, unknown=bool(self.unknown), watched=watched, unread=unread
        )


def knowledge(
    state: ObjectState, about: Concerning, failing: Failing | None
) -> Knowledge:
    """The state of an object with the reason. failing: why its broker cannot be read now, where that is so."""
    watched = [*about.watched]
    match state:
        case ObjectState.DOWN | ObjectState.STALE:
            assert failing is not None  # noqa: S101 - else it is read
            why = f"broker down since {moment(failing.since)}, last seen {moment(failing.read)}: {failing.error}"
            return Knowledge(state, why, round(failing.since, 3), [])
        case ObjectState.CRITICAL | ObjectState.WARNING | ObjectState.NOTICE:
            why, since = reason(about, state)
            return Knowledge(state, why, since, watched)
        case ObjectState.UNKNOWN:
            since = next(
                (one.since for one in about.conditions if one.name == UNKNOWN.name),
                None,
            )
            return Knowledge(
                state, about.unknown, None if since is None else round(since, 3), []
            )
        case ObjectState.WATCHING:
            return Knowledge(
                state, f"no warnings so far; {about.judged}", None, watched
            )
        case _:
            return Knowledge(state, about.judged, None, [])


def reason(about: Concerning, state: ObjectState) -> tuple[str, float | None]:
    """What makes the object critical, a warning or a notice, and since when the first of that is active."""
    own = [
        one
        for one in about.conditions
        if one.name != UNKNOWN.name and OF_SEVERITY[severity_of(one)] is state
    ]
    if own:
        names = dict.fromkeys(
            f"{one.name} (silenced)" if one.silenced else one.name for one in own
        )
        return ", ".join(names), round(min(one.since for one in own), 3)
    for incident in about.incidents:
        if OF_SEVERITY[BY_NAME[incident.severity]] is state:
            return incident.title, round(incident.begin, 3)
    return "", None


def unread_as(failing: Failing | None, *, broker: bool = False) -> ObjectState | None:
    """What an object is whose broker cannot be read: the broker itself is down, all on it is stale."""
    if failing is None:
        return None
    return ObjectState.DOWN if broker else ObjectState.STALE


def concerns_queue(condition: ActiveCondition) -> bool:
    """Whether it counts for the queue that it is shown with; a warning of the broker is none of its queues'."""
    of_broker = (condition.address, condition.queue) == OF_BROKER
    return not of_broker or severity_of(condition) is Severity.CRITICAL


def judged(state: State, kind: str, interval: float, *scopes: Scope) -> str:
    """On what an object of the broker is called healthy: polls and conditions."""
    polls, due = state.judgement.warm_up.judged(-np.inf, interval)
    rules = sum(one.scope in scopes for one in for_kind(kind).values())
    period = duration(min(SECONDS, due * interval))
    return (
        f"{rules} conditions, judged at {polls} of the {due} polls in the last {period}"
    )


def watched_of_broker(state: State, policy: Policy) -> Iterator[Watched]:
    """What is to be seen of every object yet."""
    if window_is_young(state.judgement, policy.constants):
        seconds, needed = window_seconds(state.judgement, policy.constants)
        proves = "growing backlogs and returning messages are found only over that time"
        yield Watched(WINDOW, "", json_seconds(seconds), json_seconds(needed), proves)


def watched_of_queue(
    state: State, policy: Policy, i: int, active: Sequence[ActiveCondition]
) -> Iterator[Watched]:
    """What holds of the queue that is shown as row i, and would be a condition if it lasted."""
    waits = waiting_queues(state.judgement, state.queues.grouping, policy.constants)
    lasts = waits.long_enough[i] and waits.not_yet_due[i]
    if lasts and not any(one.name in WAITING for one in active):
        name = NO_CONSUMER.name if waits.without_consumer[i] else NOT_DISPATCHING.name
        yield Watched(
            name,
            "",
            json_seconds(waits.seconds[i]),
            json_seconds(waits.needed[i]),
            WAITS[name],
        )


def watched_of_clients(
    clients: Sequence[QueueClient], active: Sequence[ActiveCondition], now: float
) -> Iterator[Watched]:
    """Clients that buffer messages and acknowledge none, for a part of their stall threshold.

    now: by the agent's clock.
    """
    named = {one.client for one in active}
    for one in clients:
        since = one.numbers.get("blocked_since")
        needed = one.patience.seconds if one.patience else None
        if (
            one.client in named
            or since is None
            or needed is None
            or now - since <= EARLY * needed
        ):
            continue
        buffered = one.numbers.get("buffered", 0)
        proves = f"it buffers {buffered:,} messages; the first that it acknowledges ends this"
        yield Watched(
            STALLED.name, one.client, json_seconds(now - since), needed, proves
        )


def json_seconds(seconds: float) -> float:
    return round(float(seconds), 1)


# --- of what nothing can be said: the condition `unknown`, made when it is asked for


def undecided_conditions(
    state: State, snapshot: Snapshot, series: QueueSeries, clients: Iterable[str] = ()
) -> Iterator[ActiveCondition]:
    """Of the queue, and of these clients of it; where nothing of it is judged the queue says so, and they do not."""
    why = not_judged(state.judgement, snapshot)
    if why:
        yield undecided(series, "", why, unjudged_since(state, snapshot), ADVICE_UNREAD)
        return
    if series.kind not in JUDGED:
        why = f"queues of kind {series.kind} are not judged"
        yield undecided(
            series,
            "",
            why,
            queue_seen_since(state, snapshot, series),
            ADVICE_BY_KIND[QueueKind(series.kind)],
        )
        return
    key = state.queues.grouping.key_of(series)
    warm_up = state.judgement.warm_up
    young = too_young(state, snapshot, series, "", warm_up.queues, key)
    if young is not None:
        yield young
    here = (series.address, series.queue)
    told = {
        one.client
        for one in state.judgement.conditions
        if (one.address, one.queue) == here
    }
    numbers = snapshot.consumers is not None and "buffered" in snapshot.consumers
    for client in clients:
        if client in told:
            continue
        key = state.consumers.clients.key_of(ClientSeries(series.broker, *here, client))
        found = too_young(state, snapshot, series, client, warm_up.clients, key)
        if not numbers:
            since = on_agents_clock(state, snapshot, warm_up.clients.since_of(key))
            found = undecided(series, client, NO_NUMBERS, since, ADVICE_NO_NUMBERS)
        if found is not None:
            yield found


def too_young(
    state: State,
    snapshot: Snapshot,
    series: QueueSeries,
    client: str,
    seen: SeenPolls,
    key: int | None,
) -> ActiveCondition | None:
    """The queue or client whose row has this key, where it was `seen` at fewer polls than it takes."""
    polls = POLLS if key is None else seen.polls_of(key)
    if polls >= POLLS:
        return None
    first_seen = on_agents_clock(state, snapshot, seen.since_of(key))
    why = f"seen at {polls} of the {POLLS} polls that it takes"
    return undecided(
        series, client, why, first_seen, ADVICE_YOUNG, {"polls": float(polls)}
    )


def undecided(
    series: QueueSeries,
    client: str,
    why: str,
    since: float,
    advice: str,
    evidence: Mapping[str, float] = MappingProxyType({}),
) -> ActiveCondition:
    """since: when this began, by the agent's clock: the same at each read while it lasts."""
    where = (series.broker, series.address, series.queue, client)
    return ActiveCondition(
        UNKNOWN.name, *where, Severity.INFO, since, evidence, why=why, advice=advice
    )


def unjudged_since(state: State, snapshot: Snapshot) -> float:
    """The last poll that was judged; where none ever was, the first that could not be. By the agent's clock."""
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
    if (
        key is not None and account.index is grouping.source
    ):  # which outlives a restart of the agent
        at = int(grouping.index.positions(np.array([key], np.int64))[0])
        seen = float(np.fmin.reduce(account.since[grouping.member == at], initial=seen))
    return on_agents_clock(state, snapshot, seen)


def on_agents_clock(state: State, snapshot: Snapshot, moment_of_broker: float) -> float:
    """The moment of the broker by the clock of the agent; that of the last poll where there is none."""
    return (
        snapshot.stamp
        if np.isnan(moment_of_broker)
        else moment_of_broker - state.clock.applied
    )
