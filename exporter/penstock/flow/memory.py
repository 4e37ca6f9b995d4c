"""
What of a state outlives the agent: `remember` takes it out, `recall` puts it back at the first poll after a restart.

Pure and free of the agent's own numbering: things are named by their names, or by the broker's ids where its process
is still the same. Times are the broker's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.flow.assess import State
from penstock.flow.connections import Producers
from penstock.flow.events import ConditionName, by_name
from penstock.flow.judge.churn import Churn, Left, Spell
from penstock.flow.judge.conditions import KINDS, Scope, Severity
from penstock.flow.judge.facts import Seen, Times
from penstock.flow.judge.holds import Holds
from penstock.flow.judge.judge import Judgement
from penstock.flow.judge.ledger import Ledger
from penstock.flow.judge.openmq import Openmq, Sum
from penstock.flow.judge.patience import BINS, SPELLS, Learned, Patience
from penstock.flow.judge.poll import Spans
from penstock.flow.judge.spans import moved
from penstock.flow.judge.standing import POLLS, Standing
from penstock.flow.judge.windows import WindowEstimate
from penstock.flow.policy import Policy
from penstock.flow.queues import sum_series
from penstock.flow.series import TEMPORARY, ClientSeries, ProducerSeries, QueueSeries
from penstock.flow.totals import SeriesT, Totals
from penstock.model import Broker, BrokerKind, ConsumerRow, ProducerRow, QueueKind, QueueRow, RingSource, Role, Snapshot
from penstock.table import Column, Index, Keys, Positions, Table, taken

SAME_START = 2.0
"""Seconds within which two starts of a broker are the same one."""

ClientName = tuple[str, str, str]
"""Address, queue, client."""

SEEN = ("added", "acknowledged", "expired", "killed", "scheduled", "messages")
COUNTED = ("delivered", "acknowledged", "awaiting_commit", "buffered")
SPANS = ("still", "ready", "absent", "unsettled", "blocked")
HOLDS = ("settled", "hold_since", "idle_since", "seen_since", "mark")
LEDGER = ("usable_at", "evicted", "by_consumers", "grew", "lost_now", "lost_last", "balance", "routed", "d_added",
          "d_due", "delivering", "delivering_before")  # fmt: skip
LEDGER_MASKS = ("usable", "returning", "set_back")
OPENMQ_QUEUES = ("removed", "acknowledged", "debt", "held_since", "in_delivery", "messages")
OPENMQ_SUMS = ("lost", "rejected")
OPENMQ_CONSUMERS = ("last", "highest", "returning_since", "still_since", "failed_since")
WINDOWS = ("at", "divisor", "steps", "most")


@dataclass(frozen=True, slots=True)
class TaughtClients:
    """A `Patience`: of the row `at // BINS` the weight of the bin `at % BINS`; the other columns by row."""

    names: Sequence[ClientName] = ()
    at: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    q98: Column = field(default_factory=lambda: np.empty(0))
    spells: Column = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class TaughtQueues:
    """The same by queue."""

    names: Sequence[QueueRow] = ()
    at: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    q98: Column = field(default_factory=lambda: np.empty(0))
    spells: Column = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class Stood:
    """Where a condition stands: the broker's ids, its begin, of an event when it last happened."""

    keys: Keys
    since: Column
    last: Column


@dataclass(frozen=True, slots=True)
class KeptTotals:
    """A `Totals`: by counter, the sums of `names`, and what each thing said at last."""

    names: Sequence[tuple[str, ...]] = ()
    sums: Sequence[Column] = ()
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    """Of the things, by which `last` stands."""
    last: Sequence[Column] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept of one broker. queues, consumers: columns by the broker's ids."""

    node_id: str
    start: float
    """Of the broker, by its own clock: the epoch of its counters."""
    now: float
    """When it was seen last."""
    interval: float = np.nan
    started: float = np.nan
    clients: TaughtClients = TaughtClients()
    dispatch: TaughtQueues = TaughtQueues()
    absence: TaughtQueues = TaughtQueues()
    consumer_totals: KeptTotals = KeptTotals()
    queue_totals: KeptTotals = KeptTotals()
    """Of the series that stand for several queues."""
    producer_totals: KeptTotals = KeptTotals()
    producers: Sequence[tuple[str, str]] = ()
    """Session and id of each in `producer_totals.last`: their keys are the agent's own."""
    queue_keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    queue_names: Sequence[tuple[str, str]] = ()
    """Address and name of each where its key is not the broker's own but the agent's (OpenMQ); else empty."""
    queues: Mapping[str, Column] = field(default_factory=dict)
    consumer_keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumers: Mapping[str, Column] = field(default_factory=dict)
    standing: Mapping[str, Stood] = field(default_factory=dict)
    spells: Sequence[tuple[ClientName, Spell]] = ()
    left: Sequence[tuple[ClientName, Left]] = ()
    churned: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    told: Sequence[tuple[ConditionName, Severity, float]] = ()
    """The conditions that stood, how severe and since when by the agent's clock."""


def identity(broker: Broker, name: str) -> str:
    """By what a broker is remembered: its node id, so that a failover keeps what was learned; else its name."""
    return broker.node_id or f"name:{name}"


def start_of(broker: Broker, stamp: float) -> float:
    return (stamp if np.isnan(broker.clock) else broker.clock) - broker.uptime


# --- remember


def remember(state: State, snapshot: Snapshot, policy: Policy) -> Memory | None:
    """What to keep of `state`, which `snapshot` led to; None while there is nothing, as of a passive broker."""
    broker, judgement = snapshot.broker, state.judgement
    if broker is None or broker.role is not Role.ACTIVE:
        return None
    seen, churn, producers = judgement.seen, judgement.churn, state.producers.totals
    return Memory(
        node_id=identity(broker, policy.broker),
        start=start_of(broker, snapshot.stamp),
        now=seen.times.now,
        interval=seen.times.interval,
        started=seen.times.started,
        clients=TaughtClients(*taught(judgement.patience, client_name)),
        dispatch=TaughtQueues(*taught(judgement.dispatch, lambda row: row)),
        absence=TaughtQueues(*taught(judgement.absence, lambda row: row)),
        consumer_totals=kept_totals(state.consumers.totals, client_name),
        queue_totals=kept_totals(state.queues.totals, sum_name),
        producer_totals=kept_totals(producers, lambda series: (series.address, series.client)),
        producers=[producer_name(row) for row in producers.source.rows],
        queue_keys=seen.queues.keys,
        queue_names=[queue_name(row) for row in seen.queues] if broker.kind is BrokerKind.OPENMQ else (),
        queues=queue_columns(judgement),
        consumer_keys=seen.consumers.keys,
        consumers=consumer_columns(judgement),
        standing={name: stood(stand) for name, stand in judgement.standing.items() if stand.on.any()},
        spells=[(client_name(client), spell) for client, spell in churn.spells.items()],
        left=[(client_name(client), left) for client, left in churn.left.items()],
        churned=churn.consumers.keys[churn.counted],
        told=[(name, *told) for name, told in by_name(judgement.conditions).items()],
    )


def client_name(series: ClientSeries) -> ClientName:
    return series.address, series.queue, series.client


def sum_name(series: QueueSeries) -> tuple[str, str] | None:
    return (series.address, series.queue) if series.summed else None


def queue_name(row: QueueRow) -> tuple[str, str]:
    return row.address, row.name


def producer_name(row: Any) -> tuple[str, str]:
    return row.session, row.id


def taught(patience: Patience, name: Any) -> tuple[list[Any], Keys, Column, Column, Column, Column]:
    """The rows that have learned something, those of things that are not there now included; as `TaughtClients`."""
    rows = np.flatnonzero((patience.weight > 0) | ~np.isnan(patience.spells).all(axis=1))
    parked = list(patience.parked.values())
    weights = np.concatenate([patience.histograms(rows), *(one.weights[None] for one in parked)])
    at = np.flatnonzero(weights)
    return (
        [name(row) for row in (*patience.index.rows[rows], *patience.parked)],
        at.astype(np.int64),
        weights.ravel()[at].astype(np.float64),
        np.append(patience.longest[rows], [one.longest for one in parked]),
        np.append(patience.q98[rows], [one.q98 for one in parked]),
        np.append(patience.spells[rows].ravel(), [one.spells for one in parked]),
    )


def kept_totals(totals: Totals[SeriesT], name: Callable[[SeriesT], tuple[str, ...] | None]) -> KeptTotals:
    """Those of all series that have a name."""
    if totals.sums is None:
        return KeptTotals()
    parked = np.array([*totals.parked.values()], np.float64).reshape(-1, len(totals.sums)).T
    names = [name(series) for series in (*totals.index.rows, *totals.parked)]
    named = np.array([one is not None for one in names], np.bool_)
    return KeptTotals(
        [one for one in names if one is not None],
        list(np.concatenate([totals.sums, parked], axis=1)[:, named]),
        totals.source.keys,
        () if totals.last is None else list(totals.last),
    )


def queue_columns(judgement: Judgement) -> dict[str, Column]:
    """By `seen.queues`; nothing before the first judgement."""
    seen, spans, ledger = judgement.seen, judgement.spans, judgement.ledger
    if spans.index is not seen.queues or ledger.index is not seen.queues:
        return {}
    columns = {f"seen_{name}": seen.queue_numbers[i] for i, name in enumerate(SEEN)}
    columns |= {f"span_{name}": getattr(spans, name) for name in SPANS}
    columns |= {f"ledger_{name}": getattr(ledger, name) for name in LEDGER}
    columns |= {f"ledger_{name}": getattr(ledger, name).astype(np.float64) for name in LEDGER_MASKS}
    columns |= {f"ledger_raw_{i}": raw for i, raw in enumerate(ledger.raw)}
    columns["had_consumer"] = spans.had_consumer.astype(np.float64)
    columns["oversize_since"] = judgement.measures.oversize_since
    openmq = judgement.openmq
    if openmq.said is not None and openmq.queues is seen.queues:
        columns |= {f"openmq_{name}": getattr(openmq, name) for name in OPENMQ_QUEUES}
        for name in OPENMQ_SUMS:
            total: Sum = getattr(openmq, name)
            columns |= {f"openmq_{name}_raw": total.raw, f"openmq_{name}_shown": total.shown}
    return columns


def consumer_columns(judgement: Judgement) -> dict[str, Column]:
    """By `seen.consumers`."""
    seen, holds = judgement.seen, judgement.holds
    if holds.index is not seen.consumers:
        return {}
    columns = {f"seen_{name}": seen.consumer_numbers[i] for i, name in enumerate(COUNTED)}
    columns |= {f"hold_{name}": getattr(holds, name) for name in HOLDS}
    openmq = judgement.openmq
    if openmq.said is not None and openmq.consumers is seen.consumers:
        columns |= {f"openmq_{name}": getattr(openmq, name) for name in OPENMQ_CONSUMERS}
        columns |= {f"window_{name}": getattr(openmq.windows, name).astype(np.float64) for name in WINDOWS}
    return columns


def stood(stand: Standing) -> Stood:
    at, since = stand.stands()
    return Stood(stand.index.keys[at], since, stand.last[stand.on])


# --- recall


def recall(memory: Memory, state: State, snapshot: Snapshot, policy: Policy) -> State:
    """
    `state`, which has judged nothing yet, with what is remembered; `snapshot` is active, with queues and consumers.

    What the clients and queues taught, and totals, always; all else only where the broker's process is still the same.
    """
    queues, consumers, broker = snapshot.queues, snapshot.consumers, snapshot.broker
    if queues is None or consumers is None or broker is None:
        return state
    same = abs(start_of(broker, snapshot.stamp) - memory.start) <= SAME_START
    memory = with_keys_of(memory, queues.index)
    here = {(row.address, row.name): row for row in queues.index}
    judgement = Judgement(
        patience=learned_again(memory.clients, [client_series(name, policy) for name in memory.clients.names]),
        dispatch=learned_again(memory.dispatch, [here.get((r.address, r.name), r) for r in memory.dispatch.names]),
        absence=learned_again(memory.absence, [here.get((r.address, r.name), r) for r in memory.absence.names]),
    )
    if same:
        judgement = goes_on(memory, judgement, snapshot, policy)
    of_clients, of_queues = memory.consumer_totals, memory.queue_totals
    clients = [client_series((address, queue, client), policy) for address, queue, client in of_clients.names]
    sums = [sum_again(address, queue, policy) for address, queue in of_queues.names]
    at_consumer = consumers.index.located(index_of(of_clients.keys)) if same else None
    at_queue = queues.index.located(index_of(of_queues.keys)) if same else None
    return replace(
        state,
        judgement=judgement,
        consumers=replace(state.consumers, totals=totals_again(of_clients, clients, consumers.index, at_consumer)),
        queues=replace(state.queues, totals=totals_again(of_queues, sums, queues.index, at_queue)),
        producers=producers_again(memory, state.producers, snapshot.producers, policy, same=same),
    )


def with_keys_of(memory: Memory, queues: Index[QueueRow]) -> Memory:
    """By the keys that the queues have now, where keys are the agent's own; without those of queues that are gone."""
    if not memory.queue_names:
        return memory
    now = {queue_name(row): key for key, row in zip(queues.keys.tolist(), queues, strict=True)}
    found = [now.get((address, name), -1) for address, name in memory.queue_names]
    of = dict(zip(memory.queue_keys.tolist(), found, strict=True))
    keys, order = renumbered(memory.queue_keys, of)
    totals = memory.queue_totals
    total_keys, total_order = renumbered(totals.keys, of)
    return replace(
        memory,
        queue_keys=keys,
        queues={name: column[order] for name, column in memory.queues.items()},
        queue_totals=replace(totals, keys=total_keys, last=[column[total_order] for column in totals.last]),
        standing={
            name: stood if name in KINDS and KINDS[name].scope is Scope.CLIENT else stood_on(stood, of)
            for name, stood in memory.standing.items()
        },
    )


def renumbered(keys: Keys, of: Mapping[int, int]) -> tuple[Keys, Positions]:
    """New keys, ascending, without what has none (-1); and the position that each had before."""
    new = np.array([of.get(key, -1) for key in keys.tolist()], np.int64)
    order = np.argsort(new, kind="stable")[np.count_nonzero(new < 0) :]
    return new[order], order


def stood_on(kept: Stood, of: Mapping[int, int]) -> Stood:
    keys, order = renumbered(kept.keys, of)
    return Stood(keys, kept.since[order], kept.last[order])


def totals_again(
    kept: KeptTotals, series: Sequence[SeriesT], source: Index[Any], at: Positions | None
) -> Totals[SeriesT]:
    """
    All sums as of series that have no row now: the first poll finds those that have.

    at: position in `kept.last` of each row of `source`, -1 where it is new; None when all are.
    """
    if not kept.sums:
        return Totals()
    last = np.stack([taken(column, at, np.nan) for column in kept.last]) if at is not None and kept.last else None
    sums = zip(*(column.tolist() for column in kept.sums), strict=True)
    parked = dict(zip(series, sums, strict=True))
    return Totals(source, last, sums=np.zeros((len(kept.sums), 0)), parked=parked, room=len(parked))


def producers_again(
    memory: Memory, state: Producers, producers: Table[ProducerRow] | None, policy: Policy, *, same: bool
) -> Producers:
    if producers is None:
        return state
    kept, at = memory.producer_totals, None
    if same:
        before = {name: position for position, name in enumerate(memory.producers)}
        at = np.array([before.get(producer_name(row), -1) for row in producers.index], np.intp)
    series = [ProducerSeries(policy.broker, address, client) for address, client in kept.names]
    return replace(state, totals=totals_again(kept, series, producers.index, at))


def sum_again(address: str, queue: str, policy: Policy) -> QueueSeries:
    """The series of a sum, from any queue that it could be of."""
    kind = QueueKind.TEMPORARY if queue == TEMPORARY else QueueKind.SUBSCRIPTION
    row = QueueRow(queue, address, "", False, False, "", kind, RingSource.NONE, "", "")
    return sum_series(policy, address, queue, row)


def client_series(name: ClientName, policy: Policy) -> ClientSeries:
    return ClientSeries(policy.broker, *name)


def index_of(keys: Keys) -> Index[Any]:
    """An index of things of which only the ids matter."""
    return Index(keys, np.empty(len(keys), np.object_), np.full(len(keys), -1, np.intp), None)


def learned_again(kept: TaughtClients | TaughtQueues, rows: Sequence[Any]) -> Patience:
    """All as of things that are not there now: the first poll finds those that are."""
    weights = np.zeros(len(rows) * BINS, np.float32)
    weights[kept.at] = kept.weights
    by_row = weights.reshape(-1, BINS)
    spells = kept.spells.reshape(-1, SPELLS)
    numbers = zip(by_row.sum(axis=1).tolist(), kept.longest.tolist(), kept.q98.tolist(), strict=True)
    return Patience(
        parked={
            row: Learned(by_row[i], *of_row, spells[i])
            for i, (row, of_row) in enumerate(zip(rows, numbers, strict=True))
        },
        room=len(rows),
    )


def goes_on(memory: Memory, taught_before: Judgement, snapshot: Snapshot, policy: Policy) -> Judgement:
    """The judgement as at the agent's last poll, by the rows of `snapshot`; things that are gone are left out."""
    if snapshot.queues is None or snapshot.consumers is None or not memory.queues or not memory.consumers:
        return taught_before
    queues, consumers = snapshot.queues.index, snapshot.consumers.index
    queue = by_rows(queues, memory.queue_keys, memory.queues)
    consumer = by_rows(consumers, memory.consumer_keys, memory.consumers)
    now = {name: snapshot.consumers[name] for name in COUNTED}
    return replace(
        taught_before,
        seen=Seen(
            queues,
            np.stack([queue[f"seen_{name}"] for name in SEEN]),
            consumers,
            np.stack([consumer[f"seen_{name}"] for name in COUNTED]),
            Times(memory.now, memory.interval, started=memory.started, resumed=True),
        ),
        holds=holds_again(consumers, consumer, now),
        spans=spans_again(queues, queue, snapshot),
        ledger=ledger_again(queues, queue),
        openmq=openmq_again(queues, queue, consumers, consumer),
        churn=Churn(
            {client_series(name, policy): spell for name, spell in memory.spells},
            {client_series(name, policy): left for name, left in memory.left},
            consumers,
            np.isin(consumers.keys, memory.churned),
            first=-np.inf,
        ),
        standing={
            name: standing_again(consumers if KINDS[name].scope is Scope.CLIENT else queues, kept)
            for name, kept in memory.standing.items()
            if name in KINDS
        },
        measures=replace(taught_before.measures, index=queues, oversize_since=queue["oversize_since"]),
        resumed_at=memory.now,
    )


def by_rows(index: Index[Any], keys: Keys, columns: Mapping[str, Column]) -> dict[str, Column]:
    before = index_of(keys)
    return {name: moved(index, before, column, np.nan) for name, column in columns.items()}


def holds_again(index: Index[ConsumerRow], kept: Mapping[str, Column], now: Mapping[str, Column]) -> Holds:
    """Of consumers that have settled nothing in between: how long a gap was that ended unseen is not known."""
    left = now["acknowledged"] - kept["seen_acknowledged"]
    # OpenMQ shows what awaits its commit in `acknowledged` only when it is committed.
    settled = left - np.nan_to_num(now["awaiting_commit"] - kept["seen_awaiting_commit"]) > 0
    fell = (left < 0) | (now["delivered"] < kept["seen_delivered"])
    unknown = settled | fell
    columns = {name: kept[f"hold_{name}"] for name in HOLDS}
    for name in ("settled", "hold_since", "mark"):
        columns[name] = np.where(unknown, np.nan, columns[name])
    return Holds(index=index, gaps=np.full(len(index), np.nan), **columns)


def spans_again(index: Index[QueueRow], kept: Mapping[str, Column], snapshot: Snapshot) -> Spans:
    """Of queues whose wait has not ended in between, for the same reason."""
    assert snapshot.queues is not None  # noqa: S101 - the caller's promise
    columns = {name: kept[f"span_{name}"] for name in SPANS}
    moves = snapshot.queues["acknowledged"] > kept["seen_acknowledged"]
    if "openmq_removed" in kept:
        moves = snapshot.queues["removed"] > kept["openmq_removed"]
    columns["still"] = np.where(moves, np.nan, columns["still"])
    columns["absent"] = np.where(moves | (snapshot.queues["consumers"] > 0), np.nan, columns["absent"])
    return Spans(index=index, had_consumer=kept["had_consumer"] > 0, **columns)


def ledger_again(index: Index[QueueRow], kept: Mapping[str, Column]) -> Ledger:
    columns: dict[str, Any] = {name: kept[f"ledger_{name}"] for name in LEDGER}
    columns |= {name: kept.get(f"ledger_{name}", np.zeros(len(index))) > 0 for name in LEDGER_MASKS}
    raw = (kept["ledger_raw_0"], kept["ledger_raw_1"], kept["ledger_raw_2"])
    return Ledger(index=index, raw=raw, **columns)


def openmq_again(
    queues: Index[QueueRow], queue: Mapping[str, Column], consumers: Index[ConsumerRow], consumer: Mapping[str, Column]
) -> Openmq:
    """Balances and measured windows; nothing where the broker is an Artemis."""
    if "openmq_removed" not in queue or "window_at" not in consumer:
        return Openmq()
    window = {name: consumer[f"window_{name}"] for name in WINDOWS}
    columns: dict[str, Any] = {name: queue[f"openmq_{name}"] for name in OPENMQ_QUEUES}
    columns |= {name: consumer[f"openmq_{name}"] for name in OPENMQ_CONSUMERS}
    for name in OPENMQ_SUMS:
        raw, shown = (np.nan_to_num(queue[f"openmq_{name}_{part}"]) for part in ("raw", "shown"))
        columns[name] = Sum(raw, shown, np.zeros(len(queues)))
    return Openmq(
        consumers=consumers,
        windows=WindowEstimate(
            index=consumers,
            at=window["at"],
            divisor=np.nan_to_num(window["divisor"]).astype(np.int64),
            steps=np.nan_to_num(window["steps"]).astype(np.int64),
            most=np.nan_to_num(window["most"]),
        ),
        queues=queues,
        removing_at=np.full(len(queues), -np.inf),
        **columns,
    )


def standing_again(index: Index[Any], kept: Stood) -> Standing:
    """As after its second poll: it goes on at the first poll at which its rule still holds, and ends after two."""
    at = index.positions(kept.keys)
    here = np.argsort(at)[np.count_nonzero(at < 0) :]
    size = len(here)
    return Standing(
        index=index,
        at=at[here],
        run=np.full(size, POLLS, np.int64),
        on=np.ones(size, np.bool_),
        since=kept.since[here],
        left_since=np.full(size, np.nan),
        left_at=np.full(size, -np.inf),
        last=kept.last[here],
    )
