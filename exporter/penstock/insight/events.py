"""Events: the changes from one poll to the next, of conditions, incidents, queues and the broker itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import numpy as np

from penstock.account.account import MessageAccount
from penstock.assessment.assess import State
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.core.table import Mask
from penstock.incidents.incident import Incident
from penstock.model import Observation, Process, QueueRow, Snapshot, Takeover
from penstock.observation.facts import JUDGED

ConditionKey = tuple[str, str, str, str]
"""Condition, address, queue, client."""
Told = Mapping[ConditionKey, tuple[Severity, float]]
"""Severity and begin of conditions."""

MOST_OUT_OF_VIEW = 1000
"""Conditions of queues out of view that are kept: a client that makes queues without end must not fill the memory."""
MOST_QUEUES = 100
"""Queues between two polls that are reported as purged, moved from or destroyed."""


class Change(StrEnum):
    CONDITION_ON = "condition_on"
    CONDITION_OFF = "condition_off"
    SEVERITY = "severity"
    """A condition became worse or better."""
    BROKER_UP = "broker_up"
    BROKER_DOWN = "broker_down"
    BROKER_RESTART = "broker_restart"
    ROLE = "role"
    FAILOVER = "failover"
    """It took over from the other broker of its pair."""
    INCIDENT_BEGIN = "incident_begin"
    INCIDENT_END = "incident_end"
    MOVED = "moved"
    """An operator moved messages to other queues."""
    PURGED = "purged"
    """An operator purged a queue, or removed messages of it by a filter."""
    DESTROYED = "destroyed"
    """A durable queue went, and messages with it."""
    AGENT_START = "agent_start"
    CONFIG_RELOAD = "config_reload"
    CONFIG_REFUSED = "config_refused"
    LOGIN_REFUSED = "login_refused"
    """One or more, at most once a minute."""
    WORKER_END = "worker_end"
    """A worker process ended; its brokers are polled again when it has been started again."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change. Times by the agent's clock, seconds since 1970; texts are empty where they do not apply.

    Of the agent itself, and of no broker, are those that operators and clients of the server cause.
    """

    time: float
    change: Change
    broker: str = ""
    address: str = ""
    queue: str = ""
    client: str = ""
    condition: str = ""
    severity: str = ""
    since: float | None = None
    """Of a condition: its begin by its rule, which may be before it was raised."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StatusSummary:
    """A broker at one poll, as far as events need it."""

    broker: str
    up: bool | None = None
    """Whether the poll reached it; None before the first."""
    error: str = ""
    role: str = ""
    start: float = np.nan
    """By the agent's clock."""
    process: Process = field(default_factory=Process)
    takeover: Takeover | None = None
    conditions: Told = field(default_factory=dict)
    incidents: Sequence[Incident] = ()
    account: MessageAccount = field(default_factory=MessageAccount)
    """What operators did for sure becomes an event as they do it."""
    missing: Sequence["MissingQueue"] = ()
    """Of the last poll that reached it. A broker that stops lists fewer queues for a moment: one that is still missing
    at the next poll was destroyed.
    """


class MissingQueue(NamedTuple):
    """A queue that was listed at the poll before, with so many messages, and is not listed now."""

    key: int
    row: QueueRow
    messages: float


def summarize(
    before: StatusSummary,
    state: State,
    snapshot: Snapshot | None,
    *,
    up: bool,
    error: str = "",
) -> StatusSummary:
    """The broker after a poll.

    Of a broker that cannot be read nothing is known, neither that a condition has ended; nor of queues out of view.

    Args:
        before: the broker after the poll before.
        state: of the broker now.
        snapshot: what is known of it now; None where that is nothing.
        up: whether the poll reached it.
        error: why it did not.
    """
    if snapshot is None or snapshot.broker is None:
        return replace(
            before,
            up=up,
            error=error,
            start=state.clock.start,
            process=state.clock.process,
            takeover=snapshot.observation.takeover if snapshot else before.takeover,
            missing=missing_queues(before, state),
        )
    return StatusSummary(
        before.broker,
        up=up,
        error=error,
        role=snapshot.broker.role,
        start=state.clock.start,
        process=state.clock.process,
        takeover=snapshot.observation.takeover,
        conditions=conditions_after(before, state, snapshot.observation),
        incidents=state.judgement.incidents.told,
        account=state.judgement.account,
        missing=missing_queues(before, state),
    )


def conditions_after(
    before: StatusSummary, state: State, observation: Observation
) -> Told:
    """The conditions after a poll: those that are active, and those of queues out of view that may be.

    Args:
        before: the broker after the poll before.
        state: of the broker now.
        observation: what the poll has read.
    """
    active = by_name(state.judgement.conditions)
    if has_restarted(before, state):
        return active
    return {**out_of_view(before.conditions, active, state, observation), **active}


def has_restarted(before: StatusSummary, state: State) -> bool:
    """Whether another process of the broker is read now than before."""
    return state.clock.process.replaces(before.process)


def missing_queues(before: StatusSummary, state: State) -> Sequence[MissingQueue]:
    """Durable queues with messages that the account had at the poll before, and has no more.

    Where the account is still that of the poll before, these are those of that poll.
    """
    account = state.judgement.account
    if account is before.account:
        return before.missing
    if has_restarted(before, state):
        return ()
    books = before.account.books
    index = account.books.index
    is_comparable = before.account.watched and account.watched
    if not is_comparable or books.index is index:
        return ()
    is_unlisted = index.positions(books.index.keys) < 0
    positions = np.flatnonzero(is_unlisted & (books.content > 0))[:MOST_QUEUES]
    missing = (
        MissingQueue(
            int(books.index.keys[i]), books.index.rows[i], float(books.content[i])
        )
        for i in positions.tolist()
    )
    return [queue for queue in missing if is_kept_by_broker(queue.row)]


def is_kept_by_broker(queue: QueueRow) -> bool:
    """Whether the queue stays until someone destroys it."""
    return queue.durable and not queue.temporary and queue.kind in JUDGED


def out_of_view(
    before: Told, now: Told, state: State, observation: Observation
) -> Told:
    """Those conditions that are not active now and may be, as their queue is not read.

    In the first poll at which it is read again a rule has no second poll yet to agree with it.

    Args:
        before: conditions after the poll before.
        now: conditions that are active.
        state: of the broker.
        observation: what the poll has read.
    """
    cut = any(left_out.what == "queues" for left_out in observation.left_out)
    ended = [name for name in before if name[2] and name not in now]
    if not ended or not (cut or "queues" in observation.late):
        return {}
    is_late = np.isin(
        state.queues.grouping.source.keys, observation.late.get("queues", ())
    )
    queues = {name[2] for name in ended}
    if cut:
        # The listing is cut off: a queue that it lacks may exist.
        read = places_of(state, ~is_late, queues)
        unread = (name for name in ended if name[1:3] not in read)
    else:
        late = places_of(state, is_late, queues)
        unread = (name for name in ended if name[1:3] in late)
    return {name: before[name] for name in islice(unread, MOST_OUT_OF_VIEW)}


def places_of(state: State, chosen: Mask, names: set[str]) -> set[tuple[str, str]]:
    """Address and name of the chosen queues, and of the sums that they are shown in.

    Args:
        state: of the broker.
        chosen: (queues,) True for those that are asked for.
        names: of the queues, or sums, that are looked for.
    """
    grouping = state.queues.grouping
    sums = np.unique(grouping.member[chosen & (grouping.member >= 0)])
    queues = {
        (row.address, row.name)
        for row in grouping.source.rows[chosen]
        if row.name in names
    }
    series = {
        (row.address, row.queue)
        for row in grouping.index.rows[sums]
        if row.queue in names
    }
    return queues | series


def by_name(
    conditions: Sequence[ActiveCondition],
) -> dict[ConditionKey, tuple[Severity, float]]:
    """The worst and earliest where several have the same name, as within a sum of queues; silenced ones left out."""
    worst: dict[ConditionKey, tuple[Severity, float]] = {}
    for condition in conditions:
        if condition.silenced:
            continue
        name = (condition.name, condition.address, condition.queue, condition.client)
        severity, since = worst.get(name, (condition.severity, condition.since))
        worst[name] = (
            max(severity, condition.severity),
            min(since, condition.since),
        )
    return worst


# --- the events


def changes(before: StatusSummary, after: StatusSummary, now: float) -> Iterator[Event]:
    """The events between two polls of a broker. now: by the agent's clock."""
    broker = after.broker
    yield from _reached(before, after, now)
    yield from _role(before, after, now)
    if after.process.replaces(before.process):
        yield Event(now, Change.BROKER_RESTART, broker, since=after.start)
    elif after.up:
        yield from _destroyed(broker, before.missing, after.account, now)
    yield from _operated(broker, before.account, after.account, now)
    yield from _incidents(broker, before.incidents, after.incidents, now)
    ended = before.conditions.keys() - after.conditions.keys()
    for name in [*after.conditions, *ended]:
        yield from _condition(broker, name, before.conditions, after.conditions, now)


def _reached(
    before: StatusSummary, after: StatusSummary, now: float
) -> Iterator[Event]:
    """The broker cannot be reached any more, or can again."""
    broker = after.broker
    if after.up is False and before.up is not False:
        yield Event(now, Change.BROKER_DOWN, broker, detail=after.error)
    if after.up and before.up is False:
        yield Event(now, Change.BROKER_UP, broker)


def _role(before: StatusSummary, after: StatusSummary, now: float) -> Iterator[Event]:
    """The broker has another role, or took over from the other broker of its pair."""
    broker = after.broker
    if after.role and before.role and after.role != before.role:
        yield Event(now, Change.ROLE, broker, detail=f"{before.role} to {after.role}")
    takeover = after.takeover
    if takeover is None:
        return
    if before.takeover is None or takeover.time > before.takeover.time:
        since = round(takeover.time, 3)
        yield Event(now, Change.FAILOVER, broker, since=since, detail=takeover.text)


def _incidents(
    broker: str, before: Sequence[Incident], after: Sequence[Incident], now: float
) -> Iterator[Event]:
    """Incidents that began, and those that ended."""
    ids_before = {incident.id for incident in before}
    ids_after = {incident.id for incident in after}
    for incident in after:
        if incident.id not in ids_before:
            yield _of_incident(broker, Change.INCIDENT_BEGIN, incident, now)
    for incident in before:
        if incident.id not in ids_after:
            yield _of_incident(broker, Change.INCIDENT_END, incident, now)


def _of_incident(broker: str, change: Change, incident: Incident, now: float) -> Event:
    """The event of one incident."""
    return Event(
        now,
        change,
        broker,
        severity=incident.severity,
        since=round(incident.begin, 3),
        detail=f"{incident.title} ({incident.id})",
    )


def _operated(
    broker: str, before: MessageAccount, after: MessageAccount, now: float
) -> Iterator[Event]:
    """Queues whose messages an operator moved or purged."""
    if not before.watched or after is before:
        return
    index = after.moves.index
    moved = after.moves.moved - before.moves.reindexed(index).moved
    purged = after.dead_letters.purged - before.dead_letters.reindexed(index).purged
    targets = {move.queue: f" to {', '.join(move.to)}" for move in after.moves.proven}
    for i in np.flatnonzero(moved > 0)[:MOST_QUEUES].tolist():
        target = targets.get(int(index.keys[i]), "")
        detail = f"{moved[i]:,.0f} messages{target}"
        yield _of_queue(broker, Change.MOVED, index.rows[i], detail, now)
    for i in np.flatnonzero(purged > 0)[:MOST_QUEUES].tolist():
        detail = f"{purged[i]:,.0f} messages"
        yield _of_queue(broker, Change.PURGED, index.rows[i], detail, now)


def _destroyed(
    broker: str, missing: Sequence[MissingQueue], account: MessageAccount, now: float
) -> Iterator[Event]:
    """Those of the queues that were missing at the poll before and still are."""
    if not account.watched:
        return
    index = account.books.index
    for key, row, messages in missing:
        if index.positions(np.array([key]))[0] < 0:
            detail = f"{messages:,.0f} messages were in it when it was polled last"
            yield _of_queue(broker, Change.DESTROYED, row, detail, now)


def _of_queue(
    broker: str, change: Change, queue: QueueRow, detail: str, now: float
) -> Event:
    """The event of one queue."""
    return Event(now, change, broker, queue.address, queue.name, detail=detail)


def _condition(
    broker: str, name: ConditionKey, before: Told, after: Told, now: float
) -> Iterator[Event]:
    """A condition was raised or cleared, or has another severity."""
    severity, since = after.get(name) or before[name]
    detail = ""
    if name not in before:
        change = Change.CONDITION_ON
    elif name not in after:
        change = Change.CONDITION_OFF
    else:
        severity_before = before[name][0]
        if severity_before is severity:
            return
        change = Change.SEVERITY
        detail = f"{severity_before.name.lower()} to {severity.name.lower()}"
    yield Event(
        now,
        change,
        broker,
        *name[1:],
        name[0],
        severity.name.lower(),
        round(since, 3),
        detail,
    )
