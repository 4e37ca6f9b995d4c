"""The tables of series that are shown, from a snapshot and what was known before. Time comes from the snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.assessment import health, openmq
from penstock.assessment.account import MessageFate, fate_table, in_doubt, unexplained
from penstock.assessment.states import with_states
from penstock.core.table import Column, Index, Table
from penstock.findings.engine import Findings
from penstock.model import (
    Broker,
    ConsumerRow,
    QueueRow,
    Role,
    Snapshot,
    TransactionState,
)
from penstock.observation.facts import time_of
from penstock.observation.poll import Groups
from penstock.rule_engine.judgement import Judgement, judge
from penstock.series.clock import Clock
from penstock.series.connections import (
    Addresses,
    Connections,
    Producers,
    address_table,
    grouped_links,
    link_table,
)
from penstock.series.consumers import Consumers, client_table, consumer_table
from penstock.series.labels import (
    BrokerSeries,
    ClientSeries,
    ConnectionSeries,
    Grouping,
    LinkSeries,
)
from penstock.series.queues import Queues, queue_table
from penstock.settings.policy import Policy

ADVANCED = ("eviction", "ring_loser", "oldest", "account")
"""Tables whose rows are those of the poll before with what came and went."""
BROKER_NUMBERS = (
    "connections", "memory_used_bytes", "memory_limit_bytes", "disk_used_ratio", "disk_limit_ratio",
    "authentication_failures", "heap_used_bytes", "heap_limit_bytes", "resource_state",
)  # fmt: skip
"""Shown as the broker reports them."""
Tables = Mapping[str, Table[Any]]
"""By the name that the metric catalogue gives them."""


@dataclass(frozen=True, slots=True)
class State:
    """What is carried from poll to poll, of one broker."""

    clock: Clock = field(default_factory=Clock)
    queues: Queues = field(default_factory=Queues)
    addresses: Addresses = field(default_factory=Addresses)
    consumers: Consumers = field(default_factory=Consumers)
    producers: Producers = field(default_factory=Producers)
    connections: Connections = field(default_factory=Connections)
    links: Grouping[LinkSeries] = field(default_factory=Grouping)
    judgement: Judgement = field(default_factory=Judgement)
    rows: Mapping[str, Index[Any]] = field(default_factory=dict)
    """Of the tables `ADVANCED` at the last poll."""
    findings: Findings = field(default_factory=Findings)

    def before(self, table: str) -> Index[Any]:
        """The rows that one of these tables had at the last poll."""
        return self.rows.get(table, Index.empty())

    def hidden(self) -> dict[str, int]:
        """How many rows of the tables that show only the worst are held back."""
        return {
            "consumer": self.consumers.visible - len(self.consumers.index),
            "connection": len(self.connections.source) - len(self.connections.index),
        }

    def with_new_labels(self) -> "State":
        """The same without any label set: the policy has changed."""
        return State(
            clock=self.clock,
            queues=self.queues.with_new_labels(),
            consumers=self.consumers.with_new_labels(),
            producers=Producers(totals=self.producers.totals),
            judgement=self.judgement.with_new_labels(),
        )


def assess(state: State, snapshot: Snapshot, policy: Policy) -> tuple[State, Tables]:
    """The state after this snapshot, and the tables to show; a table whose part was not read is not there."""
    after, connections = advanced(state, snapshot, policy)
    after = with_findings(after, snapshot, policy)
    tables = shown(after, snapshot, connections, policy)
    if snapshot.consumers is not None:
        after = replace(
            after,
            rows={name: tables[name].index for name in ADVANCED if name in tables},
        )
    return after, tables


def advance(state: State, snapshot: Snapshot, policy: Policy) -> State:
    """The state after this snapshot but for its findings, where no table is shown: in two thirds of the time."""
    return advanced(state, snapshot, policy)[0]


def advanced(
    state: State, snapshot: Snapshot, policy: Policy
) -> tuple[State, Table[ConnectionSeries] | None]:
    """The state after this snapshot but for its findings and rows, and the table that comes of the connections."""
    connection_table: Table[ConnectionSeries] | None = None
    if snapshot.broker is not None:
        state = replace(
            state,
            clock=state.clock.advance(
                snapshot.broker, snapshot.stamp, snapshot.observation.process
            ),
        )
        if snapshot.broker.role is Role.PASSIVE:
            state = replace(state, queues=state.queues.passive())
    if snapshot.queues is not None:
        counts_reloaded = (
            snapshot.broker is not None and snapshot.broker.kind.counts_reloaded
        )
        observation = snapshot.observation
        queues = state.queues.advance(
            snapshot.queues, policy, observation, counts_reloaded=counts_reloaded
        )
        state = replace(state, queues=queues)
    if snapshot.addresses is not None:
        addresses = state.addresses.advance(
            snapshot.addresses, state.queues.grouping, policy
        )
        state = replace(state, addresses=addresses)
    if snapshot.consumers is not None:
        state = with_judgement(state, snapshot, snapshot.consumers, policy)
    else:
        state = replace(
            state, judgement=state.judgement.without_verdict(snapshot, policy.constants)
        )
    if snapshot.producers is not None:
        late = snapshot.observation.late.get("producers")
        producers = state.producers.advance(
            snapshot.producers, state.addresses.grouping, policy, late
        )
        state = replace(state, producers=producers)
    if snapshot.connections is not None:
        connections, connection_table = state.connections.advance(
            snapshot.connections, snapshot, policy
        )
        state = replace(state, connections=connections)
    if snapshot.links is not None:
        state = replace(state, links=grouped_links(state.links, snapshot.links, policy))
    return state, connection_table


def with_judgement(
    state: State, snapshot: Snapshot, listed: Table[ConsumerRow], policy: Policy
) -> State:
    """With what this poll says of the consumers that it `listed`, and with what is judged by that."""
    consumers = state.consumers.group(snapshot, listed, state.queues.grouping, policy)
    groups = Groups(state.queues.grouping, consumers.clients, policy.broker)
    judgement = judge(
        state.judgement,
        snapshot,
        groups,
        state.clock,
        policy.constants,
        policy.calendar,
    )[0]
    blocked = judgement.seen.times.now - judgement.held_unsettled_since(listed.index)
    consumers = consumers.show(
        state.consumers, blocked, listed, snapshot.consumer_queue, policy
    )
    return replace(state, consumers=consumers, judgement=judgement)


def with_findings(state: State, snapshot: Snapshot, policy: Policy) -> State:
    """With what is found at this poll, in the settings of an active broker."""
    if snapshot.broker is None or snapshot.broker.role is not Role.ACTIVE:
        return state
    counted = snapshot.consumers is not None and "buffered" in snapshot.consumers
    clients = state.consumers.clients if counted else None
    findings = state.findings.advance(
        policy.broker, snapshot, state.queues.grouping, clients, state.judgement
    )
    return replace(state, findings=findings)


def shown(
    state: State,
    snapshot: Snapshot,
    connections: Table[ConnectionSeries] | None,
    policy: Policy,
) -> dict[str, Table[Any]]:
    """The tables of a state that is already the one after this snapshot, but for its `rows`."""
    tables: dict[str, Table[Any]] = {}
    if snapshot.broker is not None:
        tables["broker"] = broker_table(snapshot, snapshot.broker, state.clock, policy)
    if snapshot.queues is not None:
        tables["queue"] = queue_table(state.queues, snapshot.queues, snapshot.addresses)
    if snapshot.addresses is not None:
        messages = (
            None
            if snapshot.queues is None
            else state.queues.grouping.sum(snapshot.queues["messages"])
        )
        tables["address"] = address_table(
            state.addresses, snapshot.addresses, messages, snapshot.producers
        )
    if snapshot.consumers is not None:
        tables["client"] = client_table(state.consumers, snapshot.consumers)
        tables["consumer"] = consumer_table(
            state.consumers, snapshot.consumers, state.clock
        )
        tables |= judged(state, tables, state.consumers.clients)
        tables |= accounted(state, snapshot.queues)
        tables |= of_openmq(state, tables, policy)
        tables |= undecided_clients(state, snapshot, tables, policy)
    if snapshot.broker is not None and snapshot.broker.role is Role.ACTIVE:
        tables["finding"] = state.findings.table()
    if snapshot.producers is not None:
        tables["producer"] = state.producers.table()
    if connections is not None:
        tables["connection"] = connections
    if snapshot.links is not None:
        tables["link"] = link_table(state.links, snapshot.links)
    return tables | with_states(state, snapshot, tables, policy)


def judged(
    state: State, tables: Tables, clients: Grouping[ClientSeries]
) -> dict[str, Table[Any]]:
    """The tables of the judgement, and those of queues and clients with what it measured beside what is there."""
    judgement = state.judgement
    told = judgement.incidents.told
    rolled_up = judgement.incidents.rolled_up
    counted = {
        "members": [one.size for one in told],
        "victims": [one.victim_count for one in told],
    }
    numbers = {name: np.array(values, np.float64) for name, values in counted.items()}
    found: dict[str, Table[Any]] = {
        "incident": Table(Index.of(told), {"active": np.ones(len(told)), **numbers}),
        "broker_cause": health.broker_causes(judgement.conditions),
        "queue_cause": health.queue_causes(judgement.conditions, rolled_up),
        "client_cause": health.client_causes(judgement.conditions, rolled_up),
    }
    queue = health.queue_measures(judgement, state.queues, state.clock)
    if "queue" in tables:
        found["eviction"] = health.evictions(
            judgement, state.queues, state.before("eviction")
        )
        found["ring_loser"] = health.losses_by_client(
            judgement, state.queues, state.before("ring_loser")
        )
        queue |= health.without_kept(judgement, state.queues, tables["queue"])
    account = (
        judgement.openmq_account.queues
        if judgement.openmq_account.watched
        else judgement.account.books
    )
    queue |= unexplained(account, state.queues) | in_doubt(
        judgement.account, state.queues
    )
    measured = {
        "queue": queue,
        "client": health.client_measures(judgement, clients, state.clock),
    }
    if "address" in tables:
        addresses = tables["address"]
        measured["address"] = health.address_measures(
            judgement, state.queues.grouping, state.addresses.of_queue, addresses
        )
        found["address_cause"] = health.address_causes(
            judgement.conditions, rolled_up, addresses
        )
    for name, columns in measured.items():
        if name in tables:
            found[name] = with_columns(tables[name], columns)
    if "queue" in found:
        found["oldest"] = health.oldest_messages(found["queue"], state.before("oldest"))
    return found


def accounted(
    state: State, queues: Table[QueueRow] | None
) -> dict[str, Table[MessageFate]]:
    judgement = state.judgement
    before = state.before("account")
    places = state.addresses.grouping
    if queues is None:
        return {}
    if judgement.openmq_account.watched:
        account = judgement.openmq_account
        grouping = state.queues.grouping
        return {"account": openmq.fate_table(account, grouping, queues, places, before)}
    joined = judgement.seen.addresses
    return {
        "account": fate_table(
            judgement.account, state.queues, queues, joined, places, before
        )
    }


def with_columns(table: Table[Any], columns: Mapping[str, Column]) -> Table[Any]:
    return Table(table.index, {**table.columns, **columns})


def undecided_clients(
    state: State, snapshot: Snapshot, tables: Tables, policy: Policy
) -> dict[str, Table[Any]]:
    if "broker" not in tables or (
        snapshot.broker is not None and snapshot.broker.role is not Role.ACTIVE
    ):
        return {}
    judged = state.judgement.still_stands(time_of(snapshot), policy.constants)
    count = health.undecided(
        state.judgement, len(state.consumers.clients.index), judged=judged
    )
    return {
        "broker": with_columns(
            tables["broker"], {"undecided_clients": np.array([count])}
        )
    }


def of_openmq(state: State, tables: Tables, policy: Policy) -> dict[str, Table[Any]]:
    """What only an OpenMQ broker has: measured limits, rejects, connections that one consumer fills."""
    judgement = state.judgement
    consumer = tables["consumer"]
    found: dict[str, Table[Any]] = {
        "connection_cause": openmq.connection_causes(judgement, policy.broker)
    }
    limits = openmq.consumer_limits(judgement, state.consumers.index.keys)
    found["consumer"] = with_columns(consumer, limits)
    if "address" in tables:
        address = tables["address"]
        columns = openmq.rejected(
            judgement, state.queues.grouping, state.addresses.of_queue, address.index
        )
        found["address"] = with_columns(address, columns)
    return found


def prepared_transactions(snapshot: Snapshot) -> float:
    """How many; NaN where they were not read at this poll."""
    transactions = snapshot.transactions
    collector = snapshot.collectors.get("transactions")
    if transactions is None or (collector is not None and not collector.usable):
        return np.nan
    return float(np.count_nonzero(transactions["state"] == TransactionState.PREPARED))


def broker_table(
    snapshot: Snapshot, broker: Broker, clock: Clock, policy: Policy
) -> Table[BrokerSeries]:
    role = (
        "mirror"
        if (policy.mirror_of or broker.mirror_of) and broker.role is Role.ACTIVE
        else broker.role
    )
    row = BrokerSeries(
        policy.broker,
        broker.kind.name,
        broker.version,
        broker.product_version,
        broker.node_id,
        role,
    )
    numbers = {name: getattr(broker, name) for name in BROKER_NUMBERS} | {
        "info": 1.0,
        "start": round(clock.start, 3),
        "clock_skew": round(clock.skew, 3),
        "prepared_transactions": prepared_transactions(snapshot),
    }
    return Table(
        Index.of([row]), {name: np.array([value]) for name, value in numbers.items()}
    )
