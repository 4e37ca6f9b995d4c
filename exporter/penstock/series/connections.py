"""Addresses, producers, connections and links as they are shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock import model
from penstock.core.table import Column, Index, Keys, Positions, Table, looked_up
from penstock.model import AddressRow, ProducerRow, Snapshot
from penstock.series import labels
from penstock.series.labels import (
    HIDDEN,
    TEMPORARY,
    AddressSeries,
    Grouping,
    LinkSeries,
    ProducerSeries,
    QueueSeries,
)
from penstock.series.totals import Totals
from penstock.settings.policy import Policy

_UNKNOWN_ADDRESS = -2


@dataclass(frozen=True, slots=True)
class Producers:
    """grouping: which series each producer belongs to. totals: what those produced. by: the addresses it rests on."""

    grouping: Grouping[ProducerSeries] = field(default_factory=Grouping)
    totals: Totals[ProducerSeries] = field(default_factory=Totals)
    by: Grouping[AddressSeries] | None = None

    def advance(
        self,
        producers: Table[ProducerRow],
        addresses: Grouping[AddressSeries],
        policy: Policy,
        late: Keys | None,
    ) -> "Producers":
        """late: as of `Totals.advance`."""
        grouping = self.grouping
        if producers.index is not grouping.source or addresses is not self.by:
            grouping = _grouped(grouping, producers.index, addresses, policy)
        return Producers(
            grouping,
            self.totals.advance(grouping, [producers["produced"]], late=late),
            addresses,
        )

    def table(self) -> Table[ProducerSeries]:
        return Table(self.grouping.index, {"produced": self.totals.sum_of(0)})


def _grouped(
    before: Grouping[ProducerSeries],
    producers: Index[ProducerRow],
    addresses: Grouping[AddressSeries],
    policy: Policy,
) -> Grouping[ProducerSeries]:
    """Which series each producer belongs to: hidden or summed as its address is; one not known yet has its own name."""
    shown_as = {
        row.name: at
        for row, at in zip(addresses.source, addresses.member.tolist(), strict=True)
    }
    at = np.array(
        [shown_as.get(row.address, _UNKNOWN_ADDRESS) for row in producers], np.intp
    )
    context = at.astype(np.int64)
    context[at >= 0] = addresses.index.keys[at[at >= 0]]
    rows = producers.rows

    def label(i: int) -> ProducerSeries | None:
        row: ProducerRow = rows[i]
        if at[i] == HIDDEN or (
            at[i] == _UNKNOWN_ADDRESS and not policy.selection(row.address, "")
        ):
            return None
        name = (
            row.address
            if at[i] == _UNKNOWN_ADDRESS
            else addresses.index.rows[at[i]].address
        )
        return ProducerSeries(policy.broker, name, row.client)

    return before.advance(producers, lambda new: [label(i) for i in new], context)


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections that are shown, out of all in `source`."""

    source: Index[model.ConnectionRow] = field(default_factory=Index.empty)
    shown: labels.TopK = field(default_factory=labels.TopK)
    index: Index[labels.ConnectionSeries] = field(default_factory=Index.empty)

    def advance(
        self,
        connections: Table[model.ConnectionRow],
        snapshot: Snapshot,
        policy: Policy,
    ) -> tuple["Connections", Table[labels.ConnectionSeries]]:
        """Those whose consumers hold most, then those with most consumers."""
        columns = dict(connections.columns) | held_by_connection(connections, snapshot)
        size = len(connections)
        held = columns.get("buffered", np.zeros(size))
        everyone = np.zeros(size, np.int64)
        chosen = labels.top_k(
            held, connections["consumers"], everyone, policy.limits.connections, size
        )
        shown = self.shown.advance(connections.index.keys, chosen)
        at = connections.index.positions(shown.keys)
        rows = connections.index.rows[at]

        def label(new: list[int]) -> list[labels.ConnectionSeries]:
            return [
                labels.ConnectionSeries(
                    policy.broker,
                    row.id,
                    row.client,
                    row.protocol,
                    row.user,
                    row.remote_host,
                )
                for row in rows[new]
            ]

        changed = None
        if connections.index is not self.source:
            changed = connections.index.keys[
                connections.index.unchanged_in(self.source) < 0
            ]
        index, _ = self.index.advance(shown.keys, label, changed=changed)
        found = {name: column[at] for name, column in columns.items()}
        return Connections(connections.index, shown, index), Table(
            index, found | {"info": np.ones(len(index))}
        )


def held_by_connection(
    connections: Table[model.ConnectionRow], snapshot: Snapshot
) -> dict[str, Column]:
    consumers = snapshot.consumers
    if consumers is None:
        return {}
    at = connections.index.positions(snapshot.consumer_connection)
    names = [name for name in ("buffered", "buffered_bytes") if name in consumers]
    return {
        name: labels.sum_by(at, consumers[name], len(connections)) for name in names
    }


def grouped_links(
    before: Grouping[LinkSeries], links: Table[model.LinkRow], policy: Policy
) -> Grouping[LinkSeries]:
    rows = links.index.rows
    return before.advance(
        links.index,
        lambda new: [
            LinkSeries(policy.broker, rows[i].name, rows[i].kind) for i in new
        ],
    )


def link_table(
    grouping: Grouping[LinkSeries], links: Table[model.LinkRow]
) -> Table[LinkSeries]:
    return Table(
        grouping.index,
        {name: grouping.max(column) for name, column in links.columns.items()},
    )


_SHOWN = 0
_SUMMED = 1
_NOT_SHOWN = 2
GAUGES = (
    "memory_bytes", "memory_used_ratio", "limit_bytes", "limit_messages", "messages_added", "messages_unrouted",
    "pages",
)  # fmt: skip
FLAGS = ("paging", "paused", "producers_paused")


@dataclass(frozen=True, slots=True)
class Addresses:
    """by: the queues it rests on. of_queue: per queue series the position of its address. position: by name."""

    grouping: Grouping[AddressSeries] = field(default_factory=Grouping)
    by: Grouping[QueueSeries] | None = None
    of_queue: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    position: Mapping[str, int] = field(default_factory=dict)

    def advance(
        self,
        addresses: Table[AddressRow],
        queues: Grouping[QueueSeries],
        policy: Policy,
    ) -> "Addresses":
        if addresses.index is self.grouping.source and queues is self.by:
            return self
        rows = addresses.index.rows
        context = address_context(queues, addresses, policy)

        def label(i: int) -> AddressSeries | None:
            if context[i] == _NOT_SHOWN:
                return None
            name, full = (
                (TEMPORARY, "")
                if context[i] == _SUMMED
                else (rows[i].name, rows[i].policy)
            )
            return AddressSeries(policy.broker, name, full)

        grouping = self.grouping.advance(
            addresses.index, lambda new: [label(i) for i in new], context
        )
        position = self.position
        if grouping.index is not self.grouping.index:
            position = {series.address: i for i, series in enumerate(grouping.index)}
        return Addresses(
            grouping,
            queues,
            looked_up(position, [row.address for row in queues.index]),
            position,
        )


def address_context(
    queues: Grouping[QueueSeries], addresses: Table[AddressRow], policy: Policy
) -> Keys:
    """Per address whether it is shown: not when all its queues are hidden, summed when it is temporary."""
    of_queue: dict[str, int] = {}
    for row, member in zip(queues.source, queues.member.tolist(), strict=True):
        if member == HIDDEN:
            of_queue.setdefault(row.address, _NOT_SHOWN)
        else:
            of_queue[row.address] = (
                _SUMMED if queues.index.rows[member].address == TEMPORARY else _SHOWN
            )
    temporary = (addresses["temporary"] > 0) & policy.sum_temporary

    def shown(row: AddressRow, *, temporary: bool) -> int:
        if row.name in of_queue:
            return of_queue[row.name]
        return (
            _SUMMED
            if temporary
            else _SHOWN
            if policy.selection(row.name, "")
            else _NOT_SHOWN
        )

    of_row = [
        shown(row, temporary=on)
        for row, on in zip(addresses.index, temporary.tolist(), strict=True)
    ]
    return np.array(of_row, dtype=np.int64)


def address_table(
    state: Addresses,
    addresses: Table[AddressRow],
    messages: Column | None,
    producers: Table[ProducerRow] | None,
) -> Table[AddressSeries]:
    """`messages`: of each queue series, None while the queues are not known."""
    grouping = state.grouping
    size = len(state.grouping.index)
    columns = {
        name: grouping.sum(addresses[name]) for name in GAUGES if name in addresses
    }
    columns |= {
        name: grouping.max(addresses[name]) for name in FLAGS if name in addresses
    }
    if "messages" in addresses:
        columns["messages"] = grouping.sum(addresses["messages"])
    elif messages is not None:
        columns["messages"] = labels.sum_by(state.of_queue, messages, size)
    if producers is not None:
        at = looked_up(state.position, [row.address for row in producers.index])
        columns["producers"] = labels.sum_by(at, np.ones(len(at)), size)
    columns["info"] = grouping.index.column(
        "info", lambda series: 1.0 if series.policy else np.nan
    )
    return Table(grouping.index, columns)
