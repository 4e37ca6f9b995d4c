"""Bring the tiers up to date: raw files → hours (h1), what counters grew (i1), days (d1), day by day published.

Spark works only where something is new. Rows stay in its workers, which write them; names of files and counts come
back. A day is published by its pointer (`days.py`), last.
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
    """Where a run reads and writes."""

    session: Any
    history: Store
    out: Store
    progress: Progress = lambda _: None


def roll_up(
    session: Any, history: Store, out: Store, progress: Progress = lambda _: None
) -> Rolled:
    """Bring the tiers in `out` up to date with the raw files in `history`; nothing new is no work."""
    job = Job(session, history, out, progress)
    done = Rolled()
    for _ in range(ATTEMPTS):
        every = listed(history)
        present = {day: every[day] for day in pointers.plausible(every, time.time())}
        done.ahead = sorted(
            path for day in every.keys() - present for path in every[day]
        )
        known = pointers.load(out, present)
        dirty = [
            day
            for day in present
            if known.get(day, Pointer(day)).is_dirty(present[day])
        ]
        work = sorted([*dirty, *old_days(out, present)])
        gone = False
        for at in range(0, len(work), CHUNK):
            days = work[at : at + CHUNK]
            progress(
                f"rolling up {days[0]} … {days[-1]}, day {at + len(days)} of {len(work)}"
            )
            gone |= roll_days(
                job, {day: present.get(day, {}) for day in days}, known, done
            )
        if not gone:
            pointers.clean(out, known, time.time())
            return done
    raise RollupError(
        f"{history.url}: files were removed while they were read, {ATTEMPTS} times; run it again"
    )


def listed(history: Store) -> dict[str, dict[str, list[int]]]:
    """Day → path → size and mtime of each raw file that counts."""
    found: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for entry in current(history):
        kind, day, _ = partition(entry)
        if kind in KINDS:
            found[day][entry.path] = [entry.size, entry.mtime]
    return found


def old_days(out: Store, present: Mapping[str, Inputs]) -> list[str]:
    """Days that only an older version rolled up, and of which no raw file is left: their hours are converted."""
    old = pointers.read_json(out, OLD_MANIFEST)
    return sorted({*old} - {*present} - {*pointers.day_names(out)}) if old else []


def roll_days(
    job: Job, inputs: Mapping[str, Inputs], known: Pointers, done: Rolled
) -> bool:
    """Roll up and publish some days; whether a file was gone, so that its day waits for the next attempt."""
    made = {day: begun(job.out, day, files) for day, files in inputs.items()}
    gone: set[str] = set()
    for kind in KINDS:
        gone |= write_hours(job, kind, made)
    ready = {
        day: one
        for day, one in made.items()
        if day not in gone and not refuse(job.out, one, known.get(day))
    }
    for day in derive(job, ready):
        pointers.publish(job.out, day)
    known |= ready
    done.days += ready
    done.files += sum(len(inputs[day]) for day in ready)
    done.bytes += sum(size for day in ready for size, _ in inputs[day].values())
    return bool(gone)


def begun(out: Store, day: str, files: Inputs) -> Pointer:
    """The pointer of a day that is made again. Without raw files its hours are those of an older version."""
    inputs = {path: list(of) for path, of in files.items()}
    if not inputs:
        tiers = (f"h1/kind={kind}/dt={day}/part.parquet" for kind in TIERS)
        olds = (*tiers, f"{CONDITION.name}/dt={day}/part.parquet")
        inputs = {path: [0, 0] for path in olds if out.exists(path)}
    return Pointer(day, generation(VERSION, inputs), kernel=VERSION, inputs=inputs)


# --- raw → hours


def write_hours(job: Job, kind: str, made: Pointers) -> set[str]:
    """Write h1 and series of a kind, or `condition`; the days of which a file was gone."""
    units = [
        json.dumps(unit)
        for pointer in made.values()
        for unit in units_of(kind, pointer)
    ]
    if not units:
        return set()
    work = partial(hours_of_units, job.history.url, job.out.url, kind)
    hours = spread(job.session, units, work, tables.schema_of_hours(kind))
    table = table_of(kind)
    generations = {day: pointer.generation for day, pointer in made.items()}
    if kind == CONDITION.name:
        named = hours.dropDuplicates().withColumn(
            tables.FILE, tables.file_column(table, generations, 1, "stamp")
        )
        gone = note(
            kind,
            table,
            1,
            tables.write(named, job.out, tables.REPORTS, tables.REPORTS.names),
            made,
        )
    else:
        of = tables.TierTables(kind)
        buckets = buckets_for(kind, made)
        named = hours.withColumn(
            tables.FILE, tables.file_column(table, generations, buckets)
        )
        gone = note(
            kind,
            table,
            buckets,
            tables.write(named, job.out, of.rows, tables.KEYS, of.labels),
            made,
        )
    return gone


def buckets_for(kind: str, made: Pointers) -> int:
    """Of how many files a day's table is; a power of two, so that a file of fewer buckets holds whole ones of more."""
    sizes = [
        sum(of[0] for path, of in one.inputs.items() if f"kind={kind}/" in path)
        for one in made.values()
    ]
    return int(min(2 ** (max(sizes) // BUCKET_BYTES).bit_length(), MOST_BUCKETS))


def note(
    kind: str,
    table: str,
    buckets: int,
    parts: Sequence[tables.WrittenFile],
    made: Pointers,
) -> set[str]:
    """Enter into the pointers what was written; the days of which a file was gone."""
    written = pointers.by_day(part.file for part in parts if part.file)
    gone = set()
    for day, files in written.items():
        made[day].add(table, files, buckets)
        made[day].polls[kind] = sum(part.polls for part in parts if part.file in files)
        if kind != CONDITION.name:
            made[day].add(
                f"series/kind={kind}",
                (name.replace("h1/", "series/", 1) for name in files),
                buckets,
            )
    for problem in (json.loads(part.problem) for part in parts if part.problem):
        day = problem["day"]
        path = problem["path"]
        if "left out" in problem:
            made[day].left_out[path] = left_out_text(problem["left out"])
        elif problem["why"] == GONE:
            gone.add(day)
        else:
            made[day].damaged[path] = problem["why"]
    return gone


def left_out_text(counts: Mapping[str, int]) -> str:
    """What of a file is not counted. counts: of numbers, by column."""
    columns = ", ".join(
        f"{count:,} of {name}" for name, count in sorted(counts.items())
    )
    return f"numbers that cannot be are left out, all else is counted: {columns}"


def table_of(kind: str) -> str:
    return kind if kind == CONDITION.name else f"h1/kind={kind}"


def units_of(kind: str, pointer: Pointer) -> Iterator[dict[str, Any]]:
    """Units of work: the files of one hour; of a whole day where one of them holds the whole day."""
    by_hour: dict[str, list[str]] = defaultdict(list)
    for path in sorted(pointer.inputs):
        if path.startswith((f"h1/kind={kind}/", f"{kind}/")):
            yield {"day": pointer.day, "old": path}
        elif f"kind={kind}/" in path:
            by_hour[partition(StoredFile(path, 0, 0))[2]].append(path)
    if ALL_DAY in by_hour:
        by_hour = defaultdict(
            list, {ALL_DAY: [path for paths in by_hour.values() for path in paths]}
        )
    for paths in by_hour.values():
        yield {"day": pointer.day, "paths": paths}


def refuse(out: Store, made: Pointer, known: Pointer | None) -> bool:
    """Whether a day would lose polls that were counted, as files that held them are gone: it stays as it was then.

    What came late is noted in it, and not looked at again.
    """
    if known is None or known.inputs.keys() <= made.inputs.keys() - (
        made.damaged.keys() - known.damaged.keys()
    ):
        return False
    if all(made.polls.get(kind, 0) >= polls for kind, polls in known.polls.items()):
        return False
    late = sorted(
        {path for path, of in made.inputs.items() if known.inputs.get(path) != of}
    )
    known.refused = sorted({*known.refused, *late} - made.damaged.keys())
    known.damaged |= made.damaged
    known.inputs |= made.inputs
    pointers.publish(out, known)
    return True


# --- hours → what counters grew, and days


def derive(job: Job, ready: Pointers) -> list[Pointer]:
    """Write i1 and d1 of these days, and i1 of the days after that rest on them; all whose pointers changed."""
    if not ready:
        return []
    names = sorted({*pointers.day_names(job.out), *ready})
    after = {
        later
        for later in names
        for day in pointers.within(names, later, LOOK_BACK)
        if day in ready
    }
    around = {
        day
        for one in {*ready, *after}
        for day in pointers.within(names, one, LOOK_BACK)
    }
    there = pointers.load(job.out, {*after, *around} - {*ready})
    work = {day: ready.get(day) or there[day] for day in sorted({*ready, *after})}
    every = {**there, **ready}
    for pointer in work.values():
        rests_on = [
            every[day].generation
            for day in pointers.within(names, pointer.day, LOOK_BACK)
        ]
        pointer.increases = generation(pointer.generation, rests_on)
    before = {day: pointer for day, pointer in there.items() if day not in work}
    for kind in TIERS:
        derive_kind(job, kind, ready, work, before)
    for pointer in work.values():
        pointer.replaced = pointers.replaced(job.out, pointer)
        pointer.replaced_at = time.time()
    return list(work.values())


def derive_kind(
    job: Job, kind: str, ready: Pointers, work: Pointers, before: Pointers
) -> None:
    """One kind of `derive`. before: days of which only the end is needed."""
    of = tables.TierTables(kind)
    hours = f"h1/kind={kind}"
    paths = pointers.files_of(work, hours)
    if not paths:
        return
    from pyspark.sql import functions as f  # noqa: PLC0415 - only where Spark is

    rows = tables.frame(job.session, job.out, paths, of.rows).withColumn(
        "before", f.lit(False)
    )
    past = pointers.files_of(before, f"d1/kind={kind}")
    if past and of.tier.counters:
        rows = rows.unionByName(
            tables.frame(job.session, job.out, past, of.rows).withColumn(
                "before", f.lit(True)
            )
        )
    rows = (
        rows.persist() if of.tier.counters else rows
    )  # not in order: Spark 3.5 loses the columns of a kept order
    rows.createOrReplaceTempView("h1")
    buckets = max(
        pointer.buckets[hours] for pointer in work.values() if hours in pointer.buckets
    )
    if of.tier.counters:
        generations = {day: pointer.increases for day, pointer in work.items()}
        save(
            job,
            f"i1/kind={kind}",
            job.session.sql(increases_query(of)),
            of.increases,
            generations,
            buckets,
            work,
        )
    tables.in_order(rows).createOrReplaceTempView("h1")
    generations = {day: pointer.generation for day, pointer in ready.items()}
    save(
        job,
        f"d1/kind={kind}",
        job.session.sql(days_query(of)),
        of.rows,
        generations,
        buckets,
        ready,
    )
    rows.unpersist()


def save(
    job: Job,
    table: str,
    frame: Any,
    schema: Any,
    generations: Mapping[str, str],
    buckets: int,
    work: Pointers,
) -> None:
    """Write what is of these days, and enter it into their pointers."""
    if not generations:
        return
    frame = frame.withColumn(
        tables.FILE, tables.file_column(table, generations, buckets)
    )
    parts = tables.write(
        frame.where(f"{tables.FILE} != ''"), job.out, schema, tables.KEYS
    )
    for day, names in pointers.by_day(part.file for part in parts).items():
        work[day].add(table, names, buckets)


def increases_query(of: tables.TierTables) -> str:
    """What is not known stays null; `greatest` would make 0 of it."""
    reading = "CASE WHEN hi_{0} IS NOT NULL THEN struct(inc, coalesce(last_{0}, t1) AS time, hi_{0} AS value) END"
    same = "coalesce(past_{0}.inc = inc AND past_{0}.time >= earliest, false)"
    step = "if(same_{0}, lo_{0} - past_{0}.value, 0)"
    total = f"CASE WHEN hi_{{0}} IS NOT NULL THEN greatest(hi_{{0}} - lo_{{0}} + {step}, 0) END"
    gap = "coalesce(first_{0}, t0) - past_{0}.time > longest_step"
    hour = f"if(same_{{0}} AND {gap}, least(hi_{{0}} - lo_{{0}}, total_{{0}}), total_{{0}})"
    split = f"{hour} AS {{0}}, total_{{0}} - {hour} AS gap_{{0}}"

    def of_each(text: str) -> str:
        return ", ".join(text.format(name) for name in of.tier.counters)

    return tables.sql(
        "i1",
        past=of_each(f"last({reading}, true) OVER past AS past_{{0}}"),
        same=of_each(f"{same} AS same_{{0}}"),
        total=of_each(f"{total} AS total_{{0}}"),
        kept=", ".join(
            field.name for field in of.increases if field.name in of.rows.names
        ),
        split=of_each(split),
        look_back=LOOK_BACK,
        gap_polls=GAP_POLLS,
    )


def days_query(of: tables.TierTables) -> str:
    ways = {
        "n": "sum(n)",
        "hours": "count(DISTINCT start)",
        "expected": "24 * max(expected)",
        "t0": "min(t0)",
        "t1": "max(t1)",
    }
    for name in of.tier.summed:
        how = name.rpartition("_")[2]
        ways[name] = f"max_by({name}, h1.start)" if how == "last" else f"{how}({name})"
    for name in of.tier.counters:
        known = (
            f"CASE WHEN hi_{name} IS NOT NULL THEN coalesce({{0}}_{name}, {{1}}) END"
        )
        ways[f"lo_{name}"] = f"min(lo_{name})"
        ways[f"hi_{name}"] = f"max(hi_{name})"
        ways[f"first_{name}"] = f"nullif(min({known.format('first', 't0')}), min(t0))"
        ways[f"last_{name}"] = f"nullif(max({known.format('last', 't1')}), max(t1))"
    merged = ", ".join(f"{way} AS {name}" for name, way in ways.items())
    return tables.sql(
        "d1_with_bins" if of.tier.histogram else "d1",
        merged=merged,
        names=", ".join(ways),
    )
