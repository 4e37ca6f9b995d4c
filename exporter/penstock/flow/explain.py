"""
What is known of a queue and its clients, in plain values fit for JSON: conditions with their evidence, what was
measured, what the rules say, and what is not known and why.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.flow import undecided
from penstock.flow.assess import State, Tables
from penstock.flow.findings.finding import UNITS as FINDING_UNITS
from penstock.flow.findings.finding import Finding
from penstock.flow.judge.conditions import Condition
from penstock.flow.judge.history import FLOW_IN, FLOW_OUT
from penstock.flow.judge.patience import FEW, MANY
from penstock.flow.judge.words import UNITS, advice, rule
from penstock.flow.openmq_explain import connections_of, flow_of
from penstock.flow.policy import Policy
from penstock.flow.rules import KEYS, Resolved
from penstock.flow.series import ClientSeries, QueueSeries
from penstock.model import BrokerKind, RingSource, Snapshot
from penstock.table import Column, Index, Table

NEAR = 2000
"""Names among which similar ones are looked for."""
MAX_CLIENTS = 200
"""Clients of one queue that are told one by one, those with a condition first."""

QUEUE_NUMBERS = ("messages", "ready", "delivering", "scheduled", "consumers", "bytes", "paused", "added",
                 "acknowledged", "expired", "killed", "ring_limit", "ring_used_ratio", "ring_at_risk",
                 "ring_retention", "ring_overflow", "lost_by_consumer", "drain", "oldest_message",
                 "expected_consumers", "ring_retention_target", "drain_target", "capacity",
                 "unhealthy_consumers")  # fmt: skip
CLIENT_NUMBERS = (
    "consumers",
    "buffered",
    "uncommitted",
    "delivered",
    "acknowledged",
    "starved",
    "at_limit",
    "blocked_since",
)

Plain = dict[str, Any]


class NotFound(PenstockError):
    """There is no such broker, queue or client; `hint` says what there is."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is known of a broker after a poll."""

    state: State
    tables: Tables
    snapshot: Snapshot
    policy: Policy
    interval: float

    @property
    def kind(self) -> BrokerKind:
        """Artemis while the broker itself has not been read."""
        return BrokerKind.ARTEMIS if self.snapshot.broker is None else self.snapshot.broker.kind

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return self.state.judgement.conditions


# --- parts of it


def condition_values(condition: Condition, sight: Sight) -> Plain:
    broker = sight.kind
    return {
        "condition": condition.name,
        "severity": condition.severity.name.lower(),
        "silenced": condition.silenced,
        "client": condition.client,
        "since": round(condition.since, 3),
        "consumers": condition.consumers,
        "completeness": completeness(condition, sight),
        "evidence": {
            name: {"value": number(value), "unit": UNITS.get(name, "")} for name, value in condition.evidence.items()
        },
        "rule": rule(condition, broker),
        "causes": [condition.why] if condition.why else list(condition.kind.causes_on(broker)),
        "advice": advice(condition, broker),
    }


def completeness(condition: Condition, sight: Sight) -> Plain:
    """On how many of the polls that were due it rests: since it began, in the last five minutes at most."""
    state = sight.state
    judged, due = state.judgement.watched.judged(condition.since + state.clock.applied, sight.interval)
    return {"polls": judged, "due": due, "share": number(judged / due) if due else 0}


def number(value: float) -> float | int | None:
    """As JSON shows it: None where it is not known."""
    if not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else round(float(value), 3)


def numbers_at(table: Table[Any], names: Sequence[str], i: int) -> Plain:
    """What is known of the row, by name; a column that is missing as a whole is not made up to be read."""
    found = {name: number(table.columns[name][i]) for name in names if name in table}
    return {name: value for name, value in found.items() if value is not None}


def finding_values(finding: Finding) -> Plain:
    return {
        "rule": finding.rule,
        "scope": str(finding.scope),
        "object": finding.object,
        "says": finding.says,
        "evidence": {
            name: {"value": number(value), "unit": FINDING_UNITS.get(name, "")}
            for name, value in finding.evidence.items()
        },
        "advice": finding.advice,
    }


def finding_list(sight: Sight, scope: str = "") -> list[Plain]:
    """What was found, of all scopes or of one."""
    return [finding_values(one) for one in sight.state.findings.found if scope in ("", one.scope)]


def findings_of(sight: Sight, series: QueueSeries) -> list[Finding]:
    """Those that concern a queue: its own, its clients', its address's."""
    concerns = {series.address, series.dead_letter_address, series.expiry_address} - {""}
    return [
        one
        for one in sight.state.findings.found
        if (series.address, series.queue) in ((one.address, one.queue), *one.on)
        or (not one.queue and one.address in concerns)
    ]


# --- one queue


def explain(sight: Sight, queue: str, *, address: str | None = None, client: str | None = None) -> Plain:
    """All about a queue, or about one of its clients. NotFound says which names are near."""
    series, i = find_queue(sight, queue, address)
    table: Table[QueueSeries] = sight.tables["queue"]
    said = sight.policy.rules.resolve(series.broker, series.address, series.queue)
    here = [one for one in sight.conditions if (one.address, one.queue) == (series.address, series.queue)]
    if client is not None:
        here = [one for one in here if one.client in ("", client)]
    clients, left_out = clients_of(sight, series, client, {one.client for one in here})
    here += unknown_conditions(sight, series, [one["client"] for one in clients])
    flow = {name: number(column[i]) for name, column in rates(sight).items()}
    return {
        "broker": series.broker,
        "address": series.address,
        "queue": series.queue,
        "client": client,
        "kind": str(series.kind),
        "routing_type": series.routing_type,
        "stamp": round(sight.snapshot.stamp, 3),
        "healthy": not any(one.severity > 0 for one in here if not one.silenced),
        "conditions": [
            condition_values(one, sight) for one in sorted(here, key=lambda one: (-one.severity, one.since))
        ],
        "numbers": numbers_at(table, QUEUE_NUMBERS, i),
        "rate_in": flow.get("rate_in"),
        "rate_out": flow.get("rate_out"),
        "ring": ring_of(sight, series, i),
        "flow": flow_of(sight.state.judgement, sight.tables.get("consumer"), series),
        "connections": connections_of(sight.snapshot, sight.policy.rules, series),
        "rules": rules_of(said),
        "clients": clients,
        "clients_left_out": left_out,
        "findings": [finding_values(one) for one in findings_of(sight, series)],
        "unknown": [{"what": what, "why": why} for what, why in unknown(sight, series, i)],
    }


def unknown_conditions(sight: Sight, series: QueueSeries, clients: Sequence[str] = ()) -> Iterator[Condition]:
    """Where nothing can be said of the queue, or of these clients of it."""
    about = (sight.state, sight.snapshot, sight.policy, series)
    queue = undecided.of_queue(*about)
    if queue is not None:
        yield queue
    yield from undecided.of_clients(*about, clients)


def find_queue(sight: Sight, queue: str, address: str | None) -> tuple[QueueSeries, int]:
    table: Table[QueueSeries] | None = sight.tables.get("queue")
    broker = sight.policy.broker
    if table is None:
        raise NotFound(f"the queues of broker {broker} could not be read yet", "see penstock check")
    rows = table.index.rows.tolist()
    for i, row in enumerate(rows):
        if row.queue == queue and address in (None, row.address):
            return row, i
    raise NotFound(f"broker {broker} has no queue {queue!r}", near(queue, [row.queue for row in rows], "queues"))


def near(name: str, names: Sequence[str], what: str) -> str:
    """A hint at similar names. Bounded: of many names those that share a part are looked at."""
    names = sorted(set(names))
    if len(names) > NEAR:
        part = name.casefold()[:3]
        names = [one for one in names if part in one.casefold()][:NEAR]
    found = difflib.get_close_matches(name, names, 3, 0.5)
    if found:
        return f"did you mean {' or '.join(found)}?"
    return f"{what}: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}" if names else f"there are no {what}"


def missing_client(series: QueueSeries, client: str, names: Sequence[str]) -> NotFound:
    return NotFound(f"queue {series.queue} has no client {client!r}", near(client, names, "clients"))


def rates(sight: Sight) -> dict[str, Column]:
    """Messages per second in and out of each queue over the trend window; nothing while it is not known."""
    grouping, trend = sight.state.queues.grouping, sight.state.judgement.history.trend
    if trend.index is not grouping.source:
        return {}
    return {
        name: grouping.sum(trend.rate(variable)) for name, variable in (("rate_in", FLOW_IN), ("rate_out", FLOW_OUT))
    }


def rules_of(said: Resolved) -> list[Plain]:
    """The keys that rules give, and which rule, counted from 1."""
    return [
        {"key": key, "value": text_of(getattr(said, key)), "rule": said.given_by[key]}
        for key in KEYS
        if key in said.given_by
    ]


def text_of(value: Any) -> Any:
    return getattr(value, "text", value if isinstance(value, bool | int | float) else str(value))


# --- its clients


def clients_of(
    sight: Sight, series: QueueSeries, client: str | None, troubled: Collection[str]
) -> tuple[list[Plain], int]:
    """At most MAX_CLIENTS of the queue, or the one asked for, the troubled first; and how many are left out."""
    table: Table[ClientSeries] = sight.tables.get("client", Table(Index.empty()))
    rows: list[ClientSeries] = table.index.rows.tolist()
    at = [i for i, row in enumerate(rows) if (row.address, row.queue) == (series.address, series.queue)]
    if client is not None:
        names = [rows[i].client for i in at]
        at = [i for i in at if rows[i].client == client]
        if not at:
            raise missing_client(series, client, names)
    at.sort(key=lambda i: rows[i].client not in troubled)  # cut before anything is told: there may be thousands
    return [client_values(sight, table, i) for i in at[:MAX_CLIENTS]], max(len(at) - MAX_CLIENTS, 0)


def client_values(sight: Sight, table: Table[ClientSeries], i: int) -> Plain:
    row: ClientSeries = table.index.rows[i]
    said = sight.policy.rules.resolve(row.broker, row.address, row.queue, row.client)
    return {
        "client": row.client,
        "numbers": numbers_at(table, CLIENT_NUMBERS, i),
        "patience": patience_of(sight, table, i, said),
        "rules": rules_of(said),
    }


def patience_of(sight: Sight, table: Table[ClientSeries], i: int, said: Resolved) -> Plain | None:
    """Seconds, where they come from, and in words how."""
    seconds = numbers_at(table, ("patience",), i).get("patience")
    if seconds is None:
        return None
    if said.patience is not None:
        return {"seconds": seconds, "origin": "configured", "gaps": 0, "why": f"rule {said.given_by['patience']}"}
    patience, constants = sight.state.judgement.patience, sight.policy.constants
    at = patience.index.positions(table.index.keys[i : i + 1])[0]
    weight = float(patience.weight[at]) if at >= 0 else 0.0
    if weight == 0:
        why = f"nothing learned yet: judgement.cold, {constants.cold:g} s"
        return {"seconds": seconds, "origin": "cold", "gaps": 0, "why": why}
    longest, q98 = float(patience.longest[at]), float(patience.q98[at])
    usual = f"{constants.factor:g} times the longest gap of {longest:.1f} s"
    if weight >= FEW:
        usual = f"{constants.factor:g} times {q98:.1f} s, which 98 % of the gaps stay below"
    least = f", at least judgement.cold, {constants.cold:g} s" if weight < MANY else ""
    why = f"{usual}{least}; between {constants.floor_seconds(sight.interval):g} and {constants.cap:g} s"
    return {"seconds": seconds, "origin": "learned", "gaps": round(weight), "why": why}


# --- its ring


def ring_of(sight: Sight, series: QueueSeries, i: int) -> Plain | None:
    """Size and source of a ring, and its ledger; None where messages are never thrown away to keep a limit."""
    judgement, grouping = sight.state.judgement, sight.state.queues.grouping
    ledger, seen = judgement.ledger, judgement.seen
    rows = np.flatnonzero(grouping.member == i)
    limit = number(sight.tables["queue"]["ring_limit"][i])
    if series.summed or len(rows) != 1:
        return None
    row = int(rows[0])
    last_value = sight.snapshot.queues is not None and bool(sight.snapshot.queues["last_value"][row] > 0)
    if limit is None and not last_value:
        return None
    told: Plain = {"limit": limit, "source": str(series.ring_source), "where": RING_SOURCES[series.ring_source]}
    if ledger.index is not grouping.source or seen.queues is not grouping.source:
        return told | {"evicted": None, "ledger": "not judged yet"}
    added, settled, expired, killed, _, messages = (int(n) for n in np.nan_to_num(seen.queue_numbers[:, row]))
    evicted = number(ledger.evicted[row])
    held = int(np.nan_to_num(ledger.delivering[row])) if last_value else 0
    terms = f"{added} added - {settled} acknowledged - {expired} expired - {killed} killed - {messages} there"
    terms += f" - {held} in delivery" if last_value else ""
    sighted = f"{terms} = {added - settled - expired - killed - messages - held} at this poll"
    why = "counted when seen at two polls, and never falls" if evicted is not None else "absent until seen at two polls"
    if ledger.set_back[row]:
        why = "absent until the broker's next start: an operator has set a counter of the queue back"
    return told | {"evicted": evicted, "ledger": f"{sighted}; {why}"}


RING_SOURCES: Mapping[str, str] = {
    RingSource.QUEUE: "ring-size of the queue itself",
    RingSource.ADDRESS: "default-ring-size of the address setting",
    RingSource.NONE: "no ring size is set",
    RingSource.AMBIGUOUS: "the queue and the address setting say the same number",
}


# --- what is not known


def unknown(sight: Sight, series: QueueSeries, i: int) -> Iterator[tuple[str, str]]:
    """What cannot be said of the queue, and why."""
    table, snapshot = sight.tables["queue"], sight.snapshot
    for name, collector in snapshot.collectors.items():
        if collector.error:
            yield f"what `{name}` reads", collector.error
    for note in snapshot.notes:
        yield "part of the broker", note
    trend = sight.state.judgement.history.trend
    why = undecided.not_judged(sight.state, snapshot, sight.policy)
    if why:
        yield "all conditions", why
    elif trend.seconds < sight.policy.constants.window:
        yield "conditions over a window", f"{trend.polls} polls so far; rates and trends need more"
    if series.summed:
        yield "age, drain time and ring", "the row is a sum of several queues"
        return
    yield from unknown_numbers(table, i)


def unknown_numbers(table: Table[QueueSeries], i: int) -> Iterator[tuple[str, str]]:
    """Numbers of a queue that cannot be known."""
    if np.isnan(table["ready"][i]):
        yield (
            "what waits, and what it threw away",
            "the queue keeps what is acknowledged (non-destructive), and counts what is delivered twice",
        )
    if np.isnan(table["drain"][i]):
        yield "time to empty", "the backlog does not shrink, or rates are not known yet"
    if np.isnan(table["oldest_message"][i]) and table["messages"][i] > 0:
        yield (
            "age of the oldest message",
            "it came before the agent watched, or order is not kept: last value, selectors, scheduled messages",
        )
    if not np.isnan(table["ring_limit"][i]) and np.isnan(table["ring_used_ratio"][i]):
        yield "ring fill", "the address is paging: paged messages are not held by the ring"
