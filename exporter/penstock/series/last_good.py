"""The parts of an earlier snapshot that stay in use for a while when the present one lacks them.

A collector reads one part of a broker: a table, or some columns of a table. It may fail at one poll and succeed at the
next; in between, the last values it read are better than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.state import with_fields
from penstock.core.table import Table
from penstock.model import Role, Snapshot

_TABLES = (
    "addresses",
    "queues",
    "consumers",
    "connections",
    "producers",
    "transactions",
    "links",
)
"""Collectors with the name of the table that they read."""
_ALSO = {"connections": "producers"}
"""A further table that a collector reads."""
_JOINS = {
    "consumers": ("consumer_queue", "consumer_connection"),
    "producers": ("producer_connection",),
    "transactions": ("transaction_connection",),
}
"""By table, the fields of a snapshot that name rows of other tables, one for each row: useless without the table."""
_ADDED_COLUMNS = {
    "sizes": ("queues", ("bytes", "delivering_bytes", "acknowledge_attempts"))
}
"""Collectors that add columns to a table: the table, and the columns."""

KEEP_POLLS = 3
KEEP_SECONDS = 60.0
"""Values of a failed collector stay in use for so many polls, and for so many seconds in any case."""


def keep_seconds(interval: float) -> float:
    """Return for how many seconds the values of a failed collector stay in use.

    interval: seconds between polls, NaN while unknown.
    """
    return max(KEEP_POLLS * float(np.nan_to_num(interval)), KEEP_SECONDS)


@dataclass(frozen=True, slots=True)
class LastGood:
    """The last snapshot in use, and when each collector last succeeded, by the agent's clock."""

    snapshot: Snapshot | None = None
    stamps: Mapping[str, float] = field(default_factory=dict)


def keep_last_good(
    kept: LastGood, snapshot: Snapshot, seconds: float
) -> tuple[LastGood, Snapshot]:
    """Return the snapshot with the tables and columns of failed collectors as they last were, and what to keep of it.

    They stay for at most `seconds`, and not over a restart of the broker or while it is passive. After that they are
    missing; they are never zero.
    """
    read_now = {
        name: snapshot.stamp
        for name, collector in snapshot.collectors.items()
        if collector.usable
    }
    stamps = {**kept.stamps, **read_now}
    before = kept.snapshot
    if before is not None and is_of_new_process(snapshot, before):
        before = None
        stamps = {
            name: stamp for name, stamp in stamps.items() if stamp == snapshot.stamp
        }
    if before is not None and is_active(snapshot):
        for collector, result in snapshot.collectors.items():
            age = snapshot.stamp - stamps.get(collector, -np.inf)
            if not result.success and age <= seconds:
                snapshot = with_last_values(snapshot, before, collector)
    snapshot = replace(snapshot, read=stamps)
    return LastGood(snapshot, stamps), snapshot


def is_of_new_process(snapshot: Snapshot, before: Snapshot) -> bool:
    """Return whether the broker started again after the snapshot before."""
    process = snapshot.observation.process
    return process.replaces(before.observation.process)


def is_active(snapshot: Snapshot) -> bool:
    """Return whether the broker answered and serves clients."""
    return snapshot.broker is not None and snapshot.broker.role is Role.ACTIVE


def with_last_values(snapshot: Snapshot, before: Snapshot, collector: str) -> Snapshot:
    """Return the snapshot with the tables or columns that a failed collector read for the snapshot before."""
    if collector in _TABLES:
        tables = {collector, _ALSO.get(collector, collector)}
        missing = [name for name in tables if getattr(snapshot, name) is None]
        joins = [join for name in missing for join in _JOINS.get(name, ())]
        return replace(
            snapshot, **{name: getattr(before, name) for name in (*missing, *joins)}
        )
    if collector in _ADDED_COLUMNS:
        return with_columns(snapshot, before, *_ADDED_COLUMNS[collector])
    return snapshot


def with_columns(
    snapshot: Snapshot, before: Snapshot, table: str, columns: tuple[str, ...]
) -> Snapshot:
    """Return the snapshot with the columns that its table lacks, from the same rows of the snapshot before.

    A row that is new has NaN.
    """
    now: Table[object] | None = getattr(snapshot, table)
    last: Table[object] | None = getattr(before, table)
    if now is None or last is None:
        return snapshot
    added = {
        name: now.index.carry(last.index, last.columns[name], np.nan)
        for name in columns
        if name in last and name not in now
    }
    filled_up = Table(now.index, {**now.columns, **added})
    return with_fields(snapshot, {table: filled_up})
