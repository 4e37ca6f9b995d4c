"""The tiers as Arrow tables and Parquet files: raw → columns, hourly rows → files of a day, files → columns."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.history.compact import read
from penstock.history.schema import ROW_TYPES, series_id
from penstock.history.store import Store
from penstock.trends.kernel import TIERS, Columns, Tier, hourly, merged

BUCKETS: Final = 16
"""Row groups of a day file: a task of the analysis reads one of each file."""
VERSION: Final = b"1"


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
            column = table[name].combine_chunks()
            column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
            found[name] = column.indices.to_numpy(zero_copy_only=False)
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
    texts = {name: dictionary(table[name]) for name in ("broker", *tier.texts)}
    columns = raw_columns(table, tier)
    if "sid" not in table.column_names:  # a broker is its own series, and has one life
        sids = np.array([series_id(name) for name in texts["broker"]], np.int64)
        columns |= {"sid": sids[columns["broker"]], "inc": np.zeros(len(table), np.int64)}
    return as_table(tier, hourly(tier, columns), texts)


def dictionary(column: Any) -> list[str]:
    column = column.combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    words: list[str] = column.dictionary.to_pylist()
    return words


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


def as_columns(table: Any, tier: Tier, wanted: Sequence[str] | None = None) -> dict[str, Any]:
    """Rows of a tier as the kernel has them, ascending by sid, inc, start; texts as objects."""
    order = np.lexsort([table[name].to_numpy() for name in ("start", "inc", "sid")])
    table = table.take(pa.array(order)).combine_chunks()
    names = [name for name in table.column_names if not name.startswith("hist_") and (not wanted or name in wanted)]
    found: dict[str, Any] = {}
    for name in names:
        column = table[name]
        if pa.types.is_string(column.type):
            found[name] = np.array(column.to_pylist(), np.object_)
        elif name in ("sid", "inc", "start", "n"):
            found[name] = column.to_numpy()
        else:
            found[name] = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy()
    if tier.histogram and not wanted:
        lists = table["hist_at"].combine_chunks()
        found["hist_len"] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        found["hist_at"] = lists.flatten().to_numpy() if not isinstance(lists, pa.ChunkedArray) else _flat(lists)
        counts = table["hist_n"].combine_chunks()
        found["hist_n"] = counts.flatten().to_numpy() if not isinstance(counts, pa.ChunkedArray) else _flat(counts)
    return found


def _flat(lists: Any) -> Any:
    return pc.list_flatten(lists).to_numpy()


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


def read_bucket(store: Store, names: Sequence[str], bucket: int, tier: Tier, columns: Sequence[str] = ()) -> Any:
    """One bucket's rows of some day files."""
    wanted = schema(tier) if not columns else pa.schema([schema(tier).field(name) for name in columns])
    tables = []
    for name in names:
        with store.fs.open_input_file(store.path(name)) as source:
            file = pq.ParquetFile(source)
            groups = [bucket] if file.num_row_groups == BUCKETS else range(file.num_row_groups)
            tables.append(file.read_row_groups(list(groups), columns=list(wanted.names), use_threads=False))
    table = pa.concat_tables(tables) if tables else wanted.empty_table()
    return table.filter(pa.array(table["sid"].to_numpy() % BUCKETS == bucket)) if len(table) else table
