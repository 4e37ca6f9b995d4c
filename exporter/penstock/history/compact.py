"""Keeps published history small: joins the files of hours and days, removes old days, and bounds the whole.

Each step writes the new file whole. The files that it was made from are removed about an hour later, so that a job that
has listed them can read them. Meanwhile a note in `joined/` names them, and `current` leaves them out. A kill at any
moment loses nothing. One round of these steps is a *tidying*.
"""

import hashlib
import json
import shutil
import time
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

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
    """target: the joined file; sources: the files that it was made from; at: when, by the agent's clock."""

    target: str
    sources: tuple[str, ...]
    at: float = 0.0

    @property
    def name(self) -> str:
        return f"{NOTES}/{self.target.rpartition('/')[2].removesuffix('.parquet')}.json"


Notes = Mapping[str, Note]
RowMask = Callable[[pa.Table], pa.Array]
"""Of a table the rows that are kept, as Arrow booleans."""


def read_notes(store: Store) -> Notes:
    """Returns the notes by path. Raises StoreError.

    A note that is damaged, or was removed, names no file: its files are joined again, and lose nothing.
    """
    notes = {}
    for entry in store.files(NOTES):
        try:
            content = json.loads(store.read_bytes(entry.path) or b"")
            sources = tuple(map(str, content["sources"]))
            joined_at = float(content.get("at", 0.0))
            notes[entry.path] = Note(str(content["target"]), sources, joined_at)
        except (ValueError, KeyError, TypeError):
            notes[entry.path] = Note("", ())
    return notes


def current(store: Store, below: Sequence[str] = (RAW,)) -> list[StoredFile]:
    """Returns the raw files, without those whose rows are in a joined one, too. Raises StoreError.

    below: directories of whole days.
    """
    before = read_notes(store)
    entries = [entry for directory in below for entry in store.files(directory)]
    # Notes change meanwhile: one is removed after the files it names, and written before the file made from them.
    notes = {**before, **read_notes(store)}
    joined = replaced(notes.values(), {entry.path for entry in entries})
    return [entry for entry in entries if entry.path not in joined]


def replaced(notes: Iterable[Note], paths: Collection[str]) -> set[str]:
    """Returns the files that went into a joined one. paths: files that exist."""
    return {path for note in notes if note.target in paths for path in note.sources}


DAY = 86400
GRACE = 1800.0
"""Seconds after the end of an hour before its files are joined; one day longer before those of a day are."""
SURE_SECONDS = 6 * 3600.0
"""A day is removed only when it has been too old for so long."""
STAY = 50 * 60.0
"""Seconds for which files that were joined can still be read: a little less than from one tidying to the next."""
ENOUGH_BYTES = 256 * 1024
"""A file of this size, packed, is large enough as it is: it is not joined."""
FOOTERS = 500
"""The footer of a file, with its number of rows, is read for so many files at one tidying; the others wait."""
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
        """Return whether a day that is too old may be removed: it has been so for `SURE_SECONDS`.

        So a clock that is set ahead by mistake, and set right again, removes nothing. The first call for a day begins
        its time.
        """
        now = self.steady()
        too_old_since = self.too_old.setdefault(day, now)
        return now - too_old_since >= SURE_SECONDS

    def forget(
        self,
        entries: Sequence[StoredFile],
        groups: Sequence[Sequence[StoredFile]],
        keep: Keep,
        now: float,
    ) -> None:
        """Forget days that are not too old, or no longer there, and files that are not to be joined."""
        days = {partition(entry)[1] for entry in entries}
        too_old = {day for day in days if is_too_old(day, keep, now)}
        self.too_old = {
            day: since for day, since in self.too_old.items() if day in too_old
        }
        waiting = {entry for group in groups for entry in group}
        self.rows = {
            entry: rows for entry, rows in self.rows.items() if entry in waiting
        }

    def rows_of(self, store: Store, entry: StoredFile) -> int:
        """Returns how many rows a file has; its footer is read once."""
        if entry not in self.rows:
            self.rows[entry] = rows_in(store, entry.path)
        return self.rows[entry]


def tidy(store: Store, keep: Keep, now: float, known: Known | None = None) -> int:
    """Join and remove the files that are due at `now`; returns how many days were removed. Raises StoreError.

    now: by the agent's clock. known: of the last tidying; without it, days that are too old and files that were joined
    are removed at once.
    """
    removed = expire(store, keep, now, known.sure if known else lambda _: True)
    notes = read_notes(store)
    if known is not None:
        notes = {path: note for path, note in notes.items() if now - note.at >= STAY}
    remove_joined(store, notes)
    known = known or Known()
    entries = current(store)
    groups = joinable(entries, now)
    known.forget(entries, groups, keep, now)
    try:
        join_groups(store, groups, known, now)
    finally:
        give_back()
    return removed


def join_groups(
    store: Store, groups: Sequence[Sequence[StoredFile]], memory: Known, now: float
) -> None:
    """Join groups until `FOOTERS` more footers were read.

    Raises StoreError; that of a damaged file only after all other groups, which it must not hold up.
    """
    most = len(memory.rows) + FOOTERS
    first_error = None
    for group in groups:
        if len(memory.rows) >= most:
            break
        try:
            for part in parts(store, group, memory):
                join(store, part, now)
        except StoreError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def partition(entry: StoredFile) -> tuple[str, str, str]:
    """Return kind, dt (the day) and hour of a raw file, from the names of its directories."""
    parts = dict(part.split("=", 1) for part in entry.path.split("/") if "=" in part)
    return parts["kind"], parts["dt"], parts["hour"]


def start_of(dt: str, hour: str) -> float:
    """Return the time, in seconds since 1970, at which an hour of a day begins, or a whole day (`ALL_DAY`)."""
    day = datetime.strptime(dt, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    return day if hour == ALL_DAY else day + int(hour) * HOUR


def joinable(entries: Sequence[StoredFile], now: float) -> list[list[StoredFile]]:
    """Returns groups of files to join: those of a past day, else those of a past hour."""
    by_hour: dict[tuple[str, str, str], list[StoredFile]] = defaultdict(list)
    by_day: dict[tuple[str, str], list[StoredFile]] = defaultdict(list)
    for entry in entries:
        kind, dt, hour = partition(entry)
        day_is_due = start_of(dt, ALL_DAY) + 2 * DAY + GRACE
        hour_is_due = start_of(dt, hour) + HOUR + GRACE
        if day_is_due < now:
            by_day[kind, dt].append(entry)
        elif hour_is_due < now:
            by_hour[kind, dt, hour].append(entry)
    groups = [*by_day.values(), *by_hour.values()]
    return [group for group in groups if len(group) > 1]


def parts(
    store: Store, entries: Sequence[StoredFile], memory: Known
) -> list[list[StoredFile]]:
    """Returns runs of neighbours, each of which is joined into one file: it has MAX_VALUES at most.

    A large file, and one without a neighbour to join, stays as it is. entries: files of one kind.
    """
    kind, _, _ = partition(entries[0])
    most = MAX_VALUES // len(ROW_TYPES[kind].schema)  # rows
    runs: list[list[StoredFile]] = []
    room = 0
    for entry in entries:
        is_large = entry.size >= ENOUGH_BYTES
        # A large file counts as one with too many rows: it fits into no run, and nothing fits behind it.
        rows = most + 1 if is_large else memory.rows_of(store, entry)
        if not runs or rows > room:
            runs.append([])
            room = most
        runs[-1].append(entry)
        room -= rows
    return [run for run in runs if len(run) > 1]


def join(store: Store, entries: Sequence[StoredFile], now: float) -> None:
    """Write one file with the rows of several, of one hour or of one day. These can be read for STAY seconds more."""
    sources = tuple(entry.path for entry in entries)
    target = joined_path(entries)
    kind, _, _ = partition(entries[0])
    row_type = ROW_TYPES[kind]
    rows = distinct(read(store, sources, row_type), row_type)
    note = Note(target, sources, now)
    # The note first: without the joined file it changes nothing.
    store.write_bytes(note.name, json.dumps(asdict(note)).encode())
    store.write_table(target, rows)


def joined_path(entries: Sequence[StoredFile]) -> str:
    """Returns the path of the file that these are joined into.

    The same files give the same name, and no others: done again after a kill, a join replaces its own work only.
    """
    kind, dt, hour = partition(entries[0])
    if any(partition(entry)[2] != hour for entry in entries):
        hour = ALL_DAY
    paths = "\n".join(entry.path for entry in entries)
    name = hashlib.sha256(paths.encode()).hexdigest()[:20]
    return f"{RAW}/kind={kind}/dt={dt}/hour={hour}/joined-{name}.parquet"


def remove_joined(store: Store, notes: Notes) -> None:
    """Remove the files that these notes name, and the notes; where the joined file is missing, only the note."""
    if not notes:
        return
    paths = {entry.path for entry in store.files(RAW)}
    joined = replaced(notes.values(), paths)
    for name, note in notes.items():
        for path in joined.intersection(note.sources):
            store.delete(path)
        store.delete(name)


def read(
    store: Store,
    paths: Sequence[str],
    kind: RowType,
    columns: Sequence[str] = (),
    mask: RowMask | None = None,
) -> pa.Table:
    """Returns rows of raw files in the schema of now: a column that a file lacks is null. Raises StoreError.

    mask: table → which of its rows are kept, as Arrow booleans. It gets a row group at a time, as a day may be large.
    """
    names = columns or kind.schema.names
    fields = [kind.schema.field(name) for name in names]
    schema = pa.schema(fields, kind.schema.metadata)
    tables = [schema.empty_table()]
    for path in paths:
        tables += row_groups(store, path, schema, mask)
    return pa.concat_tables(tables).unify_dictionaries()


def row_groups(
    store: Store, path: str, schema: pa.Schema, mask: RowMask | None
) -> Iterator[pa.Table]:
    """Yields the rows of each row group of a file that the mask keeps, in a schema. Raises StoreError."""
    with store.errors(path), store.fs.open_input_file(store.path(path)) as source:
        file = pq.ParquetFile(source)
        stored = file.schema_arrow.names
        names = [name for name in schema.names if name in stored]
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, names, use_threads=False)
            table = fitted(rows, schema)
            yield table if mask is None else table.filter(mask(table))


def rows_in(store: Store, path: str) -> int:
    """Returns how many rows a file has. Raises StoreError."""
    with store.errors(path), store.fs.open_input_file(store.path(path)) as source:
        return int(pq.read_metadata(source).num_rows)


def distinct(rows: pa.Table, kind: RowType) -> pa.Table:
    """Returns the rows in series order; a row that is there twice (published or joined twice) once."""
    rows = in_order(rows, kind).combine_chunks()
    if not len(rows):
        return rows
    if kind.name == CONDITION.name:
        groups = rows.group_by(rows.column_names, use_threads=False)
        return groups.aggregate([])
    # In series order the same rows are neighbours: a row is kept if it differs from the one before it.
    differs = [np.diff(sortable(rows[name])) != 0 for name in kind.order]
    is_first = np.append(True, np.any(differs, axis=0))
    return rows.filter(pa.array(is_first))


def is_too_old(dt: str, keep: Keep, now: float) -> bool:
    """Return whether the day ended more than `keep.days` days ago."""
    return start_of(dt, ALL_DAY) + DAY + keep.days * DAY < now


def expire(store: Store, keep: Keep, now: float, sure: Callable[[str], bool]) -> int:
    """Remove the days beyond `keep`, the oldest first, never today; returns how many were removed.

    A day goes if it is too old, and while the whole history is too large. sure: whether a day that is too old may go.
    """
    sizes: dict[str, int] = defaultdict(int)
    for entry in current(store):
        sizes[partition(entry)[1]] += entry.size
    total = sum(sizes.values())
    removed = 0
    for dt in sorted(sizes):
        if start_of(dt, ALL_DAY) + DAY > now:
            break
        may_go = is_too_old(dt, keep, now) and sure(dt)
        if may_go or total > keep.bytes:
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
    """Join two files of each of REHEARSED in a directory of its own in `spool`. Raises StoreError or OSError.

    So pyarrow loads what joining needs, 4 MB and two threads, at the start, and not an hour later.
    """
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
