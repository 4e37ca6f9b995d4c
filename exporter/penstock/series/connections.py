"""Producers, connections and links as they are shown."""

from dataclasses import dataclass, field

import numpy as np

from penstock.core.table import Column, Index, Keys, Table
from penstock.model import ConnectionRow, LinkRow, ProducerRow, Snapshot
from penstock.series.labels import (
    HIDDEN,
    AddressSeries,
    ConnectionSeries,
    Grouping,
    LinkSeries,
    ProducerSeries,
    TopK,
    sum_by,
    top_k,
)
from penstock.series.totals import Totals
from penstock.settings.policy import Policy

_UNKNOWN_ADDRESS = -2


@dataclass(frozen=True, slots=True)
class Producers:
    """
    What is carried from poll to poll.

    grouping: which series each producer belongs to. totals: what those produced in all. by: the addresses by which it
    was told which are shown, and as what.
    """

    grouping: Grouping[ProducerSeries] = field(default_factory=Grouping)
    totals: Totals[ProducerSeries] = field(default_factory=Totals)
    by: Grouping[AddressSeries] | None = None

    def advance(
        self,
        producers: Table[ProducerRow],
        addresses: Grouping[AddressSeries],
        policy: Policy,
        late: Keys | None = None,
    ) -> "Producers":
        """late: as of `Totals.advance`."""
        grouping = self.grouping
        if producers.index is not grouping.source or addresses is not self.by:
            grouping = _grouped(grouping, producers.index, addresses, policy)
        return Producers(grouping, self.totals.advance(grouping, [producers["produced"]], late=late), addresses)

    def table(self) -> Table[ProducerSeries]:
        return Table(self.grouping.index, {"produced": self.totals.sum_of(0)})


def _grouped(
    before: Grouping[ProducerSeries], producers: Index[ProducerRow], addresses: Grouping[AddressSeries], policy: Policy
) -> Grouping[ProducerSeries]:
    """Which series each producer belongs to: hidden or summed as its address is; one not known yet has its own name."""
    shown_as = {row.name: at for row, at in zip(addresses.source, addresses.member.tolist(), strict=True)}
    at = np.array([shown_as.get(row.address, _UNKNOWN_ADDRESS) for row in producers], np.intp)
    context = at.astype(np.int64)
    context[at >= 0] = addresses.index.keys[at[at >= 0]]
    rows = producers.rows

    def label(i: int) -> ProducerSeries | None:
        row: ProducerRow = rows[i]
        if at[i] == HIDDEN or (at[i] == _UNKNOWN_ADDRESS and not policy.selection(row.address, "")):
            return None
        name = row.address if at[i] == _UNKNOWN_ADDRESS else addresses.index.rows[at[i]].address
        return ProducerSeries(policy.broker, name, row.client)

    return before.advance(producers, lambda new: [label(i) for i in new], context)


@dataclass(frozen=True, slots=True)
class Connections:
    """What is carried from poll to poll: the connections that are shown, out of all in `source`."""

    source: Index[ConnectionRow] = field(default_factory=Index.empty)
    shown: TopK = field(default_factory=TopK)
    index: Index[ConnectionSeries] = field(default_factory=Index.empty)

    def advance(
        self, connections: Table[ConnectionRow], snapshot: Snapshot, policy: Policy
    ) -> tuple["Connections", Table[ConnectionSeries]]:
        """Those whose consumers hold most, then those with most consumers."""
        columns = dict(connections.columns) | held_by_connection(connections, snapshot)
        size = len(connections)
        held = columns.get("buffered", np.zeros(size))
        everyone = np.zeros(size, np.int64)
        chosen = top_k(held, connections["consumers"], everyone, policy.limits.connections, size)
        shown = self.shown.advance(connections.index.keys, chosen)
        at = connections.index.positions(shown.keys)
        rows = connections.index.rows[at]

        def label(new: list[int]) -> list[ConnectionSeries]:
            return [
                ConnectionSeries(policy.broker, row.id, row.client, row.protocol, row.user, row.remote_host)
                for row in rows[new]
            ]

        known = connections.index.unchanged_in(self.source) >= 0 if connections.index is not self.source else None
        changed = None if known is None else connections.index.keys[~known]
        index, _ = self.index.advance(shown.keys, label, changed=changed)
        found = {name: column[at] for name, column in columns.items()}
        return Connections(connections.index, shown, index), Table(index, found | {"info": np.ones(len(index))})


def held_by_connection(connections: Table[ConnectionRow], snapshot: Snapshot) -> dict[str, Column]:
    """What the consumers of each connection hold together."""
    consumers = snapshot.consumers
    if consumers is None:
        return {}
    at = connections.index.positions(snapshot.consumer_connection)
    names = [name for name in ("buffered", "buffered_bytes") if name in consumers]
    return {name: sum_by(at, consumers[name], len(connections)) for name in names}


@dataclass(frozen=True, slots=True)
class Links:
    """What is carried from poll to poll: the links' labels."""

    grouping: Grouping[LinkSeries] = field(default_factory=Grouping)

    def advance(self, links: Table[LinkRow], policy: Policy) -> "Links":
        rows = links.index.rows
        return Links(
            self.grouping.advance(
                links.index, lambda new: [LinkSeries(policy.broker, rows[i].name, rows[i].kind) for i in new]
            )
        )

    def table(self, links: Table[LinkRow]) -> Table[LinkSeries]:
        columns = {name: self.grouping.max(column) for name, column in links.columns.items()}
        return Table(self.grouping.index, columns)
