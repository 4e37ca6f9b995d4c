"""From standing conditions to what is told: severity, evidence, and whose they are."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite

import numpy as np

from penstock.flow.clock import Clock
from penstock.flow.judge import openmq_rules, rules
from penstock.flow.judge.churn import Churn
from penstock.flow.judge.conditions import KINDS, Condition, Kind, Scope, Severity
from penstock.flow.judge.facts import or_zero
from penstock.flow.judge.poll import Poll
from penstock.flow.judge.spans import Mask, longer
from penstock.flow.judge.standing import Standing
from penstock.flow.judge.wanted import of_queues as series_column
from penstock.flow.queues import TARGETS
from penstock.flow.rules import RingLoss
from penstock.table import Column, Positions

DEFAULT_ATTEMPTS = 10.0
"""max-delivery-attempts where the settings do not say."""
SEVERITIES = tuple(Severity)
"""By number."""


def tell(standing: Mapping[str, Standing], poll: Poll, churn: Churn, clock: Clock) -> tuple[Condition, ...]:
    """All conditions that stand, of queues and of clients."""
    told: list[Condition] = []
    critical = without_progress(poll)
    for name, stand in standing.items():
        kind, (at, since) = KINDS[name], stand.stands()
        if len(at):
            told += (of_clients if kind.scope is Scope.CLIENT else of_queues)(kind, at, since, poll, critical, clock)
    return (*told, *churning(churn, poll, critical, clock), *vanished(churn, poll, clock))


def without_progress(poll: Poll) -> Mask:
    """Queues that made no true progress for their patience while messages wait or come."""
    found = poll.found
    waits = (found.ready > 0) | (found.d_added > 0)
    return waits & longer(poll.spans.unsettled, found.now, poll.queue_patience)


def of_queues(
    kind: Kind, at: Positions, since: Column, poll: Poll, critical: Mask, clock: Clock
) -> Iterator[Condition]:
    queues = poll.groups.queues
    shown = queues.member[at] >= 0
    at, since = at[shown], since[shown]
    series = queues.index.rows[queues.member[at]].tolist()
    severities = severity(kind, at, poll, critical)
    begins = (since - clock.applied).tolist()
    for of, how, begin, numbers in zip(series, severities, begins, evidence(kind, poll, at, since), strict=True):
        yield Condition(kind.name, of.broker, of.address, of.queue, "", how, begin, numbers)


def of_clients(
    kind: Kind, at: Positions, since: Column, poll: Poll, critical: Mask, clock: Clock
) -> Iterator[Condition]:
    """One condition a client, with the numbers of its consumer that is in it longest."""
    clients = poll.groups.clients
    worst, since, count = longest(clients.member[at], at, since)
    series = clients.index.rows[clients.member[worst]].tolist()
    severities = severity(kind, poll.found.consumer.queue[worst], poll, critical)
    begins = (since - clock.applied).tolist()
    told = zip(series, severities, begins, evidence(kind, poll, worst, since), count.tolist(), strict=True)
    for of, how, begin, numbers, consumers in told:
        yield Condition(kind.name, of.broker, of.address, of.queue, of.client, how, begin, numbers, consumers)


def longest(of: Positions, at: Positions, since: Column) -> tuple[Positions, Column, Positions]:
    """By group `of` (those at -1 left out): the one of `at` with the earliest beginning, that, and their number."""
    shown = np.flatnonzero(of >= 0)
    order = shown[np.lexsort((since[shown], of[shown]))]
    _, first, count = np.unique(of[order], return_index=True, return_counts=True)
    return at[order[first]], since[order[first]], count


def severity(kind: Kind, queues: Positions, poll: Poll, critical: Mask) -> list[Severity]:
    """Of a condition at these queues, -1 where the queue is not known."""
    urgent = np.append(critical & (not kind.info), np.False_)[queues]
    level = np.where(urgent, Severity.CRITICAL, Severity.WARNING)
    level[is_notice(kind, queues, poll)] = Severity.INFO
    return [SEVERITIES[one] for one in level.tolist()]


def is_notice(kind: Kind, queues: Positions, poll: Poll) -> Mask:
    """Conditions that only inform, always or in one of their forms."""
    if kind.name == "ring_losing":
        return losing_is_lawful(queues, poll)
    if kind.name == "redelivery_loop":
        said = poll.found.address.delivery_attempts
        return rules.only_few_fail(poll.returns, np.where(np.isnan(said), DEFAULT_ATTEMPTS, said))[queues]
    if kind.name == "no_consumer":
        unexpected = ~(poll.expected > 0)
        return (unexpected & rules.never_read(poll.found, poll.spans.had_consumer))[queues]
    if kind.name == "paused":
        return ~(poll.found.ready[queues] > 0)
    return np.full(len(queues), kind.info)


def losing_is_lawful(queues: Positions, poll: Poll) -> Mask:
    """Discarding is what a ring is for, unless the operator says otherwise or wants it to cover more time."""
    alert = series_column(poll.groups.queues, "ring alert", lambda series: series.said.ring_loss is RingLoss.ALERT)
    target = series_column(poll.groups.queues, "ring_retention_target", TARGETS["ring_retention_target"])
    short = poll.found.ring < target * poll.trend.rate_in
    return ~((alert > 0) | short)[queues]


def churning(churn: Churn, poll: Poll, critical: Mask, clock: Clock) -> Iterator[Condition]:
    standing = churn.standing()
    if not standing:
        return
    clients, now = poll.groups.clients, poll.found.now
    present = clients.count()
    at = {row.name: i for i, row in enumerate(poll.found.queues)}
    for client, spell in standing.items():
        idle = spell.queue in at and bool(critical[at[spell.queue]])
        yield Condition(
            "churn_without_progress",
            client.broker,
            client.address,
            client.queue,
            client.client,
            Severity.CRITICAL if idle else Severity.WARNING,
            spell.begin - clock.applied,
            {"consumers_seen": float(spell.ids), "age": now - spell.begin, "patience": spell.patience},
            consumers=int(clients.number_of(client, present)),
        )


def vanished(churn: Churn, poll: Poll, clock: Clock) -> Iterator[Condition]:
    for client, left in churn.left.items():
        if poll.found.now - left.at <= poll.constants.event:
            yield Condition(
                "holder_gone",
                client.broker,
                client.address,
                client.queue,
                client.client,
                Severity.INFO,
                left.begin - clock.applied,
                {"held": left.held, "age": left.age, "returned": left.returned},
            )


# --- evidence: the numbers that a rule rests on

Columns = dict[str, Column]
Evidence = Callable[[Poll, Positions], Columns]
"""By name the numbers of some rows."""


def evidence(kind: Kind, poll: Poll, at: Positions, since: Column) -> list[dict[str, float]]:
    """The numbers of the rows `at`; what the broker did not say is not there. `since`: of the condition."""
    columns = {"age": poll.found.now - since} | EVIDENCE[kind.name](poll, at)
    values = np.stack([*columns.values()], axis=1)
    rows = [dict(zip(columns, row, strict=True)) for row in values.tolist()]
    for i in np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
        rows[i] = {name: value for name, value in rows[i].items() if isfinite(value)}
    return rows


def _holding(poll: Poll, at: Positions) -> Columns:
    consumer = poll.found.consumer
    return {
        "held": consumer.held[at],
        "uncommitted": consumer.uncommitted[at],
        "age": poll.found.now - poll.holds.mark[at],
        "patience": poll.client_patience[at],
        "at_risk": np.append(poll.at_risk, np.nan)[consumer.queue[at]],
    }


def _queue(*names: str) -> Evidence:
    return lambda poll, at: {name: getattr(poll.found, name)[at] for name in names}


def _redelivery(poll: Poll, at: Positions) -> Columns:
    return {name: getattr(poll.returns, name)[at] for name in ("returned", "delivered", "settled", "killed")}


def _waiting(poll: Poll, at: Positions) -> Columns:
    found, spans = poll.found, poll.spans
    return {
        "ready": found.ready[at],
        "consumers": found.consumers[at],
        "age": found.now - np.fmax(spans.ready[at], spans.still[at]),
        "patience": np.fmax(poll.queue_patience[at], poll.dispatch[at]),
        "dispatch_at": found.dispatch_at[at],
    } | _asks_not(poll, at)


def _asks_not(poll: Poll, at: Positions) -> Columns:
    """On OpenMQ: consumers that are paused with nothing in hand, because their application does not call receive()."""
    if poll.openmq is None:
        return {}
    asks_not = openmq_rules.of(poll)[1].flow_paused & (poll.found.consumer.held == 0)
    return {"paused": poll.found.of_queue(asks_not)[at]}


def _absent(poll: Poll, at: Positions) -> Columns:
    found, spans = poll.found, poll.spans
    return {
        "ready": found.ready[at],
        "age": found.now - np.fmax(spans.ready[at], spans.absent[at]),
        "patience": poll.absence[at],
        "rate": poll.trend.rate_in[at],
    }


def _few(poll: Poll, at: Positions) -> Columns:
    return {"consumers": poll.found.consumers[at], "expected": poll.expected[at]}


def _frozen(poll: Poll, at: Positions) -> Columns:
    found = poll.found
    return {
        "delivering_bytes": found.delivering_bytes[at],
        "limit_bytes": found.address.page_read_bytes[at],
        "ready": found.ready[at],
    }


def _full(poll: Poll, at: Positions) -> Columns:
    return {"limit_percent": poll.found.address.limit_percent[at], "ready": poll.found.ready[at]}


def _losing(poll: Poll, at: Positions) -> Columns:
    return {
        "evicted": poll.ledger.evicted[at],
        "rate": poll.ledger.grew[at] / max(poll.found.interval, 1e-9),
        "ring": or_zero(poll.found.ring[at]),
    }


def _lost(poll: Poll, at: Positions) -> Columns:
    ledger = poll.ledger
    return {
        "lost": or_zero(ledger.lost_last[at]),
        "lost_in_all": ledger.by_consumers[at],
        "evicted": ledger.evicted[at],
    }


def _rate(variable: str) -> Evidence:
    return lambda poll, at: {"rate": getattr(poll.found, variable)[at] / max(poll.found.interval, 1e-9)}


def _behind(poll: Poll, at: Positions) -> Columns:
    trend, consumers = poll.trend, poll.found.consumers[at]
    rate_in, rate_out = trend.rate_in[at], trend.rate_out[at]
    needed = np.ceil(consumers * rate_in / np.where(rate_out > 0, rate_out, np.nan))
    return {
        "growth": trend.growth[at],
        "rate_in": rate_in,
        "rate_out": rate_out,
        "consumers": consumers,
        "consumers_needed": np.where(rate_out > 0, needed, consumers),
    }


def _hoard(poll: Poll, at: Positions) -> Columns:
    found = poll.found
    consumer = found.consumer
    most = np.zeros(len(found.queues))
    known = consumer.queue >= 0
    np.maximum.at(most, consumer.queue[known], consumer.held[known])
    return {"most": most[at], "held": found.held[at], "consumers": found.consumers[at]}


# --- of OpenMQ


def _shared(poll: Poll, at: Positions) -> Columns:
    def of_queue(i: int) -> tuple[float, float]:
        starving = np.zeros(len(poll.found.queues), np.bool_)
        starving[i] = True
        held, keys = openmq_rules.held_by(poll, i, starving)
        said = limits[np.isin(openmq_rules.of(poll)[1].connection, keys)]
        return held, float(np.fmin.reduce(said, initial=np.nan))

    limits = openmq_rules.connection_limits(poll)
    held, limit = np.array([of_queue(i) for i in at.tolist()]).reshape(-1, 2).T
    return _waiting(poll, at) | {"held": held, "limit": limit}


def _uncommitted(poll: Poll, at: Positions) -> Columns:
    state, told = openmq_rules.of(poll)
    return {
        "uncommitted": told.held[at],
        "age": poll.found.now - np.fmin(state.held_since, told.transaction_since)[at],
        "patience": poll.queue_patience[at],
    }


def _limited(poll: Poll, at: Positions) -> Columns:
    """Of a full destination: what is there against its limit, who sends, what was refused or removed."""
    if poll.openmq is None:
        return _full(poll, at)
    state, told = openmq_rules.of(poll)
    return {
        "ready": poll.found.ready[at],
        "limit": told.limit_messages[at],
        "producers": told.producers[at],
        "rejected": state.rejected.shown[at],
        "evicted": state.lost.shown[at],
        "removed": (poll.found.d_settled - poll.found.d_left)[at],
    }


def _removed(poll: Poll, at: Positions) -> Columns:
    changed = (poll.found.d_settled - poll.found.d_left)[at]
    return {"rate": np.maximum(changed, 0.0) / max(poll.found.interval, 1e-9)}


EVIDENCE: Mapping[str, Evidence] = {
    "stalled": _holding,
    "open_transaction": _holding,
    "orphaned": _holding,
    "redelivery_loop": _redelivery,
    "not_dispatching": _waiting,
    "no_consumer": _absent,
    "too_few_consumers": _few,
    "paused": _queue("ready", "consumers"),
    "depaging_frozen": _frozen,
    "producers_blocked": _limited,
    "rejecting": _limited,
    "ring_losing": _losing,
    "ring_lost_by_consumer": _lost,
    "expiring": _rate("d_expired"),
    "dead_lettering": _rate("d_killed"),
    "falling_behind": _behind,
    "hoarding": _hoard,
    "connection_paused": _shared,
    "producer_transaction_open": _uncommitted,
    "limit_losing": _limited,
    "removed_unsettled": _removed,
}
