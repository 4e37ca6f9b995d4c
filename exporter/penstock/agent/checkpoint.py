"""A checkpoint keeps the part of a state that outlives the agent.

`checkpoint_of` takes it out, `restore` puts it back at the next first poll.

Things are named by their names, or by the broker's ids where its process is still the same. Times are the broker's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.account.account import MessageAccount
from penstock.account.bare_addresses import BareAddresses, Kept
from penstock.account.in_doubt import InDoubt
from penstock.account.ring_losses import Loss
from penstock.assessment.assess import State
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Scope, Severity
from penstock.core.state import By, row_states, with_restored
from penstock.core.table import (
    Column,
    Index,
    Keys,
    Positions,
    Table,
    positions,
    take_or_fill,
)
from penstock.incidents.incident import Incident
from penstock.incidents.incidents import Incidents
from penstock.insight.events import ConditionKey, by_name
from penstock.learned.churn import Churn, CrashLoop, CrashLoops, Departure, Streak
from penstock.learned.normal import ABSENCES, FLOWS, Normal
from penstock.learned.timeout import BINS, LONG_GAPS, Learned, LearnedTimeout
from penstock.learned.warm_up import SeenBefore, SeenPolls, WarmUp
from penstock.model import (
    Broker,
    ConsumerRow,
    Process,
    ProducerRow,
    QueueKind,
    QueueRow,
    RingSource,
    Role,
    Snapshot,
)
from penstock.observation.facts import CONSUMER_NUMBERS, QUEUE_NUMBERS, Times, time_of
from penstock.observation.unacked import QueueTimers, Unacked
from penstock.rule_engine.engine import Debounce, rows_of
from penstock.rule_engine.judgement import Judgement
from penstock.rule_engine.shown_since import ShownSince
from penstock.series.connections import Producers
from penstock.series.labels import TEMPORARY, ClientSeries, ProducerSeries, QueueSeries
from penstock.series.queues import Reloaded, sum_series
from penstock.series.totals import SeriesT, Totals
from penstock.settings.constants import POLLS
from penstock.settings.policy import Policy

ACKNOWLEDGED, SCHEDULED, MESSAGES = map(
    QUEUE_NUMBERS.index, ("acknowledged", "scheduled", "messages")
)

NameT = TypeVar("NameT")
ValueT = TypeVar("ValueT")
ClientName = tuple[str, str, str]
"""Address, queue, client."""
SavedUnrouted = tuple[str, Kept]
"""The name of an address, and what reached none of its queues."""
SavedLoss = tuple[int, str, Loss]
"""The key of a ring, and what it lost by a client."""
MOST_MEMBERS = 200
"""Conditions of an incident by which it is known again after a restart."""


@dataclass(frozen=True, slots=True)
class SavedTimeouts(Generic[NameT]):
    """Learned timeouts by row.

    `weights[i]` belongs to bin `at[i] % BINS` of row `at[i] // BINS`. `spells` has LONG_GAPS numbers a row.
    """

    names: Sequence[NameT] = ()
    at: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Column = field(default_factory=lambda: np.empty(0))
    longest: Column = field(default_factory=lambda: np.empty(0))
    q98: Column = field(default_factory=lambda: np.empty(0))
    spells: Column = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class SavedTables:
    """A `ByteTables`."""

    names: Sequence[tuple[str, str]] = ()
    hours: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    days: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True)
class SavedDebounce:
    """Where a condition is active: the broker's ids, its begin, of an event when it last happened."""

    keys: Keys
    since: Column
    last: Column


@dataclass(frozen=True, slots=True)
class KeptTotals:
    """A `Totals`: by counter, the sums of `names`, and the last value of each thing."""

    names: Sequence[tuple[str, ...]] = ()
    sums: Sequence[Column] = ()
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    """Of the things, by which `last` is ordered."""
    last: Sequence[Column] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that is kept of one broker. `queues` and `consumers` are columns by the broker's ids."""

    node_id: str
    """With the name, as `identity` says; in older files alone."""
    now: float
    """When it was seen last; of what the journal adds, see `recorded`."""
    broker: str = ""
    """Its name in the configuration; empty in older files."""
    role: Role = Role.ACTIVE
    process: Process = field(default_factory=Process)
    """Whose counters and ids these are."""
    start: float = np.nan
    """Of the broker, by its own clock: in older files, in place of its process."""
    interval: float = np.nan
    started: float = np.nan
    clients: SavedTimeouts[ClientName] = SavedTimeouts()
    dispatch: SavedTimeouts[QueueRow] = SavedTimeouts()
    flows: SavedTables = SavedTables()
    absences: SavedTables = SavedTables()
    hour: int = -1
    """The last one that these know."""
    consumer_totals: KeptTotals = KeptTotals()
    queue_totals: KeptTotals = KeptTotals()
    """Of the series that sum several queues."""
    producer_totals: KeptTotals = KeptTotals()
    producers: Sequence[tuple[str, str]] = ()
    """Session and id of each in `producer_totals.last`: their keys are the agent's own."""
    queue_keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    queue_names: Sequence[tuple[str, str]] = ()
    """Address and name of each where its key is not the broker's own but the agent's (OpenMQ); else empty."""
    queues: Mapping[str, Column] = field(default_factory=dict)
    consumer_keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    consumers: Mapping[str, Column] = field(default_factory=dict)
    standing: Mapping[str, SavedDebounce] = field(default_factory=dict)
    spells: Sequence[tuple[ClientName, Streak]] = ()
    left: Sequence[tuple[ClientName, Departure]] = ()
    crashes: Sequence[tuple[ClientName, CrashLoop]] = ()
    """Of a broker whose queues keep their keys."""
    churned: Keys = field(default_factory=lambda: np.empty(0, np.int64))
    told: Sequence[tuple[ConditionKey, Severity, float]] = ()
    """The active conditions, how severe and since when by the agent's clock."""
    recorded: float = np.nan
    """When it was seen last by the journal, which has totals and conditions of later than `now`."""
    read: Sequence[tuple[str, str]] = ()
    """Queues that had a consumer, also such that are gone."""
    prepared: Sequence[tuple[str, float]] = ()
    """When each prepared transaction was seen first, by its Xid."""
    unrouted: Sequence[SavedUnrouted] = ()
    """By the name of an address: what reached none of its queues."""
    judged: Sequence[float] = ()
    """Polls of the last minutes that were judged, by the broker's clock."""
    young: Sequence[tuple[tuple[str, ...], int]] = ()
    """By the names of queues and clients that were seen at a few polls only: at how many."""
    cut: Sequence[str] = ()
    """Tables of which budgets left rows out at the last poll."""
    ring_losers: Sequence[SavedLoss] = ()
    incidents: Sequence[Incident] = ()
    snapshot: Snapshot | None = None
    """The last poll, to be shown while the broker does not answer."""
    failing_since: float = np.nan
    """As the poller's; NaN: it answered."""

    @property
    def node(self) -> str:
        return self.node_id.removesuffix(f" {self.broker}")

    @property
    def was_active(self) -> bool:
        """Whether more is known than that it is passive."""
        return self.role is Role.ACTIVE or not np.isnan(self.interval)


def node_of(broker: Broker, name: str) -> str:
    """Its node id, which both brokers of a failover pair have; else its name."""
    return broker.node_id or f"name:{name}"


def identity(broker: Broker, name: str) -> str:
    """Return the key of a broker's checkpoint.

    A node id may belong to several brokers, and a name to one broker after the other.
    """
    return f"{broker.node_id} {name}" if broker.node_id else f"name:{name}"


def same_process(checkpoint: Checkpoint, now: Process) -> bool:
    """Whether what the broker counted and numbered goes on."""
    if checkpoint.role is not Role.ACTIVE:
        return False
    if not checkpoint.process.seen:
        return now.same_start(Process(clock=checkpoint.start, uptime=0.0))
    return now.follows(checkpoint.process)


# --- save


def checkpoint_of(
    state: State, snapshot: Snapshot, policy: Policy
) -> Checkpoint | None:
    """Return what is kept of `state`, which `snapshot` led to; None while there is nothing."""
    broker = snapshot.broker
    judgement = state.judgement
    if broker is None:
        return None
    seen = judgement.seen
    churn = judgement.churn
    producers = state.producers.totals
    queues = seen.queues.index
    consumers = seen.consumers.index
    lasting_keys = broker.kind.lasting_queue_keys
    queue_columns = columns_by(By.QUEUE, queues, judgement)
    reloaded = state.queues.reloaded
    if len(reloaded.index) and len(queues):
        queue_columns |= reloaded.reindexed(queues).saved()
    crash_loops = [
        (client_name(client), loop) for client, loop in churn.crash_loops.kept()
    ]
    return Checkpoint(
        node_id=identity(broker, policy.broker),
        now=time_of(snapshot) if np.isnan(seen.times.now) else seen.times.now,
        broker=policy.broker,
        role=broker.role,
        process=snapshot.observation.process,
        interval=seen.times.interval,
        started=seen.times.started,
        clients=saved_timeouts(judgement.patience, client_name),
        dispatch=saved_timeouts(judgement.dispatch, lambda row: row),
        flows=SavedTables(*judgement.normal.flows.stored()),
        absences=SavedTables(*judgement.normal.absences.stored()),
        hour=judgement.normal.told,
        consumer_totals=kept_totals(state.consumers.totals, client_name),
        queue_totals=kept_totals(state.queues.totals, sum_name),
        producer_totals=kept_totals(producers, series_of_producer),
        producers=[producer_name(row) for row in producers.source.rows],
        queue_keys=queues.keys,
        queue_names=() if lasting_keys else [queue_name(row) for row in queues],
        queues=queue_columns,
        consumer_keys=consumers.keys,
        consumers=columns_by(By.CONSUMER, consumers, judgement),
        standing=saved_debounces(judgement),
        spells=[
            (client_name(client), streak) for client, streak in churn.streaks.items()
        ],
        left=[(client_name(client), left) for client, left in churn.left.items()],
        crashes=crash_loops if lasting_keys else (),
        churned=churn.index.keys[churn.counted],
        told=[
            (name, severity, since)
            for name, (severity, since) in by_name(judgement.conditions).items()
        ],
        read=judgement.timers.were_read(np.ones(len(judgement.timers.index), np.bool_)),
        prepared=list(judgement.account.in_doubt.since.items()),
        unrouted=unrouted(judgement),
        judged=judgement.warm_up.stamps,
        young=young(judgement.warm_up),
        cut=cut_of(snapshot),
        ring_losers=ring_losers(judgement),
        incidents=[
            replace(incident, members=incident.members[:MOST_MEMBERS])
            for incident in judgement.incidents.told
        ],
    )


def young(warm_up: WarmUp) -> list[tuple[tuple[str, ...], int]]:
    """At how many polls each young queue and client was seen, by its name."""
    polls_by_name = warm_up.queues.polls_by_name() | warm_up.clients.polls_by_name()
    return list(polls_by_name.items())


def unrouted(judgement: Judgement) -> list[SavedUnrouted]:
    """Return the messages that reached no queue, for each address that has any."""
    return list(judgement.account.bare.totals.items())


def ring_losers(judgement: Judgement) -> list[SavedLoss]:
    """Return the messages that each ring lost by each of its clients."""
    losers: list[SavedLoss] = []
    for ring, losses in judgement.account.ring_losses.by_client.items():
        losers += [(ring, client, loss) for client, loss in losses.items()]
    return losers


def cut_of(snapshot: Snapshot) -> tuple[str, ...]:
    """The tables of which a budget left rows out."""
    return tuple(left_out.what for left_out in snapshot.observation.left_out)


client_name: Callable[[ClientSeries], ClientName] = attrgetter(
    "address", "queue", "client"
)
queue_name: Callable[[QueueRow], tuple[str, str]] = attrgetter("address", "name")
producer_name: Callable[[ProducerRow], tuple[str, str]] = attrgetter("session", "id")
series_of_producer: Callable[[ProducerSeries], tuple[str, str]] = attrgetter(
    "address", "client"
)


def sum_name(series: QueueSeries) -> tuple[str, str] | None:
    """Address and name of a series that sums several queues; None for a single queue."""
    return (series.address, series.queue) if series.summed else None


def saved_timeouts(
    timeout: LearnedTimeout, name: Callable[[Any], NameT]
) -> SavedTimeouts[NameT]:
    """The rows that have learned something, also those of things that are away now."""
    has_learned = (timeout.weight > 0) | ~np.isnan(timeout.long_gaps).all(axis=0)
    rows = np.flatnonzero(has_learned)
    dormant = list(timeout.dormant.values())
    dormant_weights = [learned.weights[None] for learned in dormant]
    weights = np.concatenate([timeout.histograms(rows), *dormant_weights])
    filled_bins = np.flatnonzero(weights)
    long_gaps = timeout.long_gaps[:, rows].T.ravel()
    return SavedTimeouts(
        names=[name(row) for row in (*timeout.index.rows[rows], *timeout.dormant)],
        at=filled_bins.astype(np.int64),
        weights=weights.ravel()[filled_bins].astype(np.float64),
        longest=np.append(
            timeout.longest[rows], [learned.longest for learned in dormant]
        ),
        q98=np.append(timeout.q98[rows], [learned.q98 for learned in dormant]),
        spells=np.append(long_gaps, [learned.long_gaps for learned in dormant]),
    )


def kept_totals(
    totals: Totals[SeriesT], name: Callable[[SeriesT], tuple[str, ...] | None]
) -> KeptTotals:
    """The totals of all series that have a name."""
    if totals.sums is None:
        return KeptTotals()
    dormant = np.array([*totals.dormant.values()], np.float64)
    dormant_sums = dormant.reshape(-1, len(totals.sums)).T
    sums = np.concatenate([totals.sums, dormant_sums], axis=1)
    names = [name(series) for series in (*totals.index.rows, *totals.dormant)]
    has_name = np.array([series_name is not None for series_name in names], np.bool_)
    return KeptTotals(
        [series_name for series_name in names if series_name is not None],
        list(sums[:, has_name]),
        totals.source.keys,
        () if totals.last is None else list(totals.last),
    )


def columns_by(by: By, index: Index[object], judgement: Judgement) -> dict[str, Column]:
    """All that outlives the agent, by the rows of `index`; nothing before the first judgement."""
    if judgement.timers.index is not judgement.seen.queues.index:
        return {}
    columns: dict[str, Column] = {}
    for state in row_states(judgement):
        # What only another kind of broker needs has no rows of this one.
        if state.BY is by and state.index is index:
            columns |= state.saved()
    return columns


def saved_debounce(debounce: Debounce) -> SavedDebounce:
    """The rows for which the condition is active."""
    rows, since = debounce.active()
    return SavedDebounce(debounce.index.keys[rows], since, debounce.last[debounce.on])


def saved_debounces(judgement: Judgement) -> dict[str, SavedDebounce]:
    """Return the conditions that are active anywhere, by name."""
    return {
        name: saved_debounce(debounce)
        for name, debounce in judgement.debounced.items()
        if debounce.on.any()
    }


# --- restore


def restore(
    checkpoint: Checkpoint, state: State, snapshot: Snapshot, policy: Policy
) -> State:
    """Return `state`, which has judged nothing yet, with what is remembered.

    What clients and queues taught, and totals, always; all else only where the broker's process is still the same.

    Args:
        checkpoint: What was saved of the broker.
        state: A state that has judged nothing yet.
        snapshot: The first poll; of an active broker, with queues and consumers.
        policy: What is configured for the broker.
    """
    if snapshot.queues is None or snapshot.consumers is None or snapshot.broker is None:
        return state
    queues = snapshot.queues.index
    consumers = snapshot.consumers.index
    same_start = same_process(checkpoint, snapshot.observation.process)
    checkpoint = with_keys_of(checkpoint, queues)
    judgement = restored_judgement(checkpoint, queues, policy, same=same_start)
    if same_start:
        judgement = continued(checkpoint, judgement, snapshot, policy)
    client_totals = restored_totals(
        checkpoint.consumer_totals,
        [ClientSeries(policy.broker, *name) for name in client_names_of(checkpoint)],
        consumers,
        rows_in(checkpoint.consumer_totals, consumers) if same_start else None,
    )
    queue_totals = restored_totals(
        checkpoint.queue_totals,
        [
            restored_sum(address, queue, policy)
            for address, queue in checkpoint.queue_totals.names
        ],
        queues,
        rows_in(checkpoint.queue_totals, queues) if same_start else None,
    )
    reloaded = restored_reloaded(checkpoint, queues, policy)
    return replace(
        state,
        judgement=judgement,
        consumers=replace(state.consumers, totals=client_totals),
        queues=replace(state.queues, totals=queue_totals, reloaded=reloaded),
        producers=restored_producers(
            checkpoint, state.producers, snapshot.producers, policy, same=same_start
        ),
    )


def client_names_of(checkpoint: Checkpoint) -> list[ClientName]:
    """The names of the series of clients that have totals."""
    return [
        (address, queue, client)
        for address, queue, client in checkpoint.consumer_totals.names
    ]


def rows_in(kept: KeptTotals, index: Index[object]) -> Positions:
    """Position in `kept.last` of each row of `index`, -1 where it is new."""
    return positions(kept.keys, index.keys)


def restored_judgement(
    checkpoint: Checkpoint, queues: Index[QueueRow], policy: Policy, *, same: bool
) -> Judgement:
    """A judgement that knows only what holds for any process of the broker.

    Args:
        same: Whether the process is the same, so that its counters go on.
    """
    queue_rows = {queue_name(row): row for row in queues}
    unrouted_by_address = {
        address: kept if same else kept._replace(counter=0.0)
        for address, kept in checkpoint.unrouted
    }
    return Judgement(
        timers=QueueTimers(read=dict.fromkeys(checkpoint.read)),
        patience=restored_timeouts(
            checkpoint.clients, lambda name: ClientSeries(policy.broker, *name)
        ),
        dispatch=restored_timeouts(
            checkpoint.dispatch, lambda row: queue_rows.get(queue_name(row), row)
        ),
        normal=restored_normal(checkpoint),
        account=MessageAccount(
            in_doubt=InDoubt(since=dict(checkpoint.prepared)),
            bare=BareAddresses(kept=unrouted_by_address),
        ),
    )


def with_late(checkpoint: Checkpoint, snapshot: Snapshot) -> Snapshot:
    """The first poll after `restore`: rows of which nothing is kept may have been out of view before."""
    if not same_process(checkpoint, snapshot.observation.process):
        return snapshot
    late = dict(snapshot.observation.late)
    for name in checkpoint.cut:
        table = getattr(snapshot, name, None)
        if table is not None:
            late[name] = table.index.keys
    return replace(snapshot, observation=replace(snapshot.observation, late=late))


def with_keys_of(checkpoint: Checkpoint, queues: Index[QueueRow]) -> Checkpoint:
    """Return the checkpoint by the keys that the queues have now, where keys are the agent's own.

    Queues that are gone are left out.
    """
    if not checkpoint.queue_names:
        return checkpoint
    rows = zip(queues.keys.tolist(), queues, strict=True)
    key_by_name = {queue_name(row): key for key, row in rows}
    new_keys = [
        key_by_name.get((address, name), -1) for address, name in checkpoint.queue_names
    ]
    new_by_old = dict(zip(checkpoint.queue_keys.tolist(), new_keys, strict=True))
    keys, order = renumbered(checkpoint.queue_keys, new_by_old)
    return replace(
        checkpoint,
        queue_keys=keys,
        queues={name: column[order] for name, column in checkpoint.queues.items()},
        queue_totals=renumbered_totals(checkpoint.queue_totals, new_by_old),
        standing=renumbered_standing(checkpoint.standing, new_by_old),
    )


def renumbered_totals(totals: KeptTotals, new_by_old: Mapping[int, int]) -> KeptTotals:
    """`totals` by the new keys of the queues."""
    keys, order = renumbered(totals.keys, new_by_old)
    return replace(totals, keys=keys, last=[column[order] for column in totals.last])


def renumbered_standing(
    standing: Mapping[str, SavedDebounce], new_by_old: Mapping[int, int]
) -> dict[str, SavedDebounce]:
    """The active conditions; those of queues by their new keys."""
    renumbered_conditions = dict(standing)
    for name, kept in standing.items():
        if name in CONDITIONS and CONDITIONS[name].scope is not Scope.QUEUE:
            continue
        keys, order = renumbered(kept.keys, new_by_old)
        renumbered_conditions[name] = SavedDebounce(
            keys, kept.since[order], kept.last[order]
        )
    return renumbered_conditions


def renumbered(keys: Keys, new_by_old: Mapping[int, int]) -> tuple[Keys, Positions]:
    """New keys, ascending, without what has none (-1); and the position that each had before."""
    new = np.array([new_by_old.get(key, -1) for key in keys.tolist()], np.int64)
    gone = np.count_nonzero(new < 0)
    order = np.argsort(new, kind="stable")[gone:]
    return new[order], order


def restored_totals(
    kept: KeptTotals,
    series: Sequence[SeriesT],
    source: Index[object],
    rows: Positions | None,
) -> Totals[SeriesT]:
    """All sums as of series that have no row now: the first poll finds those that have.

    Args:
        kept: The totals as they were saved.
        series: The series of each of `kept.names`.
        source: The things that are summed.
        rows: (source,) Position in `kept.last`, -1 where a thing is new; None when all are.
    """
    if not kept.sums:
        return Totals()
    last = None
    if rows is not None and kept.last:
        last = take_or_fill(np.stack(kept.last), rows, np.nan)
    sums_by_series = zip(*(column.tolist() for column in kept.sums), strict=True)
    dormant = dict(zip(series, sums_by_series, strict=True))
    return Totals(
        source,
        last,
        sums=np.zeros((len(kept.sums), 0)),
        dormant=dormant,
        capacity=len(dormant),
    )


def restored_reloaded(
    checkpoint: Checkpoint, queues: Index[object], policy: Policy
) -> Reloaded:
    """Restore the reloaded messages, also of another process.

    The depths of the queues show which of their messages were reloaded.
    """
    columns = by_rows(queues, checkpoint.queue_keys, checkpoint.queues)
    nothing = np.full(len(queues), np.nan)
    own = checkpoint.role is Role.ACTIVE and checkpoint.broker in ("", policy.broker)
    restored = Reloaded().restored(
        queues, {"reloaded_messages": columns.get("reloaded_messages", nothing)}
    )
    depth = columns.get("seen_messages", nothing)
    return replace(restored, depth=depth, process=checkpoint.process if own else None)


def restored_producers(
    checkpoint: Checkpoint,
    state: Producers,
    producers: Table[ProducerRow] | None,
    policy: Policy,
    *,
    same: bool,
) -> Producers:
    """The totals of producers, which go on where the broker's process is the `same`."""
    if producers is None:
        return state
    kept = checkpoint.producer_totals
    rows = None
    if same:
        before = {name: position for position, name in enumerate(checkpoint.producers)}
        names = [producer_name(row) for row in producers.index]
        rows = np.array([before.get(name, -1) for name in names], np.intp)
    series = [
        ProducerSeries(policy.broker, address, client) for address, client in kept.names
    ]
    return replace(state, totals=restored_totals(kept, series, producers.index, rows))


def restored_sum(address: str, queue: str, policy: Policy) -> QueueSeries:
    """The series of a sum, from any queue that it could be of."""
    kind = QueueKind.TEMPORARY if queue == TEMPORARY else QueueKind.SUBSCRIPTION
    row = QueueRow(queue, address, "", False, False, "", kind, RingSource.NONE, "", "")
    return sum_series(policy, address, queue, row)


def restored_timeouts(
    kept: SavedTimeouts[NameT], row: Callable[[NameT], object]
) -> LearnedTimeout:
    """All as of things that are away now: the first poll finds those that are there.

    Args:
        kept: The timeouts as they were saved.
        row: Gives the thing that has a name.
    """
    weights = np.zeros((len(kept.names), BINS), np.float32)
    weights.ravel()[kept.at] = kept.weights
    rows = zip(
        weights,
        weights.sum(axis=1).tolist(),
        kept.longest.tolist(),
        kept.q98.tolist(),
        kept.spells.reshape(-1, LONG_GAPS),
        strict=True,
    )
    learned = [Learned(*numbers) for numbers in rows]
    return LearnedTimeout(
        dormant=dict(zip(map(row, kept.names), learned, strict=True)),
        capacity=len(learned),
    )


def restored_normal(checkpoint: Checkpoint) -> Normal:
    """Restore what is normal at each hour of the week."""
    flows = checkpoint.flows
    absences = checkpoint.absences
    if not flows.names:
        return Normal()
    return Normal(
        flows=FLOWS.restored(flows.names, flows.hours, flows.days),
        absences=ABSENCES.restored(absences.names, absences.hours, absences.days),
        told=checkpoint.hour,
    )


def continued(
    checkpoint: Checkpoint, learned_only: Judgement, snapshot: Snapshot, policy: Policy
) -> Judgement:
    """The judgement as at the agent's last poll, by the rows of `snapshot`; things that are gone are left out."""
    if snapshot.queues is None or snapshot.consumers is None:
        return learned_only
    if not checkpoint.queues or not checkpoint.consumers:
        return learned_only
    queues = snapshot.queues.index
    consumers = snapshot.consumers.index
    queue_columns = by_rows(queues, checkpoint.queue_keys, checkpoint.queues)
    consumer_columns = by_rows(
        consumers, checkpoint.consumer_keys, checkpoint.consumers
    )
    judgement: Judgement = with_restored(
        learned_only,
        {
            By.QUEUE: (queues, queue_columns),
            By.CONSUMER: (consumers, consumer_columns),
        },
    )
    times = Times(
        checkpoint.now,
        checkpoint.interval,
        snapshot.observation.process,
        checkpoint.started,
        resumed=True,
    )
    losses = replace(
        judgement.account.ring_losses, by_client=losses_by_ring(checkpoint.ring_losers)
    )
    return replace(
        judgement,
        warm_up=restored_warm_up(checkpoint),
        account=replace(judgement.account, ring_losses=losses),
        seen=replace(judgement.seen, times=times),
        unacked=without_unseen_ends(judgement, snapshot.consumers),
        timers=without_unseen_moves(judgement, snapshot.queues),
        churn=restored_churn(checkpoint, consumers, policy),
        debounced={
            name: restored_debounce(
                rows_of(CONDITIONS[name].scope, queues, consumers), kept
            )
            for name, kept in checkpoint.standing.items()
            if name in CONDITIONS
        },
        shown_since=ShownSince(
            restored={name: since for name, _, since in checkpoint.told}
        ),
        incidents=Incidents(tuple(checkpoint.incidents)),
        resumed_at=float(np.fmax(checkpoint.now, checkpoint.recorded)),
    )


def losses_by_ring(losers: Sequence[SavedLoss]) -> dict[int, dict[str, Loss]]:
    """Return the loss that each client caused, by the ring's key and the client's name."""
    by_client: dict[int, dict[str, Loss]] = {}
    for ring, client, loss in losers:
        by_client.setdefault(ring, {})[client] = loss
    return by_client


def restored_churn(
    checkpoint: Checkpoint, consumers: Index[ConsumerRow], policy: Policy
) -> Churn:
    """The reconnects of clients and their crash loops."""

    def by_series(
        kept: Sequence[tuple[ClientName, ValueT]],
    ) -> dict[ClientSeries, ValueT]:
        return {ClientSeries(policy.broker, *name): value for name, value in kept}

    return Churn(
        consumers,
        np.isin(consumers.keys, checkpoint.churned),
        by_series(checkpoint.spells),
        by_series(checkpoint.left),
        first=-np.inf,
        crash_loops=CrashLoops(loops=by_series(checkpoint.crashes)),
    )


def restored_warm_up(checkpoint: Checkpoint) -> WarmUp:
    """Queues and clients that were seen before are not new."""
    polls = {tuple(name): number for name, number in checkpoint.young}
    return WarmUp(
        tuple(checkpoint.judged),
        queues=SeenPolls(before=SeenBefore(checkpoint.queue_keys, polls)),
        clients=SeenPolls(before=SeenBefore(checkpoint.consumer_keys, polls)),
    )


def by_rows(
    index: Index[object], keys: Keys, columns: Mapping[str, Column]
) -> dict[str, Column]:
    """`columns`, which are by `keys`, by the rows of `index`; NaN where a row is new."""
    origin = positions(keys, index.keys)
    return {
        name: take_or_fill(column, origin, np.nan) for name, column in columns.items()
    }


def without_unseen_ends(judgement: Judgement, consumers: Table[ConsumerRow]) -> Unacked:
    """Only of consumers that have settled nothing in between: how long a gap was that ended unseen is not known."""
    unacked = judgement.unacked.reindexed(consumers.index)
    seen = judgement.seen.consumers.reindexed(consumers.index)
    rose = {
        name: consumers[name] - before
        for name, before in zip(CONSUMER_NUMBERS, seen.numbers, strict=True)
    }
    # OpenMQ shows what awaits its commit in `acknowledged` only when it is committed.
    settled = rose["acknowledged"] - np.nan_to_num(rose["awaiting_commit"]) > 0
    unknown = settled | (rose["acknowledged"] < 0) | (rose["delivered"] < 0)
    return replace(
        unacked,
        settled=np.where(unknown, np.nan, unacked.settled),
        hold_since=np.where(unknown, np.nan, unacked.hold_since),
        unacked_since=np.where(unknown, np.nan, unacked.unacked_since),
    )


def without_unseen_moves(judgement: Judgement, queues: Table[QueueRow]) -> QueueTimers:
    """Only of queues whose wait has not ended in between, for the same reason."""
    timers = judgement.timers.reindexed(queues.index)
    openmq = judgement.openmq.queues
    before = judgement.seen.queues.reindexed(queues.index).numbers
    if openmq.index is queues.index:
        left = queues["removed"] - openmq.removed
    else:
        left = queues["acknowledged"] - before[ACKNOWLEDGED]
    moves = left > 0
    ends_absence = moves | (queues["consumers"] > 0)
    # Older files do not have it.
    lacks_present = np.isnan(timers.present) & (before[MESSAGES] > before[SCHEDULED])
    return replace(
        timers,
        still=np.where(moves, np.nan, timers.still),
        absent=np.where(ends_absence, np.nan, timers.absent),
        present=np.where(lacks_present, timers.unsettled, timers.present),
    )


def restored_debounce(index: Index[object], kept: SavedDebounce) -> Debounce:
    """As after its second poll: it goes on at the first poll at which its rule still holds, and ends after two."""
    rows = index.positions(kept.keys)
    gone = np.count_nonzero(rows < 0)
    still_there = np.argsort(rows)[gone:]
    size = len(still_there)
    return Debounce(
        index=index,
        at=rows[still_there],
        run=np.full(size, POLLS, np.int64),
        on=np.ones(size, np.bool_),
        since=kept.since[still_there],
        left_since=np.full(size, np.nan),
        left_at=np.full(size, -np.inf),
        last=kept.last[still_there],
    )
