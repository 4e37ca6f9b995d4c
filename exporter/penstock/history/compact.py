"""
Keeping published history small: hours into one file, days into one file, old days away, a bound on the whole.

Each step writes the new file whole before it removes what went into it; a reader drops rows that stand twice, so
being killed in between costs nothing.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.publish import ALL_DAY, RAW, in_order
from penstock.history.schema import KINDS, Kind
from penstock.history.store import Entry, Store

HOUR = 3600
DAY = 86400
GRACE = 1800.0
"""Seconds after the end of an hour before its files are joined; one day longer before those of a day are."""

SURE_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Keep:
    """days: of raw history. bytes: bound of all raw history; beyond it the oldest days go."""

    days: float = 35.0
    bytes: int = 20 * 2**30


def tidy(store: Store, keep: Keep, now: float, sure: Callable[[str], bool] = lambda _: True) -> int:
    """
    Join and remove what is due at `now` (agent's clock); how many days were removed. Raises StoreError.

    sure: whether a day that is too old at `now` may go.
    """
    removed = expire(store, keep, now, sure)
    for entries in joinable(store.files(RAW), now):
        join(store, entries)
    return removed


def partition(entry: Entry) -> tuple[str, str, str]:
    """kind, dt and hour of a raw file."""
    parts = dict(part.split("=", 1) for part in entry.path.split("/") if "=" in part)
    return parts["kind"], parts["dt"], parts["hour"]


def start_of(dt: str, hour: str) -> float:
    """Seconds since 1970 at which a partition begins."""
    day = datetime.strptime(dt, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    return day if hour == ALL_DAY else day + int(hour) * HOUR


def joinable(entries: Sequence[Entry], now: float) -> list[list[Entry]]:
    """Files to be joined into one: those of a past day, else those of a past hour."""
    by_hour: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
    by_day: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        kind, dt, hour = partition(entry)
        if start_of(dt, ALL_DAY) + 2 * DAY + GRACE < now:
            by_day[kind, dt].append(entry)
        elif start_of(dt, hour) + HOUR + GRACE < now:
            by_hour[kind, dt, hour].append(entry)
    return [group for group in [*by_day.values(), *by_hour.values()] if len(group) > 1]


def join(store: Store, entries: Sequence[Entry]) -> None:
    """Write one file in place of several of one hour, or of one day."""
    kind, dt, hour = partition(entries[0])
    if len({partition(entry)[2] for entry in entries}) > 1:
        hour = ALL_DAY
    target = f"{RAW}/kind={kind}/dt={dt}/hour={hour}/joined.parquet"
    rows = distinct(read(store, [entry.path for entry in entries], KINDS[kind]), KINDS[kind])
    store.write_table(target, rows)
    for entry in entries:
        if entry.path != target:
            store.delete(entry.path)


def read(store: Store, paths: Sequence[str], kind: Kind, columns: Sequence[str] | None = None) -> Any:
    """Rows of raw files in the schema of now: a column that a file lacks is null."""
    schema = kind.schema if columns is None else pa.schema([kind.schema.field(name) for name in columns])
    tables = [fitted(read_file(store, path, schema.names), schema) for path in paths]
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table()


def read_file(store: Store, path: str, columns: Sequence[str]) -> Any:
    with store.fs.open_input_file(store.path(path)) as source:
        file = pq.ParquetFile(source)
        return file.read([name for name in columns if name in file.schema_arrow.names], use_threads=False)


def fitted(table: Any, schema: Any) -> Any:
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def distinct(rows: Any, kind: Kind) -> Any:
    """In series order, a row that stands twice (published or joined twice) once."""
    rows = in_order(rows, kind).combine_chunks()
    if not len(rows) or kind.name == "condition":
        return rows if not len(rows) else rows.group_by(rows.column_names, use_threads=False).aggregate([])
    same = None
    for name in kind.order:
        column = rows[name].combine_chunks() if hasattr(rows[name], "combine_chunks") else rows[name]
        column = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        alike = pa.compute.equal(column.slice(1), column.slice(0, len(column) - 1))
        same = alike if same is None else pa.compute.and_(same, alike)
    return rows.filter(pa.concat_arrays([pa.array([True]), pa.compute.invert(same)]))


@dataclass(slots=True)
class Patient:
    """
    Lets a day go once it has been too old for SURE_SECONDS of a clock that nobody sets.

    A clock that is set ahead by mistake and set right again removes nothing.
    """

    steady: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)

    def __call__(self, day: str) -> bool:
        self._asked.add(day)
        return self.steady() - self._since.setdefault(day, self.steady()) >= SURE_SECONDS

    def end(self) -> None:
        """All days were asked for: the others are not too old, or no longer."""
        self._since = {day: since for day, since in self._since.items() if day in self._asked}
        self._asked.clear()


def expire(store: Store, keep: Keep, now: float, sure: Callable[[str], bool] = lambda _: True) -> int:
    """Remove the days beyond `keep`, the oldest first, never today; how many."""
    sizes: dict[str, int] = defaultdict(int)
    for entry in store.files(RAW):
        sizes[partition(entry)[1]] += entry.size
    total, removed = sum(sizes.values()), 0
    for dt in sorted(sizes):
        if start_of(dt, ALL_DAY) + DAY > now:
            break
        old = start_of(dt, ALL_DAY) + DAY + keep.days * DAY < now and sure(dt)
        if old or total > keep.bytes:
            for kind in KINDS:
                if f"dt={dt}" in store.directories(f"{RAW}/kind={kind}"):
                    store.delete_directory(f"{RAW}/kind={kind}/dt={dt}")
            total -= sizes[dt]
            removed += 1
    return removed
