"""From a poll to findings: evaluated seldom, as settings and usage change slowly."""

from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from penstock.core.table import Index, Table
from penstock.core.windows import reindex
from penstock.findings import catalogue
from penstock.findings.finding import Finding, Found
from penstock.findings.usage import (
    Clients,
    FindingContext,
    FlowControl,
    Usage,
    clients_of,
    flow_control,
)
from penstock.model import BrokerKind, Snapshot
from penstock.observation.facts import AddressJoin
from penstock.rule_engine.judgement import Judgement, silenced
from penstock.series.labels import ClientSeries, Grouping, QueueSeries

SECONDS = 15.0
"""At least so long between two evaluations."""
MOST = 100
"""Findings of one rule."""


@dataclass(frozen=True, slots=True)
class FindingSeries:
    broker: str
    scope: str
    object: str
    rule: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found at the last evaluation, at `stamp` by the agent's clock; index: the series, exported ones."""

    found: tuple[Finding, ...] = ()
    index: Index[FindingSeries] = field(default_factory=Index.empty)
    stamp: float = -np.inf
    join: AddressJoin = field(default_factory=AddressJoin)
    usage: Usage = field(default_factory=Usage)

    def advance(
        self,
        name: str,
        snapshot: Snapshot,
        queues: Grouping[QueueSeries],
        clients: Grouping[ClientSeries] | None,
        judgement: Judgement,
    ) -> "Findings":
        """`name` of the broker; clients: None where the broker does not show numbers of its consumers."""
        if (
            snapshot.queues is None
            or snapshot.addresses is None
            or snapshot.broker is None
        ):
            return self
        if 0 <= snapshot.stamp - self.stamp < SECONDS:
            return self
        join = self.join.advance(snapshot.queues.index, snapshot.addresses)
        queue_of = judgement.seen.queue_of
        if snapshot.consumers is not None:
            queue_of = queue_of.advance(
                snapshot.consumers.index, snapshot.queues.index, snapshot.consumer_queue
            )
        usage = self.usage.advance(snapshot, snapshot.stamp - self.stamp, queue_of.at)
        prefetch = judgement.prefetch
        kind = snapshot.broker.kind
        flow = FlowControl()
        if clients is not None and kind is BrokerKind.OPENMQ:
            flow = flow_control(snapshot, clients, judgement, usage.connections)
        context = FindingContext(
            name=name,
            snapshot=snapshot,
            broker=snapshot.broker,
            grouping=queues,
            queues=snapshot.queues,
            addresses=snapshot.addresses,
            address=join.at,
            deepest=reindex(
                snapshot.queues.index,
                prefetch.queues.index,
                prefetch.queues.deepest,
                np.nan,
            ),
            clients=Clients()
            if clients is None
            else clients_of(queue_of.at, queues, clients, judgement),
            usage=usage,
            flow=flow,
            stale=reindex(
                snapshot.queues.index,
                judgement.openmq.queues.index,
                judgement.openmq.queues.stale,
                np.nan,
            ),
        )
        rules = [
            rule
            for rule in catalogue.RULES
            if rule.brokers is None or kind in rule.brokers
        ]
        found = tuple(
            one
            for rule in rules
            for one in islice(first_of_each(rule.find(rule, context)), MOST)
        )
        return Findings(
            found,
            self._series(name, found, queues, clients),
            snapshot.stamp,
            join,
            usage,
        )

    def _series(
        self,
        name: str,
        found: tuple[Finding, ...],
        queues: Grouping[QueueSeries],
        clients: Grouping[ClientSeries] | None,
    ) -> Index[FindingSeries]:
        """Of what the operator did not silence; the same index while nothing changed."""
        quiet = {(row.address, row.queue, "") for row in silenced(queues.index)}
        if clients is not None:
            quiet |= {
                (row.address, row.queue, row.client) for row in silenced(clients.index)
            }
        rows = sorted(
            {
                FindingSeries(name, one.scope, one.object, one.rule.name)
                for one in found
                if not all(
                    (address, queue, "") in quiet
                    or (address, queue, one.client) in quiet
                    for address, queue in one.on or ((one.address, one.queue),)
                )
            },
            key=lambda row: (row.rule, row.scope, row.object),
        )
        return self.index if rows == list(self.index) else Index.of(rows)

    def table(self) -> Table[FindingSeries]:
        return Table(self.index, {"finding": np.ones(len(self.index))})


def first_of_each(findings: Found) -> Found:
    """One finding an object: a client has many connections."""
    seen: set[tuple[str, str]] = set()
    for one in findings:
        if (one.address, one.object) not in seen:
            seen.add((one.address, one.object))
            yield one
