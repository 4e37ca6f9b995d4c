"""What changed from one poll to the next: conditions that came and went, the broker itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import numpy as np

from penstock.account.account import MessageAccount
from penstock.assessment.assess import State
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.incidents.incident import Incident
from penstock.model import Observation, Process, QueueRow, Snapshot, Takeover
from penstock.observation.facts import JUDGED

ConditionKey = tuple[str, str, str, str]
"""Condition, address, queue, client."""
Told = Mapping[ConditionKey, tuple[Severity, float]]
"""Severity and begin."""

MOST_OUT_OF_VIEW = 1000
"""Conditions of queues out of view that are kept: a client that makes queues without end must not fill the memory."""
MOST_QUEUES = 100
"""Queues that were purged, moved from or destroyed between two polls, and are reported."""


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
    """The broker after a poll. snapshot: what is known of it now, None where that is nothing.

    Of a broker that cannot be read nothing is known, neither that a condition has ended; nor of queues out of view.
    """
    about = snapshot.broker if snapshot else None
    restarted = state.clock.process.replaces(before.process)
    conditions = by_name(state.judgement.conditions)
    if snapshot and not restarted:
        conditions = {
            **out_of_view(before.conditions, conditions, state, snapshot.observation),
            **conditions,
        }
    return StatusSummary(
        before.broker,
        up=up,
        error=error,
        role=about.role if about else before.role,
        start=state.clock.start,
        process=state.clock.process,
        takeover=snapshot.observation.takeover if snapshot else before.takeover,
        conditions=conditions if about else before.conditions,
        incidents=state.judgement.incidents.told if about else before.incidents,
        account=state.judgement.account if about else before.account,
        missing=missing_queues(before, state.judgement.account, restarted=restarted),
    )


def missing_queues(
    before: StatusSummary, now: MessageAccount, *, restarted: bool
) -> Sequence[MissingQueue]:
    """Durable queues with messages that the account had at the poll before, and has no more; those of the poll before
    where there was no other since.
    """
    if now is before.account:
        return before.missing
    books = before.account.books
    index = now.books.index
    if (
        restarted
        or not (before.account.watched and now.watched)
        or books.index is index
    ):
        return ()
    gone = (index.positions(books.index.keys) < 0) & (books.content > 0)
    positions = np.flatnonzero(gone)[:MOST_QUEUES].tolist()
    missing = (
        MissingQueue(
            int(books.index.keys[i]), books.index.rows[i], float(books.content[i])
        )
        for i in positions
    )
    return [
        one
        for one in missing
        if one.row.durable and not one.row.temporary and one.row.kind in JUDGED
    ]


def out_of_view(
    before: Told, now: Told, state: State, observation: Observation
) -> Told:
    """Those of `before` that are not reported `now` and may be active still: their queue is not read.

    In the first poll at which it is read again a rule has no second poll yet to agree with it.
    """
    cut = any(one.what == "queues" for one in observation.left_out)
    gone = [name for name in before if name[2] and name not in now]
    if not gone or not (cut or "queues" in observation.late):
        return {}
    grouping = state.queues.grouping
    late = np.isin(grouping.source.keys, observation.late.get("queues", ()))
    here = ~late if cut else late
    names = {name[2] for name in gone}
    named = {
        (row.address, row.name)
        for row in grouping.source.rows[here]
        if row.name in names
    }
    sums = np.unique(grouping.member[here & (grouping.member >= 0)])
    named |= {
        (one.address, one.queue)
        for one in grouping.index.rows[sums]
        if one.queue in names
    }
    stand = (name for name in gone if (name[1:3] in named) is not cut)
    return {name: before[name] for name in islice(stand, MOST_OUT_OF_VIEW)}


def by_name(
    conditions: Sequence[ActiveCondition],
) -> dict[ConditionKey, tuple[Severity, float]]:
    """The worst and earliest where several have the same name, as within a sum of queues; silenced ones left out."""
    found: dict[ConditionKey, tuple[Severity, float]] = {}
    for one in conditions:
        if one.silenced:
            continue
        name = (one.name, one.address, one.queue, one.client)
        severity, since = found.get(name, (one.severity, one.since))
        found[name] = max(severity, one.severity), min(since, one.since)
    return found


def changes(before: StatusSummary, after: StatusSummary, now: float) -> Iterator[Event]:
    """What changed between two polls of a broker."""
    broker = after.broker
    if after.up is False and before.up is not False:
        yield Event(now, Change.BROKER_DOWN, broker, detail=after.error)
    if after.up and before.up is False:
        yield Event(now, Change.BROKER_UP, broker)
    if after.role and before.role and after.role != before.role:
        yield Event(now, Change.ROLE, broker, detail=f"{before.role} to {after.role}")
    if (took := after.takeover) and (
        before.takeover is None or took.time > before.takeover.time
    ):
        yield Event(
            now, Change.FAILOVER, broker, since=round(took.time, 3), detail=took.text
        )
    if after.process.replaces(before.process):
        yield Event(now, Change.BROKER_RESTART, broker, since=after.start)
    elif after.up:
        yield from _destroyed(broker, before.missing, after.account, now)
    yield from _operated(broker, before.account, after.account, now)
    yield from _incidents(broker, before.incidents, after.incidents, now)
    for name in [
        *after.conditions,
        *(before.conditions.keys() - after.conditions.keys()),
    ]:
        yield from _condition(broker, name, before.conditions, after.conditions, now)


def _incidents(
    broker: str, before: Sequence[Incident], after: Sequence[Incident], now: float
) -> Iterator[Event]:
    then = {one.id for one in before}
    here = {one.id for one in after}
    began = [(Change.INCIDENT_BEGIN, one) for one in after if one.id not in then]
    for change, one in [
        *began,
        *((Change.INCIDENT_END, one) for one in before if one.id not in here),
    ]:
        detail = f"{one.title} ({one.id})"
        yield Event(
            now,
            change,
            broker,
            severity=one.severity,
            since=round(one.begin, 3),
            detail=detail,
        )


def _operated(
    broker: str, before: MessageAccount, after: MessageAccount, now: float
) -> Iterator[Event]:
    if not before.watched or after is before:
        return
    index = after.moves.index
    to = {move.queue: f" to {', '.join(move.to)}" for move in after.moves.proven}
    moved = after.moves.moved - before.moves.reindexed(index).moved
    purged = after.dead_letters.purged - before.dead_letters.reindexed(index).purged
    for change, more in ((Change.MOVED, moved), (Change.PURGED, purged)):
        for i in np.flatnonzero(more > 0)[:MOST_QUEUES].tolist():
            where = to.get(int(index.keys[i]), "") if change is Change.MOVED else ""
            row = index.rows[i]
            detail = f"{more[i]:,.0f} messages{where}"
            yield Event(now, change, broker, row.address, row.name, detail=detail)


def _destroyed(
    broker: str, missing: Sequence[MissingQueue], account: MessageAccount, now: float
) -> Iterator[Event]:
    """Of the queues that were missing at the poll before, those that still are."""
    if not account.watched:
        return
    index = account.books.index
    for key, row, messages in missing:
        if index.positions(np.array([key]))[0] >= 0:
            continue
        detail = f"{messages:,.0f} messages were in it when it was polled last"
        yield Event(now, Change.DESTROYED, broker, row.address, row.name, detail=detail)


def _condition(
    broker: str, name: ConditionKey, before: Told, after: Told, now: float
) -> Iterator[Event]:
    (severity, since), detail = after.get(name) or before[name], ""
    was = before[name][0] if name in before else severity
    if name not in before:
        change = Change.CONDITION_ON
    elif name not in after:
        change = Change.CONDITION_OFF
    elif was is severity:
        return
    else:
        change = Change.SEVERITY
        detail = f"{was.name.lower()} to {severity.name.lower()}"
    condition, address, queue, client = name
    told = severity.name.lower()
    yield Event(
        now,
        change,
        broker,
        address,
        queue,
        client,
        condition,
        told,
        round(since, 3),
        detail,
    )
