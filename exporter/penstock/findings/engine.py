"""From a poll to findings: configuration problems that rules find in settings and usage.

They are evaluated at most once in `SECONDS`: settings and usage change slowly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np

from penstock.core.table import Column, Index, Positions, Table
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
from penstock.model import BrokerKind, QueueRow, Snapshot
from penstock.observation.facts import AddressJoin
from penstock.rule_engine.judgement import Judgement, silenced
from penstock.series.labels import ClientSeries, Grouping, QueueSeries

SECONDS = 15.0
"""The least time between two evaluations."""
MOST = 100
"""The most findings of one rule."""


@dataclass(frozen=True, slots=True)
class FindingSeries:
    broker: str
    scope: str
    object: str
    rule: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of the last evaluation.

    Attributes:
        found: All of them, in the order of the rules.
        index: The series of those that the operator did not silence.
        stamp: When they were evaluated, by the agent's clock.
        join: The address of each queue.
        usage: How consumers, connections and sessions are used.
    """

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
        """Return the findings after this poll; the same ones where it is too early for another evaluation.

        Args:
            name: The broker's name.
            snapshot: What was read at this poll.
            queues: The series of the queues.
            clients: The series of the clients; None where the broker shows no numbers of its consumers.
            judgement: The state after this poll.
        """
        if snapshot.queues is None or snapshot.addresses is None:
            return self
        seconds = snapshot.stamp - self.stamp
        is_too_early = 0 <= seconds < SECONDS  # below 0: the clock was set back
        if snapshot.broker is None or is_too_early:
            return self
        join = self.join.advance(snapshot.queues.index, snapshot.addresses)
        queue_of = queues_of_consumers(snapshot, snapshot.queues, judgement)
        usage = self.usage.advance(snapshot, seconds, queue_of)
        flow = FlowControl()
        if clients is not None and snapshot.broker.kind is BrokerKind.OPENMQ:
            flow = flow_control(snapshot, clients, judgement, usage.connections)
        context = FindingContext(
            name=name,
            snapshot=snapshot,
            broker=snapshot.broker,
            grouping=queues,
            queues=snapshot.queues,
            addresses=snapshot.addresses,
            address=join.at,
            deepest=deepest_of(snapshot.queues, judgement),
            clients=Clients()
            if clients is None
            else clients_of(queue_of, queues, clients, judgement),
            usage=usage,
            flow=flow,
            stale=stale_messages(snapshot.queues, judgement),
        )
        findings = tuple(evaluate(context))
        index = self._series(name, findings, queues, clients)
        return Findings(findings, index, snapshot.stamp, join, usage)

    def _series(
        self,
        name: str,
        findings: tuple[Finding, ...],
        queues: Grouping[QueueSeries],
        clients: Grouping[ClientSeries] | None,
    ) -> Index[FindingSeries]:
        """Return the series of findings that the operator did not silence; the same index while nothing changed."""
        silenced_names = names_of_silenced(queues, clients)
        series = {
            FindingSeries(name, finding.scope, finding.object, finding.rule.name)
            for finding in findings
            if not is_silenced(finding, silenced_names)
        }
        rows = sorted(series, key=lambda row: (row.rule, row.scope, row.object))
        return self.index if rows == list(self.index) else Index.of(rows)

    def table(self) -> Table[FindingSeries]:
        return Table(self.index, {"finding": np.ones(len(self.index))})


def evaluate(context: FindingContext) -> Iterator[Finding]:
    """Apply all rules for this kind of broker, each with a limited number of findings."""
    for rule in catalogue.RULES:
        if rule.brokers is None or context.broker.kind in rule.brokers:
            findings = first_of_each(rule.find(rule, context))
            yield from islice(findings, MOST)


def first_of_each(findings: Found) -> Found:
    """Yield the first finding of each object: a client may have the same one for many of its connections."""
    seen: set[tuple[str, str]] = set()
    for finding in findings:
        name = (finding.address, finding.object)
        if name not in seen:
            seen.add(name)
            yield finding


# --- what the rules read


def queues_of_consumers(
    snapshot: Snapshot, queues: Table[QueueRow], judgement: Judgement
) -> Positions:
    """(consumers,) The position of each one's queue, -1 where it is not known."""
    join = judgement.seen.queue_of
    if snapshot.consumers is None:
        return join.at
    consumers = snapshot.consumers.index
    return join.advance(consumers, queues.index, snapshot.consumer_queue).at


def deepest_of(queues: Table[QueueRow], judgement: Judgement) -> Column:
    """(queues,) The most messages that were seen in each; NaN where it is new."""
    seen = judgement.prefetch.queues
    return reindex(queues.index, seen.index, seen.deepest, np.nan)


def stale_messages(queues: Table[QueueRow], judgement: Judgement) -> Column:
    """(queues,) Messages that a limit of OpenMQ removed while consumers buffer them; NaN where that is not known."""
    facts = judgement.openmq.queues
    return reindex(queues.index, facts.index, facts.stale, np.nan)


# --- what the operator silences


Name: TypeAlias = tuple[str, str, str]
"""Address, queue, and client; an empty client for the queue itself."""


def names_of_silenced(
    queues: Grouping[QueueSeries], clients: Grouping[ClientSeries] | None
) -> set[Name]:
    """Return the names of the queues and clients that a rule silences."""
    names = {(queue.address, queue.queue, "") for queue in silenced(queues.index)}
    if clients is not None:
        names |= {
            (client.address, client.queue, client.client)
            for client in silenced(clients.index)
        }
    return names


def is_silenced(finding: Finding, names: set[Name]) -> bool:
    """Return whether the operator silences the finding: on each queue that it concerns, the queue or the client."""
    queues = finding.on or ((finding.address, finding.queue),)
    return all(
        (address, queue, "") in names or (address, queue, finding.client) in names
        for address, queue in queues
    )
