"""From a snapshot and the state of the last poll to the tables that are shown. Time comes from the snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.assessment import health, openmq
from penstock.assessment.account import MessageFate, fate_table, in_doubt, unexplained
from penstock.assessment.states import with_states
from penstock.core.table import Column, Index, Table
from penstock.findings.engine import Findings
from penstock.incidents.incident import Incident
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
    QueueSeries,
)
from penstock.series.queues import Queues, queue_table
from penstock.settings.policy import Policy

ADVANCED = ("eviction", "ring_loser", "oldest", "account")
"""Tables whose rows follow from those of the last poll: the state remembers them."""
BROKER_NUMBERS = (
    "connections", "memory_used_bytes", "memory_limit_bytes", "disk_used_ratio", "disk_limit_ratio",
    "authentication_failures", "heap_used_bytes", "heap_limit_bytes", "resource_state",
)  # fmt: skip
"""Shown as the broker reports them."""
Tables = Mapping[str, Table[Any]]
"""By the name that the metric catalogue gives them. The type of the rows follows from the name."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one broker, continued from poll to poll."""

    clock: Clock = field(default_factory=Clock)
    queues: Queues = field(default_factory=Queues)
    addresses: Addresses = field(default_factory=Addresses)
    consumers: Consumers = field(default_factory=Consumers)
    producers: Producers = field(default_factory=Producers)
    connections: Connections = field(default_factory=Connections)
    links: Grouping[LinkSeries] = field(default_factory=Grouping)
    judgement: Judgement = field(default_factory=Judgement)
    rows: Mapping[str, Index[Any]] = field(default_factory=dict)
    """The rows of the tables `ADVANCED` at the last poll."""
    findings: Findings = field(default_factory=Findings)

    def before(self, table: str) -> Index[Any]:
        """Return the rows that one of the tables `ADVANCED` had at the last poll."""
        return self.rows.get(table, Index.empty())

    def hidden(self) -> dict[str, int]:
        """Return how many rows are not shown, for each table that shows only the worst."""
        return {
            "consumer": self.consumers.visible - len(self.consumers.index),
            "connection": len(self.connections.source) - len(self.connections.index),
        }

    def with_new_labels(self) -> "State":
        """Return the state without any label set: the policy has changed."""
        return State(
            clock=self.clock,
            queues=self.queues.with_new_labels(),
            consumers=self.consumers.with_new_labels(),
            producers=Producers(totals=self.producers.totals),
            judgement=self.judgement.with_new_labels(),
        )


def assess(state: State, snapshot: Snapshot, policy: Policy) -> tuple[State, Tables]:
    """Return the state after this snapshot, and the tables to show; a table whose part was not read is missing."""
    after, connections = advanced(state, snapshot, policy)
    after = with_findings(after, snapshot, policy)
    tables = shown(after, snapshot, connections, policy)
    if snapshot.consumers is not None:
        rows = {name: tables[name].index for name in ADVANCED if name in tables}
        after = replace(after, rows=rows)
    return after, tables


def advance(state: State, snapshot: Snapshot, policy: Policy) -> State:
    """Return the state after this snapshot, without new findings and tables: that takes two thirds of the time."""
    return advanced(state, snapshot, policy)[0]


def advanced(
    state: State, snapshot: Snapshot, policy: Policy
) -> tuple[State, Table[ConnectionSeries] | None]:
    """Return the state after this snapshot, but for its findings and rows, and the table of connections."""
    state = with_broker(state, snapshot)
    state = with_queues(state, snapshot, policy)
    if snapshot.addresses is not None:
        addresses = state.addresses.advance(
            snapshot.addresses, state.queues.grouping, policy
        )
        state = replace(state, addresses=addresses)
    if snapshot.consumers is not None:
        state = with_judgement(state, snapshot, snapshot.consumers, policy)
    else:
        judgement = state.judgement.without_verdict(snapshot, policy.constants)
        state = replace(state, judgement=judgement)
    if snapshot.producers is not None:
        late = snapshot.observation.late.get("producers")
        producers = state.producers.advance(
            snapshot.producers, state.addresses.grouping, policy, late
        )
        state = replace(state, producers=producers)
    if snapshot.links is not None:
        state = replace(state, links=grouped_links(state.links, snapshot.links, policy))
    if snapshot.connections is None:
        return state, None
    connections, table = state.connections.advance(
        snapshot.connections, snapshot, policy
    )
    return replace(state, connections=connections), table


def with_broker(state: State, snapshot: Snapshot) -> State:
    """Return the state with the clock after this poll, and the note that a passive broker has no queues of its own."""
    broker = snapshot.broker
    if broker is None:
        return state
    clock = state.clock.advance(broker, snapshot.stamp, snapshot.observation.process)
    if broker.role is Role.PASSIVE:
        return replace(state, clock=clock, queues=state.queues.passive())
    return replace(state, clock=clock)


def with_queues(state: State, snapshot: Snapshot, policy: Policy) -> State:
    """Return the state with the queues of this poll."""
    broker = snapshot.broker
    if snapshot.queues is None:
        return state
    queues = state.queues.advance(
        snapshot.queues,
        policy,
        snapshot.observation,
        counts_reloaded=broker is not None and broker.kind.counts_reloaded,
    )
    return replace(state, queues=queues)


def with_judgement(
    state: State, snapshot: Snapshot, listed: Table[ConsumerRow], policy: Policy
) -> State:
    """Return the state with the judgement of this poll, and with its consumers: grouped before it, shown after it.

    The rules judge consumers by their clients; which consumers are shown one by one depends on the judgement.

    listed: the consumers of the poll.
    """
    consumers = state.consumers.group(snapshot, listed, state.queues.grouping, policy)
    groups = Groups(state.queues.grouping, consumers.clients, policy.broker)
    judgement, _ = judge(
        state.judgement,
        snapshot,
        groups,
        state.clock,
        policy.constants,
        policy.calendar,
    )
    unsettled_since = judgement.held_unsettled_since(listed.index)
    unsettled_for = judgement.seen.times.now - unsettled_since
    consumers = consumers.show(
        state.consumers, unsettled_for, listed, snapshot.consumer_queue, policy
    )
    return replace(state, consumers=consumers, judgement=judgement)


def with_findings(state: State, snapshot: Snapshot, policy: Policy) -> State:
    """Return the state with the findings of this poll; only the settings of an active broker are looked at."""
    if not is_active(snapshot):
        return state
    has_numbers = snapshot.consumers is not None and "buffered" in snapshot.consumers
    clients = state.consumers.clients if has_numbers else None
    findings = state.findings.advance(
        policy.broker, snapshot, state.queues.grouping, clients, state.judgement
    )
    return replace(state, findings=findings)


def is_active(snapshot: Snapshot) -> bool:
    """Return whether the broker is known to serve clients."""
    return snapshot.broker is not None and snapshot.broker.role is Role.ACTIVE


def shown(
    state: State,
    snapshot: Snapshot,
    connections: Table[ConnectionSeries] | None,
    policy: Policy,
) -> dict[str, Table[object]]:
    """Return the tables to show.

    Args:
        state: The state after this snapshot, but for its `rows`.
        snapshot: What was read at this poll.
        connections: The table of connections.
        policy: What the operator wants.
    """
    tables: dict[str, Table[Any]] = {}
    if snapshot.broker is not None:
        tables["broker"] = broker_table(snapshot, snapshot.broker, state.clock, policy)
    if snapshot.queues is not None:
        tables["queue"] = queue_table(state.queues, snapshot.queues, snapshot.addresses)
    if snapshot.addresses is not None:
        tables["address"] = address_table(
            state.addresses,
            snapshot.addresses,
            messages_by_queue(state, snapshot.queues),
            snapshot.producers,
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
    if is_active(snapshot):
        tables["finding"] = state.findings.table()
    if snapshot.producers is not None:
        tables["producer"] = state.producers.table()
    if connections is not None:
        tables["connection"] = connections
    if snapshot.links is not None:
        tables["link"] = link_table(state.links, snapshot.links)
    return tables | with_states(state, snapshot, tables, policy)


def messages_by_queue(state: State, queues: Table[QueueRow] | None) -> Column | None:
    """(queue series,) The messages of each; None where queues were not read."""
    if queues is None:
        return None
    return state.queues.grouping.sum(queues["messages"])


# --- tables of the judgement


def judged(
    state: State, tables: Tables, clients: Grouping[ClientSeries]
) -> dict[str, Table[object]]:
    """Return the tables of the judgement, and those of queues, clients and addresses with columns that it measured."""
    judgement = state.judgement
    rolled_up = judgement.incidents.rolled_up
    conditions = judgement.conditions
    added: dict[str, Table[Any]] = {
        "incident": incident_table(judgement.incidents.told),
        "broker_cause": health.broker_causes(conditions),
        "queue_cause": health.queue_causes(conditions, rolled_up),
        "client_cause": health.client_causes(conditions, rolled_up),
    }
    measured = {
        "queue": measures_of_queues(state, tables),
        "client": health.client_measures(judgement, clients, state.clock),
    }
    if "address" in tables:
        addresses = tables["address"]
        of_queue = state.addresses.of_queue
        measured["address"] = health.address_measures(
            judgement, state.queues.grouping, of_queue, addresses
        )
        added["address_cause"] = health.address_causes(conditions, rolled_up, addresses)
    for name, columns in measured.items():
        if name in tables:
            added[name] = with_columns(tables[name], columns)
    if "queue" in tables:
        added |= losses_and_ages(state, added["queue"])
    return added


def incident_table(incidents: Sequence[Incident]) -> Table[Incident]:
    """Return a row for each incident: how many conditions it has, and how many clients suffer from it."""
    members = [incident.size for incident in incidents]
    victims = [incident.victim_count for incident in incidents]
    columns = {
        "active": np.ones(len(incidents)),
        "members": np.array(members, np.float64),
        "victims": np.array(victims, np.float64),
    }
    return Table(Index.of(incidents), columns)


def measures_of_queues(state: State, tables: Tables) -> dict[str, Column]:
    """Return the columns that judgement and account add to the table of queues."""
    judgement = state.judgement
    queues = state.queues
    columns = health.queue_measures(judgement, queues, state.clock)
    if "queue" in tables:
        columns |= health.without_kept(judgement, queues, tables["queue"])
    if judgement.openmq_account.watched:
        columns |= unexplained(judgement.openmq_account.queues, queues)
    else:
        columns |= unexplained(judgement.account.books, queues)
    return columns | in_doubt(judgement.account, queues)


def losses_and_ages(
    state: State, queues: Table[QueueSeries]
) -> dict[str, Table[object]]:
    """Return the tables beside that of the queues: evictions, losses of rings, and the age of the oldest messages."""
    judgement = state.judgement
    return {
        "eviction": health.evictions(judgement, state.queues, state.before("eviction")),
        "ring_loser": health.losses_by_client(
            judgement, state.queues, state.before("ring_loser")
        ),
        "oldest": health.oldest_messages(queues, state.before("oldest")),
    }


def accounted(
    state: State, queues: Table[QueueRow] | None
) -> dict[str, Table[MessageFate]]:
    """Return the table of the account: what became of messages."""
    if queues is None:
        return {}
    judgement = state.judgement
    addresses = state.addresses.grouping
    before = state.before("account")
    if judgement.openmq_account.watched:
        table = openmq.fate_table(
            judgement.openmq_account,
            state.queues.grouping,
            queues,
            addresses,
            before,
        )
    else:
        table = fate_table(
            judgement.account,
            state.queues,
            queues,
            judgement.seen.addresses,
            addresses,
            before,
        )
    return {"account": table}


def with_columns(table: Table[object], columns: Mapping[str, Column]) -> Table[object]:
    return Table(table.index, {**table.columns, **columns})


def undecided_clients(
    state: State, snapshot: Snapshot, tables: Tables, policy: Policy
) -> dict[str, Table[object]]:
    """Return the table of the broker with the number of clients that are unknown, where the broker is active."""
    if "broker" not in tables or not is_active(snapshot):
        return {}
    is_judged = state.judgement.still_stands(time_of(snapshot), policy.constants)
    clients = len(state.consumers.clients.index)
    count = health.undecided(state.judgement, clients, judged=is_judged)
    columns = {"undecided_clients": np.array([count])}
    return {"broker": with_columns(tables["broker"], columns)}


def of_openmq(state: State, tables: Tables, policy: Policy) -> dict[str, Table[object]]:
    """Return what only an OpenMQ broker has: measured limits, rejects, connections whose limit one consumer uses up."""
    judgement = state.judgement
    limits = openmq.consumer_limits(judgement, state.consumers.index.keys)
    added: dict[str, Table[Any]] = {
        "connection_cause": openmq.connection_causes(judgement, policy.broker),
        "consumer": with_columns(tables["consumer"], limits),
    }
    if "address" in tables:
        addresses = tables["address"]
        rejected = openmq.rejected(
            judgement, state.queues.grouping, state.addresses.of_queue, addresses.index
        )
        added["address"] = with_columns(addresses, rejected)
    return added


# --- the table of the broker


def prepared_transactions(snapshot: Snapshot) -> float:
    """Return how many transactions are prepared; NaN where they were not read at this poll."""
    transactions = snapshot.transactions
    collector = snapshot.collectors.get("transactions")
    was_read = collector is None or collector.usable
    if transactions is None or not was_read:
        return np.nan
    is_prepared = transactions["state"] == TransactionState.PREPARED
    return float(np.count_nonzero(is_prepared))


def broker_table(
    snapshot: Snapshot, broker: Broker, clock: Clock, policy: Policy
) -> Table[BrokerSeries]:
    """Return the table of the broker, which has one row.

    A mirror, a broker that only receives a copy of another's messages, is active; it is shown as `mirror`.
    """
    is_mirror = bool(policy.mirror_of or broker.mirror_of)
    shows_mirror = is_mirror and broker.role is Role.ACTIVE
    row = BrokerSeries(
        policy.broker,
        broker.kind.name,
        broker.version,
        broker.product_version,
        broker.node_id,
        "mirror" if shows_mirror else broker.role,
    )
    numbers: dict[str, float] = {name: getattr(broker, name) for name in BROKER_NUMBERS}
    numbers |= {
        "info": 1.0,
        "start": round(clock.start, 3),
        "clock_skew": round(clock.skew, 3),
        "prepared_transactions": prepared_transactions(snapshot),
    }
    columns = {name: np.array([number]) for name, number in numbers.items()}
    return Table(Index.of([row]), columns)
