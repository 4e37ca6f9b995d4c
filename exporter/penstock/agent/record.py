"""A record has what one poll changed.

`record_of` takes it out of the state, `applied` adds it to the checkpoint that it follows.

A record rests on a checkpoint of the same run of the agent, its base: series are numbered as they are there, then as
they come. Its numbers are totals and no differences: sums and the last value of each thing go together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.agent import checkpoint as saving
from penstock.agent.checkpoint import (
    Checkpoint,
    KeptTotals,
    SavedDebounce,
    SavedLoss,
    SavedUnrouted,
)
from penstock.assessment.assess import State
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Scope, Severity
from penstock.core.state import By, declared, row_states
from penstock.core.table import Column, Index, Keys, Mask, RowT, take_or_fill
from penstock.core.table import positions as positions_of
from penstock.incidents.incident import Incident
from penstock.insight.events import ConditionKey, Told
from penstock.model import Process, Role, Snapshot
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ClientSeries, ProducerSeries, QueueSeries
from penstock.series.totals import SeriesT, Totals
from penstock.settings.policy import Policy

NameT = TypeVar("NameT")
Lines = NDArray[np.float64]
"""Several lines of numbers by the same rows."""


class TotalsRecord(msgspec.Struct, omit_defaults=True):
    """The changes of a `Totals`.

    Attributes:
        names: Of the series that are numbered from here on.
        at: Numbers of the series whose sums changed.
        sums: For each counter the sums of these series.
        keys: Of the things whose last value changed.
        last: For each counter the last values of these things.
    """

    names: Sequence[tuple[str, ...]] = ()
    at: Keys = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    sums: Sequence[Column] = ()
    keys: Keys = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    last: Sequence[Column] = ()


class Patch(msgspec.Struct):
    """Columns of the state by row, of the rows with these keys."""

    keys: Keys
    columns: dict[str, Column]


class Record(msgspec.Struct, omit_defaults=True):
    """One poll of the broker `key`.

    Attributes:
        sequence: Ascends over all brokers and runs of the agent.
        whole: A base; the rest is empty then.
        base: The sequence of the record or of the checkpoint that is the base.
        now: The time of the poll by the broker's clock.
        queue_names: Key, address and name of the new queues whose keys are the agent's own.
        producer_names: Key, session and id of the new producers.
    """

    sequence: int = 0
    key: str = ""
    whole: Checkpoint | None = None
    base: int = 0
    now: float = np.nan
    clients: TotalsRecord | None = None
    queues: TotalsRecord | None = None
    producers: TotalsRecord | None = None
    queue_names: Sequence[tuple[int, str, str]] = ()
    producer_names: Sequence[tuple[int, str, str]] = ()
    queue_rows: Sequence[Patch] = ()
    consumer_rows: Sequence[Patch] = ()
    standing: dict[str, SavedDebounce] | None = None
    told: Sequence[tuple[ConditionKey, Severity, float]] | None = None
    cut: Sequence[str] = ()
    ring_losers: Sequence[SavedLoss] = ()
    unrouted: Sequence[SavedUnrouted] = ()
    incidents: Sequence[Incident] | None = None


@dataclass(frozen=True, slots=True)
class Numbered(Generic[SeriesT]):
    """A `Totals` as it was written last.

    Attributes:
        totals: The sums.
        numbers: Of its series, -1 where one has none.
        count: How many numbers there are.
    """

    totals: Totals[SeriesT]
    numbers: Keys
    count: int


@dataclass(frozen=True, slots=True)
class Written:
    """The contents of a base and the records after it, and the broker process that they belong to."""

    key: str
    base: int
    process: Process
    clients: Numbered[ClientSeries]
    queues: Numbered[QueueSeries]
    producers: Numbered[ProducerSeries]
    counters: Mapping[str, tuple[Index[object], Column]]
    """The shown counters by row of the state, by their names in a checkpoint."""
    queue_index: Index[object]
    ring_losers: Sequence[SavedLoss]
    unrouted: Sequence[SavedUnrouted]
    severities: Mapping[ConditionKey | str, Severity | str]
    """Of conditions, and of incidents by their ids."""


def record_of(
    before: Written | None,
    state: State,
    snapshot: Snapshot | None,
    policy: Policy,
    told: Told,
    sequence: int,
) -> tuple[Record | None, Written | None]:
    """Return the record to write before a poll is shown, None for nothing, and what is written then.

    Args:
        before: What is written already; None before the first record.
        state: What was judged.
        snapshot: What `state` was judged from; None before there is something to keep.
        policy: What is configured for the broker.
        told: The reported conditions, those of this poll included.
        sequence: The number of the record.
    """
    broker = None if snapshot is None else snapshot.broker
    if snapshot is None or broker is None or broker.role is not Role.ACTIVE:
        return None, before
    key = saving.identity(broker, policy.broker)
    process = snapshot.observation.process
    if before is not None and before.key == key and process.follows(before.process):
        return changed_since(before, state, snapshot, told, sequence)
    whole = saving.checkpoint_of(state, snapshot, policy)
    if whole is None:
        return None, before
    whole = replace(whole, told=active_conditions(told))
    record = Record(sequence, whole.node_id, whole)
    return record, written_as(whole, state, told, sequence)


def active_conditions(told: Told) -> list[tuple[ConditionKey, Severity, float]]:
    """The reported conditions, how severe and since when."""
    return [(key, severity, since) for key, (severity, since) in told.items()]


def changed_since(
    before: Written, state: State, snapshot: Snapshot, told: Told, sequence: int
) -> tuple[Record, Written]:
    """The record of a poll that goes on with the same process, and what is written with it."""
    judgement = state.judgement
    record = Record(sequence, before.key)
    record.base = before.base
    record.now = judgement.seen.times.now
    record.cut = saving.cut_of(snapshot)
    after = record_totals(record, before, state)
    after = record_counters(record, after, judgement)
    after = record_queue_names(record, after, snapshot, judgement)
    after = record_losses(record, after, judgement)
    return record, record_conditions(record, after, judgement, told)


def record_totals(record: Record, before: Written, state: State) -> Written:
    """Put the totals that changed into `record`; return what is written with them."""
    clients = state.consumers.totals
    queues = state.queues.totals
    producers = state.producers.totals
    record.clients, clients_after = totals_record(
        before.clients, clients, saving.client_name
    )
    record.queues, queues_after = totals_record(
        before.queues, queues, saving.sum_name, summed(queues), members_of_sums(state)
    )
    record.producers, producers_after = totals_record(
        before.producers, producers, saving.series_of_producer
    )
    record.producer_names = _new_names(
        before.producers.totals.source, producers.source, saving.producer_name
    )
    return replace(
        before,
        clients=clients_after,
        queues=queues_after,
        producers=producers_after,
    )


def record_counters(record: Record, before: Written, judgement: Judgement) -> Written:
    """Put the counters that the agent keeps by queue, where they changed, into `record`."""
    counters = shown_counters(judgement)
    patches = [
        counter_patch(name, before.counters.get(name), counter)
        for name, counter in counters.items()
    ]
    record.queue_rows = [patch for patch in patches if patch]
    return replace(before, counters=counters)


def record_queue_names(
    record: Record, before: Written, snapshot: Snapshot, judgement: Judgement
) -> Written:
    """Put the names of new queues into `record` where their keys are the agent's own."""
    index = judgement.seen.queues.index
    if snapshot.broker is not None and not snapshot.broker.kind.lasting_queue_keys:
        record.queue_names = _new_names(before.queue_index, index, saving.queue_name)
    return replace(before, queue_index=index)


def record_losses(record: Record, before: Written, judgement: Judgement) -> Written:
    """Put what rings lost by their clients, and what reached no queue, into `record` where it changed."""
    losers = saving.ring_losers(judgement)
    losers_before = set(before.ring_losers)
    record.ring_losers = [loser for loser in losers if loser not in losers_before]
    unrouted = saving.unrouted(judgement)
    unrouted_before = set(before.unrouted)
    record.unrouted = [
        address for address in unrouted if address not in unrouted_before
    ]
    return replace(before, ring_losers=losers, unrouted=unrouted)


def record_conditions(
    record: Record, before: Written, judgement: Judgement, told: Told
) -> Written:
    """Put all conditions and incidents into `record` where one came, went or changed its severity."""
    severities = severities_of(told, judgement.incidents.told)
    if severities == before.severities:
        return before
    record.standing = saving.saved_debounces(judgement)
    record.told = active_conditions(told)
    record.incidents = judgement.incidents.told
    queue_rows, record.consumer_rows = rows_of(record.standing, judgement)
    record.queue_rows = [*record.queue_rows, *queue_rows]
    return replace(before, severities=severities)


def written_as(whole: Checkpoint, state: State, told: Told, base: int) -> Written:
    """Return what is written once a checkpoint of `state` has been."""
    clients = state.consumers.totals
    queues = state.queues.totals
    producers = state.producers.totals
    every_client = np.ones(len(clients.index), np.bool_)
    every_producer = np.ones(len(producers.index), np.bool_)
    return Written(
        key=whole.node_id,
        base=base,
        process=whole.process,
        clients=numbered(clients, whole.consumer_totals, every_client),
        queues=numbered(queues, whole.queue_totals, summed(queues)),
        producers=numbered(producers, whole.producer_totals, every_producer),
        counters=shown_counters(state.judgement),
        queue_index=state.judgement.seen.queues.index,
        ring_losers=saving.ring_losers(state.judgement),
        unrouted=saving.unrouted(state.judgement),
        severities=severities_of(told, whole.incidents),
    )


def severities_of(
    told: Told, incidents: Sequence[Incident]
) -> dict[ConditionKey | str, Severity | str]:
    """How severe each condition is, by its key, and each incident, by its id."""
    severities: dict[ConditionKey | str, Severity | str] = {}
    for key, (severity, _) in told.items():
        severities[key] = severity
    for incident in incidents:
        severities[incident.id] = incident.severity
    return severities


# --- totals


def numbered(
    totals: Totals[SeriesT], kept: KeptTotals, named: Mask
) -> Numbered[SeriesT]:
    """`totals` by the numbers that its series have in `kept`.

    Args:
        named: (series,) Whether it has a name in `kept`, in that order.
    """
    numbers = np.where(named, np.cumsum(named) - 1, -1)
    return Numbered(totals, numbers.astype(np.int64), len(kept.names))


def totals_record(
    before: Numbered[SeriesT],
    now: Totals[SeriesT],
    name: Callable[[SeriesT], tuple[str, ...] | None],
    named: Mask | None = None,
    things: Mask | None = None,
) -> tuple[TotalsRecord | None, Numbered[SeriesT]]:
    """Return the changes, None for nothing, and what is written then.

    Args:
        before: The totals as they were written last.
        now: The totals of this poll.
        name: Gives the name of a series.
        named: (series,) The series of `now` that are written; None: all.
        things: (rows,) The rows of `now` that are written; None: all.
    """
    earlier = before.totals
    if now is earlier or now.sums is None or now.last is None:
        return None, before
    numbers = now.index.carry(earlier.index, before.numbers, -1)
    if named is not None and not named.any():
        return None, Numbered(now, numbers, before.count)
    sum_changed: Mask = differing(now.sums, now.index, earlier.sums, earlier.index, 0.0)
    sum_changed = sum_changed | (numbers < 0)
    thing_changed = differing(
        now.last, now.source, earlier.last, earlier.source, np.nan
    )
    series = np.flatnonzero(sum_changed if named is None else sum_changed & named)
    rows = np.flatnonzero(thing_changed if things is None else thing_changed & things)
    new = series[numbers[series] < 0]
    if len(new):
        numbers = numbers.copy()
        numbers[new] = before.count + np.arange(len(new))
    after = Numbered(now, numbers, before.count + len(new))
    if not len(series) and not len(rows):
        return None, after
    names = [name(row) for row in now.index.rows[new]]
    record = TotalsRecord(
        names=[series_name for series_name in names if series_name is not None],
        at=numbers[series],
        sums=list(now.sums[:, series]),
        keys=now.source.keys[rows],
        last=list(now.last[:, rows]),
    )
    return record, after


def differing(
    now: Lines,
    index: Index[object],
    before: Lines | None,
    index_before: Index[object],
    fill: float,
) -> Mask:
    """(rows of `index`,) Whether a line has another value than `before`; a missing value is no other."""
    differs = ~np.isnan(now)
    if before is not None:
        differs &= now != index.carry(index_before, before, fill)
    any_line: Mask = np.logical_or.reduce(differs, axis=0)
    return any_line


def summed(totals: Totals[QueueSeries]) -> Mask:
    """The series that sum several queues; a single queue's counters are the broker's own."""
    is_summed: Mask = (
        totals.index.column("alone", lambda series: not series.summed) == 0
    )
    return is_summed


def members_of_sums(state: State) -> Mask | None:
    """(queues,) Whether a queue is a part of a sum; None: all count."""
    grouping = state.queues.grouping
    totals = state.queues.totals
    if grouping.source is not totals.source or grouping.index is not totals.index:
        return None
    # The last one is for queues of no series, whose member is -1.
    in_sum = np.append(summed(totals), np.False_)
    return in_sum[grouping.member]


def _new_names(
    before: Index[object], now: Index[RowT], name: Callable[[RowT], tuple[str, str]]
) -> list[tuple[int, str, str]]:
    """Key and name of each row that is new."""
    if now is before:
        return []
    new_rows = now.new_since(before).tolist()
    return [(int(now.keys[row]), *name(now.rows[row])) for row in new_rows]


# --- state by row


def shown_counters(judgement: Judgement) -> dict[str, tuple[Index[object], Column]]:
    """The counters that the agent keeps by queue, by their names in a checkpoint."""
    counters: dict[str, tuple[Index[object], Column]] = {}
    for state in row_states(judgement):
        for field_name, declaration in declared(type(state)).items():
            if not declaration.counter or not declaration.names:
                continue
            values = getattr(state, field_name)
            lines = values if declaration.lines else [values]
            for stored_as, line in zip(declaration.names, lines, strict=True):
                counters[stored_as] = state.index, line
    return counters


def counter_patch(
    name: str,
    before: tuple[Index[object], Column] | None,
    now: tuple[Index[object], Column],
) -> Patch | None:
    """The rows of a counter that changed; None where none did."""
    index, column = now
    if not len(index) or (before is not None and before[1] is column):
        return None
    if before is None:
        earlier = np.full(len(index), np.nan)
    else:
        earlier = index.carry(before[0], before[1], np.nan)
    rows = np.flatnonzero((column != earlier) & ~np.isnan(column))
    return Patch(index.keys[rows], {name: column[rows]}) if len(rows) else None


def rows_of(
    standing: Mapping[str, SavedDebounce], judgement: Judgement
) -> tuple[list[Patch], list[Patch]]:
    """All that is known of the queues and consumers with conditions: a restart that finds less would end them."""
    seen = judgement.seen
    queues = seen.queues.index
    consumers = seen.consumers.index
    consumer_keys = _keys(standing, client=True)
    consumer_rows = consumers.positions(consumer_keys)
    queue_rows = consumer_rows[:0]
    if len(seen.queue_of.at) == len(consumers):
        queue_rows = seen.queue_of.at[consumer_rows[consumer_rows >= 0]]
    queues_of_consumers = queues.keys[queue_rows[queue_rows >= 0]]
    queue_keys = np.union1d(_keys(standing, client=False), queues_of_consumers)
    return (
        _rows(By.QUEUE, queues, queue_keys, judgement),
        _rows(By.CONSUMER, consumers, consumer_keys, judgement),
    )


def _keys(standing: Mapping[str, SavedDebounce], *, client: bool) -> Keys:
    """The keys of all consumers (`client`), or of all queues, that have a condition."""
    keys = [
        debounce.keys
        for name, debounce in standing.items()
        if (CONDITIONS[name].scope is Scope.CLIENT) is client
    ]
    return np.unique(np.concatenate(keys)) if keys else np.empty(0, np.int64)


def _rows(
    by: By, index: Index[object], keys: Keys, judgement: Judgement
) -> list[Patch]:
    """All columns of the rows with these keys; none where no row is there."""
    rows = index.positions(keys)
    rows = rows[rows >= 0]
    if not len(rows):
        return []
    columns = saving.columns_by(by, index, judgement)
    values = {name: column[rows] for name, column in columns.items()}
    return [Patch(index.keys[rows], values)]


# --- and back


def applied(checkpoint: Checkpoint, record: Record) -> Checkpoint:
    """The checkpoint after a record that rests on it.

    Raises:
        ValueError: The record does not fit.
        LookupError: The record does not fit.
    """
    if record.whole is not None:
        return record.whole
    checkpoint = with_queue_rows(checkpoint, record)
    checkpoint = with_consumer_rows(checkpoint, record)
    checkpoint = with_producers(checkpoint, record)
    standing = checkpoint.standing if record.standing is None else record.standing
    told = checkpoint.told if record.told is None else record.told
    incidents = checkpoint.incidents if record.incidents is None else record.incidents
    ring_losers = {
        (ring, client): (ring, client, loss)
        for ring, client, loss in (*checkpoint.ring_losers, *record.ring_losers)
    }
    unrouted = dict([*checkpoint.unrouted, *record.unrouted])
    return replace(
        checkpoint,
        consumer_totals=with_totals(checkpoint.consumer_totals, record.clients),
        queue_totals=with_totals(checkpoint.queue_totals, record.queues),
        standing=standing,
        told=told,
        recorded=record.now,
        incidents=incidents,
        cut=record.cut,
        ring_losers=[*ring_losers.values()],
        unrouted=[*unrouted.items()],
    )


def with_queue_rows(checkpoint: Checkpoint, record: Record) -> Checkpoint:
    """The checkpoint with the queues' rows of `record`, and with the names of its new queues."""
    keys = checkpoint.queue_keys
    columns = checkpoint.queues
    names: dict[int, tuple[str, str]] = {}
    if checkpoint.queue_names or record.queue_names:
        names = dict(zip(keys.tolist(), checkpoint.queue_names, strict=True))
        names |= {key: (address, name) for key, address, name in record.queue_names}
        named_keys = np.array(sorted(names), np.int64)
        keys, columns = with_rows(keys, columns, named_keys, {})
    for patch in record.queue_rows:
        # A queue that has no name to find it by is left out.
        only = keys if names else None
        keys, columns = with_rows(keys, columns, patch.keys, patch.columns, only)
    return replace(
        checkpoint,
        queue_keys=keys,
        queues=columns,
        queue_names=[names[key] for key in keys.tolist()] if names else (),
    )


def with_consumer_rows(checkpoint: Checkpoint, record: Record) -> Checkpoint:
    """The checkpoint with the consumers' rows of `record`."""
    keys = checkpoint.consumer_keys
    columns = checkpoint.consumers
    for patch in record.consumer_rows:
        keys, columns = with_rows(keys, columns, patch.keys, patch.columns)
    return replace(checkpoint, consumer_keys=keys, consumers=columns)


def with_totals(kept: KeptTotals, record: TotalsRecord | None) -> KeptTotals:
    """`kept` with what changed; new series come at its end."""
    if record is None:
        return kept
    names = [*kept.names, *record.names]
    sums = []
    for column in kept.sums or [np.empty(0)] * len(record.sums):
        of_new_series = np.zeros(len(names) - len(column))
        sums.append(np.concatenate([column, of_new_series]))
    for column, values in zip(sums, record.sums, strict=True):
        column[record.at] = values
    last_before = dict(enumerate(kept.last))
    last_changed = dict(enumerate(record.last))
    keys, last = with_rows(kept.keys, last_before, record.keys, last_changed)
    return KeptTotals(names, sums, keys, [*last.values()])


def with_producers(checkpoint: Checkpoint, record: Record) -> Checkpoint:
    """The checkpoint with the producers' totals of `record`, and with the names beside their keys."""
    kept = checkpoint.producer_totals
    names = dict(zip(kept.keys.tolist(), checkpoint.producers, strict=True))
    names |= {key: (session, name) for key, session, name in record.producer_names}
    totals = with_totals(kept, record.producers)
    return replace(
        checkpoint,
        producer_totals=totals,
        producers=[names.get(key, ("", "")) for key in totals.keys.tolist()],
    )


def with_rows(
    keys: Keys,
    columns: Mapping[NameT, Column],
    new_keys: Keys,
    new: Mapping[NameT, Column],
    only: Keys | None = None,
) -> tuple[Keys, dict[NameT, Column]]:
    """`columns` by `keys`, ascending, with the rows of `new`, which are by `new_keys`.

    Args:
        only: No other rows than these are taken; None: all.
    """
    taken = np.arange(len(new_keys))
    if only is not None:
        taken = np.flatnonzero(positions_of(only, new_keys) >= 0)
    all_keys = np.union1d(keys, new_keys[taken]).astype(np.int64)
    origin = positions_of(keys, all_keys)
    rows = positions_of(all_keys, new_keys[taken])
    merged = {
        name: take_or_fill(column, origin, np.nan) for name, column in columns.items()
    }
    for name, values in new.items():
        column = merged.setdefault(name, np.full(len(all_keys), np.nan))
        column[rows] = values[taken]
    return all_keys, merged
