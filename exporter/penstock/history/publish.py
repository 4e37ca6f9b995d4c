"""From a spool segment to Parquet: one file per kind, in series order, under `raw/kind=/dt=/hour=/`."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core import allocator
from penstock.history import spool
from penstock.history.schema import BROKER, ROW_TYPES, RowType
from penstock.history.store import Store

RAW = "raw"
ALL_DAY = "all"
"""The `hour=` of a file that holds a whole day."""


def directory(kind: str, hour: int) -> str:
    """Where the rows of an hour (hours since 1970) are."""
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return f"{RAW}/kind={kind}/dt={at:%Y-%m-%d}/hour={at:%H}"


def publish(segment: Path, store: Store, agent: str) -> bool:
    """Publish a closed segment and remove it; False where a part of it cannot be read: it stays, all else is published.

    Done twice it is the same. Raises StoreError, and OSError where the disk fails to read it; it stays then, too.
    """
    found = spool.read(segment, BROKER.name)
    polls = found.rows
    damaged = found.damaged
    whole = polls.select(["broker", "stamp"])
    for kind in ROW_TYPES.values():
        rows = polls
        if kind is not BROKER:
            found = spool.read(segment, kind.name)
            rows = of_polls(found.rows, whole)
            damaged = damaged or found.damaged
        for hour, part in by_hour(rows):
            store.write_table(
                f"{directory(kind.name, hour)}/{agent}-{segment.name}.parquet",
                in_order(part, kind),
            )
    if damaged:
        return False
    spool.remove(segment)
    return True


def of_polls(rows: pa.Table, polls: pa.Table) -> pa.Table:
    """The rows whose poll was written to its end."""
    if len(rows) == 0:
        return rows
    marks = {(broker, stamp) for broker, stamp in zip(*_keys(polls), strict=True)}
    whole = [pair in marks for pair in set(zip(*_keys(rows), strict=True))]
    if all(whole):
        return rows
    return rows.filter(
        pa.array([pair in marks for pair in zip(*_keys(rows), strict=True)])
    )


def _keys(rows: pa.Table) -> tuple[list[str], list[int]]:
    return rows["broker"].cast(pa.string()).to_pylist(), rows["stamp"].cast(
        pa.int64()
    ).to_pylist()


def by_hour(rows: pa.Table) -> list[tuple[int, pa.Table]]:
    hours = pc.divide(rows["stamp"].cast(pa.int64()), 3_600_000_000)
    return [
        (hour, rows.filter(pc.equal(hours, hour)))
        for hour in sorted(hours.unique().to_pylist())
    ]


def in_order(rows: pa.Table, kind: RowType) -> pa.Table:
    return rows.take(
        pa.array(np.lexsort([sortable(rows[name]) for name in reversed(kind.order)]))
    )


def give_back() -> None:
    """What is free goes back to the system, also what Arrow keeps: publishing and joining need much for a moment."""
    pa.default_memory_pool().release_unused()
    allocator.give_back()


def sortable(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Whole numbers in the order of the values."""
    if pa.types.is_dictionary(column.type):
        texts = column.cast(pa.string()).combine_chunks()
        ranks: NDArray[np.int64] = pc.rank(texts, tiebreaker="dense").to_numpy()
        return ranks
    numbers: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return numbers
