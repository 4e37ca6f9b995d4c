"""Raw files → hourly rows as Arrow tables, in Spark's workers. A damaged file is named and stops no other.

A raw file has the polls of one kind (queues, consumers, …) over some whole hours. A unit of work is the files of one
day and kind, as JSON. Problems and left-out numbers are second results: they travel to the driver as rows of their own.
"""

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
from penstock_trends.untyped import ArrowBatch, ArrowColumn, ArrowTable

ROWS: Final = 3_000_000
"""Raw rows that are in a worker's memory at once, with what is made of them some 300 bytes each."""
GONE: Final = ""
"""The problem of a file that existed when the job listed it, and was removed since."""
LeftOut = dict[str, Counter[str]]
"""Path of a raw file → column → how many of its numbers were left out, as no count is so large (see `possible`)."""
INTEGERS: Final = ("stamp", "sid", "inc", "key")
"""Columns of raw rows that stay integers; all other numbers become float64."""


def hours_of_units(
    history: str, out: str, kind: str, batches: Iterator[ArrowBatch]
) -> Iterator[ArrowBatch]:
    """In a worker: units of work (see tiers.units_of) → batches of rows of `tables.schema_of_hours`."""
    history_store = Store(history)
    out_store = Store(out)
    schema = tables.schema_of_hours(kind)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            for table in tables_of_unit(history_store, out_store, kind, unit):
                whole = fitted(table, schema).combine_chunks()
                yield from whole.to_batches(max_chunksize=tables.ROW_GROUP)


def tables_of_unit(
    history: Store, out: Store, kind: str, unit: Mapping[str, Any]
) -> Iterator[Any]:
    """Yields the hourly rows of one unit, and then its notes: rows that have only a `problem`.

    A unit names raw files in the history, or a file in `out` that an older version
    wrote and whose raw files are gone.
    """
    problems: dict[str, str] = {}
    left_out: LeftOut = defaultdict(Counter)
    if "old" in unit:
        yield from converted(out, kind, unit["old"])
    else:
        yield from rolled(history, kind, unit["paths"], problems, left_out)
    yield notes_of(unit["day"], problems, left_out)


def notes_of(day: str, problems: Mapping[str, str], left_out: LeftOut) -> ArrowTable:
    """A table with one column, `problem`: a JSON text for each damaged file, and for each with left-out numbers."""
    notes = [
        json.dumps({"day": day, "path": path, "why": why})
        for path, why in problems.items()
    ]
    notes += [
        json.dumps({"day": day, "path": path, "left out": counts})
        for path, counts in left_out.items()
    ]
    return pa.table({"problem": pa.array(notes, pa.string())})


def rolled(
    store: Store,
    kind: str,
    paths: Sequence[str],
    problems: dict[str, str],
    left_out: LeftOut | None = None,
) -> Iterator[Any]:
    """Yields the hourly rows, with labels, of raw files of whole hours; those of a kind without a tier as they are.

    If the files have more than ROWS rows, they are read several times, each time
    another part of the series. Raises StoreError where it is the store's fault.

    Args:
        store: With the history.
        kind: Key of ROW_TYPES.
        paths: Of the raw files.
        problems: Gets path → why, for files that cannot be read.
        left_out: Gets the numbers that were left out of files that can be read.
    """
    left_out = defaultdict(Counter) if left_out is None else left_out
    names = columns_to_read(kind)
    sizes = sizes_of_readable(store, paths, problems)
    masks: list[Any] = [None]
    if "sid" in names:
        masks = masks_of_parts(sum(sizes.values()))
    for mask in masks:
        tables_ = []
        for path in sizes:
            table = attempt(
                problems, path, rows_of, store, path, kind, names, mask, left_out
            )
            if table is not None and len(table):
                tables_.append(table)
        if tables_:
            yield from hourly_tables(kind, tables_)


def hourly_tables(kind: str, raw_tables: Sequence[ArrowTable]) -> Iterator[ArrowTable]:
    """Yields the hourly rows of some raw tables; of a kind without a tier the raw rows."""
    rows = pa.concat_tables(raw_tables).unify_dictionaries()
    yield hours(TIERS[kind], rows) if kind in TIERS else rows


def masks_of_parts(rows: int) -> list[Any]:
    """For each part of the series the function that selects its rows; None for all rows, where one part is enough.

    Each series is wholly in one part.
    """
    parts = -(-rows // ROWS)
    if parts <= 1:
        return [None]
    return [partial(is_of_part, part, parts) for part in range(parts)]


def columns_to_read(kind: str) -> list[str]:
    """The columns of raw files that the hourly rows of a kind are made of; empty, for all, of a kind without a tier."""
    if kind not in TIERS:
        return []
    in_files = ROW_TYPES[kind].schema.names
    return [name for name in TIERS[kind].columns if name in in_files]


def sizes_of_readable(
    store: Store, paths: Sequence[str], problems: dict[str, str]
) -> dict[str, int]:
    """The number of rows of each file that can be read; `problems` gets the others."""
    sizes = {}
    for path in paths:
        size = attempt(problems, path, rows_in, store, path)
        if size is not None:
            sizes[path] = size
    return sizes


def attempt(problems: dict[str, str], path: str, work: Any, *arguments: Any) -> Any:
    """The result of `work`; None where the file is damaged or gone: then `problems` gets the reason.

    Raises StoreError where it is the fault of the store: it may be well the next time,
    so the file must not count as damaged.
    """
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


def is_of_part(part: int, parts: int, table: ArrowTable) -> Any:
    """(rows,) True for the rows of one part of the series."""
    return pa.array(table["sid"].to_numpy() % parts == part)


def rows_of(
    store: Store,
    path: str,
    kind: str,
    names: Sequence[str],
    mask: Any,
    left_out: LeftOut,
) -> Any:
    """The rows of one file, without impossible numbers, which `left_out` gets.

    Raises StoreError, also where a row lacks its time or its series.

    Args:
        store: With the history.
        path: Of the file.
        kind: Key of ROW_TYPES.
        names: The columns to read.
        mask: Which rows to read, from a table of them; None: all.
        left_out: Gets the numbers that were left out.
    """
    row_type = ROW_TYPES[kind]
    rows = read(store, [path], row_type, names, mask)
    table, impossible = possible(rows, row_type)
    if impossible:
        left_out[path].update(impossible)
    for name in ("stamp", "broker", "sid"):
        if name in table.column_names and table[name].null_count:
            with store.errors(path):
                raise pa.ArrowInvalid(f"holds rows without {name}")
    return table


def possible(table: ArrowTable, kind: RowType) -> tuple[ArrowTable, Counter[str]]:
    """Raw rows, with null for each count that is impossible; and how many these were, by column.

    No count of messages or bytes reaches EXACT, beyond which a float64 is not exact. An
    agent of today writes no such number; older ones wrote every number of the broker. A
    limit so large means "no limit": it becomes null, too, and is not counted.
    """
    left_out: Counter[str] = Counter()
    numbers = {**kind.numbers, **kind.extra}
    for position, name in enumerate(table.column_names):
        column = table[name]
        if numbers.get(name) != COUNT or is_within_exact(column):
            continue
        is_too_high = pc.greater_equal(column, int(EXACT))
        is_too_low = pc.less_equal(column, -int(EXACT))
        is_impossible = pc.or_(is_too_high, is_too_low)
        null = pa.scalar(None, COUNT)
        without = pc.if_else(is_impossible, null, column)
        table = table.set_column(position, table.schema.field(position), without)
        if "limit" not in name:
            left_out[name] = pc.sum(is_impossible).as_py()
    return table, left_out


def is_within_exact(column: ArrowColumn) -> bool:
    """Whether all known numbers of a column are exact as float64; many times faster than a mask of each number."""
    ends = pc.min_max(column)
    highest = ends["max"].as_py()
    if highest is None:  # no number is known
        return True
    lowest = ends["min"].as_py()
    return bool(lowest > -EXACT and highest < EXACT)


def hours(tier: Tier, table: ArrowTable) -> ArrowTable:
    """Raw rows → hourly rows, as Arrow tables."""
    table = with_empty_texts(table)
    texts = {
        name: as_dictionary(table[name]).dictionary.to_pylist()
        for name in ("broker", *tier.texts)
    }
    columns = raw_columns(table, tier)
    if "sid" not in table.column_names:
        # A broker is a series of its own, and its counters have one life.
        sids = np.array([series_id(name) for name in texts["broker"]], np.int64)
        columns |= {
            "sid": sids[columns["broker"]],
            "inc": np.zeros(len(table), np.int64),
        }
    return as_table(tier, hourly(tier, columns), texts)


def with_empty_texts(table: ArrowTable) -> ArrowTable:
    """The table with "" for each text that is null: the kernel has a code for every text."""
    for position, field in enumerate(table.schema):
        column = table[field.name]
        if pa.types.is_dictionary(field.type) and column.null_count:
            texts = pc.fill_null(column.cast(pa.string()), "")
            encoded = texts.combine_chunks().dictionary_encode()
            table = table.set_column(position, field, encoded.cast(field.type))
    return table


def raw_columns(table: ArrowTable, tier: Tier) -> dict[str, Any]:
    """The columns of a tier as arrays for the kernel: float64, or integers for INTEGERS and the codes of texts.

    A missing number is NaN, as is a column that the files do not have.
    """
    columns: dict[str, Any] = {}
    for name in tier.columns:
        if name not in table.column_names:
            columns[name] = np.full(len(table), np.nan)
            continue
        column = table[name]
        if pa.types.is_dictionary(column.type):
            codes = as_dictionary(column).indices
            columns[name] = codes.to_numpy(zero_copy_only=False)
        elif name in INTEGERS:
            integers = pc.fill_null(column.cast(pa.int64()), 0)
            columns[name] = integers.to_numpy()
        else:
            numbers = column.cast(pa.float64(), safe=False)
            columns[name] = pc.fill_null(numbers, np.nan).to_numpy()
    return columns


def as_table(
    tier: Tier, rows: Columns, texts: Mapping[str, Sequence[str]]
) -> ArrowTable:
    """Hourly rows of the kernel as an Arrow table: labels, keys, numbers, and the bins as maps from bin to count.

    texts: for each label its texts by code.
    """
    arrays: dict[str, Any] = {}
    for name, texts_of_codes in texts.items():
        codes = pa.array(rows[name])
        arrays[name] = pa.array(texts_of_codes, pa.string()).take(codes)
    about_polls = ("n", "hours", "t0", "t1", "expected")
    for name in (*tables.KEYS, *about_polls, *tier.summed):
        arrays[name] = with_nulls(rows[name])
    for name in (*tier.bounds, *tier.spans):
        arrays[name] = with_nulls(rows[name], as_integers=True)
    if tier.histogram:
        ends = np.cumsum(rows["hist_len"])
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        arrays["bins"] = pa.MapArray.from_arrays(
            pa.array(offsets),
            pa.array(rows["hist_at"]),
            pa.array(rows["hist_n"]),
        )
    return pa.table(arrays)


def with_nulls(values: Any, *, as_integers: bool = False) -> Any:
    """(rows,) An Arrow array of the values, null for NaN. as_integers: whether floats become integers."""
    if values.dtype.kind != "f":
        return pa.array(values)
    missing = np.isnan(values)
    if as_integers:
        values = np.nan_to_num(values).astype(np.int64)
    return pa.array(values, mask=missing)


def converted(out: Store, kind: str, path: str) -> Iterator[Any]:
    """Yields the hourly rows of a day that an older version kept, and whose raw files are gone, in the present form.

    The times of the first and last poll in an hour were not kept: the whole hour counts
    as seen. Bins and counts were two lists then, and are one map now.
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
    arrays = {name: table[name] for name in schema.names}
    arrays["hours"] = pa.array(np.ones(len(table), np.int64))
    arrays["t0"] = begin
    arrays["t1"] = pc.add(begin, HOUR - 1)
    if "bins" in arrays:
        bins = table["hist_at"].combine_chunks()
        counts = table["hist_n"].combine_chunks()
        arrays["bins"] = pa.MapArray.from_arrays(
            bins.offsets,
            bins.values,
            counts.values,
        )
    yield pa.table(arrays)
