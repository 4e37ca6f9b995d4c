"""From a poll to findings: at a slow cadence, for settings and habits change slowly."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock.flow.findings.finding import Finding
from penstock.flow.findings.flow_control import OF_FLOW, flow_of, session_overloaded
from penstock.flow.findings.habits import Habits
from penstock.flow.findings.rules import RULES, Clients, Scene
from penstock.flow.judge.facts import AddressJoin
from penstock.flow.judge.judge import Judgement
from penstock.flow.judge.spans import moved
from penstock.flow.judge.wanted import silenced
from penstock.flow.series import ClientSeries, Grouping, QueueSeries
from penstock.model import BrokerKind, ConsumerRow, Snapshot
from penstock.table import Index, Positions, Table

SECONDS = 15.0
"""At most so often findings are looked for."""


@dataclass(frozen=True, slots=True)
class FindingSeries:
    broker: str
    scope: str
    object: str
    rule: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found when it was last looked for, at `stamp` by the agent's clock; index: the series, exported ones."""

    found: tuple[Finding, ...] = ()
    index: Index[FindingSeries] = field(default_factory=Index.empty)
    stamp: float = -np.inf
    join: AddressJoin = field(default_factory=AddressJoin)
    habits: Habits = field(default_factory=Habits)

    def follow(
        self,
        name: str,
        snapshot: Snapshot,
        queues: Grouping[QueueSeries],
        clients: Grouping[ClientSeries] | None,
        judgement: Judgement,
    ) -> "Findings":
        """`name` of the broker; clients: None where the broker shows no numbers of its consumers."""
        if snapshot.queues is None or snapshot.addresses is None or snapshot.broker is None:
            return self
        if 0 <= snapshot.stamp - self.stamp < SECONDS:
            return self
        join = self.join.follow(snapshot.queues.index, snapshot.addresses)
        sightings = judgement.sightings
        scene = Scene(
            name=name,
            broker=snapshot.broker,
            grouping=queues,
            queues=snapshot.queues,
            addresses=snapshot.addresses,
            address=join.at,
            deepest=moved(snapshot.queues.index, sightings.queues, sightings.deepest, np.nan),
            clients=None if clients is None else clients_of(snapshot, queues, clients, judgement),
        )
        habits = self.habits.follow(snapshot, snapshot.stamp - self.stamp)
        found = tuple(one for rule in RULES for one in rule(scene))
        found += tuple(session_overloaded(snapshot, habits))
        if clients is not None and snapshot.broker.kind is BrokerKind.OPENMQ:
            flow = flow_of(snapshot, clients, judgement.openmq.windows, judgement.shares, habits)
            found += tuple(one for rule_of in OF_FLOW for one in rule_of(flow))
        return Findings(found, self._series(name, found, queues, clients), snapshot.stamp, join, habits)

    def _series(
        self,
        name: str,
        found: tuple[Finding, ...],
        queues: Grouping[QueueSeries],
        clients: Grouping[ClientSeries] | None,
    ) -> Index[FindingSeries]:
        """The series of what no rule of the operator silences; the same index while nothing changed."""
        quiet = {(row.address, row.queue, "") for row in silenced(queues.index)}
        if clients is not None:
            quiet |= {(row.address, row.queue, row.client) for row in silenced(clients.index)}
        rows = sorted(
            {
                FindingSeries(name, one.scope, one.object, one.rule)
                for one in found
                if not all(
                    (address, queue, "") in quiet or (address, queue, one.client) in quiet
                    for address, queue in one.on or ((one.address, one.queue),)
                )
            },
            key=lambda row: (row.rule, row.scope, row.object),
        )
        return self.index if rows == list(self.index) else Index.of(rows)

    def table(self) -> Table[FindingSeries]:
        return Table(self.index, {"finding": np.ones(len(self.index))})


def clients_of(
    snapshot: Snapshot, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries], judgement: Judgement
) -> Clients:
    sightings, patience, index = judgement.sightings, judgement.patience, clients.index
    return Clients(
        grouping=clients,
        queue=queue_of(snapshot, queues, clients),
        consumers=clients.count(),
        window=moved(index, sightings.clients, sightings.window, np.nan),
        largest=moved(index, sightings.clients, sightings.largest, np.nan),
        longest=moved(index, patience.index, patience.longest, np.nan),
        protocol=protocols(snapshot, clients),
        comings=sightings.comings,
        now=snapshot.stamp,
    )


def queue_of(snapshot: Snapshot, queues: Grouping[QueueSeries], clients: Grouping[ClientSeries]) -> Positions:
    """Position of each client's queue; -1 where several queues are shown as one."""
    of = np.full(len(clients.index), -1, np.intp)
    at = queues.source.positions(snapshot.consumer_queue)
    here = (clients.member >= 0) & (at >= 0)
    of[clients.member[here]] = at[here]
    summed = queues.index.column("alone", lambda series: not series.summed) == 0
    member = np.where(of >= 0, queues.member[of] if len(queues.member) else -1, -1)
    return np.where((member >= 0) & ~(summed[member] if len(summed) else member < 0), of, -1)


def protocols(snapshot: Snapshot, clients: Grouping[ClientSeries]) -> Callable[[int], str]:
    """What a client, by its position, speaks, as one of its consumers says."""
    first = np.full(len(clients.index), -1, np.intp)
    here = np.flatnonzero(clients.member >= 0)
    first[clients.member[here]] = here

    def of(client: int) -> str:
        if snapshot.consumers is None or first[client] < 0:
            return ""
        row: ConsumerRow = snapshot.consumers.index.rows[first[client]]
        return row.protocol

    return of
