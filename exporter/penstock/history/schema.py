"""The schema of raw history: one kind of row per table of the Snapshot, the conditions, and the fates of the account.

Version 1. Columns are only ever added; a reader takes a column that a file lacks as null. Null is missing, never 0.
Counts are messages, sizes bytes, times UTC. `sid` names a series (a queue, or a client of a queue) for ever, `inc`
one life of its counters: they never fall within one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import pyarrow as pa

from penstock import model
from penstock.columns.addresses import AddressColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.links import LinkColumns
from penstock.columns.producers import ProducerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Frame, Kind
from penstock.columns.transactions import TransactionColumns
from penstock.core.catalogues import read_toml

VERSION: Final = 1
VERSION_KEY: Final = b"penstock.history"

STAMP: Final = pa.timestamp("us", tz="UTC")
TIME: Final = pa.timestamp("ms", tz="UTC")
TEXT: Final = pa.dictionary(pa.int32(), pa.string())
COUNT: Final = pa.int64()
REAL: Final = pa.float64()
FLAG: Final = pa.int8()
KEY: Final = pa.int64()
FLAGS: Final = (bool, bool | None)
"""Types of the fields of row objects that are true or false; null is what was not read."""
TYPES: Final = {
    "count": COUNT,
    "flag": FLAG,
    "real": REAL,
    "small": pa.float32(),
    "text": TEXT,
    "time": TIME,
}
"""By their names in `schema.toml`."""


@dataclass(frozen=True, slots=True)
class RowType:
    """One kind of row, as `schema.toml` has it.

    texts: field of the row objects → column; flags: which of these are true, false or not read. numbers: columns of the
    table, with their type. extra: further columns. joins: attribute of the Snapshot that holds a key of another
    table per row → column. identity: fields that name its series. counters: columns that never fall in one life.
    """

    name: str
    row: type
    texts: Mapping[str, str]
    flags: frozenset[str]
    numbers: Mapping[str, pa.DataType]
    extra: Mapping[str, pa.DataType]
    joins: Mapping[str, str]
    identity: tuple[str, ...]
    counters: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        own = [("stamp", STAMP), ("broker", TEXT)]
        if self.identity:
            own += [("sid", KEY), ("key", KEY), ("inc", KEY)]
        texts = [
            (column, pa.bool_() if name in self.flags else TEXT)
            for name, column in self.texts.items()
        ]
        keys = [(name, KEY) for name in self.joins.values()]
        columns = [*own, *texts, *self.numbers.items(), *self.extra.items(), *keys]
        return pa.schema(
            [pa.field(name, kind) for name, kind in columns],
            {VERSION_KEY: str(VERSION).encode()},
        )

    @property
    def order(self) -> tuple[str, ...]:
        """Series order: equal neighbours are what makes a file small."""
        return ("sid", "key", "stamp") if self.identity else ("broker", "stamp")


@dataclass(frozen=True, slots=True)
class FateRow:
    """queue: empty for what came to no queue of the address. client: empty for all that had this fate."""

    address: str
    queue: str
    fate: str
    client: str


INCIDENT: Final = "incident "
"""How the conditions of history begin that are incidents, before their kind."""
HOUR: Final = 3600
TOLD_EVERY: Final = HOUR
"""Seconds after which an active condition is written again, at the full hour;"""
UNSEEN: Final = TOLD_EVERY + 900.0
"""after so many it is not known to be active any more."""


def _row_type(name: str, said: Mapping[str, Any]) -> RowType:
    row: type = (
        {**vars(model), "FateRow": FateRow}[said["row"]] if "row" in said else dict
    )
    kept = (
        {field.name: field.type for field in fields(row)}
        if is_dataclass(row)
        else dict.fromkeys(said["texts"], str)
    )
    texts = [field for field, kind in kept.items() if kind is not float]
    return RowType(
        name,
        row,
        {field: said.get("renamed", {}).get(field, field) for field in texts},
        frozenset(field for field in texts if kept[field] in FLAGS),
        {field: REAL for field, kind in kept.items() if kind is float}
        | _numbers(name, said.get("numbers", ())),
        _columns(said.get("extra", ())),
        said.get("joins", {}),
        tuple(said.get("identity", ())),
        tuple(said.get("counters", ())),
    )


FRAMES: Final[Mapping[str, type[Frame[object]]]] = {
    "address": AddressColumns,
    "queue": QueueColumns,
    "consumer": ConsumerColumns,
    "connection": ConnectionColumns,
    "producer": ProducerColumns,
    "link": LinkColumns,
    "transaction": TransactionColumns,
}
"""By the kind of row, the frame that declares its numbers."""
STORED: Final = {
    Kind.COUNT: COUNT,
    Kind.SETTING: COUNT,
    Kind.PERCENT: REAL,
    Kind.REAL: REAL,
    Kind.FLAG: FLAG,
    Kind.STATE: FLAG,
    Kind.TIME: TIME,
}
"""By the kind of a declared column, its type in the files."""


def _numbers(
    name: str, groups: Sequence[Mapping[str, Sequence[str]]]
) -> dict[str, pa.DataType]:
    """The numbers of a kind of row: as they are declared, else as `schema.toml` has them."""
    if name not in FRAMES:
        return _columns(groups)
    return {column: STORED[kind] for column, kind in FRAMES[name].stored().items()}


def _columns(
    groups: Sequence[Mapping[str, Sequence[str]]],
) -> dict[str, pa.DataType]:
    return {
        name: TYPES[kind]
        for group in groups
        for kind, names in group.items()
        for name in names
    }


_KINDS = read_toml("penstock.history", "schema.toml")
ROW_TYPES: Final[Mapping[str, RowType]] = {
    name: _row_type(name, said) for name, said in _KINDS.items()
}
TABLES: Final = {
    said["table"]: ROW_TYPES[name] for name, said in _KINDS.items() if "table" in said
}
"""Attribute of a Snapshot → the kind of its rows."""
BROKER = ROW_TYPES["broker"]
CONDITION = ROW_TYPES["condition"]
FATE = ROW_TYPES["fate"]
QUEUE = ROW_TYPES["queue"]
CONSUMER = ROW_TYPES["consumer"]


def series_id(*names: str) -> int:
    """The sid of these labels, the broker's name first: 63 bits, so that it is never negative."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in another schema, as an older or a newer version writes it: a column that it lacks is null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def as_dictionary(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """A column of texts as one DictionaryArray, whatever pieces it came in."""
    column = (
        column.unify_dictionaries().combine_chunks()
        if isinstance(column, pa.ChunkedArray)
        else column
    )
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Whole numbers and times as differences: in series order most are 0 or alike. The rest by dictionary."""
    whole = [
        f.name
        for f in schema
        if pa.types.is_int64(f.type) or pa.types.is_timestamp(f.type)
    ]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [field.name for field in schema if field.name not in whole],
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        "data_page_version": "2.0",
        "write_statistics": True,
    }
