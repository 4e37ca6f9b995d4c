"""Record batches as the Snapshots they were: what is judged twice is the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.table import Index, Keys, Table, positions
from penstock.history import schema
from penstock.history.schema import BROKER, TABLES, TEXT, RowType
from penstock.history.snapshots import column_of
from penstock.model import (
    BROKER_KINDS,
    Broker,
    BrokerKind,
    Collector,
    Observation,
    Process,
    Snapshot,
)

READ_BY_THEMSELVES = ("queues", "consumers", "connections")
"""Tables that have a collector of their own. One that was written was read at that poll: what was kept is not."""
NULL_CODE = -1
"""Of a flag that was not read, and of a text that an older version did not write."""


class RowReader:
    """Makes the Snapshots of one broker from its rows; its indexes follow each other as those of the live agent do."""

    def __init__(self) -> None:
        self._indexes: dict[str, Index[Any]] = {name: Index.empty() for name in TABLES}
        self._codes: dict[str, tuple[Keys, NDArray[np.int64]]] = {}
        self._words: dict[tuple[str, str], dict[str, int]] = {}
        """Kind and column → every text seen so far and its number."""

    def snapshots(self, tables: Mapping[str, Any]) -> Iterator[Snapshot]:
        """The polls in `tables` (kind → Arrow table of one broker), oldest first; a poll that is there twice, once.

        Later polls may follow in a further call: things that live on are the same things.
        """
        polls = tables["broker"].sort_by("stamp")
        split = {
            name: _by_stamp(self._numbered(kind, tables.get(kind.name)))
            for name, kind in TABLES.items()
        }
        seen = -1
        for row, stamp in zip(
            polls.to_pylist(), polls["stamp"].cast(pa.int64()).to_pylist(), strict=True
        ):
            if (
                stamp == seen or row["parts"] is None
            ):  # imported: never polled as a whole
                continue
            seen = stamp
            yield self._snapshot(
                row, {name: rows.get(stamp) for name, rows in split.items()}
            )

    def _numbered(self, kind: RowType, table: Any) -> Any:
        """`table` with the same numbers for its texts as in earlier calls: another number is another text."""
        if table is None or not len(table):
            return table
        table = table.unify_dictionaries().combine_chunks()
        for at, field_ in enumerate(table.schema):
            if field_.type == TEXT:
                known = self._words.setdefault((kind.name, field_.name), {})
                column = schema.as_dictionary(table[field_.name])
                codes = [
                    known.setdefault(word, len(known))
                    for word in column.dictionary.to_pylist()
                ]
                moved = pa.array(codes, pa.int32()).take(column.indices)
                table = table.set_column(
                    at,
                    field_,
                    pa.DictionaryArray.from_arrays(
                        moved, pa.array([*known], pa.string())
                    ),
                )
        return table

    def _snapshot(self, row: Mapping[str, Any], rows: Mapping[str, Any]) -> Snapshot:
        read = parts_of(row["parts"])
        made: dict[str, Any] = {}
        for name, kind in TABLES.items():
            if name in read:
                made[name], extra = self._table(name, kind, rows[name], read[name])
                made |= extra
        failed = [name for name in row["failed"].split(",") if name]
        stamp = row["agent_clock"]
        broker = _broker(row) if "broker" in read else None
        return Snapshot(
            stamp=stamp,
            broker=broker,
            observation=Observation()
            if broker is None
            else Observation(Process.of(broker)),
            collectors={
                **{
                    name: Collector(0.0, stamp)
                    for name in READ_BY_THEMSELVES
                    if name in made
                },
                **{name: Collector(0.0, stamp, "failed") for name in failed},
            },
            **made,
        )

    def _table(
        self, name: str, kind: RowType, rows: Any, present: Sequence[str]
    ) -> tuple[Table[Any], dict[str, Any]]:
        if rows is None:
            rows = kind.schema.empty_table()
        keys = rows["key"].to_numpy()
        texts = {field: rows[column] for field, column in kind.texts.items()}
        changed = self._changed(name, keys, texts)

        def make(new: list[int]) -> list[Any]:
            taken = {
                field: column.take(pa.array(new, pa.int64())).to_pylist()
                for field, column in texts.items()
            }
            return [
                _row(kind.row, {field: taken[field][i] for field in taken})
                for i in range(len(new))
            ]

        index, order = self._indexes[name].advance(keys, make, changed=changed)
        self._indexes[name] = index
        columns = {
            column: column_of(rows[column])[order]
            if column in rows.column_names
            else np.full(len(rows), np.nan)
            for column in present
        }
        extra = {
            name: rows[column].to_numpy()[order]
            for name, column in kind.joins.items()
            if len(rows) and rows[column].null_count == 0
        }
        return Table(index, columns), extra

    def _changed(self, name: str, keys: Keys, texts: Mapping[str, Any]) -> Keys:
        """Keys (ascending, as the rows are) whose texts differ from those of the poll before."""
        codes = np.array(
            [_codes(column) for column in texts.values()], np.int64
        ).reshape(len(texts), len(keys))
        before = self._codes.get(name)
        self._codes[name] = (keys, codes)
        if before is None or not len(before[0]) or not len(keys):
            return keys[:0]
        at = positions(before[0], keys)
        differs: NDArray[np.bool_] = (at >= 0) & (before[1][:, at] != codes).any(axis=0)
        return keys[differs]


def _codes(column: Any) -> NDArray[np.int64]:
    """Numbers that are equal where the texts or flags are; the dictionary is the same for all polls."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = column.indices if pa.types.is_dictionary(column.type) else column
    codes: NDArray[np.int64] = (
        column.cast(pa.int64()).fill_null(NULL_CODE).to_numpy(zero_copy_only=False)
    )
    return codes


def parts_of(text: str) -> dict[str, list[str]]:
    """Table → its columns, of what `parts` wrote."""
    pairs = (part.partition(":") for part in text.split(";") if part)
    return {name: columns.split(",") if columns else [] for name, _, columns in pairs}


def _row(of: type, values: dict[str, Any]) -> Any:
    """A row object; texts that name a choice become that choice again. What is null has the field's default, if any."""
    for one in fields(of):
        name = values[one.name]
        if name is None and one.default is not MISSING:
            values[one.name] = one.default
            continue
        if one.type is BrokerKind:
            values[one.name] = BROKER_KINDS.get(name) or BrokerKind(name)
        elif isinstance(one.type, type) and issubclass(one.type, StrEnum):
            values[one.name] = one.type(name)
    return of(**values)


def _broker(row: Mapping[str, Any]) -> Broker:
    texts = {name: row[column] for name, column in BROKER.texts.items()}
    numbers = {
        name: np.nan if row[name] is None else row[name] for name in BROKER.numbers
    }
    broker: Broker = _row(Broker, {**texts, **numbers})
    return broker


def _by_stamp(table: Any) -> dict[int, Any]:
    """The rows of each poll, by its stamp in microseconds."""
    if table is None or not len(table):
        return {}
    at = table["stamp"].cast(pa.int64()).to_numpy()
    order = np.lexsort((table["key"].to_numpy(), at))
    table = table.take(pa.array(order))
    at = at[order]
    edges = np.flatnonzero(np.diff(at, prepend=at[0] - 1))
    ends = np.append(edges[1:], len(at))
    return {
        int(at[a]): table.slice(a, b - a)
        for a, b in zip(edges.tolist(), ends.tolist(), strict=True)
    }
