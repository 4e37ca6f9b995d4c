"""Addresses, producers, connections and links as they are shown.

The labels of a row depend on other rows: a producer is shown under the series of its address, an address as its queues
are shown. This dependency is the `context` of a `Grouping`: one number for each row, by which it is labelled again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock import model
from penstock.columns.addresses import AddressColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.spec import Kind
from penstock.core.table import (
    Column,
    Index,
    Keys,
    Mask,
    Positions,
    Table,
    looked_up,
)
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
"""In place of the position of an address that is not read yet; HIDDEN is that of an address that is not shown."""


@dataclass(frozen=True, slots=True)
class Producers:
    """The series of the producers.

    Attributes:
        grouping: The series of each producer.
        totals: What the producers of each series sent.
        by: The addresses that the grouping rests on.
    """

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
        """Return the series after one more poll. late: as in `Totals.advance`."""
        grouping = self.grouping
        if producers.index is not grouping.source or addresses is not self.by:
            grouping = _grouped(grouping, producers.index, addresses, policy)
        totals = self.totals.advance(grouping, [producers["produced"]], late=late)
        return Producers(grouping, totals, addresses)

    def table(self) -> Table[ProducerSeries]:
        return Table(self.grouping.index, {"produced": self.totals.sum_of(0)})


def _grouped(
    before: Grouping[ProducerSeries],
    producers: Index[ProducerRow],
    addresses: Grouping[AddressSeries],
    policy: Policy,
) -> Grouping[ProducerSeries]:
    """Return the series of each producer: one for each client and each series of addresses.

    A producer is hidden where its address is. An address that is not read yet is shown under its own name, if the
    operator selects it.
    """
    address = _address_series(producers, addresses)
    # The key of the address' series, as its position changes from poll to poll; HIDDEN and unknown stay below 0.
    context = address.astype(np.int64)
    is_shown = address >= 0
    context[is_shown] = addresses.index.keys[address[is_shown]]

    def label(row: int) -> ProducerSeries | None:
        producer: ProducerRow = producers.rows[row]
        if address[row] == HIDDEN:
            return None
        if address[row] >= 0:
            name = addresses.index.rows[address[row]].address
        elif policy.selection(producer.address, ""):
            name = producer.address
        else:
            return None
        return ProducerSeries(policy.broker, name, producer.client)

    return before.advance(producers, lambda new: [label(row) for row in new], context)


def _address_series(
    producers: Index[ProducerRow], addresses: Grouping[AddressSeries]
) -> Positions:
    """(producers,) The position of the series of each one's address; HIDDEN or `_UNKNOWN_ADDRESS` where it has none."""
    members = addresses.member.tolist()
    series_of = {
        address.name: series
        for address, series in zip(addresses.source, members, strict=True)
    }
    positions = [
        series_of.get(producer.address, _UNKNOWN_ADDRESS) for producer in producers
    ]
    return np.array(positions, np.intp)


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections that are shown one by one.

    Attributes:
        source: All connections of the last poll.
        shown: Which ones are shown, and for how long yet.
        index: The series of those.
    """

    source: Index[model.ConnectionRow] = field(default_factory=Index.empty)
    shown: labels.TopK = field(default_factory=labels.TopK)
    index: Index[labels.ConnectionSeries] = field(default_factory=Index.empty)

    def advance(
        self,
        connections: Table[model.ConnectionRow],
        snapshot: Snapshot,
        policy: Policy,
    ) -> tuple["Connections", Table[labels.ConnectionSeries]]:
        """Return the connections that are shown after one more poll, and their table.

        They are those whose consumers buffer most messages; among equals, those with most consumers.
        """
        source = connections.index
        columns = dict(connections.columns) | buffered_by_connection(
            connections, snapshot
        )
        worst = self.shown.advance(
            source.keys, is_among_worst(connections, columns, policy)
        )
        positions = source.positions(worst.keys)
        index = self._index_of(source, positions, policy)
        table_columns = {name: column[positions] for name, column in columns.items()}
        table_columns["info"] = np.ones(
            len(index)
        )  # of this metric only the labels count
        return Connections(source, worst, index), Table(index, table_columns)

    def _index_of(
        self, source: Index[model.ConnectionRow], positions: Positions, policy: Policy
    ) -> Index[labels.ConnectionSeries]:
        """Return the series of the connections at these positions."""
        rows = source.rows[positions]
        changed = None
        if source is not self.source:
            changed = source.keys[source.unchanged_in(self.source) < 0]

        def label(new: list[int]) -> list[labels.ConnectionSeries]:
            return [connection_series(row, policy) for row in rows[new]]

        index, _ = self.index.advance(source.keys[positions], label, changed=changed)
        return index


def connection_series(
    row: model.ConnectionRow, policy: Policy
) -> labels.ConnectionSeries:
    """Return the labels of a connection."""
    return labels.ConnectionSeries(
        policy.broker,
        row.id,
        row.client,
        row.protocol,
        row.user,
        row.remote_host,
    )


def is_among_worst(
    connections: Table[model.ConnectionRow],
    columns: Mapping[str, Column],
    policy: Policy,
) -> Mask:
    """(connections,) Whether the connection is one of those to show. columns: with what their consumers buffer."""
    size = len(connections)
    buffered = columns.get("buffered", np.zeros(size))
    one_group = np.zeros(size, np.int64)
    return labels.top_k(
        buffered,
        connections["consumers"],
        one_group,
        total=policy.limits.connections,
        per_group=size,
    )


def buffered_by_connection(
    connections: Table[model.ConnectionRow], snapshot: Snapshot
) -> dict[str, Column]:
    """Return messages and bytes that the consumers of each connection buffer, as far as the broker shows them."""
    consumers = snapshot.consumers
    if consumers is None:
        return {}
    positions = connections.index.positions(snapshot.consumer_connection)
    return {
        name: labels.sum_by(positions, consumers[column], len(connections))
        for name, column in ConsumerColumns.summed("connection").items()
        if column in consumers
    }


def grouped_links(
    before: Grouping[LinkSeries], links: Table[model.LinkRow], policy: Policy
) -> Grouping[LinkSeries]:
    """Return the series of each link: a bridge, cluster peer, mirror or federation."""
    rows = links.index.rows
    return before.advance(
        links.index,
        lambda new: [
            LinkSeries(policy.broker, link.name, link.kind) for link in rows[new]
        ],
    )


def link_table(
    grouping: Grouping[LinkSeries], links: Table[model.LinkRow]
) -> Table[LinkSeries]:
    """Return the numbers of the links, by series; the largest where several have the same name and kind."""
    return Table(
        grouping.index,
        {name: grouping.max(column) for name, column in links.columns.items()},
    )


_SHOWN = 0
_SUMMED = 1
_NOT_SHOWN = 2
"""How an address is shown: by its name, as part of the sum of temporary ones, or not at all."""
SUMMED_APART = {"messages", "producers"}
"""Columns of addresses that not every kind of broker sends; then they are sums over queues and over producers."""
GAUGES = tuple(
    name
    for name in (
        *AddressColumns.shown(Kind.COUNT, Kind.SETTING, Kind.REAL),
        *AddressColumns.shown(counters=True),
    )
    if name not in SUMMED_APART
)
FLAGS = AddressColumns.shown(Kind.FLAG)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The series of the addresses.

    Attributes:
        grouping: The series of each address.
        by: The queues that the grouping rests on.
        of_queue: (queue series,) The position of each one's address, -1 where it has none.
        position: The position of each series by the name of its address.
    """

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
        """Return the series after one more poll."""
        nothing_changed = addresses.index is self.grouping.source and queues is self.by
        if nothing_changed:
            return self
        rows = addresses.index.rows
        context = address_context(queues, addresses, policy)

        def label(row: int) -> AddressSeries | None:
            if context[row] == _NOT_SHOWN:
                return None
            if context[row] == _SUMMED:
                return AddressSeries(policy.broker, TEMPORARY, "")
            return AddressSeries(policy.broker, rows[row].name, rows[row].policy)

        grouping = self.grouping.advance(
            addresses.index, lambda new: [label(row) for row in new], context
        )
        position = self.position
        if grouping.index is not self.grouping.index:
            position = {
                series.address: place for place, series in enumerate(grouping.index)
            }
        of_queue = looked_up(position, [queue.address for queue in queues.index])
        return Addresses(grouping, queues, of_queue, position)


def address_context(
    queues: Grouping[QueueSeries], addresses: Table[AddressRow], policy: Policy
) -> Keys:
    """(addresses,) How each address is shown: `_SHOWN`, `_SUMMED` or `_NOT_SHOWN`.

    As its queues are. Without a queue it is summed when it is temporary, else shown if the operator selects it.
    """
    by_queues = context_by_queues(queues)
    is_summed = (addresses["temporary"] > 0) & policy.sum_temporary

    def context_of(address: AddressRow, *, is_summed: bool) -> int:
        """Return how one address is shown. is_summed: whether temporary ones without a queue are, and this is one."""
        if address.name in by_queues:
            return by_queues[address.name]
        if is_summed:
            return _SUMMED
        return _SHOWN if policy.selection(address.name, "") else _NOT_SHOWN

    contexts = [
        context_of(address, is_summed=summed)
        for address, summed in zip(addresses.index, is_summed.tolist(), strict=True)
    ]
    return np.array(contexts, dtype=np.int64)


def context_by_queues(queues: Grouping[QueueSeries]) -> dict[str, int]:
    """Return how each address with a queue is shown, by name: as its last queue that is shown, or not if none is."""
    contexts: dict[str, int] = {}
    for queue, series in zip(queues.source, queues.member.tolist(), strict=True):
        if series == HIDDEN:
            contexts.setdefault(queue.address, _NOT_SHOWN)
        elif queues.index.rows[series].address == TEMPORARY:
            contexts[queue.address] = _SUMMED
        else:
            contexts[queue.address] = _SHOWN
    return contexts


def address_table(
    state: Addresses,
    addresses: Table[AddressRow],
    messages: Column | None,
    producers: Table[ProducerRow] | None,
) -> Table[AddressSeries]:
    """Return the numbers of the addresses, by series.

    Args:
        state: The series.
        addresses: The addresses of the poll.
        messages: (queue series,) The messages of each; None while the queues are not known.
        producers: The producers of the poll; None where they were not read.
    """
    grouping = state.grouping
    size = len(grouping.index)
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
        names = [producer.address for producer in producers.index]
        positions = looked_up(state.position, names)
        columns["producers"] = labels.sum_by(positions, np.ones(len(positions)), size)
    columns["info"] = grouping.index.column(
        "info", lambda series: 1.0 if series.policy else np.nan
    )
    return Table(grouping.index, columns)
