"""How sure it is what is said of an object: "healthy" needs as much proof as an alarm."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.assessment.assess import State
from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.not_dispatching import NOT_DISPATCHING
from penstock.conditions.stalled import STALLED
from penstock.conditions.unknown import UNKNOWN
from penstock.insight.answers import Knowledge, QueueClient, Watched
from penstock.insight.formatting import duration, moment
from penstock.learned.warm_up import SECONDS
from penstock.settings.policy import Policy

EARLY = 0.25
"""Of the time that proof needs: what has lasted less is not worth watching."""
WAITS = {
    NO_CONSUMER.name: "messages wait, and a consumer that comes ends it",
    NOT_DISPATCHING.name: "messages wait, and one that is delivered ends it",
}
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
        why = f"the broker cannot be read: {failing.error}; last read at {moment(failing.read)}"
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
        return Knowledge("watching", f"healthy so far; {judged}", None, list(watched))
    return Knowledge("healthy", judged, None, [])


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
        proves = "backlogs that grow and messages that return are seen over such a time"
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
