"""What of an earlier snapshot stays in use when a part of the present one could not be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.core.table import Table
from penstock.model import Role, Snapshot

# Which tables collectors read, which reads a further one, and which columns of a table another one adds.
_TABLES = (
    "addresses",
    "queues",
    "consumers",
    "connections",
    "producers",
    "transactions",
    "links",
)
_ALSO = {"connections": "producers"}
_JOINS = {
    "consumers": ("consumer_queue", "consumer_connection"),
    "producers": ("producer_connection",),
    "transactions": ("transaction_connection",),
}
_ADDED_COLUMNS = {
    "sizes": ("queues", ("bytes", "delivering_bytes", "acknowledge_attempts"))
}

KEEP_POLLS = 3
KEEP_SECONDS = 60.0


def keep_seconds(interval: float) -> float:
    """For how long what could not be read again stays in use; interval: seconds between polls, NaN while unknown."""
    return max(KEEP_POLLS * float(np.nan_to_num(interval)), KEEP_SECONDS)


@dataclass(frozen=True, slots=True)
class LastGood:
    """The last snapshot in use, and when each collector last succeeded, by the agent's clock."""

    snapshot: Snapshot | None = None
    stamps: Mapping[str, float] = field(default_factory=dict)


def keep_last_good(
    kept: LastGood, snapshot: Snapshot, seconds: float
) -> tuple[LastGood, Snapshot]:
    """`snapshot` with the tables and columns of failed collectors as they last were, for at most `seconds`. After that,
    or when the broker is passive, they are missing; they are never zero.
    """
    stamps = dict(kept.stamps)
    stamps |= {
        name: snapshot.stamp
        for name, collector in snapshot.collectors.items()
        if collector.usable
    }
    before = kept.snapshot
    if before is not None and snapshot.observation.process.replaces(
        before.observation.process
    ):
        before = None
        stamps = {name: at for name, at in stamps.items() if at == snapshot.stamp}
    if (
        before is not None
        and snapshot.broker is not None
        and snapshot.broker.role is Role.ACTIVE
    ):
        for collector, result in snapshot.collectors.items():
            if (
                result.success
                or snapshot.stamp - stamps.get(collector, -np.inf) > seconds
            ):
                continue
            if collector in _TABLES:
                names = {collector, _ALSO.get(collector, collector)}
                missing = [name for name in names if getattr(snapshot, name) is None]
                joins = [join for name in missing for join in _JOINS.get(name, ())]
                snapshot = replace(
                    snapshot,
                    **{name: getattr(before, name) for name in (*missing, *joins)},
                )
            elif collector in _ADDED_COLUMNS:
                snapshot = with_columns(snapshot, before, *_ADDED_COLUMNS[collector])
    snapshot = replace(snapshot, read=stamps)
    return LastGood(snapshot, stamps), snapshot


def with_columns(
    snapshot: Snapshot, before: Snapshot, table: str, columns: tuple[str, ...]
) -> Snapshot:
    """Columns of before, moved to the rows of now, where they are missing now."""
    now: Table[Any] | None = getattr(snapshot, table)
    then: Table[Any] | None = getattr(before, table)
    if now is None or then is None:
        return snapshot
    moved = {
        name: now.index.carry(then.index, then.columns[name], np.nan)
        for name in columns
        if name in then and name not in now
    }
    replaced: dict[str, Any] = {table: Table(now.index, {**now.columns, **moved})}
    return replace(snapshot, **replaced)
