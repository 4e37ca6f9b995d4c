"""The tiers as Arrow tables and Parquet files: raw → columns, hourly rows → files of a day, files → columns."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.history.compact import read
from penstock.history.schema import ROW_TYPES, as_dictionary, series_id
from penstock.history.store import Store
from penstock.trends.kernel import TIERS, Columns, Tier, hourly, merged

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
