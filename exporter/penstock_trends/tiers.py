"""Bring the tiers up to date: raw files → hours (h1), what counters grew (i1), days (d1), day by day published.

Spark works only where something is new. Rows stay in its workers, which write them; names of files and counts come
back. A day is published by its pointer (`days.py`), last.

A tier is a set of tables: h1 has hourly rows with the lowest and highest value of each counter, i1 has how much each
counter grew, d1 has the rows of a day. A bucket is one file of a table and day; a series is always in the same one. A
generation is a name that follows from the files that a day is made of.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.history.compact import current, partition
from penstock.history.listing import GAP_POLLS
from penstock.history.publish import ALL_DAY
from penstock.history.schema import CONDITION
from penstock.history.store import Store, StoredFile
from penstock_trends import days as pointers
from penstock_trends import tables
from penstock_trends.days import (
    LOOK_BACK,
    OLD_MANIFEST,
    Inputs,
    Pointer,
    Pointers,
    generation,
)
from penstock_trends.kernel import TIERS, VERSION
from penstock_trends.raw import GONE, hours_of_units
from penstock_trends.session import spread
from penstock_trends.untyped import ArrowSchema, SparkSession

CHUNK: Final = 14
"""Days that are rolled up and published together."""
BUCKET_BYTES: Final = 8 * 2**20
"""Of a day's raw files of a kind: for so many there is a file of each of its tables, with some hundred series."""
MOST_BUCKETS: Final = 4096
ATTEMPTS: Final = 3
KINDS: Final = (*TIERS, CONDITION.name)

Progress = Callable[[str], None]


class RollupError(PenstockError):
    """Raw files went while they were read, again and again."""


@dataclass(slots=True)
class Rolled:
    """What a run did: days rolled up again, raw files and bytes read, hourly rows written. ahead: files left out, dated
    ahead of the clock.
    """

    days: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    rows: int = 0
    ahead: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """Where a run reads and writes, and the session of Spark that does it."""

    session: SparkSession
    history: Store
    out: Store
    progress: Progress = lambda _: None


def roll_up(
    session: SparkSession,
    history: Store,
    out: Store,
    progress: Progress = lambda _: None,
) -> Rolled:
    """Bring the tiers in `out` up to date with the raw files in `history`; nothing new is no work."""
    job = Job(session, history, out, progress)
    done = Rolled()
    for _ in range(ATTEMPTS):
        if roll_up_once(job, done):
            return done
    raise RollupError(
        f"{history.url}: files were removed while they were read, {ATTEMPTS} times; run it again"
    )


def roll_up_once(job: Job, done: Rolled) -> bool:
    """Roll up all days with something new; returns whether all files could be read, so that no day has to wait.

    done: gets the days, files, bytes and rows of this attempt, and the files dated ahead
    of the clock.
    """
    every = listed(job.history)
    present = {day: every[day] for day in pointers.plausible(every, time.time())}
    days_ahead = every.keys() - present
    done.ahead = sorted(path for day in days_ahead for path in every[day])
    published = pointers.load(job.out, present)
    work = [
        day
        for day, files in present.items()
        if published.get(day, Pointer(day)).is_dirty(files)
    ]
    work = sorted([*work, *old_days(job.out, present)])
    is_complete = True
    for start in range(0, len(work), CHUNK):
        days = work[start : start + CHUNK]
        number = start + len(days)
        job.progress(f"rolling up {days[0]} … {days[-1]}, day {number} of {len(work)}")
        inputs = {day: present.get(day, {}) for day in days}
        is_complete &= roll_days(job, inputs, published, done)
    if is_complete:
        pointers.clean(job.out, published, time.time())
    return is_complete


def listed(history: Store) -> dict[str, dict[str, list[int]]]:
    """Returns size and mtime of each raw file of KINDS: day → path → [size, mtime].

    Files that were joined into others are left out.
    """
    files_by_day: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for entry in current(history):
        kind, day, _ = partition(entry)
        if kind in KINDS:
            files_by_day[day][entry.path] = [entry.size, entry.mtime]
    return files_by_day


def old_days(out: Store, present: Mapping[str, Inputs]) -> list[str]:
    """Returns the days without raw files that only an older version rolled up: their hours are converted."""
    old = pointers.read_json(out, OLD_MANIFEST)
    if not old:
        return []
    return sorted(old.keys() - present.keys() - set(pointers.day_names(out)))


def roll_days(
    job: Job, inputs: Mapping[str, Inputs], published: Pointers, done: Rolled
) -> bool:
    """Roll up and publish some days.

    inputs: their raw files. published: the pointers before; gets the new ones. Returns False if a raw file disappeared
    meanwhile: its day then waits for the next attempt.
    """
    made = {day: begun(job.out, day, files) for day, files in inputs.items()}
    days_to_wait: set[str] = set()
    for kind in KINDS:
        days_to_wait |= write_hours(job, kind, made)
    ready = {
        day: pointer
        for day, pointer in made.items()
        if day not in days_to_wait and not refuse(job.out, pointer, published.get(day))
    }
    for pointer in derive(job, ready):
        pointers.publish(job.out, pointer)
    published |= ready
    done.days += ready
    for day in ready:
        done.files += len(inputs[day])
        done.bytes += sum(size for size, _ in inputs[day].values())
    return not days_to_wait


def begun(out: Store, day: str, files: Inputs) -> Pointer:
    """Returns the pointer of a day that is to be made, with its inputs: its raw files.

    A day without any is made of the hours that an older version wrote.
    """
    inputs = {path: list(size_and_time) for path, size_and_time in files.items()}
    if not inputs:
        inputs = {path: [0, 0] for path in old_files(day) if out.exists(path)}
    return Pointer(day, generation(VERSION, inputs), kernel=VERSION, inputs=inputs)


def old_files(day: str) -> list[str]:
    """Returns the paths where older versions kept a day."""
    folders = [*(f"h1/kind={kind}" for kind in TIERS), CONDITION.name]
    return [f"{folder}/dt={day}/part.parquet" for folder in folders]


# --- raw → hours


def write_hours(job: Job, kind: str, made: Pointers) -> set[str]:
    """Write h1 and series of a kind, or `condition`; returns the days of which a raw file disappeared."""
    units = [
        json.dumps(unit)
        for pointer in made.values()
        for unit in units_of(kind, pointer)
    ]
    if not units:
        return set()
    work = partial(hours_of_units, job.history.url, job.out.url, kind)
    hours = spread(job.session, units, work, tables.schema_of_hours(kind))
    if kind == CONDITION.name:
        buckets = 1
        parts = write_reports(job, hours, made)
    else:
        buckets = buckets_for(kind, made)
        parts = write_rows(job, kind, hours, made, buckets)
    return note(kind, buckets, parts, made)


def write_reports(job: Job, reports: Any, made: Pointers) -> list[tables.WrittenFile]:
    """Write the reports of conditions, each once."""
    generations = {day: pointer.generation for day, pointer in made.items()}
    path = tables.file_column(CONDITION.name, generations, 1, "stamp")
    placed = reports.dropDuplicates().withColumn(tables.FILE, path)
    return tables.write(placed, job.out, tables.REPORTS, tables.REPORTS.names)


def write_rows(
    job: Job, kind: str, hours: Any, made: Pointers, buckets: int
) -> list[tables.WrittenFile]:
    """Write the hourly rows of a kind, and its labels beside them."""
    kind_tables = tables.TierTables(kind)
    generations = {day: pointer.generation for day, pointer in made.items()}
    path = tables.file_column(table_of(kind), generations, buckets)
    placed = hours.withColumn(tables.FILE, path)
    return tables.write(
        placed, job.out, kind_tables.rows, tables.KEYS, kind_tables.labels
    )


def buckets_for(kind: str, made: Pointers) -> int:
    """Returns the number of files for each table of a day.

    It is a power of two, so that a file of fewer buckets holds whole ones of more.
    """
    largest_day = max(bytes_of_kind(kind, pointer) for pointer in made.values())
    wanted = 2 ** (largest_day // BUCKET_BYTES).bit_length()
    return int(min(wanted, MOST_BUCKETS))


def bytes_of_kind(kind: str, pointer: Pointer) -> int:
    """Returns the size of all raw files of a kind and day."""
    return sum(
        size for path, (size, _) in pointer.inputs.items() if f"kind={kind}/" in path
    )


def note(
    kind: str, buckets: int, parts: Sequence[tables.WrittenFile], made: Pointers
) -> set[str]:
    """Enter the written files, and the problems of workers, into the pointers.

    Returns the days of which a raw file disappeared.
    """
    note_files(kind, buckets, parts, made)
    days_to_wait = set()
    for part in parts:
        if not part.problem:
            continue
        problem = json.loads(part.problem)
        pointer = made[problem["day"]]
        path = problem["path"]
        if "left out" in problem:
            pointer.left_out[path] = left_out_text(problem["left out"])
        elif problem["why"] == GONE:
            days_to_wait.add(pointer.day)
        else:
            pointer.damaged[path] = problem["why"]
    return days_to_wait


def note_files(
    kind: str, buckets: int, parts: Sequence[tables.WrittenFile], made: Pointers
) -> None:
    """Enter files and numbers of polls into the pointers."""
    polls_in_file = {part.file: part.polls for part in parts if part.file}
    for day, files in pointers.by_day(polls_in_file).items():
        pointer = made[day]
        pointer.add(table_of(kind), files, buckets)
        pointer.polls[kind] = sum(polls_in_file[path] for path in files)
        if kind != CONDITION.name:
            labels = [path.replace("h1/", "series/", 1) for path in files]
            pointer.add(f"series/kind={kind}", labels, buckets)


def left_out_text(counts: Mapping[str, int]) -> str:
    """Returns the text about numbers of a file that are not counted. counts: by column."""
    columns = ", ".join(
        f"{count:,} of {name}" for name, count in sorted(counts.items())
    )
    return f"numbers that cannot be are left out, all else is counted: {columns}"


def table_of(kind: str) -> str:
    """Returns the folder of the hourly rows, or of the reports."""
    return kind if kind == CONDITION.name else f"h1/kind={kind}"


def units_of(kind: str, pointer: Pointer) -> Iterator[dict[str, Any]]:
    """Yields units of work: the files of one hour, or of the whole day if one of them holds a whole day.

    In that case the same poll may be in two files, and must be read by one worker. Files
    that an older version wrote are units of their own.
    """
    by_hour: dict[str, list[str]] = defaultdict(list)
    for path in sorted(pointer.inputs):
        if path.startswith((f"h1/kind={kind}/", f"{kind}/")):
            yield {"day": pointer.day, "old": path}
        elif f"kind={kind}/" in path:
            _, _, hour = partition(StoredFile(path, 0, 0))
            by_hour[hour].append(path)
    groups = list(by_hour.values())
    if ALL_DAY in by_hour:
        groups = [[path for paths in groups for path in paths]]
    for paths in groups:
        yield {"day": pointer.day, "paths": paths}


def refuse(out: Store, made: Pointer, published: Pointer | None) -> bool:
    """Returns whether a day is not published, as it would lose polls that are counted: files with them were removed.

    The day then stays as it was. Files that came late are noted in its pointer, and not
    read again.
    """
    if published is None or not would_lose_polls(made, published):
        return False
    late = {
        path
        for path, size_and_time in made.inputs.items()
        if published.inputs.get(path) != size_and_time
    }
    published.refused = sorted({*published.refused, *late} - made.damaged.keys())
    published.damaged |= made.damaged
    published.inputs |= made.inputs
    pointers.publish(out, published)
    return True


def would_lose_polls(made: Pointer, published: Pointer) -> bool:
    """Returns whether files of the day are missing, or newly damaged, and polls with them."""
    newly_damaged = made.damaged.keys() - published.damaged.keys()
    readable = made.inputs.keys() - newly_damaged
    if published.inputs.keys() <= readable:
        return False
    return any(
        made.polls.get(kind, 0) < polls for kind, polls in published.polls.items()
    )


# --- hours → what counters grew, and days


@dataclass(frozen=True, slots=True)
class Derivation:
    """The days of one derivation: i1 and d1 are made of h1.

    ready: days with new hours. work: these, and the days after them whose i1 rests on them: how much a counter grew
    since its last value follows from the days before. before: days of which only the last values are needed.
    """

    ready: Pointers
    work: Pointers
    before: Pointers


def derive(job: Job, ready: Pointers) -> list[Pointer]:
    """Write i1 and d1 of these days, and i1 of the days after that rest on them; returns all changed pointers."""
    if not ready:
        return []
    plan = derivation(job.out, ready)
    for kind in TIERS:
        derive_kind(job, kind, plan)
    for pointer in plan.work.values():
        pointer.replaced = pointers.replaced(job.out, pointer)
        pointer.replaced_at = time.time()
    return list(plan.work.values())


def derivation(out: Store, ready: Pointers) -> Derivation:
    """Returns the days to derive when these are new; each gets the name of its new i1."""
    days = sorted({*pointers.day_names(out), *ready})
    rests_on = {day: pointers.within(days, day, LOOK_BACK) for day in days}
    work_days = [
        day
        for day in days
        if day in ready or not ready.keys().isdisjoint(rests_on[day])
    ]
    earlier_days = {earlier for day in work_days for earlier in rests_on[day]}
    needed = earlier_days.union(work_days) - ready.keys()
    stored = pointers.load(out, needed)
    every = stored | ready
    for day in work_days:
        pointer = every[day]
        generations = [every[earlier].generation for earlier in rests_on[day]]
        pointer.increases = generation(pointer.generation, generations)
    return Derivation(
        ready,
        work={day: every[day] for day in work_days},
        before={
            day: pointer for day, pointer in stored.items() if day not in work_days
        },
    )


def derive_kind(job: Job, kind: str, plan: Derivation) -> None:
    """Write i1 and d1 of one kind."""
    table = f"h1/kind={kind}"
    paths = pointers.files_of(plan.work, table)
    if not paths:
        return
    buckets = max(pointer.buckets.get(table, 0) for pointer in plan.work.values())
    kind_tables = tables.TierTables(kind)
    rows = marked_frame(job, paths, kind_tables.rows, before=False)
    if kind_tables.tier.counters:
        rows = with_earlier_days(job, kind_tables, rows, plan.before)
        # Not put in order before it is kept: Spark 3.5 loses the columns of a kept order.
        rows = rows.persist()
        write_increases(job, kind_tables, rows, plan.work, buckets)
    write_days(job, kind_tables, rows, plan.ready, buckets)
    rows.unpersist()


def with_earlier_days(
    job: Job, kind_tables: tables.TierTables, rows: Any, before: Pointers
) -> Any:
    """Returns the rows and, marked, those of the days before, where counters were known last."""
    paths = pointers.files_of(before, f"d1/kind={kind_tables.kind}")
    if not paths:
        return rows
    return rows.unionByName(marked_frame(job, paths, kind_tables.rows, before=True))


def write_increases(
    job: Job, kind_tables: tables.TierTables, rows: Any, work: Pointers, buckets: int
) -> None:
    rows.createOrReplaceTempView("h1")
    increases = job.session.sql(increases_query(kind_tables))
    table = f"i1/kind={kind_tables.kind}"
    generations = {day: pointer.increases for day, pointer in work.items()}
    schema = kind_tables.increases
    paths = save(job, table, increases, schema, generations, buckets)
    add_files(work, table, paths, buckets)


def write_days(
    job: Job, kind_tables: tables.TierTables, rows: Any, ready: Pointers, buckets: int
) -> None:
    tables.in_order(rows).createOrReplaceTempView("h1")
    days = job.session.sql(days_query(kind_tables))
    table = f"d1/kind={kind_tables.kind}"
    generations = {day: pointer.generation for day, pointer in ready.items()}
    paths = save(job, table, days, kind_tables.rows, generations, buckets)
    add_files(ready, table, paths, buckets)


def marked_frame(
    job: Job, paths: Sequence[str], schema: ArrowSchema, *, before: bool
) -> Any:
    """Returns rows of files. before: marks them as rows of earlier days, which give no rows of i1."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    rows = tables.frame(job.session, job.out, paths, schema)
    return rows.withColumn("before", f.lit(before))


def save(
    job: Job,
    table: str,
    frame: Any,
    schema: ArrowSchema,
    generations: Mapping[str, str],
    buckets: int,
) -> list[str]:
    """Write the rows of these days; returns the paths. generations: by day."""
    path = tables.file_column(table, generations, buckets)
    placed = frame.withColumn(tables.FILE, path).where(f"{tables.FILE} != ''")
    parts = tables.write(placed, job.out, schema, tables.KEYS)
    return [part.file for part in parts]


def add_files(work: Pointers, table: str, paths: Sequence[str], buckets: int) -> None:
    """Enter files into the pointers of their days."""
    for day, files in pointers.by_day(paths).items():
        work[day].add(table, files, buckets)


def increases_query(kind_tables: tables.TierTables) -> str:
    """The query for the rows of i1: how much each counter of a kind grew in each hour."""
    kept = [
        field.name
        for field in kind_tables.increases
        if field.name in kind_tables.rows.names
    ]
    return tables.sql(
        "i1",
        counters=kind_tables.tier.counters,
        kept=", ".join(kept),
        look_back=LOOK_BACK,
        gap_polls=GAP_POLLS,
    )


def days_query(kind_tables: tables.TierTables) -> str:
    """The query for the rows of d1: those of h1, summed up by day."""
    columns = {
        "n": "sum(n)",
        "hours": "count(DISTINCT start)",
        "expected": "24 * max(expected)",
        "t0": "min(t0)",
        "t1": "max(t1)",
    }
    for name in kind_tables.tier.summed:
        how = name.rpartition("_")[2]
        last = f"max_by({name}, h1.start)"
        columns[name] = last if how == "last" else f"{how}({name})"
    for name in kind_tables.tier.counters:
        columns |= day_of_counter(name)
    return tables.sql(
        "d1_with_bins" if kind_tables.tier.histogram else "d1",
        merged=", ".join(f"{sum_up} AS {name}" for name, sum_up in columns.items()),
        names=", ".join(columns),
    )


def day_of_counter(name: str) -> dict[str, str]:
    """Column → its expression: lowest and highest value of a counter, and when it was known first and last.

    The times are null where they are those of the first and the last poll.
    """
    known_first = f"CASE WHEN hi_{name} IS NOT NULL THEN coalesce(first_{name}, t0) END"
    known_last = f"CASE WHEN hi_{name} IS NOT NULL THEN coalesce(last_{name}, t1) END"
    return {
        f"lo_{name}": f"min(lo_{name})",
        f"hi_{name}": f"max(hi_{name})",
        f"first_{name}": f"nullif(min({known_first}), min(t0))",
        f"last_{name}": f"nullif(max({known_last}), max(t1))",
    }
