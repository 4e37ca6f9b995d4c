"""
What of a state outlives the agent: `remember` takes it out, `recall` puts it back at the first poll after a restart.

Pure and free of the agent's own numbering: things are named by their names, or by the broker's ids where its process
is still the same. Times are the broker's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.flow.assess import State
from penstock.flow.events import ConditionName, by_name
from penstock.flow.judge.churn import Churn, Left, Spell
from penstock.flow.judge.conditions import KINDS, Scope, Severity
from penstock.flow.judge.facts import Seen
from penstock.flow.judge.holds import Holds
from penstock.flow.judge.judge import Judgement
from penstock.flow.judge.ledger import Ledger
from penstock.flow.judge.patience import BINS, SPELLS, Learned, Patience
from penstock.flow.judge.poll import Spans
from penstock.flow.judge.spans import moved
from penstock.flow.judge.standing import POLLS, Standing
from penstock.flow.policy import Policy
from penstock.flow.series import ClientSeries
from penstock.flow.totals import Totals
from penstock.model import Broker, ConsumerRow, QueueRow, Role, Snapshot
from penstock.table import Column, Index, Keys

SAME_START = 2.0
"""Seconds within which two starts of a broker are the same one."""

ClientName = tuple[str, str, str]
"""Address, queue, client."""

SEEN = ("added", "acknowledged", "expired", "killed", "scheduled", "messages")
COUNTED = ("delivered", "acknowledged", "awaiting_commit", "buffered")
SPANS = ("still", "ready", "absent", "unsettled", "blocked", "frozen")
HOLDS = ("settled", "hold_since", "idle_since", "seen_since", "mark")
LEDGER = ("usable_at", "evicted", "by_consumers", "grew", "lost_now", "balance", "routed", "d_added", "d_due",
          "delivering", "delivering_before")  # fmt: skip
LEDGER_MASKS = ("usable", "returning")


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
    counted: Sequence[ClientName] = ()
    totals: Mapping[str, Column] = field(default_factory=dict)
    """By `counted`."""
    last_keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    last: Mapping[str, Column] = field(default_factory=dict)
    """What each consumer said at last, of what the totals count."""
    queue_keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
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
    seen, churn, totals = judgement.seen, judgement.churn, state.consumers.totals
    counted, sums = sums_of(totals)
    return Memory(
        node_id=identity(broker, policy.broker),
        start=start_of(broker, snapshot.stamp),
        now=seen.now,
        interval=seen.interval,
        started=seen.started,
        clients=TaughtClients(*taught(judgement.patience, client_name)),
        dispatch=TaughtQueues(*taught(judgement.dispatch, lambda row: row)),
        absence=TaughtQueues(*taught(judgement.absence, lambda row: row)),
        counted=counted,
        totals=sums,
        last_keys=totals.source.keys,
        last={} if totals.last is None else {"delivered": totals.last[0], "acknowledged": totals.last[1]},
        queue_keys=seen.queues.keys,
        queues=queue_columns(judgement),
        consumer_keys=seen.consumers.keys,
        consumers=consumer_columns(judgement),
        standing={name: stood(stand) for name, stand in judgement.standing.items() if stand.on.any()},
        spells=[(client_name(client), spell) for client, spell in churn.spells.items()],
        left=[(client_name(client), left) for client, left in churn.left.items()],
        churned=churn.counted,
        told=[(name, *told) for name, told in by_name(judgement.conditions).items()],
    )


def client_name(series: ClientSeries) -> ClientName:
    return series.address, series.queue, series.client


def taught(patience: Patience, name: Any) -> tuple[list[Any], Keys, Column, Column, Column, Column]:
    """The rows that have learned something, those of things that are not there now included; as `TaughtClients`."""
    rows = np.flatnonzero((patience.weight > 0) | ~np.isnan(patience.spells).all(axis=1))
    parked = list(patience.parked.values())
    weights = np.concatenate([patience.weights[rows], *(one.weights[None] for one in parked)])
    at = np.flatnonzero(weights)
    return (
        [name(row) for row in (*patience.index.rows[rows], *patience.parked)],
        at.astype(np.int64),
        weights.ravel()[at].astype(np.float64),
        np.append(patience.longest[rows], [one.longest for one in parked]),
        np.append(patience.q98[rows], [one.q98 for one in parked]),
        np.append(patience.spells[rows].ravel(), [one.spells for one in parked]),
    )


def sums_of(totals: Totals[ClientSeries]) -> tuple[list[ClientName], dict[str, Column]]:
    if totals.sums is None:
        return [], {}
    parked = np.array([*totals.parked.values()], np.float64).reshape(-1, len(totals.sums)).T
    sums = np.concatenate([totals.sums, parked], axis=1)
    names = [client_name(series) for series in (*totals.index.rows, *totals.parked)]
    return names, {"delivered": sums[0], "acknowledged": sums[1]}


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
    return columns


def consumer_columns(judgement: Judgement) -> dict[str, Column]:
    """By `seen.consumers`."""
    seen, holds = judgement.seen, judgement.holds
    if holds.index is not seen.consumers:
        return {}
    columns = {f"seen_{name}": seen.consumer_numbers[i] for i, name in enumerate(COUNTED)}
    return columns | {f"hold_{name}": getattr(holds, name) for name in HOLDS}


def stood(stand: Standing) -> Stood:
    return Stood(stand.index.keys[stand.on], stand.since[stand.on], stand.last[stand.on])


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
    here = {(row.address, row.name): row for row in queues.index}
    judgement = Judgement(
        patience=learned_again(memory.clients, [client_series(name, policy) for name in memory.clients.names]),
        dispatch=learned_again(memory.dispatch, [here.get((r.address, r.name), r) for r in memory.dispatch.names]),
        absence=learned_again(memory.absence, [here.get((r.address, r.name), r) for r in memory.absence.names]),
    )
    last = None
    if same:
        judgement = goes_on(memory, judgement, snapshot, policy)
        if memory.last:
            before = index_of(memory.last_keys)
            last = np.stack([moved(consumers.index, before, column, np.nan) for column in memory.last.values()])
    source: Index[Any] = consumers.index
    totals: Totals[ClientSeries] = Totals(
        source=source,
        last=last,
        sums=np.zeros((2, 0)),
        parked=dict(
            zip(
                (client_series(name, policy) for name in memory.counted),
                zip(*(column.tolist() for column in memory.totals.values()), strict=True),
                strict=True,
            )
        ),
    )
    return replace(state, judgement=judgement, consumers=replace(state.consumers, totals=totals))


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
    return Patience(
        parked={
            row: Learned(by_row[i], float(kept.longest[i]), float(kept.q98[i]), spells[i]) for i, row in enumerate(rows)
        }
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
            memory.now,
            memory.interval,
            started=memory.started,
            resumed=True,
        ),
        holds=holds_again(consumers, consumer, now),
        spans=spans_again(queues, queue, snapshot),
        ledger=ledger_again(queues, queue),
        churn=Churn(
            {client_series(name, policy): spell for name, spell in memory.spells},
            {client_series(name, policy): left for name, left in memory.left},
            memory.churned,
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
    settled = left - (now["awaiting_commit"] - kept["seen_awaiting_commit"]) > 0
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
    columns["still"] = np.where(moves, np.nan, columns["still"])
    columns["absent"] = np.where(moves | (snapshot.queues["consumers"] > 0), np.nan, columns["absent"])
    return Spans(index=index, had_consumer=kept["had_consumer"] > 0, **columns)


def ledger_again(index: Index[QueueRow], kept: Mapping[str, Column]) -> Ledger:
    columns: dict[str, Any] = {name: kept[f"ledger_{name}"] for name in LEDGER}
    columns |= {name: kept[f"ledger_{name}"] > 0 for name in LEDGER_MASKS}
    raw = (kept["ledger_raw_0"], kept["ledger_raw_1"], kept["ledger_raw_2"])
    return Ledger(index=index, raw=raw, **columns)


def standing_again(index: Index[Any], kept: Stood) -> Standing:
    """As after its second poll: it goes on at the first poll at which its rule still holds, and ends after two."""
    before = index_of(kept.keys)
    on = moved(index, before, np.ones(len(kept.keys), np.bool_), False)
    size = len(index)
    return Standing(
        index=index,
        run=np.where(on, POLLS, 0).astype(np.int64),
        on=on,
        since=moved(index, before, kept.since, np.nan),
        left_since=np.full(size, np.nan),
        left_at=np.full(size, -np.inf),
        last=moved(index, before, kept.last, -np.inf),
    )
