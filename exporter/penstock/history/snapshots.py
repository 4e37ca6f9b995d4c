"""Snapshots as record batches of Arrow; `penstock_trends.snapshots` makes Snapshots of them again.

Each row of a table has its *sid*, a number made of its names, which never changes; its *key*, which is the same only
while the agent runs; and its *inc*, the number of one life of its counters: they never fall within one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.table import Column, Index, Keys, Table
from penstock.history import schema
from penstock.history.schema import (
    BROKER,
    CONSUMER,
    COUNT,
    FLAG,
    QUEUE,
    TABLES,
    TIME,
    RowType,
)
from penstock.model import Broker, BrokerKind, Role, Snapshot

MICRO = 1e6
MILLI = 1e3
"""Microseconds and milliseconds in a second."""
WHOLE = (-(2.0**63), 2.0**63 - 1024)
"""The least and the largest float that fits into 64 bits: a broker's "no limit" may be just above."""


@dataclass(frozen=True, slots=True)
class NamesOfRows:
    """The columns that change only when the rows of a table do. sids: (rows,). columns: texts and flags, as Arrow."""

    index: Index[object]
    sids: Keys
    columns: dict[str, pa.Array]


@dataclass(slots=True)
class Texts:
    """Names of rows by broker and kind, made once for each index."""

    _of: dict[tuple[str, str], NamesOfRows] = field(default_factory=dict)

    def of(
        self, broker: str, kind: RowType, index: Index[object]
    ) -> tuple[Keys, dict[str, pa.Array]]:
        """Returns the sid of each row, and its text columns; the same objects while the rows do not change."""
        names = self._of.get((broker, kind.name))
        if names is None or names.index is not index:
            names = names_of_rows(broker, kind, index)
            self._of[broker, kind.name] = names
        return names.sids, names.columns


def names_of_rows(broker: str, kind: RowType, index: Index[object]) -> NamesOfRows:
    """Returns sids and text columns of the rows."""
    rows = index.rows.tolist()
    identity = [[str(getattr(row, name)) for row in rows] for name in kind.identity]
    sids = np.fromiter(
        (schema.series_id(broker, *names) for names in zip(*identity, strict=True)),
        np.int64,
        len(rows),
    )
    columns = {}
    for name, column in kind.texts.items():
        values = [getattr(row, name) for row in rows]
        is_flag = name in kind.flags
        columns[column] = pa.array(values, pa.bool_()) if is_flag else texts_of(values)
    return NamesOfRows(index, sids, columns)


def texts_of(values: Sequence[object]) -> pa.DictionaryArray:
    """Returns texts as a dictionary of Arrow."""
    texts = [str(value) for value in values]
    return pa.array(texts, pa.string()).dictionary_encode()


def arrow_column(values: Column, kind: pa.DataType) -> pa.Array:
    """Returns a column as Arrow: NaN is null.

    Counts, flags and times are whole numbers there, times in milliseconds. Other kinds stay as they are.

    values: times in seconds. kind: the type of the column in Arrow.
    """
    missing = np.isnan(values)
    if kind not in (COUNT, FLAG, TIME):
        return pa.array(values, mask=missing).cast(kind)
    scaled = values * MILLI if kind == TIME else values
    whole = np.rint(np.where(missing, 0.0, scaled)).clip(*WHOLE)
    integer_type = np.int8 if kind == FLAG else np.int64
    return pa.array(whole.astype(integer_type), mask=missing).cast(kind)


def stamps(stamp: float, rows: int) -> pa.Array:
    """Returns a column with the time of the poll. stamp: seconds since 1970."""
    micros = np.full(rows, round(stamp * MICRO), np.int64)
    return pa.array(micros).cast(BROKER.schema.field("stamp").type)


def constant(text: str, rows: int) -> pa.DictionaryArray:
    """Returns a column with the same text in each row: one entry of a dictionary, which all rows refer to."""
    codes = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([text]))


def table_batch(
    broker: str,
    kind: RowType,
    snapshot: Snapshot,
    table: Table[object],
    texts: Texts,
    incs: Keys,
    added: Mapping[str, pa.Array],
) -> pa.RecordBatch:
    """Returns one table of a poll. incs: (rows,) see the module. added: the kind's extra columns, as Arrow."""
    rows = len(table)
    # A column that this poll lacks is null: some come only with an import from Prometheus.
    unknown = np.full(rows, np.nan)
    sids, columns = texts.of(broker, kind, table.index)
    arrays: dict[str, pa.Array] = {
        "stamp": stamps(snapshot.stamp, rows),
        "broker": constant(broker, rows),
        "sid": pa.array(sids),
        "key": pa.array(table.index.keys),
        "inc": pa.array(incs),
        **columns,
        **{
            name: arrow_column(table.columns.get(name, unknown), arrow_type)
            for name, arrow_type in kind.numbers.items()
        },
        **added,
    }
    return pa.record_batch(
        [arrays[name] for name in kind.schema.names], schema=kind.schema
    )


def extra_columns(
    snapshot: Snapshot,
    kind: RowType,
    table: Table[object],
    evicted: Column,
    interval: float,
) -> dict[str, pa.Array]:
    """Returns the columns that the schema has and the table has not.

    evicted: (queues,) messages; empty where nothing was judged. interval: seconds between polls.
    """
    rows = len(table)
    columns: dict[str, pa.Array] = {}
    if kind is QUEUE:
        is_known = len(evicted) == rows
        messages = evicted if is_known else np.full(rows, np.nan)
        columns["evicted"] = arrow_column(messages, COUNT)
    else:
        for name, column in kind.joins.items():
            columns[column] = keys_or_nulls(getattr(snapshot, name), rows)
    if kind is QUEUE or kind is CONSUMER:
        columns["interval"] = pa.array(np.full(rows, interval, np.float32))
    return columns


def keys_or_nulls(keys: Keys, rows: int) -> pa.Array:
    """Returns for each row the key of a row in another table, such as a consumer's queue; null where none are known."""
    return pa.array(keys) if len(keys) == rows else pa.nulls(rows, pa.int64())


def broker_batch(broker: str, snapshot: Snapshot, interval: float) -> pa.RecordBatch:
    """Returns the broker's own row; it is written last, so a poll without one was cut off.

    A broker that did not answer has a row with empty texts.
    """
    about = snapshot.broker or Broker(BrokerKind.ARTEMIS, "", "", "", Role.PASSIVE)
    values: dict[str, pa.Array] = {
        "stamp": stamps(snapshot.stamp, 1),
        "broker": constant(broker, 1),
        "agent_clock": pa.array([snapshot.stamp]),
        "interval": pa.array([interval]),
        "parts": constant(parts(snapshot), 1),
        "failed": constant(failed_collectors(snapshot), 1),
    }
    for name, column in BROKER.texts.items():
        values[column] = constant(str(getattr(about, name)), 1)
    for name, arrow_type in BROKER.numbers.items():
        number = np.array([getattr(about, name)], np.float64)
        values[name] = arrow_column(number, arrow_type)
    columns = [values[name] for name in BROKER.schema.names]
    return pa.record_batch(columns, schema=BROKER.schema)


def failed_collectors(snapshot: Snapshot) -> str:
    """Returns the names of collectors without a usable answer, with commas."""
    return ",".join(
        name for name, collector in snapshot.collectors.items() if not collector.usable
    )


def parts(snapshot: Snapshot) -> str:
    """Returns the tables of a poll and their columns: `broker;queues:messages,added;…`.

    So a column that was not read differs from one without a number.
    """
    texts = ["broker"] if snapshot.broker else []
    for name in TABLES:
        table = getattr(snapshot, name)
        if table is not None:
            texts.append(f"{name}:{','.join(table.columns)}")
    return ";".join(texts)


def column_of(array: pa.Array | pa.ChunkedArray) -> Column:
    """Returns an Arrow column with the values of the table: float64, NaN for null, times in seconds."""
    if pa.types.is_timestamp(array.type):
        unit = MILLI if array.type.unit == "ms" else MICRO
        return column_of(array.cast(pa.int64())) / unit
    numbers = array.cast(pa.float64(), safe=False)
    values: Column = pc.fill_null(numbers, np.nan).to_numpy()
    return values
