"""
What a snapshot means: the tables of series that are shown, from the snapshot and what was known before.

Pure: `assess(state, snapshot, policy) -> (state, tables)`. Time comes from the snapshot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.assessment import openmq
from penstock.assessment.account import MessageFate, fate_table, in_doubt, unexplained
from penstock.assessment.health import (
    Eviction,
    OldestMessage,
    RingLoser,
    address_causes,
    address_measures,
    broker_causes,
    client_causes,
    client_measures,
    evictions,
    losses_by_client,
    oldest_messages,
    queue_causes,
    queue_measures,
    undecided,
    without_kept,
)
from penstock.core.table import Column, Index, Table
from penstock.findings.engine import Findings
from penstock.model import Broker, QueueRow, Role, Snapshot, TransactionState
from penstock.observation.facts import time_of
from penstock.observation.poll import Groups
from penstock.rule_engine.judgement import Judgement, judge
from penstock.series.addresses import Addresses, address_table
from penstock.series.clock import Clock
from penstock.series.connections import Connections, Links, Producers
from penstock.series.consumers import Consumers, client_table, consumer_table
from penstock.series.labels import BrokerSeries, ClientSeries, Grouping
from penstock.series.queues import Queues, queue_table
from penstock.settings.policy import Policy

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
    links: Links = field(default_factory=Links)
    judgement: Judgement = field(default_factory=Judgement)
    evictions: Index[Eviction] = field(default_factory=Index.empty)
    losers: Index[RingLoser] = field(default_factory=Index.empty)
    oldest: Index[OldestMessage] = field(default_factory=Index.empty)
    fates: Index[MessageFate] = field(default_factory=Index.empty)
    findings: Findings = field(default_factory=Findings)

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
    tables: dict[str, Table[Any]] = {}
    if snapshot.broker is not None:
        state = replace(state, clock=state.clock.advance(snapshot.broker, snapshot.stamp, snapshot.observation.process))
        tables["broker"] = broker_table(snapshot, snapshot.broker, state.clock, policy)
        if snapshot.broker.role is Role.PASSIVE:
            state = replace(state, queues=state.queues.passive())
    if snapshot.queues is not None:
        counts_reloaded = snapshot.broker is not None and snapshot.broker.kind.counts_reloaded
        observation = snapshot.observation
        queues = state.queues.advance(snapshot.queues, policy, observation, counts_reloaded=counts_reloaded)
        state = replace(state, queues=queues)
        tables["queue"] = queue_table(state.queues, snapshot.queues, snapshot.addresses)
    if snapshot.addresses is not None:
        grouping = state.queues.grouping
        state = replace(state, addresses=state.addresses.advance(snapshot.addresses, grouping, policy))
        messages = None if snapshot.queues is None else grouping.sum(snapshot.queues["messages"])
        tables["address"] = address_table(state.addresses, snapshot.addresses, messages, snapshot.producers)
    if snapshot.consumers is not None:
        consumers = state.consumers.group(snapshot, snapshot.consumers, state.queues.grouping, policy)
        tables["client"] = client_table(consumers, snapshot.consumers)
        groups = Groups(state.queues.grouping, consumers.clients, policy.broker)
        judgement = judge(state.judgement, snapshot, groups, state.clock, policy.constants)[0]
        blocked = judgement.seen.times.now - judgement.held_unsettled_since(snapshot.consumers.index)
        consumers = consumers.show(state.consumers, blocked, snapshot.consumers, snapshot.consumer_queue, policy)
        tables["consumer"] = consumer_table(consumers, snapshot.consumers, state.clock)
        state = replace(state, consumers=consumers, judgement=judgement)
        tables |= health(state, tables, consumers.clients)
        tables["account"] = accounted(state, snapshot.queues)
        tables |= of_openmq(state, tables, policy)
        tables |= undecided_clients(state, snapshot, tables, policy)
        state = replace(
            state,
            evictions=tables["eviction"].index,
            losers=tables["ring_loser"].index,
            fates=tables["account"].index,
            oldest=tables["oldest"].index,
        )
    else:
        state = replace(state, judgement=state.judgement.without_verdict(snapshot, policy.constants))
    if snapshot.broker is not None and snapshot.broker.role is Role.ACTIVE:
        clients = state.consumers.clients if "client" in tables and "buffered" in tables["client"] else None
        findings = state.findings.advance(policy.broker, snapshot, state.queues.grouping, clients, state.judgement)
        state = replace(state, findings=findings)
        tables["finding"] = findings.table()
    if snapshot.producers is not None:
        late = snapshot.observation.late.get("producers")
        producers = state.producers.advance(snapshot.producers, state.addresses.grouping, policy, late)
        state = replace(state, producers=producers)
        tables["producer"] = state.producers.table()
    if snapshot.connections is not None:
        connections, tables["connection"] = state.connections.advance(snapshot.connections, snapshot, policy)
        state = replace(state, connections=connections)
    if snapshot.links is not None:
        state = replace(state, links=state.links.advance(snapshot.links, policy))
        tables["link"] = state.links.table(snapshot.links)
    return state, tables


def health(state: State, tables: Tables, clients: Grouping[ClientSeries]) -> dict[str, Table[Any]]:
    """The tables of the judgement, and those of queues and clients with what it measured beside what is there."""
    judgement = state.judgement
    found: dict[str, Table[Any]] = {
        "broker_cause": broker_causes(judgement.conditions),
        "queue_cause": queue_causes(judgement.conditions),
        "client_cause": client_causes(judgement.conditions),
        "eviction": evictions(judgement, state.queues, state.evictions) if "queue" in tables else Table(Index.empty()),
        "ring_loser": losses_by_client(judgement, state.queues, state.losers)
        if "queue" in tables
        else Table(Index.empty()),
    }
    queue = queue_measures(judgement, state.queues, state.clock)
    if "queue" in tables:
        queue |= without_kept(judgement, state.queues, tables["queue"])
    account = judgement.openmq_account.queues if judgement.openmq_account.watched else judgement.account.books
    queue |= unexplained(account, state.queues) | in_doubt(judgement.account, state.queues)
    measured = {
        "queue": queue,
        "client": client_measures(judgement, clients, state.clock),
    }
    if "address" in tables:
        addresses = tables["address"]
        measured["address"] = address_measures(judgement, state.queues.grouping, state.addresses.of_queue, addresses)
        found["address_cause"] = address_causes(judgement.conditions, addresses)
    for name, columns in measured.items():
        if name in tables:
            found[name] = with_columns(tables[name], columns)
    found["oldest"] = oldest_messages(found["queue"], state.oldest) if "queue" in found else Table(Index.empty())
    return found


def accounted(state: State, queues: Table[QueueRow] | None) -> Table[MessageFate]:
    judgement = state.judgement
    if queues is None:
        return Table(Index.empty())
    if judgement.openmq_account.watched:
        places = state.addresses.grouping
        return openmq.fate_table(judgement.openmq_account, state.queues.grouping, queues, places, state.fates)
    return fate_table(judgement.account, state.queues, queues, judgement.seen.addresses, state.fates)


def with_columns(table: Table[Any], columns: Mapping[str, Column]) -> Table[Any]:
    return Table(table.index, {**table.columns, **columns})


def undecided_clients(state: State, snapshot: Snapshot, tables: Tables, policy: Policy) -> dict[str, Table[Any]]:
    if "broker" not in tables or (snapshot.broker is not None and snapshot.broker.role is not Role.ACTIVE):
        return {}
    judged = state.judgement.still_stands(time_of(snapshot), policy.constants)
    count = undecided(state.judgement, len(state.consumers.clients.index), judged=judged)
    return {"broker": with_columns(tables["broker"], {"undecided_clients": np.array([count])})}


def of_openmq(state: State, tables: Tables, policy: Policy) -> dict[str, Table[Any]]:
    """What only an OpenMQ broker has: measured limits, rejects, connections that one consumer fills."""
    judgement, consumer = state.judgement, tables["consumer"]
    found: dict[str, Table[Any]] = {"connection_cause": openmq.connection_causes(judgement, policy.broker)}
    limits = openmq.consumer_limits(judgement, state.consumers.index.keys)
    found["consumer"] = with_columns(consumer, limits)
    if "address" in tables:
        address = tables["address"]
        columns = openmq.rejected(judgement, state.queues.grouping, state.addresses.of_queue, address.index)
        found["address"] = with_columns(address, columns)
    return found


def prepared_transactions(snapshot: Snapshot) -> float:
    """How many; NaN where they were not read at this poll."""
    transactions, collector = snapshot.transactions, snapshot.collectors.get("transactions")
    if transactions is None or (collector is not None and not collector.usable):
        return np.nan
    return float(np.count_nonzero(transactions["state"] == TransactionState.PREPARED))


def broker_table(snapshot: Snapshot, broker: Broker, clock: Clock, policy: Policy) -> Table[BrokerSeries]:
    row = BrokerSeries(
        policy.broker, broker.kind.name, broker.version, broker.product_version, broker.node_id, broker.role
    )
    numbers = {
        "info": 1.0,
        "start": round(clock.start, 3),
        "clock_skew": round(clock.skew, 3),
        "connections": broker.connections,
        "memory_used_bytes": broker.memory_used_bytes,
        "memory_limit_bytes": broker.memory_limit_bytes,
        "disk_used_ratio": broker.disk_used_ratio,
        "disk_limit_ratio": broker.disk_limit_ratio,
        "authentication_failures": broker.authentication_failures,
        "heap_used_bytes": broker.heap_used_bytes,
        "heap_limit_bytes": broker.heap_limit_bytes,
        "resource_state": broker.resource_state,
        "prepared_transactions": prepared_transactions(snapshot),
    }
    return Table(Index.of([row]), {name: np.array([value]) for name, value in numbers.items()})
