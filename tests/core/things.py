"""Rows, tables and snapshots as a reader makes them, from plain dicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings

from penstock import model
from penstock.core.table import Index, Table

RowT = TypeVar("RowT")
NAN = np.nan

patiently = settings(suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no reason to fail."""

ACTIVE = model.Broker(model.BrokerKind.ARTEMIS, "2.44.0", "", "node", model.Role.ACTIVE)
PASSIVE = replace(ACTIVE, role=model.Role.PASSIVE)


class Source(Generic[RowT]):
    """The tables of one kind of thing, poll by poll, on one index that is followed, as a reader keeps it."""

    def __init__(self) -> None:
        self.index: Index[RowT] = Index.empty()

    def table(
        self, rows: Mapping[int, RowT], **columns: Mapping[int, float]
    ) -> Table[RowT]:
        """`rows` and `columns` by key; a value that is not there is missing."""
        order = list(rows)
        keys = np.array(order, np.int64)
        known = self.index.positions(keys)
        changed = [
            k
            for k, at in zip(order, known, strict=True)
            if at >= 0 and self.index.rows[at] != rows[k]
        ]
        self.index, at = self.index.advance(
            keys,
            lambda new: [rows[order[i]] for i in new],
            changed=np.array(changed, np.int64),
        )
        return Table(
            self.index,
            {
                name: np.array([by.get(key, NAN) for key in order], np.float64)[at]
                for name, by in columns.items()
            },
        )


def table(rows: Sequence[RowT], **columns: Sequence[float]) -> Table[RowT]:
    """A table with an index of its own."""
    return Table(
        Index.of(rows),
        {name: np.array(values, np.float64) for name, values in columns.items()},
    )


def queue(name: str, address: str = "", **fields: Any) -> model.QueueRow:
    base = model.QueueRow(
        name=name,
        address=address or name,
        routing_type="anycast",
        durable=True,
        temporary=False,
        filter="",
        kind=model.QueueKind.USER,
        ring_source=model.RingSource.NONE,
        dead_letter_address="",
        expiry_address="",
    )
    return replace(base, **fields)


def temporary(name: str) -> model.QueueRow:
    return queue(name, durable=False, temporary=True, kind=model.QueueKind.TEMPORARY)


def subscription(name: str, address: str, *, durable: bool) -> model.QueueRow:
    return queue(
        name,
        address,
        routing_type="multicast",
        durable=durable,
        kind=model.QueueKind.SUBSCRIPTION,
    )


def address(name: str, policy: str = "page") -> model.AddressRow:
    return model.AddressRow(name, policy)


def consumer(
    name: str, queue: str, client: str = "c", address: str = ""
) -> model.ConsumerRow:
    return model.ConsumerRow(
        name, queue, address or queue, client, "s" + name, "AMQP", "u", "h", ""
    )


def connection(name: str, client: str = "c") -> model.ConnectionRow:
    return model.ConnectionRow(name, client, "AMQP", "u", "h")


def producer(name: str, address: str, client: str = "c") -> model.ProducerRow:
    return model.ProducerRow(name, address, client, "s" + name)


def link(name: str, kind: str = "bridge") -> model.LinkRow:
    return model.LinkRow(name, kind)


_COLLECTORS = {"producers": "connections"}


def snapshot(
    stamp: float = 1000.0,
    broker: model.Broker | None = ACTIVE,
    failed: Sequence[str] = (),
    consumer_queue: Sequence[int] | None = None,
    consumer_connection: Sequence[int] | None = None,
    **tables: Table[Any],
) -> model.Snapshot:
    """A poll that read `tables`; the collectors `failed` did not answer."""
    size = len(tables["consumers"]) if "consumers" in tables else 0
    read = ["broker", *(_COLLECTORS.get(name, name) for name in tables)]
    read_tables: dict[str, Any] = tables
    return model.Snapshot(
        stamp=stamp,
        broker=broker,
        observation=model.Observation()
        if broker is None
        else model.Observation(model.Process.of(broker)),
        consumer_queue=np.array(
            [-1] * size if consumer_queue is None else consumer_queue, np.int64
        ),
        consumer_connection=np.array(
            [-1] * size if consumer_connection is None else consumer_connection,
            np.int64,
        ),
        collectors={
            **{name: model.Collector(0.1, stamp) for name in read},
            **{name: model.Collector(0.1, stamp, "no answer") for name in failed},
        },
        **read_tables,
    )


def by_row(table: Table[Any], column: str) -> dict[Any, float]:
    """The column by row; missing values left out."""
    return {
        row: value
        for row, value in zip(table.index, table[column].tolist(), strict=True)
        if not np.isnan(value)
    }


def by(table: Table[Any], column: str, *labels: str) -> dict[Any, float]:
    """The column by one label, or by several as a tuple; missing values left out."""
    found = {}
    for row, value in zip(table.index, table[column].tolist(), strict=True):
        name = tuple(getattr(row, label) for label in labels)
        assert name not in found
        if not np.isnan(value):
            found[name if len(labels) > 1 else name[0]] = value
    return found
