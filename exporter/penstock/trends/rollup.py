"""
Raw history → hourly and daily rows, by Spark, only where something is new.

What went into each day stands in a manifest, written last: killed at any moment the job begins that day again and
writes the same bytes. Only names of files travel to the workers, only hourly rows come back.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.history.compact import DAY, partition, read, start_of
from penstock.history.joined import current
from penstock.history.publish import ALL_DAY
from penstock.history.schema import CONDITION
from penstock.history.store import Store, StoredFile
from penstock.trends.kernel import TIERS
from penstock.trends.session import over
from penstock.trends.tiers import daily, rolled, schema, write_day

MANIFEST = "manifest.json"
CHUNK = 14
"""Days that are rolled up and written together."""

Files = dict[str, list[int]]
"""Path → size and mtime."""
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Rolled:
    """What a run did: days rolled up anew, raw files and bytes read, hourly rows written."""

    days: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    rows: int = 0


def roll_up(session: Any, history: Store, out: Store, progress: Progress = lambda _: None) -> Rolled:
    """Bring the tiers in `out` up to date with the raw files in `history`; nothing new is no work."""
    manifest: dict[str, Files] = json.loads(out.read_bytes(MANIFEST) or b"{}")
    present: dict[str, Files] = defaultdict(dict)
    for entry in current(history):
        if partition(entry)[0] in (*TIERS, CONDITION.name):
            present[partition(entry)[1]][entry.path] = [entry.size, entry.mtime]
    dirty = [day for day in sorted(present) if is_dirty(present[day], manifest.get(day))]
    rows = 0
    for at in range(0, len(dirty), CHUNK):
        days = dirty[at : at + CHUNK]
        progress(f"rolling up {days[0]} … {days[-1]}, day {at + len(days)} of {len(dirty)}")
        rows += roll_days(session, history, out, {day: present[day] for day in days})
        manifest |= {day: present[day] for day in days}
        out.write_bytes(MANIFEST, json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())
    sizes = [size for day in dirty for size, _ in present[day].values()]
    return Rolled(tuple(dirty), len(sizes), sum(sizes), rows)


def is_dirty(now: Mapping[str, Sequence[int]], then: Mapping[str, Sequence[int]] | None) -> bool:
    """Whether a file is new or another; one that is gone (retention at work) makes no day dirty."""
    return then is None or any(list(then.get(path, ())) != list(of) for path, of in now.items())


def roll_days(session: Any, history: Store, out: Store, days: Mapping[str, Files]) -> int:
    units = [unit for files in days.values() for unit in units_of(files)]
    written = 0
    for kind, tier in TIERS.items():
        mine = [json.dumps(unit) for unit in units if unit["kind"] == kind]
        table = over(session, mine, partial(roll_units, history.url, kind), schema(tier))
        days_of = table["start"].to_numpy() // DAY
        for day in days:
            here = table.filter(pa.array(days_of == start_of(day, ALL_DAY) // DAY))
            if len(here):
                write_day(out, f"d1/kind={kind}/dt={day}/part.parquet", daily(here, tier))
                write_day(out, f"h1/kind={kind}/dt={day}/part.parquet", here)
                written += len(here)
    for day, files in days.items():
        paths = [path for path in files if f"kind={CONDITION.name}/" in path]
        if paths:
            told = read(history, sorted(paths), CONDITION)
            plain = pa.schema(
                [(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in told.schema]
            )
            once = told.cast(plain).group_by(plain.names, use_threads=False).aggregate([])
            out.write_table(f"condition/dt={day}/part.parquet", once.sort_by([(n, "ascending") for n in plain.names]))
    return written


def units_of(files: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
    """Units of work: the files of one hour; of a whole day where one of them holds the whole day."""
    by_hour: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(files):
        kind, _, hour = partition(StoredFile(path, 0, 0))
        by_hour[kind, hour].append(path)
    for kind in {kind for kind, _ in by_hour}:
        hours = {hour: paths for (of, hour), paths in by_hour.items() if of == kind}
        if ALL_DAY in hours:
            yield {"kind": kind, "paths": sorted(path for paths in hours.values() for path in paths)}
        else:
            yield from ({"kind": kind, "paths": paths} for paths in hours.values())


def roll_units(url: str, kind: str, batches: Iterator[Any]) -> Iterator[Any]:
    """In a Spark worker."""
    store = Store(url)
    for batch in batches:
        for unit in batch.column(0).to_pylist():
            yield from rolled(store, kind, json.loads(unit)["paths"]).combine_chunks().to_batches()
