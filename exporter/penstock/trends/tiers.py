"""The tiers as Arrow tables and Parquet files: raw → columns, hourly rows → files of a day, files → columns.

Spark works only where something is new: what went into each day stands in a manifest, written last. Killed at any
moment the job begins that day again and writes the same bytes. Only names of files travel to the workers.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.history.compact import DAY, current, partition, read, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.schema import CONDITION, ROW_TYPES, as_dictionary, series_id
from penstock.history.store import Store, StoredFile
from penstock.trends.kernel import TIERS, Columns, Tier, hourly, merged
from penstock.trends.session import over

BUCKETS: Final = 16
"""Row groups of a day file: a task of the analysis reads one of each file."""


def schema(tier: Tier) -> Any:
    fields = [("broker", pa.string()), ("sid", pa.int64()), ("inc", pa.int64())]
    fields += [(name, pa.string()) for name in tier.texts]
    fields += [("start", pa.int64()), ("n", pa.int64()), ("expected", pa.float64())]
    fields += [(name, pa.float64()) for name in tier.summed]
    fields += [(name, pa.int64()) for name in tier.bounds]
    if tier.histogram:
        fields += [("hist_at", pa.list_(pa.int64())), ("hist_n", pa.list_(pa.int64()))]
    return pa.schema(fields)


def raw_columns(table: Any, tier: Tier) -> dict[str, Any]:
    """A raw table as the kernel wants it; a column that its kind has not is NaN. Texts stay codes until the end."""
    found: dict[str, Any] = {}
    for name in tier.columns:
        if name not in table.column_names:
            found[name] = np.full(len(table), np.nan)
        elif pa.types.is_dictionary(table.schema.field(name).type):
            found[name] = as_dictionary(table[name]).indices.to_numpy(zero_copy_only=False)
        elif name in ("stamp", "sid", "inc", "key"):
            found[name] = table[name].cast(pa.int64()).to_numpy()
        else:
            found[name] = pc.fill_null(table[name].cast(pa.float64(), safe=False), np.nan).to_numpy()
    return found


def rolled(store: Store, kind: str, paths: Sequence[str]) -> Any:
    """Raw files of whole hours → hourly rows, as an Arrow table of `schema`."""
    tier = TIERS[kind]
    names = [name for name in tier.columns if name in ROW_TYPES[kind].schema.names]
    table = read(store, paths, ROW_TYPES[kind], names)
    if not len(table):
        return schema(tier).empty_table()
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and table[field.name].null_count:
            named = pc.fill_null(table[field.name].cast(pa.string()), "").combine_chunks().dictionary_encode()
            table = table.set_column(at, field, named.cast(field.type))
    texts = {name: as_dictionary(table[name]).dictionary.to_pylist() for name in ("broker", *tier.texts)}
    columns = raw_columns(table, tier)
    if "sid" not in table.column_names:  # a broker is its own series, and has one life
        sids = np.array([series_id(name) for name in texts["broker"]], np.int64)
        columns |= {"sid": sids[columns["broker"]], "inc": np.zeros(len(table), np.int64)}
    return as_table(tier, hourly(tier, columns), texts)


def as_table(tier: Tier, rows: Columns, texts: dict[str, list[str]] | None = None) -> Any:
    arrays: dict[str, Any] = {}
    for name in ("broker", *tier.texts):
        values = pa.array(rows[name])
        arrays[name] = pa.array(texts[name], pa.string()).take(values) if texts else values.cast(pa.string())
    for name in ("sid", "inc", "start", "n", *tier.bounds):
        values = rows[name]
        missing = np.isnan(values) if values.dtype.kind == "f" else None
        whole = values if missing is None else np.nan_to_num(values).astype(np.int64)
        arrays[name] = pa.array(whole, mask=missing)
    for name in ("expected", *tier.summed):
        arrays[name] = pa.array(rows[name], mask=np.isnan(rows[name]))
    if tier.histogram:
        offsets = pa.array(np.concatenate([[0], np.cumsum(rows["hist_len"])]).astype(np.int32))
        for name in ("hist_at", "hist_n"):
            arrays[name] = pa.ListArray.from_arrays(offsets, pa.array(rows[name]))
    wanted = schema(tier)
    return pa.table([arrays[name].cast(wanted.field(name).type) for name in wanted.names], schema=wanted)


def as_columns(table: Any, tier: Tier) -> dict[str, Any]:
    """Rows of a tier as the kernel has them, ascending by sid, inc, start; texts as objects."""
    order = np.lexsort([table[name].to_numpy() for name in ("start", "inc", "sid")])
    table = table.take(pa.array(order)).combine_chunks()
    names = [name for name in table.column_names if not name.startswith("hist_")]
    found: dict[str, Any] = {}
    for name in names:
        column = table[name]
        if pa.types.is_string(column.type):
            found[name] = np.array(column.to_pylist(), np.object_)
        elif name in ("sid", "inc", "start", "n"):
            found[name] = column.to_numpy()
        else:
            found[name] = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy()
    if tier.histogram:
        found["hist_len"] = pc.list_value_length(table["hist_at"]).to_numpy()
        found |= {name: pc.list_flatten(table[name]).to_numpy() for name in ("hist_at", "hist_n")}
    return found


def daily(table: Any, tier: Tier) -> Any:
    """Hourly rows → one row per series, life and day."""
    columns = as_columns(table, tier)
    return as_table(tier, merged(tier, columns)) if len(table) else table


def write_day(store: Store, name: str, table: Any) -> None:
    """In the order of bucket, series, life, time, with a row group for each bucket: the same rows, the same bytes."""
    sid = table["sid"].to_numpy()
    order = np.lexsort([table["start"].to_numpy(), table["inc"].to_numpy(), sid, sid % BUCKETS])
    table = table.take(pa.array(order))
    counts = np.bincount(table["sid"].to_numpy() % BUCKETS, minlength=BUCKETS)
    ends = np.cumsum(counts)

    def fill(sink: Any) -> None:
        with pq.ParquetWriter(sink, table.schema, compression="zstd", compression_level=3) as writer:
            for end, count in zip(ends.tolist(), counts.tolist(), strict=True):
                writer.write_table(table.slice(end - count, count), row_group_size=max(count, 1))

    store.write_with(name, fill)


def read_bucket(store: Store, names: Sequence[str], bucket: int, tier: Tier) -> Any:
    """One bucket's rows of some day files."""
    wanted = schema(tier)
    tables = [wanted.empty_table()]
    for name in names:
        with store.fs.open_input_file(store.path(name)) as source:
            file = pq.ParquetFile(source)
            groups = [bucket] if file.num_row_groups == BUCKETS else range(file.num_row_groups)
            tables.append(file.read_row_groups(list(groups), columns=list(wanted.names), use_threads=False))
    table = pa.concat_tables(tables)
    return table.filter(pa.array(table["sid"].to_numpy() % BUCKETS == bucket))


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
