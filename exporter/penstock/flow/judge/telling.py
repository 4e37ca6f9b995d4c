"""From standing conditions to what is told: severity, evidence, and whose they are."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from penstock.flow.clock import Clock
from penstock.flow.judge import openmq_rules, rules
from penstock.flow.judge.churn import Churn
from penstock.flow.judge.conditions import KINDS, Condition, Kind, Scope, Severity
from penstock.flow.judge.history import ADDED
from penstock.flow.judge.poll import Poll
from penstock.flow.judge.spans import Mask, longer
from penstock.flow.judge.standing import Standing
from penstock.flow.rules import RingLoss
from penstock.table import Positions

DEFAULT_ATTEMPTS = 10.0
"""max-delivery-attempts where the settings do not say."""


def tell(standing: Mapping[str, Standing], poll: Poll, churn: Churn, clock: Clock) -> tuple[Condition, ...]:
    """All conditions that stand, of queues and of clients."""
    told: list[Condition] = []
    critical = without_progress(poll)
    for name, stand in standing.items():
        kind = KINDS[name]
        at = np.flatnonzero(stand.on)
        if not len(at):
            continue
        if kind.scope is Scope.CLIENT:
            told += of_clients(kind, at, stand, poll, critical, clock)
        else:
            told += of_queues(kind, at, stand, poll, critical, clock)
    return (*told, *churning(churn, poll, critical, clock), *vanished(churn, poll, clock))


def without_progress(poll: Poll) -> Mask:
    """Queues that made no true progress for their patience while messages wait or come."""
    found = poll.found
    waits = (found.ready > 0) | (found.d_added > 0)
    return waits & longer(poll.spans.unsettled, found.now, poll.queue_patience)


def of_queues(
    kind: Kind, at: Positions, stand: Standing, poll: Poll, critical: Mask, clock: Clock
) -> Iterator[Condition]:
    queues = poll.groups.queues
    for i in at.tolist():
        member = queues.member[i]
        if member < 0:
            continue
        series = queues.index.rows[member]
        yield Condition(
            kind.name,
            series.broker,
            series.address,
            series.queue,
            "",
            severity(kind, i, poll, critical=bool(critical[i])),
            float(stand.since[i]) - clock.applied,
            evidence(kind, poll, i, float(stand.since[i])),
        )


def of_clients(
    kind: Kind, at: Positions, stand: Standing, poll: Poll, critical: Mask, clock: Clock
) -> Iterator[Condition]:
    """One condition a client, with the numbers of its consumer that is in it longest."""
    clients = poll.groups.clients
    of: dict[int, list[int]] = {}
    for i in at.tolist():
        if clients.member[i] >= 0:
            of.setdefault(int(clients.member[i]), []).append(i)
    for member, rows in of.items():
        series = clients.index.rows[member]
        worst = min(rows, key=lambda i: float(stand.since[i]))
        queue = int(poll.found.consumer.queue[worst])
        yield Condition(
            kind.name,
            series.broker,
            series.address,
            series.queue,
            series.client,
            severity(kind, queue, poll, critical=queue >= 0 and bool(critical[queue])),
            float(stand.since[worst]) - clock.applied,
            evidence(kind, poll, worst, float(stand.since[worst])),
            consumers=len(rows),
        )


def severity(kind: Kind, queue: int, poll: Poll, *, critical: bool) -> Severity:
    if kind.name == "ring_losing" and not losing_is_lawful(queue, poll):
        return Severity.WARNING
    if kind.info or is_notice(kind.name, queue, poll):
        return Severity.INFO
    return Severity.CRITICAL if critical else Severity.WARNING


def is_notice(name: str, queue: int, poll: Poll) -> bool:
    """Conditions that warn in one form and only inform in another."""
    if name == "redelivery_loop":
        attempts = np.full(len(poll.found.queues), DEFAULT_ATTEMPTS)
        return bool(rules.only_few_fail(poll.returns, attempts)[queue])
    if name == "no_consumer":
        unexpected = not poll.expected[queue] > 0
        return unexpected and bool(rules.never_read(poll.found, poll.spans.had_consumer)[queue])
    if name == "paused":
        return not poll.found.ready[queue] > 0
    return False


def losing_is_lawful(queue: int, poll: Poll) -> bool:
    """Discarding is what a ring is for, unless the operator says otherwise or wants it to cover more time."""
    queues = poll.groups.queues
    said = queues.index.rows[queues.member[queue]].said
    if said.ring_loss is RingLoss.ALERT:
        return False
    window, target = poll.history.window, said.ring_retention
    if target is None or len(window.stamps) < 2:
        return True
    # The first poll's arrivals are those before the window began.
    came = window.values[1:, ADDED, queue].sum()
    return not poll.found.ring[queue] * (window.stamps[-1] - window.stamps[0]) < target * came


def churning(churn: Churn, poll: Poll, critical: Mask, clock: Clock) -> Iterator[Condition]:
    clients, now = poll.groups.clients, poll.found.now
    standing = churn.standing()
    at = {row.name: i for i, row in enumerate(poll.found.queues)} if standing else {}
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
            consumers=clients.rows_of(client),
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

Evidence = Callable[[Poll, int], dict[str, float]]


def evidence(kind: Kind, poll: Poll, i: int, since: float) -> dict[str, float]:
    """The numbers of row `i`; what the broker did not say is not there. `since`: of the condition."""
    numbers = {"age": poll.found.now - since} | EVIDENCE[kind.name](poll, i)
    return {name: value for name, value in numbers.items() if np.isfinite(value)}


def _holding(poll: Poll, i: int) -> dict[str, float]:
    consumer = poll.found.consumer
    queue = int(consumer.queue[i])
    numbers = {
        "held": float(consumer.held[i]),
        "uncommitted": float(consumer.uncommitted[i]),
        "age": poll.found.now - float(poll.holds.mark[i]),
        "patience": float(poll.client_patience[i]),
    }
    if queue >= 0:
        numbers["at_risk"] = float(poll.at_risk[queue])
    return numbers


def _queue(*names: str) -> Evidence:
    return lambda poll, i: {name: float(getattr(poll.found, name)[i]) for name in names}


def _redelivery(poll: Poll, i: int) -> dict[str, float]:
    told = poll.returns
    return {
        "returned": float(told.returned[i]),
        "delivered": float(told.delivered[i]),
        "settled": float(told.settled[i]),
        "killed": float(told.killed[i]),
    }


def _waiting(poll: Poll, i: int) -> dict[str, float]:
    found, spans = poll.found, poll.spans
    still = float(np.fmax(spans.ready[i], spans.still[i]))
    return {
        "ready": float(found.ready[i]),
        "consumers": float(found.consumers[i]),
        "age": found.now - still,
        "patience": float(max(poll.queue_patience[i], poll.dispatch[i])),
        "dispatch_at": float(found.dispatch_at[i]),
    } | _asks_not(poll, i)


def _asks_not(poll: Poll, i: int) -> dict[str, float]:
    """On OpenMQ: consumers that are paused with nothing in hand, because their application does not call receive()."""
    if poll.openmq is None:
        return {}
    consumer = poll.found.consumer
    return {
        "paused": float((openmq_rules.of(poll)[1].flow_paused & (consumer.queue == i) & (consumer.held == 0)).sum())
    }


def _absent(poll: Poll, i: int) -> dict[str, float]:
    found, spans, trend = poll.found, poll.spans, poll.trend
    return {
        "ready": float(found.ready[i]),
        "age": found.now - float(np.fmax(spans.ready[i], spans.absent[i])),
        "patience": float(poll.absence[i]),
        "rate": float(trend.added[i]) / max(trend.seconds, 1.0),
    }


def _few(poll: Poll, i: int) -> dict[str, float]:
    return {"consumers": float(poll.found.consumers[i]), "expected": float(poll.expected[i])}


def _frozen(poll: Poll, i: int) -> dict[str, float]:
    found = poll.found
    return {
        "delivering_bytes": float(found.delivering_bytes[i]),
        "limit_bytes": float(found.address.page_read_bytes[i]),
        "ready": float(found.ready[i]),
    }


def _full(poll: Poll, i: int) -> dict[str, float]:
    return {"limit_percent": float(poll.found.address.limit_percent[i]), "ready": float(poll.found.ready[i])}


def _losing(poll: Poll, i: int) -> dict[str, float]:
    step = max(poll.found.interval, 1e-9)
    return {
        "evicted": float(poll.ledger.evicted[i]),
        "rate": float(poll.ledger.grew[i]) / step,
        "ring": float(np.nan_to_num(poll.found.ring[i])),
    }


def _lost(poll: Poll, i: int) -> dict[str, float]:
    ledger = poll.ledger
    return {
        "lost": float(np.nan_to_num(ledger.lost_last[i])),
        "lost_in_all": float(ledger.by_consumers[i]),
        "evicted": float(ledger.evicted[i]),
    }


def _rate(variable: str) -> Evidence:
    def evidence(poll: Poll, i: int) -> dict[str, float]:
        changed = float(getattr(poll.found, variable)[i])
        return {"rate": changed / max(poll.found.interval, 1e-9)}

    return evidence


def _behind(poll: Poll, i: int) -> dict[str, float]:
    trend, consumers = poll.trend, float(poll.found.consumers[i])
    seconds = max(trend.seconds, 1.0)
    rate_in, rate_out = float(trend.added[i]) / seconds, float(trend.settled[i]) / seconds
    return {
        "growth": float(trend.growth[i]),
        "rate_in": rate_in,
        "rate_out": rate_out,
        "consumers": consumers,
        "consumers_needed": float(np.ceil(consumers * rate_in / rate_out)) if rate_out > 0 else consumers,
    }


def _hoard(poll: Poll, i: int) -> dict[str, float]:
    consumer = poll.found.consumer
    mine = consumer.held[consumer.queue == i]
    return {
        "most": float(mine.max(initial=0.0)),
        "held": float(poll.found.held[i]),
        "consumers": float(poll.found.consumers[i]),
    }


# --- of OpenMQ


def _shared(poll: Poll, i: int) -> dict[str, float]:
    starving = np.zeros(len(poll.found.queues), np.bool_)
    starving[i] = True
    return _waiting(poll, i) | {"held": openmq_rules.held_by(poll, i, starving)[0]}


def _uncommitted(poll: Poll, i: int) -> dict[str, float]:
    state, told = openmq_rules.of(poll)
    begin = float(np.fmin(state.held_since[i], told.transaction_since[i]))
    return {
        "uncommitted": float(told.held[i]),
        "age": poll.found.now - begin,
        "patience": float(poll.queue_patience[i]),
    }


def _limited(poll: Poll, i: int) -> dict[str, float]:
    """Of a full destination: what is there against its limit, who sends, what was refused or removed."""
    if poll.openmq is None:
        return _full(poll, i)
    state, told = openmq_rules.of(poll)
    return {
        "ready": float(poll.found.ready[i]),
        "limit": float(told.limit_messages[i]),
        "producers": float(told.producers[i]),
        "rejected": float(state.rejected.shown[i]),
        "evicted": float(state.lost.shown[i]),
        "removed": float(poll.found.d_settled[i] - poll.found.d_left[i]),
    }


def _removed(poll: Poll, i: int) -> dict[str, float]:
    changed = float(poll.found.d_settled[i] - poll.found.d_left[i])
    return {"rate": max(changed, 0.0) / max(poll.found.interval, 1e-9)}


EVIDENCE: Mapping[str, Evidence] = {
    "stalled": _holding,
    "open_transaction": _holding,
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
