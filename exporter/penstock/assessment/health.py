"""The judgement as series: conditions by cause, and what it measures of queues and clients."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from penstock.account.ring_losses import MOST_NAMES
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import ActiveCondition, Scope, Severity
from penstock.conditions.paused import PAUSED
from penstock.conditions.producers_blocked import PRODUCERS_BLOCKED
from penstock.core.table import Column, Index, Mask, Positions, Table
from penstock.incidents.incident import Key, key_of
from penstock.rule_engine.judgement import Judgement
from penstock.series.clock import Clock
from penstock.series.labels import (
    QUEUE,
    AddressSeries,
    ClientSeries,
    Grouping,
    QueueSeries,
)
from penstock.series.queues import Queues

REASONS = ("last_value", "ring", "limit")
MOST_EXPECTED = 1000
"""Queues of which it is shown what is expected."""
TIMES = ("ring_oversize_since", "oldest_message", "oldest_earliest", "oldest_latest")
"""Measures that are times: moved to the agent's clock."""
BOUNDS = ("earliest", "latest")


@dataclass(frozen=True, slots=True)
class CauseSeries:
    """A condition of a broker, address, queue, client or connection; what none of its table's labels says is empty."""

    broker: str
    address: str = ""
    queue: str = ""
    client: str = ""
    connection: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    broker: str
    address: str
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class RingLoser:
    """client: empty for what no client is known of."""

    broker: str
    address: str
    queue: str
    client: str


@dataclass(frozen=True, slots=True)
class OldestMessage:
    broker: str
    address: str
    queue: str
    bound: str


def broker_causes(conditions: Sequence[ActiveCondition]) -> Table[CauseSeries]:
    """Conditions of the broker itself: 1 warning, 2 critical."""
    of_broker = [
        one for one in conditions if CONDITIONS[one.name].scope is Scope.BROKER
    ]
    rows = [CauseSeries(one.broker, cause=one.name) for one in of_broker]
    return Table(
        Index.of(rows),
        {"unhealthy": np.array([float(one.severity) for one in of_broker])},
    )


def address_causes(
    conditions: Sequence[ActiveCondition],
    rolled_up: Collection[Key],
    addresses: Table[AddressSeries],
) -> Table[CauseSeries]:
    """Conditions of the addresses themselves, as those of the queues: 1 warning, 2 critical; the worst of any queue."""
    shown = [
        one
        for one in conditions
        if not one.silenced and CONDITIONS[one.name].of_address
    ]
    named = [
        (CauseSeries(one.broker, one.address, cause=one.name), one) for one in shown
    ]
    unhealthy = worst(named)
    held = (
        {row.address for row in addresses.index.rows[addresses["paused"] > 0]}
        if unhealthy
        else set()
    )
    kept = {
        cause: how
        for cause, how in unhealthy.items()
        if cause.cause != PAUSED.name or cause.address in held
    }
    return _sparse({"unhealthy": kept, "in_incident": within(kept, named, rolled_up)})


def address_measures(
    judgement: Judgement,
    queues: Grouping[QueueSeries],
    of_queue: Positions,
    addresses: Table[AddressSeries],
) -> dict[str, Column]:
    """Columns by the addresses, none where the poll was not judged. of_queue: place of each queue series' address."""
    blocked = judgement.debounced.get(PRODUCERS_BLOCKED.name)
    if (
        blocked is None
        or blocked.index is not queues.source
        or len(of_queue) != len(queues.index)
    ):
        return {}
    at = np.append(of_queue, -1)[
        queues.member
    ]  # by queue; -1 also for those that are not shown
    waits = at[blocked.active()[0]]
    columns = {"producers_blocked": np.zeros(len(addresses))}
    columns["producers_blocked"][waits[waits >= 0]] = 1.0
    columns["producers_blocked"][addresses["producers_paused"] > 0] = 0.0
    account = judgement.account.address_books
    if account.index is queues.source:
        for policy, name in (("drop", "dropped"), ("fail", "rejected")):
            amount = np.full(len(addresses), np.nan)
            amount[at[at >= 0]] = np.where(
                np.isnan(account.routed0), np.nan, getattr(account, name)
            )[at >= 0]
            has_policy = addresses.index.column(
                policy,
                lambda series, policy=policy: series.policy == policy,  # type: ignore[misc]
            )
            full = has_policy > 0
            columns[f"messages_{name}"] = np.where(full, amount, np.nan)
    return columns


def undecided(judgement: Judgement, clients: int, *, judged: bool) -> float:
    """How many of the `clients` are unknown; judged: the last poll was, or its verdicts still apply."""
    if not judged or not judgement.counted:
        return float(clients)
    young = judgement.warm_up.clients
    told = {
        (one.address, one.queue, one.client)
        for one in judgement.conditions
        if one.client
    }
    rows = young.index.rows[young.index.positions(young.keys)]
    return float(sum((row.address, row.queue, row.client) not in told for row in rows))


def queue_causes(
    conditions: Sequence[ActiveCondition], rolled_up: Collection[Key]
) -> Table[CauseSeries]:
    """Conditions that hold on queues, those of their clients included. unhealthy: 1 warning, 2 critical; notice: 1.

    rolled_up: the conditions that the alert on their incident covers.
    Several under the same label are one, the worst: a sum of queues may have a condition more than once.
    """
    shown = [
        one
        for one in conditions
        if not one.silenced and CONDITIONS[one.name].scope is not Scope.BROKER
    ]
    named = [
        (CauseSeries(one.broker, one.address, one.queue, cause=one.name), one)
        for one in shown
    ]
    notice = {
        cause: 1.0
        for cause, one in named
        if one.severity is Severity.INFO and not one.client
    }
    unhealthy = worst(named)
    return _sparse(
        {
            "unhealthy": unhealthy,
            "notice": notice,
            "in_incident": within(unhealthy, named, rolled_up),
        }
    )


def client_causes(
    conditions: Sequence[ActiveCondition], rolled_up: Collection[Key]
) -> Table[CauseSeries]:
    """Conditions that hold on clients. unhealthy_consumers: how many of its consumers, at least 1; notice: 1."""
    unhealthy: dict[CauseSeries, float] = {}
    notice: dict[CauseSeries, float] = {}
    shown = [one for one in conditions if one.client and not one.silenced]
    named = [
        (
            CauseSeries(one.broker, one.address, one.queue, one.client, cause=one.name),
            one,
        )
        for one in shown
    ]
    for cause, one in named:
        if one.severity is Severity.INFO:
            notice[cause] = 1.0
        else:
            unhealthy[cause] = unhealthy.get(cause, 0.0) + max(one.consumers, 1)
    in_incident = within(unhealthy, named, rolled_up)
    return _sparse(
        {"unhealthy_consumers": unhealthy, "notice": notice, "in_incident": in_incident}
    )


def within(
    unhealthy: Iterable[CauseSeries],
    named: Iterable[tuple[CauseSeries, ActiveCondition]],
    rolled_up: Collection[Key],
) -> dict[CauseSeries, float]:
    """1 for those of which the alert on an incident covers all that is unhealthy."""
    alone = {
        cause
        for cause, one in named
        if one.severity is not Severity.INFO and key_of(one) not in rolled_up
    }
    return dict.fromkeys((cause for cause in unhealthy if cause not in alone), 1.0)


def worst(
    named: Iterable[tuple[CauseSeries, ActiveCondition]],
) -> dict[CauseSeries, float]:
    """The worst severity under each label; what only informs has none."""
    found: dict[CauseSeries, float] = {}
    for cause, one in named:
        if one.severity is not Severity.INFO:
            found[cause] = max(found.get(cause, 0.0), float(one.severity))
    return found


def _sparse(columns: Mapping[str, Mapping[CauseSeries, float]]) -> Table[CauseSeries]:
    rows = sorted(
        set().union(*columns.values()), key=attrgetter(*CauseSeries.__slots__)
    )
    return Table(
        Index.of(rows),
        {
            name: np.array([of.get(row, np.nan) for row in rows])
            for name, of in columns.items()
        },
    )


def alone(queues: Grouping[QueueSeries]) -> Mask:
    """Series of one queue each."""
    return queues.index.column("alone", lambda series: not series.summed) > 0


def queue_measures(
    judgement: Judgement, queues: Queues, clock: Clock
) -> dict[str, Column]:
    """Columns by the queues' series; a series that sums several queues has none of them."""
    measures = judgement.measures
    grouping = queues.grouping
    if measures.index is not grouping.source:
        return {}
    oldest = judgement.oldest
    near = 2 * judgement.seen.times.interval
    agree = np.abs(oldest.latest - oldest.earliest) <= near
    low, high = expected_rates(judgement.normal.usual(judgement.service).band)
    columns = {
        **measures.columns,
        "oldest_message": np.where(agree, oldest.latest, np.nan),
        "oldest_earliest": oldest.earliest,
        "oldest_latest": oldest.latest,
        "ring_oversize_since": measures.oversize_since,
        "capacity": np.round(judgement.shares.capacity, 3),
        "expected_messages_per_second_low": low,
        "expected_messages_per_second_high": high,
    }
    one = alone(grouping)
    shown = {
        name: np.where(one, grouping.max(column), np.nan)
        for name, column in columns.items()
    }
    for name in TIMES:
        shown[name] = np.round(shown[name] - clock.applied, 3)
    if judgement.counted:
        shown["unhealthy_consumers"] = unhealthy_consumers(
            judgement.conditions, grouping.index
        )
    return shown


def expected_rates(band: NDArray[np.float64]) -> NDArray[np.float64]:
    """(low and high, queues): of the queues that get most."""
    known = np.flatnonzero(~np.isnan(band[1]))
    shown = known[np.argsort(-band[1][known], kind="stable")[:MOST_EXPECTED]]
    rates = np.full(band.shape, np.nan)
    rates[:, shown] = np.round(band[:, shown], 3)
    return rates


def oldest_messages(
    queues: Table[QueueSeries], before: Index[OldestMessage]
) -> Table[OldestMessage]:
    """Bounds of when the oldest message came, for all series, so that few come and go. before: of the last poll."""
    if "oldest_latest" not in queues:
        return Table(Index.empty())
    values = np.stack([queues[f"oldest_{bound}"] for bound in BOUNDS], axis=1).ravel()

    def label(new: list[int]) -> list[OldestMessage]:
        of = [(queues.index.rows[i // 2], BOUNDS[i % 2]) for i in new]
        return [OldestMessage(q.broker, q.address, q.queue, bound) for q, bound in of]

    index, order = before.advance(
        (2 * queues.index.keys[:, None] + np.arange(2)).ravel(), label
    )
    return Table(index, {"at": values[order]})


def without_kept(
    judgement: Judgement, queues: Queues, table: Table[QueueSeries]
) -> dict[str, Column]:
    """What waits, and how full a ring is: not known of queues that keep what is acknowledged."""
    grouping = queues.grouping
    if judgement.measures.index is not grouping.source or not judgement.keeps.any():
        return {}
    kept = grouping.max(judgement.keeps.astype(np.float64)) > 0
    return {
        name: np.where(kept, np.nan, table[name])
        for name in ("ready", "ring_used_ratio")
    }


def unhealthy_consumers(
    conditions: Sequence[ActiveCondition], queues: Index[QueueSeries]
) -> Column:
    """Per queue series how many consumers have a condition; what is silenced or only informs does not count."""
    count: dict[tuple[str, str], float] = {}
    for condition in conditions:
        if (
            condition.client
            and not condition.silenced
            and condition.severity is not Severity.INFO
        ):
            queue = (condition.address, condition.queue)
            count[queue] = count.get(queue, 0.0) + condition.consumers
    unhealthy = np.zeros(len(queues))
    at = queues.where("queue", QUEUE, count.keys())
    unhealthy[at] = [count[QUEUE(series)] for series in queues.rows[at]]
    return unhealthy


def evictions(
    judgement: Judgement, queues: Queues, before: Index[Eviction]
) -> Table[Eviction]:
    """What queues threw away to keep a limit; a last-value ring counts all under `ring`. before: of the last poll."""
    grouping = queues.grouping
    measures = judgement.measures
    if measures.index is not grouping.source:
        return Table(Index.empty())
    evicted = measures.columns["evicted"]
    openmq = judgement.openmq.queues.index is measures.index
    reason = (
        np.full(len(evicted), 2)
        if openmq
        else np.asarray(judgement.rings).astype(np.int64)
    )
    shown = np.flatnonzero(
        ~np.isnan(evicted) & np.append(alone(grouping), np.False_)[grouping.member]
    )

    def label(new: list[int]) -> list[Eviction]:
        of = [
            (grouping.index.rows[grouping.member[i]], REASONS[reason[i]])
            for i in shown[new]
        ]
        return [Eviction(q.broker, q.address, q.queue, why) for q, why in of]

    index, order = before.advance(
        len(REASONS) * grouping.keys[shown] + reason[shown], label
    )
    return Table(index, {"evicted": evicted[shown][order]})


def losses_by_client(
    judgement: Judgement, queues: Queues, before: Index[RingLoser]
) -> Table[RingLoser]:
    """What rings lost by consumers that went, by client where known, else under an empty one. before: as above."""
    grouping = queues.grouping
    losses = judgement.account.ring_losses
    if losses.index is not grouping.source:
        return Table(Index.empty())
    shown = (
        ~np.isnan(losses.by_consumers)
        & np.append(alone(grouping), np.False_)[grouping.member]
    )
    unnamed = losses.by_consumers.copy()
    slots = 1 + MOST_NAMES
    found: list[tuple[int, int, str, float]] = []
    for i, of in zip(
        losses.index.positions(np.array([*losses.by_client], np.int64)),
        losses.by_client.values(),
        strict=True,
    ):
        if i >= 0 and shown[i]:
            found += [
                (i, slot, name, one.sure)
                for slot, (name, one) in enumerate(of.items(), 1)
            ]
            unnamed[i] -= sum(one.sure for one in of.values())
    rows = np.flatnonzero(shown)
    at = np.append(rows, np.array([one[0] for one in found], np.intp))
    slot = np.append(
        np.zeros(len(rows), np.int64), np.array([one[1] for one in found], np.int64)
    )

    def label(new: list[int]) -> list[RingLoser]:
        of = [grouping.index.rows[grouping.member[at[i]]] for i in new]
        names = ["" if i < len(rows) else found[i - len(rows)][2] for i in new]
        return [
            RingLoser(q.broker, q.address, q.queue, name)
            for q, name in zip(of, names, strict=True)
        ]

    index, order = before.advance(slots * grouping.keys[at] + slot, label)
    return Table(
        index, {"lost": np.append(unnamed[rows], [one[3] for one in found])[order]}
    )


def client_measures(
    judgement: Judgement, clients: Grouping[ClientSeries], clock: Clock
) -> dict[str, Column]:
    """Columns by the clients' series."""
    if len(judgement.patience_of_clients) != len(clients.index):
        return {}
    return {
        "patience": np.round(judgement.patience_of_clients, 3),
        "blocked_since": np.round(judgement.blocked_since - clock.applied, 3),
        "starved": np.round(judgement.shares.starved, 3),
        "at_limit": np.round(judgement.shares.at_limit, 3),
    }
