"""What one poll changed of what is kept: `record_of` takes it out, `applied` adds it to the checkpoint that it follows.

A record rests on a checkpoint of the same run of the agent, its base: series are numbered as they are there, then as
they come. Its numbers are totals and no differences: sums and the last value of each thing go together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

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
from penstock.core.table import Column, Index, Keys, Mask, take_or_fill
from penstock.core.table import positions as positions_of
from penstock.incidents.incident import Incident
from penstock.insight.events import ConditionKey, Told
from penstock.model import Process, Role, Snapshot
from penstock.rule_engine.judgement import Judgement
from penstock.series.totals import SeriesT, Totals
from penstock.settings.policy import Policy

NameT = TypeVar("NameT")
Lines = NDArray[np.float64]
"""Several lines of numbers by the same rows."""


class TotalsRecord(msgspec.Struct, omit_defaults=True):
    """
    What changed of a `Totals`. names: of the series that are numbered from here on. at, sums: numbers of series, their
    sums by counter. keys, last: things, and the value of each by counter.
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

    sequence: ascending over all brokers and runs. whole: a base, the rest is empty then. base: the sequence of the
    record or of the checkpoint that is the base. now: of the poll, by the broker's clock. queue_names,
    producer_names: of those that are new, by their keys, which are the agent's own.
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
    """A `Totals` as it was written last. numbers: of its series, -1 where one has none; count: how many there are."""

    totals: Totals[SeriesT]
    numbers: Keys
    count: int


@dataclass(frozen=True, slots=True)
class Written:
    """What the base and the records after it say of a broker, and of which process of it."""

    key: str
    base: int
    process: Process
    clients: Numbered[Any]
    queues: Numbered[Any]
    producers: Numbered[Any]
    counters: Mapping[str, tuple[Index[Any], Column]]
    """The shown counters by row of the state, by their names in a checkpoint."""
    queue_index: Index[Any]
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
    """What is to be written of a poll before it is shown, None for nothing, and what is written then.

    snapshot: what `state` was judged from, None before there is something to keep. told: the reported conditions,
    those of this poll included.
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
    whole = replace(whole, told=[(name, *how) for name, how in told.items()])
    return Record(sequence, whole.node_id, whole), written_as(
        whole, state, told, sequence
    )


def changed_since(
    before: Written, state: State, snapshot: Snapshot, told: Told, sequence: int
) -> tuple[Record, Written]:
    judgement = state.judgement
    counters = shown_counters(state.judgement)
    now = judgement.seen.times.now
    record = Record(sequence, before.key)
    record.base = before.base
    record.now = now
    record.cut = saving.cut_of(snapshot)
    of_queues = state.queues.totals
    of_producers = state.producers.totals
    members = members_of_sums(state)
    record.clients, clients = totals_record(
        before.clients, state.consumers.totals, saving.client_name
    )
    record.queues, queues = totals_record(
        before.queues, of_queues, saving.sum_name, summed(of_queues), members
    )
    record.producers, producers = totals_record(
        before.producers, of_producers, saving.series_of_producer
    )
    record.queue_rows = [
        patch
        for name in counters
        if (patch := counter_patch(name, before.counters.get(name), counters[name]))
    ]
    record.producer_names = _new_names(
        before.producers.totals.source, of_producers.source, saving.producer_name
    )
    queue_index = judgement.seen.queues.index
    if snapshot.broker is not None and not snapshot.broker.kind.lasting_queue_keys:
        record.queue_names = _new_names(
            before.queue_index, queue_index, saving.queue_name
        )
    losers = saving.ring_losers(judgement)
    losers_before = set(before.ring_losers)
    record.ring_losers = [loser for loser in losers if loser not in losers_before]
    unrouted = saving.unrouted(judgement)
    unrouted_before = set(before.unrouted)
    record.unrouted = [
        address for address in unrouted if address not in unrouted_before
    ]
    severities = severities_of(told, judgement.incidents.told)
    if severities != before.severities:
        record.standing = {
            name: saving.saved_debounce(debounce)
            for name, debounce in judgement.debounced.items()
            if debounce.on.any()
        }
        record.told = [
            (name, *severity_and_begin) for name, severity_and_begin in told.items()
        ]
        queue_rows, record.consumer_rows = rows_of(record.standing, judgement)
        record.queue_rows = [*record.queue_rows, *queue_rows]
        record.incidents = judgement.incidents.told
    after = replace(
        before,
        clients=clients,
        queues=queues,
        producers=producers,
        counters=counters,
        queue_index=queue_index,
        ring_losers=losers,
        unrouted=unrouted,
        severities=severities,
    )
    return record, after


def written_as(whole: Checkpoint, state: State, told: Told, base: int) -> Written:
    """When a checkpoint of `state` has been written."""
    clients = state.consumers.totals
    queues = state.queues.totals
    producers = state.producers.totals
    return Written(
        whole.node_id,
        base,
        whole.process,
        numbered(clients, whole.consumer_totals, np.ones(len(clients.index), np.bool_)),
        numbered(queues, whole.queue_totals, summed(queues)),
        numbered(
            producers, whole.producer_totals, np.ones(len(producers.index), np.bool_)
        ),
        shown_counters(state.judgement),
        state.judgement.seen.queues.index,
        saving.ring_losers(state.judgement),
        saving.unrouted(state.judgement),
        severities_of(told, whole.incidents),
    )


def severities_of(
    told: Told, incidents: Sequence[Incident]
) -> dict[ConditionKey | str, Severity | str]:
    return {name: severity for name, (severity, _) in told.items()} | {
        one.id: one.severity for one in incidents
    }


# --- totals


def numbered(
    totals: Totals[SeriesT], kept: KeptTotals, named: Mask
) -> Numbered[SeriesT]:
    """named: the series of `totals` that have a name in `kept`, in that order."""
    return Numbered(
        totals,
        np.where(named, np.cumsum(named) - 1, -1).astype(np.int64),
        len(kept.names),
    )


def totals_record(
    before: Numbered[SeriesT],
    now: Totals[SeriesT],
    name: Callable[[SeriesT], tuple[str, ...] | None],
    named: Mask | None = None,
    things: Mask | None = None,
) -> tuple[TotalsRecord | None, Numbered[SeriesT]]:
    """What changed; named, things: the series and the rows of `now` that it is of, None: all."""
    was = before.totals
    index = now.index
    source = now.source
    if now is was or now.sums is None or now.last is None:
        return None, before
    numbers = index.carry(was.index, before.numbers, -1)
    if named is not None and not named.any():
        return None, Numbered(now, numbers, before.count)
    changed: Mask = differing(now.sums, index, was.sums, was.index, 0.0) | (numbers < 0)
    spoke: Mask = differing(now.last, source, was.last, was.source, np.nan)
    at = np.flatnonzero(changed if named is None else changed & named)
    rows = np.flatnonzero(spoke if things is None else spoke & things)
    new = at[numbers[at] < 0]
    if len(new):
        numbers = numbers.copy()
        numbers[new] = before.count + np.arange(len(new))
    after = Numbered(now, numbers, before.count + len(new))
    if not len(at) and not len(rows):
        return None, after
    names = [found for series in index.rows[new] if (found := name(series)) is not None]
    return TotalsRecord(
        names,
        numbers[at],
        list(now.sums[:, at]),
        source.keys[rows],
        list(now.last[:, rows]),
    ), after


def differing(
    now: Lines, index: Index[Any], before: Lines | None, was: Index[Any], fill: float
) -> Mask:
    """Per row of `index` whether a line has another value than before, by `was`; a missing one has none."""
    says = ~np.isnan(now)
    if before is not None:
        says &= now != index.carry(was, before, fill)
    found: Mask = np.logical_or.reduce(says, axis=0)
    return found


def summed(totals: Totals[Any]) -> Mask:
    """The series that sum several queues; a single queue's counters are the broker's own."""
    found: Mask = totals.index.column("alone", lambda series: not series.summed) == 0
    return found


def members_of_sums(state: State) -> Mask | None:
    grouping = state.queues.grouping
    named = summed(state.queues.totals)
    if (
        grouping.source is not state.queues.totals.source
        or grouping.index is not state.queues.totals.index
    ):
        return None
    return np.append(named, np.False_)[grouping.member]


def _new_names(
    before: Index[Any], now: Index[Any], name: Callable[[Any], tuple[str, str]]
) -> list[tuple[int, str, str]]:
    if now is before:
        return []
    return [
        (int(now.keys[at]), *name(now.rows[at]))
        for at in now.new_since(before).tolist()
    ]


# --- state by row


def shown_counters(judgement: Judgement) -> dict[str, tuple[Index[Any], Column]]:
    """The counters that the agent keeps by queue, by their names in a checkpoint."""
    return {
        stored_as: (state.index, line)
        for state in row_states(judgement)
        for name, one in declared(type(state)).items()
        if one.counter and one.names
        for stored_as, line in zip(
            one.names,
            getattr(state, name) if one.lines else [getattr(state, name)],
            strict=True,
        )
    }


def counter_patch(
    name: str, before: tuple[Index[Any], Column] | None, now: tuple[Index[Any], Column]
) -> Patch | None:
    index, column = now
    if not len(index) or (before is not None and before[1] is column):
        return None
    was = (
        np.full(len(index), np.nan)
        if before is None
        else index.carry(before[0], before[1], np.nan)
    )
    at = np.flatnonzero((column != was) & ~np.isnan(column))
    return Patch(index.keys[at], {name: column[at]}) if len(at) else None


def rows_of(
    standing: Mapping[str, SavedDebounce], judgement: Judgement
) -> tuple[list[Patch], list[Patch]]:
    """All that is known of the queues and consumers with conditions: a restart that finds less would end them."""
    seen = judgement.seen
    clients = _keys(standing, client=True)
    queues = seen.queues.index
    consumers = seen.consumers.index
    at = consumers.positions(clients)
    queue_of = (
        seen.queue_of.at[at[at >= 0]]
        if len(seen.queue_of.at) == len(consumers)
        else at[:0]
    )
    keys = np.union1d(
        _keys(standing, client=False), queues.keys[queue_of[queue_of >= 0]]
    )
    return _rows(By.QUEUE, queues, keys, judgement), _rows(
        By.CONSUMER, consumers, clients, judgement
    )


def _keys(standing: Mapping[str, SavedDebounce], *, client: bool) -> Keys:
    found = [
        one.keys
        for name, one in standing.items()
        if (CONDITIONS[name].scope is Scope.CLIENT) is client
    ]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _rows(by: By, index: Index[Any], keys: Keys, judgement: Judgement) -> list[Patch]:
    at = index.positions(keys)
    at = at[at >= 0]
    if not len(at):
        return []
    columns = saving.columns_by(by, index, judgement)
    return [
        Patch(index.keys[at], {name: column[at] for name, column in columns.items()})
    ]


# --- and back


def applied(checkpoint: Checkpoint, record: Record) -> Checkpoint:
    """The checkpoint after a record that rests on it. ValueError, LookupError: it does not fit."""
    if record.whole is not None:
        return record.whole
    queue_keys = checkpoint.queue_keys
    queues = checkpoint.queues
    consumer_keys = checkpoint.consumer_keys
    consumers = checkpoint.consumers
    names: dict[int, tuple[str, str]] = {}
    if checkpoint.queue_names or record.queue_names:
        names = dict(zip(queue_keys.tolist(), checkpoint.queue_names, strict=True))
        names |= {key: (address, name) for key, address, name in record.queue_names}
        queue_keys, queues = with_rows(
            queue_keys, queues, np.array(sorted(names), np.int64), {}
        )
    for patch in record.queue_rows:
        # A queue that has no name to find it by is left out.
        only = queue_keys if names else None
        queue_keys, queues = with_rows(
            queue_keys, queues, patch.keys, patch.columns, only
        )
    for patch in record.consumer_rows:
        consumer_keys, consumers = with_rows(
            consumer_keys, consumers, patch.keys, patch.columns
        )
    producers, producer_totals = with_producers(checkpoint, record)
    return replace(
        checkpoint,
        consumer_totals=with_totals(checkpoint.consumer_totals, record.clients),
        queue_totals=with_totals(checkpoint.queue_totals, record.queues),
        producer_totals=producer_totals,
        producers=producers,
        queue_keys=queue_keys,
        queues=queues,
        queue_names=[names[key] for key in queue_keys.tolist()] if names else (),
        consumer_keys=consumer_keys,
        consumers=consumers,
        standing=checkpoint.standing if record.standing is None else record.standing,
        told=checkpoint.told if record.told is None else record.told,
        recorded=record.now,
        incidents=checkpoint.incidents
        if record.incidents is None
        else record.incidents,
        cut=record.cut,
        ring_losers=[
            *{
                one[:2]: one for one in (*checkpoint.ring_losers, *record.ring_losers)
            }.values()
        ],
        unrouted=[*dict([*checkpoint.unrouted, *record.unrouted]).items()],
    )


def with_totals(kept: KeptTotals, record: TotalsRecord | None) -> KeptTotals:
    if record is None:
        return kept
    names = [*kept.names, *record.names]
    sums = [
        np.concatenate([column, np.zeros(len(names) - len(column))])
        for column in kept.sums or [np.empty(0)] * len(record.sums)
    ]
    for column, values in zip(sums, record.sums, strict=True):
        column[record.at] = values
    keys, last = with_rows(
        kept.keys, dict(enumerate(kept.last)), record.keys, dict(enumerate(record.last))
    )
    return KeptTotals(names, sums, keys, [*last.values()])


def with_producers(
    checkpoint: Checkpoint, record: Record
) -> tuple[Sequence[tuple[str, str]], KeptTotals]:
    """The names beside the keys of the totals, which are the agent's own."""
    kept = checkpoint.producer_totals
    names = dict(zip(kept.keys.tolist(), checkpoint.producers, strict=True))
    names |= {key: (session, name) for key, session, name in record.producer_names}
    totals = with_totals(kept, record.producers)
    return [names.get(key, ("", "")) for key in totals.keys.tolist()], totals


def with_rows(
    keys: Keys,
    columns: Mapping[NameT, Column],
    new_keys: Keys,
    new: Mapping[NameT, Column],
    only: Keys | None = None,
) -> tuple[Keys, dict[NameT, Column]]:
    """`columns` by `keys`, ascending, with the rows of `new`. only: no other rows than these are taken."""
    taken = (
        np.arange(len(new_keys))
        if only is None
        else np.flatnonzero(positions_of(only, new_keys) >= 0)
    )
    all_keys = np.union1d(keys, new_keys[taken]).astype(np.int64)
    origin = positions_of(keys, all_keys)
    at = positions_of(all_keys, new_keys[taken])
    found = {
        name: take_or_fill(column, origin, np.nan) for name, column in columns.items()
    }
    for name, values in new.items():
        column = found.setdefault(name, np.full(len(all_keys), np.nan))
        column[at] = values[taken]
    return all_keys, found
