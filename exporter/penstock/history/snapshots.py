"""Snapshots as record batches; `penstock_trends.snapshots` makes Snapshots of them again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
WHOLE = (-(2.0**63), 2.0**63 - 1024)
"""What fits into 64 bits: a broker's "no limit" may be just above."""


@dataclass(slots=True)
class Texts:
    """What of a table changes only when its things do, made once per index and broker."""

    _of: dict[tuple[str, str], tuple[Index[Any], Keys, dict[str, Any]]] = field(
        default_factory=dict
    )

    def of(
        self, broker: str, kind: RowType, index: Index[Any]
    ) -> tuple[Keys, dict[str, Any]]:
        """The sid of each row, and its text columns."""
        known = self._of.get((broker, kind.name))
        if known is not None and known[0] is index:
            return known[1], known[2]
        rows = index.rows.tolist()
        names = [[str(getattr(row, name)) for row in rows] for name in kind.identity]
        sids = np.fromiter(
            (schema.series_id(broker, *one) for one in zip(*names, strict=True)),
            np.int64,
            len(rows),
        )
        columns = {
            column: pa.array([getattr(row, name) for row in rows], pa.bool_())
            if name in kind.flags
            else pa.array(
                [str(getattr(row, name)) for row in rows], pa.string()
            ).dictionary_encode()
            for name, column in kind.texts.items()
        }
        self._of[broker, kind.name] = index, sids, columns
        return sids, columns


def arrow_column(values: Column, kind: Any) -> Any:
    """A column as Arrow: NaN is null. Times are seconds; what must be whole is rounded."""
    missing = np.isnan(values)
    if kind in (COUNT, FLAG, TIME):
        whole = np.rint(
            np.where(missing, 0.0, values * MILLI if kind == TIME else values)
        ).clip(*WHOLE)
        return pa.array(
            whole.astype(np.int8 if kind == FLAG else np.int64), mask=missing
        ).cast(kind)
    return pa.array(values, mask=missing).cast(kind)


def stamps(stamp: float, rows: int) -> Any:
    return pa.array(np.full(rows, round(stamp * MICRO), np.int64)).cast(
        BROKER.schema.field("stamp").type
    )


def constant(text: str, rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([text])
    )


def table_batch(
    broker: str,
    kind: RowType,
    snapshot: Snapshot,
    table: Table[Any],
    texts: Texts,
    incs: Keys,
    added: Mapping[str, Any],
) -> Any:
    """One table of a poll. added: the kind's extra columns, as Arrow."""
    rows = len(table)
    unknown = np.full(
        rows, np.nan
    )  # among them what only an import from Prometheus has
    sids, columns = texts.of(broker, kind, table.index)
    arrays: dict[str, Any] = {
        "stamp": stamps(snapshot.stamp, rows),
        "broker": constant(broker, rows),
        "sid": pa.array(sids),
        "key": pa.array(table.index.keys),
        "inc": pa.array(incs),
        **columns,
        **{
            name: arrow_column(table.columns.get(name, unknown), of)
            for name, of in kind.numbers.items()
        },
        **added,
    }
    return pa.record_batch(
        [arrays[name] for name in kind.schema.names], schema=kind.schema
    )


def extra_columns(
    snapshot: Snapshot,
    kind: RowType,
    table: Table[Any],
    evicted: Column,
    interval: float,
) -> dict[str, Any]:
    """The columns beside those of the table itself."""
    every = pa.array(np.full(len(table), interval, np.float32))
    if kind is QUEUE:
        told = evicted if len(evicted) == len(table) else np.full(len(table), np.nan)
        return {"evicted": arrow_column(told, COUNT), "interval": every}
    keys = {column: getattr(snapshot, name) for name, column in kind.joins.items()}
    # A broker that reports no keys of another table gives none at all.
    joins = {
        c: pa.array(k) if len(k) == len(table) else pa.nulls(len(table), pa.int64())
        for c, k in keys.items()
    }
    return {**joins, "interval": every} if kind is CONSUMER else joins


def broker_batch(broker: str, snapshot: Snapshot, interval: float) -> Any:
    """The broker's own row; it is written last, so a poll without one was cut off."""
    about = snapshot.broker or Broker(BrokerKind.ARTEMIS, "", "", "", Role.PASSIVE)
    values: dict[str, Any] = {
        "stamp": stamps(snapshot.stamp, 1),
        "broker": constant(broker, 1),
        **{
            column: constant(str(getattr(about, name)), 1)
            for name, column in BROKER.texts.items()
        },
        **{
            name: arrow_column(np.array([getattr(about, name)], np.float64), of)
            for name, of in BROKER.numbers.items()
        },
        "agent_clock": pa.array([snapshot.stamp]),
        "interval": pa.array([interval]),
        "parts": constant(parts(snapshot), 1),
        "failed": constant(
            ",".join(
                name for name, one in snapshot.collectors.items() if not one.usable
            ),
            1,
        ),
    }
    return pa.record_batch(
        [values[name] for name in BROKER.schema.names], schema=BROKER.schema
    )


def parts(snapshot: Snapshot) -> str:
    """What was read: `broker;queues:messages,added;…`. A column that is not there differs from one without a number."""
    tables = {
        name: table for name in TABLES if (table := getattr(snapshot, name)) is not None
    }
    said = [f"{name}:{','.join(table.columns)}" for name, table in tables.items()]
    return ";".join(["broker", *said] if snapshot.broker else said)


def column_of(array: Any) -> Column:
    """An Arrow column with the values of the table: float64, NaN = null, times in seconds."""
    if pa.types.is_timestamp(array.type):
        return column_of(array.cast(pa.int64())) / (
            MILLI if array.type.unit == "ms" else MICRO
        )
    values: Column = pc.fill_null(
        array.cast(pa.float64(), safe=False), np.nan
    ).to_numpy()
    return values
