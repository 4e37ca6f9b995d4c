"""What of a state outlives the agent: `checkpoint_of` takes it out, `restore` puts it back at the next first poll.

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
    """Of row `at // BINS` the weight of bin `at % BINS`; the other columns by row, of `spells` LONG_GAPS a row."""

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
    """What is kept of one broker. queues, consumers: columns by the broker's ids."""

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
    """By what it is kept: a node id may be that of several brokers, a name that of one after the other."""
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
    """What to keep of `state`, which `snapshot` led to; None while there is nothing."""
    broker = snapshot.broker
    judgement = state.judgement
    if broker is None:
        return None
    seen = judgement.seen
    churn = judgement.churn
    producers = state.producers.totals
    queues = seen.queues.index
    consumers = seen.consumers.index
    reloaded = state.queues.reloaded
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
        queue_names=[queue_name(row) for row in queues]
        if not broker.kind.lasting_queue_keys
        else (),
        queues=columns_by(By.QUEUE, queues, judgement)
        | (
            reloaded.reindexed(queues).saved()
            if len(reloaded.index) and len(queues)
            else {}
        ),
        consumer_keys=consumers.keys,
        consumers=columns_by(By.CONSUMER, consumers, judgement),
        standing={
            name: saved_debounce(stand)
            for name, stand in judgement.debounced.items()
            if stand.on.any()
        },
        spells=[
            (client_name(client), streak) for client, streak in churn.streaks.items()
        ],
        left=[(client_name(client), left) for client, left in churn.left.items()],
        crashes=[
            (client_name(client), one)
            for client, one in churn.crash_loops.kept()
            if broker.kind.lasting_queue_keys
        ],
        churned=churn.index.keys[churn.counted],
        told=[(name, *told) for name, told in by_name(judgement.conditions).items()],
        read=judgement.timers.were_read(np.ones(len(judgement.timers.index), np.bool_)),
        prepared=list(judgement.account.in_doubt.since.items()),
        unrouted=unrouted(judgement),
        judged=judgement.warm_up.stamps,
        young=young(judgement.warm_up),
        cut=cut_of(snapshot),
        ring_losers=ring_losers(judgement),
        incidents=[
            replace(one, members=one.members[:MOST_MEMBERS])
            for one in judgement.incidents.told
        ],
    )


def young(warm_up: WarmUp) -> list[tuple[tuple[str, ...], int]]:
    return list(
        (warm_up.queues.polls_by_name() | warm_up.clients.polls_by_name()).items()
    )


def unrouted(judgement: Judgement) -> list[SavedUnrouted]:
    return list(judgement.account.bare.totals.items())


def ring_losers(judgement: Judgement) -> list[SavedLoss]:
    by_client = judgement.account.ring_losses.by_client
    return [
        (key, name, loss) for key, of in by_client.items() for name, loss in of.items()
    ]


def cut_of(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(one.what for one in snapshot.observation.left_out)


client_name: Callable[[ClientSeries], ClientName] = attrgetter(
    "address", "queue", "client"
)
queue_name: Callable[[QueueRow], tuple[str, str]] = attrgetter("address", "name")
producer_name: Callable[[Any], tuple[str, str]] = attrgetter("session", "id")
series_of_producer: Callable[[Any], tuple[str, str]] = attrgetter("address", "client")


def sum_name(series: QueueSeries) -> tuple[str, str] | None:
    return (series.address, series.queue) if series.summed else None


def saved_timeouts(
    timeout: LearnedTimeout, name: Callable[[Any], NameT]
) -> SavedTimeouts[NameT]:
    """The rows that have learned something, those of things that are not there now included."""
    rows = np.flatnonzero(
        (timeout.weight > 0) | ~np.isnan(timeout.long_gaps).all(axis=0)
    )
    dormant = list(timeout.dormant.values())
    weights = np.concatenate(
        [timeout.histograms(rows), *(one.weights[None] for one in dormant)]
    )
    at = np.flatnonzero(weights)
    return SavedTimeouts(
        names=[name(row) for row in (*timeout.index.rows[rows], *timeout.dormant)],
        at=at.astype(np.int64),
        weights=weights.ravel()[at].astype(np.float64),
        longest=np.append(timeout.longest[rows], [one.longest for one in dormant]),
        q98=np.append(timeout.q98[rows], [one.q98 for one in dormant]),
        spells=np.append(
            timeout.long_gaps[:, rows].T.ravel(), [one.long_gaps for one in dormant]
        ),
    )


def kept_totals(
    totals: Totals[SeriesT], name: Callable[[SeriesT], tuple[str, ...] | None]
) -> KeptTotals:
    """Those of all series that have a name."""
    if totals.sums is None:
        return KeptTotals()
    dormant = (
        np.array([*totals.dormant.values()], np.float64).reshape(-1, len(totals.sums)).T
    )
    names = [name(series) for series in (*totals.index.rows, *totals.dormant)]
    named = np.array([one is not None for one in names], np.bool_)
    return KeptTotals(
        [one for one in names if one is not None],
        list(np.concatenate([totals.sums, dormant], axis=1)[:, named]),
        totals.source.keys,
        () if totals.last is None else list(totals.last),
    )


def columns_by(by: By, index: Index[Any], judgement: Judgement) -> dict[str, Column]:
    """All that outlives the agent, by the rows of `index`; nothing before the first judgement."""
    columns: dict[str, Column] = {}
    for state in (
        row_states(judgement)
        if judgement.timers.index is judgement.seen.queues.index
        else ()
    ):
        # What only another kind of broker needs has no rows of this one.
        if state.BY is by and state.index is index:
            columns |= state.saved()
    return columns


def saved_debounce(stand: Debounce) -> SavedDebounce:
    at, since = stand.active()
    return SavedDebounce(stand.index.keys[at], since, stand.last[stand.on])


# --- restore


def restore(
    checkpoint: Checkpoint, state: State, snapshot: Snapshot, policy: Policy
) -> State:
    """`state`, which has judged nothing yet, with what is remembered; `snapshot` is active, with queues and consumers.

    What the clients and queues taught, and totals, always; all else only where the broker's process is still the same.
    """
    queues = snapshot.queues
    consumers = snapshot.consumers
    broker = snapshot.broker
    if queues is None or consumers is None or broker is None:
        return state
    same = same_process(checkpoint, snapshot.observation.process)
    checkpoint = with_keys_of(checkpoint, queues.index)
    here = {queue_name(row): row for row in queues.index}

    def of_queue(row: QueueRow) -> QueueRow:
        return here.get(queue_name(row), row)

    bare = BareAddresses(
        kept={
            name: one if same else one._replace(counter=0.0)
            for name, one in checkpoint.unrouted
        }
    )
    judgement = Judgement(
        timers=QueueTimers(read=dict.fromkeys(checkpoint.read)),
        patience=restored_timeouts(
            checkpoint.clients, lambda name: ClientSeries(policy.broker, *name)
        ),
        dispatch=restored_timeouts(checkpoint.dispatch, of_queue),
        normal=restored_normal(checkpoint),
        account=MessageAccount(
            in_doubt=InDoubt(since=dict(checkpoint.prepared)), bare=bare
        ),
    )
    if same:
        judgement = continued(checkpoint, judgement, snapshot, policy)
    of_clients = checkpoint.consumer_totals
    of_queues = checkpoint.queue_totals
    clients = [
        ClientSeries(policy.broker, address, queue, client)
        for address, queue, client in of_clients.names
    ]
    sums = [restored_sum(address, queue, policy) for address, queue in of_queues.names]
    at_consumer = positions(of_clients.keys, consumers.index.keys) if same else None
    at_queue = positions(of_queues.keys, queues.index.keys) if same else None
    client_totals = restored_totals(of_clients, clients, consumers.index, at_consumer)
    queue_totals = restored_totals(of_queues, sums, queues.index, at_queue)
    reloaded = restored_reloaded(checkpoint, queues.index, policy)
    return replace(
        state,
        judgement=judgement,
        consumers=replace(state.consumers, totals=client_totals),
        queues=replace(state.queues, totals=queue_totals, reloaded=reloaded),
        producers=restored_producers(
            checkpoint, state.producers, snapshot.producers, policy, same=same
        ),
    )


def with_late(checkpoint: Checkpoint, snapshot: Snapshot) -> Snapshot:
    """The first poll after `restore`: rows of which nothing is kept may have been out of view before."""
    if not same_process(checkpoint, snapshot.observation.process):
        return snapshot
    cut = {
        what: table
        for what in checkpoint.cut
        if (table := getattr(snapshot, what, None)) is not None
    }
    late = {what: table.index.keys for what, table in cut.items()}
    return replace(
        snapshot,
        observation=replace(
            snapshot.observation, late={**snapshot.observation.late, **late}
        ),
    )


def with_keys_of(checkpoint: Checkpoint, queues: Index[QueueRow]) -> Checkpoint:
    """By the keys that the queues have now, where keys are the agent's own; without those of queues that are gone."""
    if not checkpoint.queue_names:
        return checkpoint
    now = {
        queue_name(row): key
        for key, row in zip(queues.keys.tolist(), queues, strict=True)
    }
    found = [now.get((address, name), -1) for address, name in checkpoint.queue_names]
    of = dict(zip(checkpoint.queue_keys.tolist(), found, strict=True))
    keys, order = renumbered(checkpoint.queue_keys, of)
    totals = checkpoint.queue_totals
    total_keys, total_order = renumbered(totals.keys, of)
    standing = dict(checkpoint.standing)
    for name, kept in standing.items():
        if name not in CONDITIONS or CONDITIONS[name].scope is Scope.QUEUE:
            new, at = renumbered(kept.keys, of)
            standing[name] = SavedDebounce(new, kept.since[at], kept.last[at])
    return replace(
        checkpoint,
        queue_keys=keys,
        queues={name: column[order] for name, column in checkpoint.queues.items()},
        queue_totals=replace(
            totals,
            keys=total_keys,
            last=[column[total_order] for column in totals.last],
        ),
        standing=standing,
    )


def renumbered(keys: Keys, of: Mapping[int, int]) -> tuple[Keys, Positions]:
    """New keys, ascending, without what has none (-1); and the position that each had before."""
    new = np.array([of.get(key, -1) for key in keys.tolist()], np.int64)
    order = np.argsort(new, kind="stable")[np.count_nonzero(new < 0) :]
    return new[order], order


def restored_totals(
    kept: KeptTotals,
    series: Sequence[SeriesT],
    source: Index[Any],
    at: Positions | None,
) -> Totals[SeriesT]:
    """All sums as of series that have no row now: the first poll finds those that have.

    at: position in `kept.last` of each row of `source`, -1 where it is new; None when all are.
    """
    if not kept.sums:
        return Totals()
    last = (
        take_or_fill(np.stack(kept.last), at, np.nan)
        if at is not None and kept.last
        else None
    )
    sums = zip(*(column.tolist() for column in kept.sums), strict=True)
    dormant = dict(zip(series, sums, strict=True))
    return Totals(
        source,
        last,
        sums=np.zeros((len(kept.sums), 0)),
        dormant=dormant,
        capacity=len(dormant),
    )


def restored_reloaded(
    checkpoint: Checkpoint, queues: Index[Any], policy: Policy
) -> Reloaded:
    """Of another process too: the depths of the queues show which of their messages were reloaded."""
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
    if producers is None:
        return state
    kept = checkpoint.producer_totals
    at = None
    if same:
        before = {name: position for position, name in enumerate(checkpoint.producers)}
        at = np.array(
            [before.get(producer_name(row), -1) for row in producers.index], np.intp
        )
    series = [
        ProducerSeries(policy.broker, address, client) for address, client in kept.names
    ]
    return replace(state, totals=restored_totals(kept, series, producers.index, at))


def restored_sum(address: str, queue: str, policy: Policy) -> QueueSeries:
    """The series of a sum, from any queue that it could be of."""
    kind = QueueKind.TEMPORARY if queue == TEMPORARY else QueueKind.SUBSCRIPTION
    row = QueueRow(queue, address, "", False, False, "", kind, RingSource.NONE, "", "")
    return sum_series(policy, address, queue, row)


def restored_timeouts(
    kept: SavedTimeouts[NameT], row: Callable[[NameT], Any]
) -> LearnedTimeout:
    """All as of things that are not there now: the first poll finds those that are. row: what has a name."""
    weights = np.zeros((len(kept.names), BINS), np.float32)
    weights.ravel()[kept.at] = kept.weights
    columns = (
        weights.sum(axis=1).tolist(),
        kept.longest.tolist(),
        kept.q98.tolist(),
        kept.spells.reshape(-1, LONG_GAPS),
    )
    learned = [Learned(*one) for one in zip(weights, *columns, strict=True)]
    return LearnedTimeout(
        dormant=dict(zip(map(row, kept.names), learned, strict=True)),
        capacity=len(learned),
    )


def restored_normal(checkpoint: Checkpoint) -> Normal:
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
    if (
        snapshot.queues is None
        or snapshot.consumers is None
        or not checkpoint.queues
        or not checkpoint.consumers
    ):
        return learned_only
    queues = snapshot.queues.index
    consumers = snapshot.consumers.index
    tables: dict[By, tuple[Index[Any], dict[str, Column]]] = {
        By.QUEUE: (queues, by_rows(queues, checkpoint.queue_keys, checkpoint.queues)),
        By.CONSUMER: (
            consumers,
            by_rows(consumers, checkpoint.consumer_keys, checkpoint.consumers),
        ),
    }
    judgement: Judgement = with_restored(learned_only, tables)
    times = Times(
        checkpoint.now,
        checkpoint.interval,
        snapshot.observation.process,
        checkpoint.started,
        resumed=True,
    )
    by_client: dict[int, dict[str, Loss]] = {}
    for key, name, loss in checkpoint.ring_losers:
        by_client.setdefault(key, {})[name] = loss
    losses = replace(judgement.account.ring_losses, by_client=by_client)

    def by_series(
        kept: Sequence[tuple[ClientName, ValueT]],
    ) -> dict[ClientSeries, ValueT]:
        return {ClientSeries(policy.broker, *name): value for name, value in kept}

    return replace(
        judgement,
        warm_up=restored_warm_up(checkpoint),
        account=replace(judgement.account, ring_losses=losses),
        seen=replace(judgement.seen, times=times),
        unacked=without_unseen_ends(judgement, snapshot.consumers),
        timers=without_unseen_moves(judgement, snapshot.queues),
        churn=Churn(
            consumers,
            np.isin(consumers.keys, checkpoint.churned),
            by_series(checkpoint.spells),
            by_series(checkpoint.left),
            first=-np.inf,
            crash_loops=CrashLoops(loops=by_series(checkpoint.crashes)),
        ),
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


def restored_warm_up(checkpoint: Checkpoint) -> WarmUp:
    """Queues and clients that were seen before are not new."""
    polls = {tuple(name): number for name, number in checkpoint.young}
    return WarmUp(
        tuple(checkpoint.judged),
        queues=SeenPolls(before=SeenBefore(checkpoint.queue_keys, polls)),
        clients=SeenPolls(before=SeenBefore(checkpoint.consumer_keys, polls)),
    )


def by_rows(
    index: Index[Any], keys: Keys, columns: Mapping[str, Column]
) -> dict[str, Column]:
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
    since = (unacked.settled, unacked.hold_since, unacked.unacked_since)
    settled_at, hold_since, unacked_since = (
        np.where(unknown, np.nan, column) for column in since
    )
    return replace(
        unacked, settled=settled_at, hold_since=hold_since, unacked_since=unacked_since
    )


def without_unseen_moves(judgement: Judgement, queues: Table[QueueRow]) -> QueueTimers:
    """Only of queues whose wait has not ended in between, for the same reason."""
    timers = judgement.timers.reindexed(queues.index)
    openmq = judgement.openmq.queues
    seen = judgement.seen.queues.reindexed(queues.index).numbers
    of_openmq = openmq.index is queues.index
    left = (
        queues["removed"] - openmq.removed
        if of_openmq
        else queues["acknowledged"] - seen[ACKNOWLEDGED]
    )
    moves = left > 0
    absent = np.where(moves | (queues["consumers"] > 0), np.nan, timers.absent)
    lacks = np.isnan(timers.present) & (
        seen[MESSAGES] > seen[SCHEDULED]
    )  # as in older files
    present = np.where(lacks, timers.unsettled, timers.present)
    return replace(
        timers,
        still=np.where(moves, np.nan, timers.still),
        absent=absent,
        present=present,
    )


def restored_debounce(index: Index[Any], kept: SavedDebounce) -> Debounce:
    """As after its second poll: it goes on at the first poll at which its rule still holds, and ends after two."""
    at = index.positions(kept.keys)
    here = np.argsort(at)[np.count_nonzero(at < 0) :]
    size = len(here)
    return Debounce(
        index=index,
        at=at[here],
        run=np.full(size, POLLS, np.int64),
        on=np.ones(size, np.bool_),
        since=kept.since[here],
        left_since=np.full(size, np.nan),
        left_at=np.full(size, -np.inf),
        last=kept.last[here],
    )
