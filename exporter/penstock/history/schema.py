"""The schema of raw history: one kind of row per table of the Snapshot, the conditions, and the fates of the account.

Version 1. Columns are only ever added; a reader takes a column that a file lacks as null. Null is missing, never 0.
Counts are messages, sizes bytes, times UTC. `sid` names a series (a queue, or a client of a queue) for ever, `inc`
one life of its counters: they never fall within one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import pyarrow as pa

from penstock import model

VERSION: Final = 1
VERSION_KEY: Final = b"penstock.history"

STAMP: Final = pa.timestamp("us", tz="UTC")
TIME: Final = pa.timestamp("ms", tz="UTC")
TEXT: Final = pa.dictionary(pa.int32(), pa.string())
COUNT: Final = pa.int64()
REAL: Final = pa.float64()
FLAG: Final = pa.int8()
KEY: Final = pa.int64()


@dataclass(frozen=True, slots=True)
class RowType:
    """One kind of row. row: class of the row objects. texts: field of these → column. numbers: columns of the table,
    with their type. flags: which texts are true or false instead. joins: attribute of the Snapshot that holds a key of
    another table per row → column. identity: the fields that name its series. counters: columns that never fall in one
    life.
    """

    name: str
    row: type
    texts: Mapping[str, str]
    numbers: Mapping[str, Any]
    flags: frozenset[str] = frozenset()
    identity: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    extra: tuple[tuple[str, Any], ...] = ()
    joins: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> Any:
        own = [("stamp", STAMP), ("broker", TEXT)]
        if self.identity:
            own += [("sid", KEY), ("key", KEY), ("inc", KEY)]
        texts = [(column, pa.bool_() if name in self.flags else TEXT) for name, column in self.texts.items()]
        columns = [*own, *texts, *self.numbers.items(), *self.extra, *((name, KEY) for name in self.joins.values())]
        return pa.schema([pa.field(name, kind) for name, kind in columns], {VERSION_KEY: str(VERSION).encode()})

    @property
    def order(self) -> tuple[str, ...]:
        """Series order: equal neighbours are what makes a file small."""
        return ("sid", "key", "stamp") if self.identity else ("broker", "stamp")


def _of(row: type, **renamed: str) -> dict[str, Any]:
    """The texts and flags of a row class; numbers of the broker's own row are left to its columns."""
    named = [field for field in fields(row) if field.type is not float]
    return {
        "row": row,
        "texts": {field.name: renamed.get(field.name, field.name) for field in named},
        "flags": frozenset(field.name for field in named if field.type is bool),
    }


def _all(kind: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, kind)


BROKER: Final = RowType(
    "broker",
    **_of(model.Broker, kind="broker_kind"),
    numbers={field.name: REAL for field in fields(model.Broker) if field.type is float},
    # agent_clock is the stamp unrounded; parts what was read, failed the collectors that failed.
    extra=(("agent_clock", REAL), ("interval", REAL), ("parts", TEXT), ("failed", TEXT)),
)
ADDRESS: Final = RowType(
    "address",
    **_of(model.AddressRow, name="address"),
    numbers={
        **_all(COUNT, "delivering", "scheduled", "uncommitted", "removed", "added_bytes", "removed_bytes"),
        **_all(COUNT, "message_limit_bytes", "max_producers", "consumer_flow_limit"),
        **_all(FLAG, "topic", "dead_letters", "exact"),
        **_all(COUNT, "memory_bytes", "limit_bytes", "limit_messages", "messages_added", "messages_unrouted", "pages"),
        **_all(COUNT, "page_read_limit_bytes", "page_read_limit_messages", "messages_dropped", "messages_rejected"),
        **_all(COUNT, "messages", "producers", "consumers", "max_delivery_attempts"),
        **_all(FLAG, "non_destructive", "makes_dead_letter_queues", "makes_expiry_queues", "slow_consumer_kills"),
        **_all(REAL, "slow_consumer_rate", "slow_consumer_period", "expiry_delay"),
        **_all(REAL, "memory_used_ratio", "limit_percent"),
        **_all(FLAG, "paging", "paused", "producers_paused", "producers_blocked", "internal", "temporary"),
        **_all(FLAG, "retroactive"),
    },
    identity=("name",),
    counters=("messages_added", "removed"),
)
QUEUE: Final = RowType(
    "queue",
    **_of(model.QueueRow, name="queue", kind="queue_kind"),
    numbers={
        **_all(COUNT, "messages", "delivering", "scheduled", "bytes", "delivering_bytes", "consumers"),
        **_all(COUNT, "added", "acknowledged", "expired", "killed", "acknowledge_attempts", "ring_limit"),
        **_all(COUNT, "max_consumers", "consumers_before_dispatch", "removed", "uncommitted"),
        **_all(FLAG, "exact", "paused", "last_value", "exclusive", "grouped", "enabled"),
        **_all(FLAG, "has_dead_letter_address", "has_expiry_address"),
        **_all(COUNT, "in_doubt"),
        **_all(TIME, "last_acknowledgement", "next_sent"),
    },
    identity=("address", "name"),
    counters=("added", "acknowledged", "expired", "killed"),
    # What the account of the live agent said; null where it could not know.
    extra=(("evicted", COUNT), ("interval", pa.float32())),
)
CONSUMER: Final = RowType(
    "consumer",
    **_of(model.ConsumerRow, id="consumer"),
    numbers={
        **_all(COUNT, "buffered", "buffered_bytes", "delivered", "acknowledged", "awaiting_commit"),
        **_all(COUNT, "flow_limit", "flow_resume", "waiting", "acknowledge_mode"),
        **_all(TIME, "created", "last_delivery", "last_acknowledgement"),
        **_all(FLAG, "flow_paused", "orphaned", "leaving"),
    },
    identity=("address", "queue", "client"),
    counters=("delivered", "acknowledged"),
    extra=(("interval", pa.float32()),),
    joins={"consumer_queue": "queue_key", "consumer_connection": "connection_key"},
)
CONNECTION: Final = RowType(
    "connection",
    **_of(model.ConnectionRow, id="connection"),
    numbers=_all(COUNT, "sessions", "consumers", "producers"),
    identity=("client",),
)
PRODUCER: Final = RowType(
    "producer",
    **_of(model.ProducerRow, id="producer"),
    numbers={**_all(COUNT, "produced", "produced_bytes"), **_all(TIME, "created")},
    identity=("address", "client"),
    counters=("produced",),
    joins={"producer_connection": "connection_key"},
)
TRANSACTION: Final = RowType(
    "transaction",
    **_of(model.TransactionRow, id="transaction"),
    numbers={
        **_all(COUNT, "messages", "acknowledgements"),
        **_all(TIME, "created"),
        **_all(FLAG, "state", "distributed"),
    },
    identity=("client",),
    joins={"transaction_connection": "connection_key"},
)
LINK: Final = RowType(
    "link",
    **_of(model.LinkRow, name="link", kind="link_kind"),
    numbers={**_all(COUNT, "pending"), **_all(FLAG, "up")},
    identity=("name",),
)


@dataclass(frozen=True, slots=True)
class FateRow:
    """queue: empty for what came to no queue of the address. client: empty for all that had this fate."""

    address: str
    queue: str
    fate: str
    client: str


FATE: Final = RowType(
    "fate",
    **_of(FateRow),
    # messages: at least so many since the account began, most: at most, null where that is not known;
    # before: `messages` of the poll before
    numbers=_all(COUNT, "messages", "most", "before"),
    identity=("address", "queue", "fate", "client"),
    counters=("messages",),
)
TOLD_EVERY: Final = 3600
"""Seconds after which a condition that stands is told again, at the full hour;"""
UNSEEN: Final = TOLD_EVERY + 900.0
"""after so many it is not known to stand any more."""
CONDITION: Final = RowType(
    "condition",
    dict,
    # event: enter, leave, severity (it became another), or hold: it stands at the first poll of an hour or of the agent
    texts={name: name for name in ("event", "condition", "address", "queue", "client", "severity", "evidence")},
    # seen: when it was last seen to stand; of one that ended it may be long ago, if nobody looked
    numbers={"since": TIME, "consumers": COUNT, "seen": TIME},
)

TABLES: Final[Mapping[str, RowType]] = {
    "addresses": ADDRESS,
    "queues": QUEUE,
    "consumers": CONSUMER,
    "connections": CONNECTION,
    "producers": PRODUCER,
    "links": LINK,
    "transactions": TRANSACTION,
}
"""Attribute of a Snapshot → the kind of its rows."""
ROW_TYPES: Final[Mapping[str, RowType]] = {kind.name: kind for kind in (BROKER, CONDITION, FATE, *TABLES.values())}


def series_id(*names: str) -> int:
    """The sid of these labels, the broker's name first: 63 bits, so that it is never negative."""
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def fitted(table: Any, schema: Any) -> Any:
    """The table in another schema, as an older or a newer version writes it: a column that it lacks is null."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def as_dictionary(column: Any) -> Any:
    """A column of texts as one DictionaryArray, whatever pieces it came in."""
    column = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def parquet_options(schema: Any) -> dict[str, Any]:
    """Whole numbers and times as differences: in series order most are 0 or alike. The rest by dictionary."""
    whole = [f.name for f in schema if pa.types.is_int64(f.type) or pa.types.is_timestamp(f.type)]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [field.name for field in schema if field.name not in whole],
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        "data_page_version": "2.0",
        "write_statistics": True,
    }
