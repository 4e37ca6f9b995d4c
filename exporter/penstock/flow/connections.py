"""Producers, connections and links as they are shown."""

from dataclasses import dataclass, field

import numpy as np

from penstock.flow.policy import Policy
from penstock.flow.series import ConnectionSeries, Grouping, LinkSeries, ProducerSeries, sum_by
from penstock.flow.totals import Totals
from penstock.flow.worst import Shown, worst
from penstock.model import ConnectionRow, LinkRow, ProducerRow, Snapshot
from penstock.table import Column, Index, Table


@dataclass(frozen=True, slots=True)
class Producers:
    """What is carried from poll to poll: which series each producer belongs to, and what those produced in all."""

    grouping: Grouping[ProducerSeries] = field(default_factory=Grouping)
    totals: Totals[ProducerSeries] = field(default_factory=Totals)

    def follow(self, producers: Table[ProducerRow], policy: Policy) -> "Producers":
        rows = producers.index.rows
        grouping = self.grouping.follow(
            producers.index,
            lambda new: [ProducerSeries(policy.broker, rows[i].address, rows[i].client) for i in new],
        )
        return Producers(grouping, self.totals.follow(grouping, [producers["produced"]]))

    def table(self) -> Table[ProducerSeries]:
        return Table(self.grouping.index, {"produced": self.totals.sum_of(0)})


@dataclass(frozen=True, slots=True)
class Connections:
    """What is carried from poll to poll: the connections that are shown, and how many there are in all."""

    shown: Shown = field(default_factory=Shown)
    index: Index[ConnectionSeries] = field(default_factory=Index.empty)
    all: int = 0

    def follow(
        self, connections: Table[ConnectionRow], snapshot: Snapshot, policy: Policy
    ) -> tuple["Connections", Table[ConnectionSeries]]:
        """Those whose consumers hold most, then those with most consumers."""
        columns = dict(connections.columns) | held_by_connection(connections, snapshot)
        size = len(connections)
        held = columns.get("buffered", np.zeros(size))
        everyone = np.zeros(size, np.int64)
        chosen = worst(held, connections["consumers"], everyone, policy.limits.connections, size)
        shown = self.shown.follow(connections.index.keys, chosen)
        at = connections.index.positions(shown.keys)
        rows = connections.index.rows[at]

        def label(new: list[int]) -> list[ConnectionSeries]:
            return [
                ConnectionSeries(policy.broker, row.id, row.client, row.protocol, row.user, row.remote_host)
                for row in rows[new]
            ]

        index, _ = self.index.follow(shown.keys, label)
        found = {name: column[at] for name, column in columns.items()}
        return Connections(shown, index, size), Table(index, found | {"info": np.ones(len(index))})


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

    index: Index[LinkSeries] = field(default_factory=Index.empty)

    def follow(self, links: Table[LinkRow], policy: Policy) -> "Links":
        rows = links.index.rows
        index, _ = self.index.follow(
            links.index.keys, lambda new: [LinkSeries(policy.broker, rows[i].name, rows[i].kind) for i in new]
        )
        return Links(index)
