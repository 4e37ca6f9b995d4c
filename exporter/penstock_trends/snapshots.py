"""Rows of the history as the Snapshots that they were made of, so that a back-test judges what the agent judged.

A Snapshot is one poll. Its tables have an index: the objects (queues, consumers, …) in the order of their keys, which a
later poll follows on, so that state is kept for objects that live on. `columns_read` names the tables and columns that
the broker answered at a poll; a table that it did not answer is not in the Snapshot.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.table import Column, Index, Keys, Table, positions
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
"""The code of a flag that was not read, and of a text that an older version did not write."""


ArrowTable = Any
"""A `pyarrow.Table`; pyarrow has no types."""
ArrowColumn = Any
"""A `pyarrow.Array` or `pyarrow.ChunkedArray`."""
Row = Any
"""A row of any kind, such as a QueueRow."""


class RowReader:
    """Makes the Snapshots of one broker from its rows; its indexes follow each other as those of the live agent do."""

    def __init__(self) -> None:
        self._indexes: dict[str, Index[Row]] = {name: Index.empty() for name in TABLES}
        self._codes: dict[str, tuple[Keys, NDArray[np.int64]]] = {}
        self._words: dict[tuple[str, str], dict[str, int]] = {}
        """Kind and column → every text seen so far and its number."""

    def snapshots(self, tables: Mapping[str, ArrowTable]) -> Iterator[Snapshot]:
        """Give the polls in `tables`, oldest first; a poll that is there twice, once.

        Later polls may follow in a further call: things that live on are the same things.

        Args:
            tables: For each kind the rows of one broker.
        """
        polls = tables["broker"].sort_by("stamp")
        stamps = polls["stamp"].cast(pa.int64()).to_pylist()
        rows_by_stamp = {
            name: _by_stamp(self._numbered(kind, tables.get(kind.name)))
            for name, kind in TABLES.items()
        }
        last_stamp = -1
        for broker_row, stamp in zip(polls.to_pylist(), stamps, strict=True):
            was_imported = broker_row["parts"] is None  # never polled as a whole
            if stamp == last_stamp or was_imported:
                continue
            last_stamp = stamp
            rows = {
                name: by_stamp.get(stamp) for name, by_stamp in rows_by_stamp.items()
            }
            yield self._snapshot(broker_row, rows)

    def _numbered(self, kind: RowType, table: ArrowTable | None) -> ArrowTable | None:
        """Return `table` with the same numbers for its texts as in earlier calls.

        So another number is another text.
        """
        if table is None or not len(table):
            return table
        table = table.unify_dictionaries().combine_chunks()
        for place, column_type in enumerate(table.schema):
            if column_type.type != TEXT:
                continue
            words = self._words.setdefault((kind.name, column_type.name), {})
            column = _renumbered(table[column_type.name], words)
            table = table.set_column(place, column_type, column)
        return table

    def _snapshot(
        self, broker_row: Mapping[str, Any], rows: Mapping[str, ArrowTable | None]
    ) -> Snapshot:
        """Return one poll.

        Args:
            broker_row: The row of the broker.
            rows: For each table its rows of the poll; None where it has none.
        """
        columns_read = parts_of(broker_row["parts"])
        tables: dict[str, Any] = {}
        for name, kind in TABLES.items():
            if name in columns_read:
                tables |= self._table(name, kind, rows[name], columns_read[name])
        stamp = broker_row["agent_clock"]
        broker = None
        observation = Observation()
        if "broker" in columns_read:
            broker = _broker(broker_row)
            observation = Observation(Process.of(broker))
        collectors = {
            name: Collector(0.0, stamp) for name in READ_BY_THEMSELVES if name in tables
        }
        for name in broker_row["failed"].split(","):
            if name:
                collectors[name] = Collector(0.0, stamp, "failed")
        return Snapshot(
            stamp=stamp,
            broker=broker,
            observation=observation,
            collectors=collectors,
            **tables,
        )

    def _table(
        self,
        name: str,
        kind: RowType,
        rows: ArrowTable | None,
        columns_read: Sequence[str],
    ) -> dict[str, Any]:
        """Return the table `name` of a Snapshot, and what joins it with others, by their names."""
        if rows is None:
            rows = kind.schema.empty_table()
        keys = rows["key"].to_numpy()
        texts = {field: rows[column] for field, column in kind.texts.items()}

        def rows_at(places: list[int]) -> list[Row]:
            """The objects at these positions; an index asks for those that are new or changed."""
            chosen = pa.array(places, pa.int64())
            values = {
                field: column.take(chosen).to_pylist()
                for field, column in texts.items()
            }
            return [
                _row(kind.row, {field: values[field][n] for field in values})
                for n in range(len(places))
            ]

        index, order = self._indexes[name].advance(
            keys, rows_at, changed=self._changed(name, keys, texts)
        )
        self._indexes[name] = index
        columns: dict[str, Column] = {}
        for column in columns_read:
            if column in rows.column_names:
                columns[column] = column_of(rows[column])[order]
            else:
                columns[column] = np.full(len(rows), np.nan)
        parts: dict[str, Any] = {name: Table(index, columns)}
        for join, column in kind.joins.items():
            if len(rows) and rows[column].null_count == 0:
                parts[join] = rows[column].to_numpy()[order]
        return parts

    def _changed(self, name: str, keys: Keys, texts: Mapping[str, ArrowColumn]) -> Keys:
        """Return the keys whose texts differ from those of the poll before; they ascend, as the rows do.

        Texts are compared by their codes, which are the same for all polls, see `_codes`.
        """
        codes = np.array([_codes(column) for column in texts.values()], np.int64)
        codes = codes.reshape(len(texts), len(keys))
        before = self._codes.get(name)
        self._codes[name] = (keys, codes)
        if before is None or not len(keys):
            return keys[:0]
        keys_before, codes_before = before
        if not len(keys_before):
            return keys[:0]
        places = positions(keys_before, keys)  # -1 for a new key
        other_text = (codes_before[:, places] != codes).any(axis=0)
        differs: NDArray[np.bool_] = (places >= 0) & other_text
        return keys[differs]


def _renumbered(column: ArrowColumn, words: dict[str, int]) -> ArrowColumn:
    """Return texts with the numbers of `words`, which gets those that it lacks."""
    texts = schema.as_dictionary(column)
    numbers = [
        words.setdefault(word, len(words)) for word in texts.dictionary.to_pylist()
    ]
    number_of_row = pa.array(numbers, pa.int32()).take(texts.indices)
    all_words = pa.array([*words], pa.string())
    return pa.DictionaryArray.from_arrays(number_of_row, all_words)


def _codes(column: ArrowColumn) -> NDArray[np.int64]:
    """Return (rows,) numbers that are equal where the texts, or flags, are equal.

    Texts are numbered by `_numbered`: equal ones have the same number in all polls.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.indices
    numbers = column.cast(pa.int64()).fill_null(NULL_CODE)
    codes: NDArray[np.int64] = numbers.to_numpy(zero_copy_only=False)
    return codes


def parts_of(text: str) -> dict[str, list[str]]:
    """Return the columns of each table, from the text that `parts` wrote."""
    columns_by_table: dict[str, list[str]] = {}
    for part in text.split(";"):
        if part:
            name, _, columns = part.partition(":")
            columns_by_table[name] = columns.split(",") if columns else []
    return columns_by_table


def _row(row_type: type, values: dict[str, Any]) -> Row:
    """Return an object of the model from the texts of its fields.

    Names of enumerations become their members again; null becomes the field's default,
    if any.
    """
    for field in fields(row_type):
        value = values[field.name]
        if value is None and field.default is not MISSING:
            values[field.name] = field.default
        elif field.type is BrokerKind:
            values[field.name] = BROKER_KINDS.get(value) or BrokerKind(value)
        elif isinstance(field.type, type) and issubclass(field.type, StrEnum):
            values[field.name] = field.type(value)
    return row_type(**values)


def _broker(broker_row: Mapping[str, Any]) -> Broker:
    """Return the broker of a poll; a number that is not known is NaN."""
    values = {name: broker_row[column] for name, column in BROKER.texts.items()}
    for name in BROKER.numbers:
        number = broker_row[name]
        values[name] = np.nan if number is None else number
    broker: Broker = _row(Broker, values)
    return broker


def _by_stamp(table: ArrowTable | None) -> dict[int, ArrowTable]:
    """Return the rows of each poll, by its stamp in microseconds."""
    if table is None or not len(table):
        return {}
    stamps = table["stamp"].cast(pa.int64()).to_numpy()
    order = np.lexsort((table["key"].to_numpy(), stamps))
    table = table.take(pa.array(order))
    stamps = stamps[order]
    begins = np.flatnonzero(np.diff(stamps, prepend=stamps[0] - 1))
    ends = np.append(begins[1:], len(stamps))
    polls: dict[int, ArrowTable] = {}
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        polls[int(stamps[begin])] = table.slice(begin, end - begin)
    return polls
