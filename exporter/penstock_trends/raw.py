"""Raw files → hourly rows as Arrow tables, in Spark's workers. A damaged file is named and stops no other."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.table import EXACT
from penstock.history.compact import read, rows_in
from penstock.history.schema import (
    CONDITION,
    COUNT,
    ROW_TYPES,
    RowType,
    as_dictionary,
    fitted,
    series_id,
)
from penstock.history.store import Store, StoreError
from penstock_trends import tables
from penstock_trends.kernel import HOUR, TIERS, Columns, Tier, hourly

ROWS: Final = 3_000_000
"""Raw rows that are in a worker's memory at once, with what is made of them some 300 bytes each."""
GONE: Final = ""
"""What is wrong with a file that was there when the job listed it."""
LeftOut = dict[str, Counter[str]]
"""By the path of a raw file and column: how many of its numbers were left out, as no count gets there."""


def hours_of_units(
    history: str, out: str, kind: str, batches: Iterator[Any]
) -> Iterator[Any]:
    """In a worker: units of work (see tiers.units_of) → rows of `tables.TierTables.hours`."""
    store = Store(history)
    schema = tables.schema_of_hours(kind)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            problems: dict[str, str] = {}
            left_out: LeftOut = defaultdict(Counter)
            made = (
                converted(Store(out), kind, unit["old"])
                if "old" in unit
                else rolled(store, kind, unit["paths"], problems, left_out)
            )
            for table in made:
                yield from (
                    fitted(table, schema)
                    .combine_chunks()
                    .to_batches(max_chunksize=tables.ROW_GROUP)
                )
            notes = [
                json.dumps({"day": unit["day"], "path": path, "why": why})
                for path, why in problems.items()
            ]
            notes += [
                json.dumps({"day": unit["day"], "path": path, "left out": one})
                for path, one in left_out.items()
            ]
            yield from fitted(
                pa.table({"problem": pa.array(notes, pa.string())}), schema
            ).to_batches()


def rolled(
    store: Store,
    kind: str,
    paths: Sequence[str],
    problems: dict[str, str],
    left_out: LeftOut | None = None,
) -> Iterator[Any]:
    """Raw files of whole hours → hourly rows with labels; of many rows a part of the series at a time.

    problems: gets path → why of files that cannot be read. left_out: gets what was left out of files that can. Raises
    StoreError where it is the store's fault.
    """
    left_out = defaultdict(Counter) if left_out is None else left_out
    names = (
        [name for name in TIERS[kind].columns if name in ROW_TYPES[kind].schema.names]
        if kind in TIERS
        else []
    )
    split = "sid" in names
    good = {
        path: rows
        for path in paths
        if (rows := attempt(problems, path, rows_in, store, path)) is not None
    }
    parts = max(-(-sum(good.values()) // ROWS), 1) if split else 1
    for part in range(parts):
        mask = partial(is_of_part, part, parts) if parts > 1 else None
        found = [
            attempt(problems, path, rows_of, store, path, kind, names, mask, left_out)
            for path in good
        ]
        there = [table for table in found if table is not None and len(table)]
        if there:
            whole = pa.concat_tables(there).unify_dictionaries()
            yield hours(TIERS[kind], whole) if kind in TIERS else whole


def attempt(problems: dict[str, str], path: str, work: Any, *arguments: Any) -> Any:
    """What `work` gives; None where the file is damaged or gone, which is noted. Raises StoreError of other faults."""
    try:
        return work(*arguments)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError):
            problems[path] = GONE
        elif isinstance(cause, OSError) and (cause.errno or "AWS Error" in str(cause)):
            raise
        else:
            problems[path] = str(cause)
        return None


def is_of_part(part: int, parts: int, table: Any) -> Any:
    return pa.array(table["sid"].to_numpy() % parts == part)


def rows_of(
    store: Store,
    path: str,
    kind: str,
    names: Sequence[str],
    mask: Any,
    left_out: LeftOut,
) -> Any:
    """The rows of one file. left_out: gets what was left out of it. Raises StoreError, also where a row says not when
    or of what it is.
    """
    table, impossible = possible(
        read(store, [path], ROW_TYPES[kind], names, mask), ROW_TYPES[kind]
    )
    if impossible:
        left_out[path].update(impossible)
    for name in ("stamp", "broker", "sid"):
        if name in table.column_names and table[name].null_count:
            with store.errors(path):
                raise pa.ArrowInvalid(f"holds rows without {name}")
    return table


def possible(table: Any, kind: RowType) -> tuple[Any, Counter[str]]:
    """Raw rows without the numbers that no count of messages or bytes gets to, and how many these were, by column.

    An agent of today writes none; older ones wrote what the broker said. A limit of so many is none.
    """
    found: Counter[str] = Counter()
    numbers = {**kind.numbers, **kind.extra}
    for at, name in enumerate(table.column_names):
        if numbers.get(name) != COUNT:
            continue
        column = table[name]
        ends = pc.min_max(
            column
        )  # reads a column many times faster than a mask of it is made
        if ends["max"].as_py() is None or (
            ends["max"].as_py() < EXACT and ends["min"].as_py() > -EXACT
        ):
            continue
        beyond = pc.or_(
            pc.greater_equal(column, int(EXACT)), pc.less_equal(column, -int(EXACT))
        )
        table = table.set_column(
            at,
            table.schema.field(at),
            pc.if_else(beyond, pa.scalar(None, COUNT), column),
        )
        if "limit" not in name:
            found[name] = pc.sum(beyond).as_py()
    return table, found


def hours(tier: Tier, table: Any) -> Any:
    """Raw rows → hourly rows."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and table[field.name].null_count:
            named = (
                pc.fill_null(table[field.name].cast(pa.string()), "")
                .combine_chunks()
                .dictionary_encode()
            )
            table = table.set_column(at, field, named.cast(field.type))
    texts = {
        name: as_dictionary(table[name]).dictionary.to_pylist()
        for name in ("broker", *tier.texts)
    }
    columns = raw_columns(table, tier)
    if "sid" not in table.column_names:  # a broker is its own series, and has one life
        sids = np.array([series_id(name) for name in texts["broker"]], np.int64)
        columns |= {
            "sid": sids[columns["broker"]],
            "inc": np.zeros(len(table), np.int64),
        }
    return as_table(tier, hourly(tier, columns), texts)


def raw_columns(table: Any, tier: Tier) -> dict[str, Any]:
    """A raw table as the kernel wants it; a column that its kind has not is NaN. Texts stay codes until the end."""
    found: dict[str, Any] = {}
    for name in tier.columns:
        if name not in table.column_names:
            found[name] = np.full(len(table), np.nan)
        elif pa.types.is_dictionary(table.schema.field(name).type):
            found[name] = as_dictionary(table[name]).indices.to_numpy(
                zero_copy_only=False
            )
        elif name in ("stamp", "sid", "inc", "key"):
            found[name] = pc.fill_null(table[name].cast(pa.int64()), 0).to_numpy()
        else:
            found[name] = pc.fill_null(
                table[name].cast(pa.float64(), safe=False), np.nan
            ).to_numpy()
    return found


def as_table(tier: Tier, rows: Columns, texts: Mapping[str, Sequence[str]]) -> Any:
    """Rows of the kernel as an Arrow table."""
    arrays: dict[str, Any] = {
        name: pa.array(texts[name], pa.string()).take(pa.array(rows[name]))
        for name in texts
    }
    whole_numbers = {*tier.bounds, *tier.spans}
    for name in (
        *tables.KEYS,
        "n",
        "hours",
        "t0",
        "t1",
        "expected",
        *tier.summed,
        *tier.bounds,
        *tier.spans,
    ):
        values = rows[name]
        missing = np.isnan(values) if values.dtype.kind == "f" else None
        whole = missing is not None and name in whole_numbers
        arrays[name] = pa.array(
            np.nan_to_num(values).astype(np.int64) if whole else values, mask=missing
        )
    if tier.histogram:
        offsets = pa.array(
            np.concatenate([[0], np.cumsum(rows["hist_len"])]).astype(np.int32)
        )
        arrays["bins"] = pa.MapArray.from_arrays(
            offsets, pa.array(rows["hist_at"]), pa.array(rows["hist_n"])
        )
    return pa.table(arrays)


def converted(out: Store, kind: str, path: str) -> Iterator[Any]:
    """Hourly rows that an older version kept, whose raw files are gone. When in its hour the first poll was is unknown:
    the whole hour counts as seen.
    """
    schema = tables.schema_of_hours(kind)
    old = pa.schema(
        [*schema, ("hist_at", pa.list_(pa.int64())), ("hist_n", pa.list_(pa.int64()))]
    )
    table = tables.read(out, path, old)
    if kind == CONDITION.name:
        yield table
        return
    begin = table["start"]
    ones = pa.array(np.ones(len(table), np.int64))
    arrays = {name: table[name] for name in schema.names} | {
        "hours": ones,
        "t0": begin,
        "t1": pc.add(begin, HOUR - 1),
    }
    if "bins" in arrays:
        lists = table["hist_at"].combine_chunks(), table["hist_n"].combine_chunks()
        arrays["bins"] = pa.MapArray.from_arrays(
            lists[0].offsets, lists[0].values, lists[1].values
        )
    yield pa.table(arrays)
