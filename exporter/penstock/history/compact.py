"""Keeping published history small: hours into one file, days into one file, old days away, a bound on the whole.

Each step writes the new file whole; what went into it goes about an hour later, so that a job that has listed it can
read it. Meanwhile a note in `joined/` names them, code that lists raw history by `current` passes over
them, and being killed in between costs nothing.
"""

import hashlib
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.publish import ALL_DAY, RAW, give_back, in_order, sortable
from penstock.history.publish import directory as hour_directory
from penstock.history.schema import CONDITION, HOUR, ROW_TYPES, RowType, fitted
from penstock.history.store import Store, StoredFile, StoreError

NOTES = "joined"


@dataclass(frozen=True, slots=True)
class Note:
    """target: the joined file; sources: those that went into it; at: when, by the agent's clock."""

    target: str
    sources: tuple[str, ...]
    at: float = 0.0

    @property
    def name(self) -> str:
        return f"{NOTES}/{self.target.rpartition('/')[2].removesuffix('.parquet')}.json"


Notes = Mapping[str, Note]


def read_notes(store: Store) -> Notes:
    """Raises StoreError. One that is gone or damaged names nothing: its files are joined again, and lose nothing."""
    found = {}
    for entry in store.files(NOTES):
        try:
            said = json.loads(store.read_bytes(entry.path) or b"")
            sources = tuple(map(str, said["sources"]))
            found[entry.path] = Note(
                str(said["target"]), sources, float(said.get("at", 0.0))
            )
        except (ValueError, KeyError, TypeError):
            found[entry.path] = Note("", ())
    return found


def current(store: Store, below: Sequence[str] = (RAW,)) -> list[StoredFile]:
    """The raw files, without those whose rows are in a joined one, too; below: of whole days. Raises StoreError."""
    before = read_notes(store)
    entries = [entry for place in below for entry in store.files(place)]
    # Notes come and go meanwhile: one goes after the files it names, and comes before the one that is made of them.
    gone = replaced(
        {**before, **read_notes(store)}.values(), {entry.path for entry in entries}
    )
    return [entry for entry in entries if entry.path not in gone]


def replaced(notes: Iterable[Note], there: Collection[str]) -> set[str]:
    """Of the files that are `there`, those that went into others that are there."""
    return {path for note in notes if note.target in there for path in note.sources}


DAY = 86400
GRACE = 1800.0
"""Seconds after the end of an hour before its files are joined; one day longer before those of a day are."""
SURE_SECONDS = 6 * 3600.0
"""For how long a day is too old before it goes."""
STAY = 50 * 60.0
"""Seconds for which files that were joined can still be read: a little less than from one tidying to the next."""
ENOUGH_BYTES = 256 * 1024
"""A file of this size, packed, is large enough as it is."""
FOOTERS = 500
"""Files of which it is read at one time how many rows they have; with the others it goes on the next time."""
MAX_VALUES = 4_000_000
"""Rows times columns that are joined at once: 32 MB, three or four times so while they are sorted and written."""


@dataclass(frozen=True, slots=True)
class Keep:
    """days: of raw history. bytes: bound of all raw history; beyond it the oldest days go."""

    days: float = 35.0
    bytes: int = 20 * 2**30


@dataclass(slots=True)
class Known:
    """What an agent knows of the store from one tidying to the next. steady: a clock that is never set, seconds."""

    steady: Callable[[], float] = time.monotonic
    too_old: dict[str, float] = field(default_factory=dict)
    """Days that are beyond `keep`: since when, by the steady clock."""
    rows: dict[StoredFile, int] = field(default_factory=dict)

    def sure(self, day: str) -> bool:
        """Whether a day that is too old may go: a clock set ahead by mistake and set right again removes nothing."""
        return (
            self.steady() - self.too_old.setdefault(day, self.steady()) >= SURE_SECONDS
        )

    def rows_of(self, store: Store, entry: StoredFile) -> int:
        if entry not in self.rows:
            self.rows[entry] = rows_in(store, entry.path)
        return self.rows[entry]


def tidy(store: Store, keep: Keep, now: float, known: Known | None = None) -> int:
    """Join and remove what is due at `now` (agent's clock); how many days were removed. Raises StoreError.

    known: kept from the last time; without it days that are too old, and what was joined before, go at once.
    """
    removed = expire(store, keep, now, known.sure if known else lambda _: True)
    notes = read_notes(store)
    remove_joined(
        store,
        {
            name: note
            for name, note in notes.items()
            if known is None or now - note.at >= STAY
        },
    )
    known = known or Known()
    entries = current(store)
    days = {
        partition(entry)[1]
        for entry in entries
        if is_too_old(partition(entry)[1], keep, now)
    }
    known.too_old = {day: since for day, since in known.too_old.items() if day in days}
    groups = joinable(entries, now)
    known.rows = {
        entry: known.rows[entry]
        for group in groups
        for entry in group
        if entry in known.rows
    }
    most = len(known.rows) + FOOTERS
    failed = None
    try:
        for group in groups:
            if len(known.rows) >= most:
                break
            try:
                for part in parts(store, group, known):
                    join(store, part, now)
            except (
                StoreError
            ) as error:  # one damaged file keeps no other from being joined
                failed = failed or error
    finally:
        give_back()
    if failed is not None:
        raise failed
    return removed


def partition(entry: StoredFile) -> tuple[str, str, str]:
    """kind, dt and hour of a raw file."""
    parts = dict(part.split("=", 1) for part in entry.path.split("/") if "=" in part)
    return parts["kind"], parts["dt"], parts["hour"]


def start_of(dt: str, hour: str) -> float:
    """Seconds since 1970 at which a partition begins."""
    day = datetime.strptime(dt, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    return day if hour == ALL_DAY else day + int(hour) * HOUR


def joinable(entries: Sequence[StoredFile], now: float) -> list[list[StoredFile]]:
    """Files to be joined into one: those of a past day, else those of a past hour."""
    by_hour: dict[tuple[str, str, str], list[StoredFile]] = defaultdict(list)
    by_day: dict[tuple[str, str], list[StoredFile]] = defaultdict(list)
    for entry in entries:
        kind, dt, hour = partition(entry)
        if start_of(dt, ALL_DAY) + 2 * DAY + GRACE < now:
            by_day[kind, dt].append(entry)
        elif start_of(dt, hour) + HOUR + GRACE < now:
            by_hour[kind, dt, hour].append(entry)
    return [group for group in [*by_day.values(), *by_hour.values()] if len(group) > 1]


def parts(
    store: Store, entries: Sequence[StoredFile], known: Known
) -> list[list[StoredFile]]:
    """Neighbours of one kind that together have MAX_VALUES at most, each a file to be; without who stays alone."""
    most = MAX_VALUES // len(ROW_TYPES[partition(entries[0])[0]].schema)
    found: list[list[StoredFile]] = []
    room = 0
    for entry in entries:
        rows = most + 1 if entry.size >= ENOUGH_BYTES else known.rows_of(store, entry)
        if not found or rows > room:
            found.append([])
            room = most
        found[-1].append(entry)
        room -= rows
    return [part for part in found if len(part) > 1]


def join(store: Store, entries: Sequence[StoredFile], now: float) -> None:
    """Write one file in place of several of one hour, or of one day, which stay for STAY seconds."""
    kind, dt, hour = partition(entries[0])
    if len({partition(entry)[2] for entry in entries}) > 1:
        hour = ALL_DAY
    # The same files give the same name, and no others: done again after a kill it replaces its own work only.
    name = hashlib.sha256(
        "\n".join(entry.path for entry in entries).encode()
    ).hexdigest()[:20]
    target = f"{RAW}/kind={kind}/dt={dt}/hour={hour}/joined-{name}.parquet"
    sources = tuple(entry.path for entry in entries)
    rows = distinct(read(store, sources, ROW_TYPES[kind]), ROW_TYPES[kind])
    note = Note(target, sources, now)
    store.write_bytes(
        note.name, json.dumps(asdict(note)).encode()
    )  # without the joined file it says nothing
    store.write_table(target, rows)


def remove_joined(store: Store, notes: Notes) -> None:
    """The files that went into joined ones, and their notes; where the joined one is not there, the note alone."""
    gone = (
        replaced(notes.values(), {entry.path for entry in store.files(RAW)})
        if notes
        else set()
    )
    for name, note in notes.items():
        for path in gone.intersection(note.sources):
            store.delete(path)
        store.delete(name)


def read(
    store: Store,
    paths: Sequence[str],
    kind: RowType,
    columns: Sequence[str] = (),
    mask: Any = None,
) -> Any:
    """Rows of raw files in the schema of now: a column that a file lacks is null. Raises StoreError.

    mask: table → which of its rows are kept, as Arrow booleans; asked of a row group at a time, as a day may be large.
    """
    schema = pa.schema(
        [kind.schema.field(name) for name in columns or kind.schema.names],
        kind.schema.metadata,
    )
    tables = [schema.empty_table()]
    for path in paths:
        with store.errors(path), store.fs.open_input_file(store.path(path)) as source:
            file = pq.ParquetFile(source)
            there = [name for name in schema.names if name in file.schema_arrow.names]
            for group in range(file.num_row_groups):
                table = fitted(
                    file.read_row_group(group, there, use_threads=False), schema
                )
                tables.append(table if mask is None else table.filter(mask(table)))
    return pa.concat_tables(tables).unify_dictionaries()


def rows_in(store: Store, path: str) -> int:
    """How many rows a file has. Raises StoreError."""
    with store.errors(path), store.fs.open_input_file(store.path(path)) as source:
        return int(pq.read_metadata(source).num_rows)


def distinct(rows: Any, kind: RowType) -> Any:
    """In series order, a row that is there twice (published or joined twice) once."""
    rows = in_order(rows, kind).combine_chunks()
    if not len(rows) or kind.name == "condition":
        return (
            rows
            if not len(rows)
            else rows.group_by(rows.column_names, use_threads=False).aggregate([])
        )
    differs = [np.diff(sortable(rows[name])) != 0 for name in kind.order]
    return rows.filter(pa.array(np.append(True, np.any(differs, axis=0))))


def is_too_old(dt: str, keep: Keep, now: float) -> bool:
    return start_of(dt, ALL_DAY) + DAY + keep.days * DAY < now


def expire(store: Store, keep: Keep, now: float, sure: Callable[[str], bool]) -> int:
    """Remove the days beyond `keep`, the oldest first, never today; how many. sure: whether one too old may go."""
    sizes: dict[str, int] = defaultdict(int)
    for entry in current(store):
        sizes[partition(entry)[1]] += entry.size
    total = sum(sizes.values())
    removed = 0
    for dt in sorted(sizes):
        if start_of(dt, ALL_DAY) + DAY > now:
            break
        if (is_too_old(dt, keep, now) and sure(dt)) or total > keep.bytes:
            for kind in ROW_TYPES:
                if f"dt={dt}" in store.directories(f"{RAW}/kind={kind}"):
                    store.delete_directory(f"{RAW}/kind={kind}/dt={dt}")
            total -= sizes[dt]
            removed += 1
    return removed


NAME = "_rehearsal"
REHEARSED = (ROW_TYPES["consumer"], CONDITION)
"""Duplicate rows are found in two ways."""


def warm_up(spool: Path) -> None:
    """Join two files of each of REHEARSED in a directory of its own in `spool`. Raises StoreError or OSError."""
    directory = spool / NAME
    shutil.rmtree(directory, ignore_errors=True)  # a kill may have left it
    store = Store(str(directory))
    for kind in REHEARSED:
        row = pa.table(
            [pa.nulls(1, column.type) for column in kind.schema], schema=kind.schema
        )
        for name in "ab":
            store.write_table(f"{hour_directory(kind.name, 0)}/{name}.parquet", row)
    tidy(store, Keep(), now=2.0 * HOUR)
    shutil.rmtree(directory)
