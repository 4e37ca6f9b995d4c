"""How sure it is what is said of an object, and of what nothing can be: "healthy" needs as much proof as an alarm."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.assessment.assess import State
from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.not_dispatching import NOT_DISPATCHING
from penstock.conditions.stalled import STALLED
from penstock.conditions.unknown import UNKNOWN
from penstock.incidents.incident import Incident
from penstock.insight.answers import Knowledge, QueueClient, Watched
from penstock.insight.formatting import duration, moment
from penstock.learned.warm_up import POLLS, SECONDS
from penstock.model import Snapshot
from penstock.observation.facts import JUDGED, NEEDED, time_of
from penstock.series.labels import ClientSeries, QueueSeries
from penstock.settings.policy import Policy

HEALTHY = frozenset({"healthy", "watching"})
EARLY = 0.25
"""Of the time that proof needs: what has lasted less is not worth watching."""
WAITS = {
    NO_CONSUMER.name: "messages wait, and a consumer that comes ends it",
    NOT_DISPATCHING.name: "messages wait, and one that is delivered ends it",
}
NO_NUMBERS = (
    "this version of the broker shows no numbers per consumer; Artemis shows them from 2.28 (AMQ Broker 7.11) on"
)
OF_BROKER = ("", "")
"""Address and queue of a condition of the broker itself: it concerns every queue."""


class Failing(NamedTuple):
    """Why what is known is stale: the polls since then failed. Times by the agent's clock; read: the last good one."""

    since: float
    error: str
    read: float


def knowledge(
    told: Sequence[ActiveCondition],
    bad: Sequence[ActiveCondition],
    watched: Sequence[Watched],
    judged: str,
    failing: Failing | None,
    unknown: str = "",
) -> Knowledge:
    """Of an object. told: all active conditions that concern it. bad: those that make it unhealthy. judged: on what it
    is called healthy. unknown: why nothing is judged of it but what is bad; empty where more is.
    """
    if failing is not None:
        why = f"broker down since {moment(failing.since)}, last seen {moment(failing.read)}: {failing.error}"
        return Knowledge("stale", why, round(failing.since, 3), [])
    for one in told:
        if one.name == UNKNOWN.name and not one.client:
            return Knowledge("unknown", one.why, round(one.since, 3), [])
    if bad:
        since, names = min(one.since for one in bad), dict.fromkeys(one.name for one in bad)
        return Knowledge("unhealthy", ", ".join(names), round(since, 3), list(watched))
    if unknown:
        return Knowledge("unknown", unknown, None, [])
    if watched:
        return Knowledge("watching", f"no warnings so far; {judged}", None, list(watched))
    return Knowledge("healthy", judged, None, [])


def with_incidents(known: Knowledge, found: Sequence[Incident]) -> Knowledge:
    """found: that concern the object. Some have a root that is no condition: a bridge that takes nothing."""
    if known.state not in HEALTHY or not found:
        return known
    return Knowledge("unhealthy", found[0].title, round(found[0].begin, 3), known.watched)


def speaks_of_queue(condition: ActiveCondition) -> bool:
    """Whether it makes the queue that it is shown with unhealthy; a warning of the broker is none of its queues'."""
    of_broker = (condition.address, condition.queue) == OF_BROKER
    return condition.severity > (Severity.WARNING if of_broker else Severity.INFO) and not condition.silenced


def judged(state: State, kind: str, interval: float, *scopes: Scope) -> str:
    """On what an object of the broker is called healthy: polls and conditions."""
    polls, due = state.judgement.warm_up.judged(-np.inf, interval)
    rules = sum(one.scope in scopes for one in for_kind(kind).values())
    return (
        f"{rules} conditions, judged at {polls} of the {due} polls in the last {duration(min(SECONDS, due * interval))}"
    )


def watched_of_broker(state: State, policy: Policy, interval: float) -> Iterator[Watched]:
    """What is to be seen of every object yet."""
    seconds, needed = state.judgement.activity.trend.seconds, policy.constants.trend_seconds(interval)
    if seconds < needed - interval:
        proves = "growing backlogs and returning messages show only over that time"
        yield Watched("window", "", json_seconds(seconds), json_seconds(needed), proves)


def watched_of_queue(
    state: State, policy: Policy, i: int, interval: float, told: Sequence[ActiveCondition]
) -> Iterator[Watched]:
    """What holds of the queue that is shown as row i, and would be a condition if it lasted."""
    grouping, judgement, constants = state.queues.grouping, state.judgement, policy.constants
    timers, now, rows = judgement.timers, judgement.seen.times.now, np.flatnonzero(grouping.member == i)
    if len(rows) != 1 or timers.index is not grouping.source or any(one.name in WAITS for one in told):
        return
    ready, absent, still = timers.ready[rows[0]], timers.absent[rows[0]], timers.still[rows[0]]
    if np.isnan(absent):
        name, since, needed = NOT_DISPATCHING.name, still, judgement.dispatch.seconds(constants, interval, rows=rows)[0]
    else:
        name, since, needed = NO_CONSUMER.name, absent, judgement.absence_seconds(constants)[rows[0]]
    lasts = float(now - max(ready, since))
    if EARLY * needed < lasts < needed:
        yield Watched(name, "", json_seconds(lasts), json_seconds(float(needed)), WAITS[name])


def watched_of_clients(
    clients: Sequence[QueueClient], told: Sequence[ActiveCondition], now: float
) -> Iterator[Watched]:
    """Clients that hold messages and settle none, for a part of their patience. now: by the agent's clock."""
    named = {one.client for one in told}
    for one in clients:
        since, needed = one.numbers.get("blocked_since"), one.patience.seconds if one.patience else None
        if one.client in named or since is None or needed is None or now - since <= EARLY * needed:
            continue
        proves = f"it holds {one.numbers.get('buffered', 0):,} messages; one that it settles ends it"
        yield Watched(STALLED.name, one.client, json_seconds(now - since), needed, proves)


def json_seconds(seconds: float) -> float:
    return round(float(seconds), 1)


# --- of what nothing can be said: the condition `unknown`, made when it is asked for


def undecided_conditions(
    state: State, snapshot: Snapshot, series: QueueSeries, clients: Iterable[str] = ()
) -> Iterator[ActiveCondition]:
    """Of the queue, and of these clients of it; where nothing of it is judged the queue says so, and they do not."""
    why = not_judged(state, snapshot)
    if not why and series.kind not in JUDGED:
        why = f"queues of kind {series.kind} are not judged"
    if why:
        yield undecided(state, snapshot, series, "", why)
        return
    key, warm_up = state.queues.grouping.key_of(series), state.judgement.warm_up
    young = too_young(state, snapshot, series, "", POLLS if key is None else warm_up.queues.polls_of(key))
    if young is not None:
        yield young
    here = (series.address, series.queue)
    told = {one.client for one in state.judgement.conditions if (one.address, one.queue) == here}
    numbers = snapshot.consumers is not None and "buffered" in snapshot.consumers
    for client in clients:
        if client in told:
            continue
        key = state.consumers.clients.key_of(ClientSeries(series.broker, *here, client))
        found = too_young(state, snapshot, series, client, POLLS if key is None else warm_up.clients.polls_of(key))
        if not numbers:
            found = undecided(state, snapshot, series, client, NO_NUMBERS)
        if found is not None:
            yield found


def not_judged(state: State, snapshot: Snapshot) -> str:
    """Why nothing is judged; empty where it was at one of the last polls."""
    times = state.judgement.seen.times
    if time_of(snapshot) - times.now <= POLLS * max(0.0, times.interval):
        return ""
    missing = [name for name in NEEDED if name in snapshot.collectors and not snapshot.collectors[name].usable]
    return f"the last polls could not be judged: {' and '.join(missing) or 'queues or consumers'} could not be read"


def too_young(state: State, snapshot: Snapshot, series: QueueSeries, client: str, polls: int) -> ActiveCondition | None:
    """Of what was seen at so many `polls`."""
    if polls >= POLLS:
        return None
    return undecided(state, snapshot, series, client, f"seen at {polls} of the {POLLS} polls that it takes", polls)


def undecided(
    state: State, snapshot: Snapshot, series: QueueSeries, client: str, why: str, polls: int = 0
) -> ActiveCondition:
    stamps = state.judgement.warm_up.stamps[-polls:] if polls else ()
    begin = stamps[0] - state.clock.applied if stamps else snapshot.stamp
    evidence = {"polls": float(polls)} if polls else {}
    where = (series.broker, series.address, series.queue, client)
    return ActiveCondition(UNKNOWN.name, *where, Severity.INFO, begin, evidence, why=why)
