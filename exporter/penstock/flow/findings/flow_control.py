"""
Findings about flow control: limits and thresholds of OpenMQ consumers, what a connection may hold, sessions that all
wait for one another.

The broker shows neither limits nor sessions: limits are measured, or those of the destination, which a client can
only lower; in place of a session of OpenMQ stands its connection, and the advice says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.flow.findings.finding import Finding, Scope
from penstock.flow.findings.habits import Habits, sessions
from penstock.flow.judge.shares import Shares
from penstock.flow.judge.spans import Mask
from penstock.flow.judge.windows import STEPS, WindowEstimate
from penstock.flow.limits import (
    CONNECTION_COUNT,
    DEFAULT_LIMIT,
    SHARED_LIMIT,
    connection_limit_for_memory,
    limit_for_memory,
)
from penstock.flow.series import ClientSeries, Grouping
from penstock.model import AcknowledgeMode, BrokerKind, ConsumerRow, QueueKind, Snapshot
from penstock.table import Column, Keys, Positions

Texts = Callable[[int], dict[str, str]]
"""Words of the advice of a connection, by its position."""
MOST = 100
"""Findings of one rule that are told one by one."""
FEW = 10
LOOKS = 5
"""In a row: less is no habit."""
EXTREME = 0.1
"""A resume level of so much of the limit or less, or of all but so much."""
CONTROL_WAITS_BYTES = 2.0**20
"""More in front of an acknowledgement delays it noticeably."""
LEAST_BEHIND = {BrokerKind.ARTEMIS: 2, BrokerKind.OPENMQ: 5}
"""Consumers of one session; on OpenMQ of one connection, which has one thread that takes messages in."""
SURE = 2 * STEPS
"""Moves between pauses until a measured limit is called extreme: a wrong one is by then as good as impossible."""


@dataclass(frozen=True, slots=True)
class Flow:
    """
    What the rules read. Columns per consumer: limit in force or its bound, messages; mean_bytes of a message.

    memory, connection_limit: what the operator says of its client, NaN where nothing. clients: which series.
    """

    snapshot: Snapshot
    habits: Habits
    clients: Grouping[ClientSeries]
    windows: WindowEstimate
    shares: Shares
    limit: Column
    mean_bytes: Column
    memory: Column
    connection_limit: Column

    @property
    def connections(self) -> tuple[Mask, Positions]:
        """Which consumers are on a known connection, and its position in the habits."""
        keys = self.habits.connections.keys
        of = self.snapshot.consumer_connection
        here = np.isin(of, keys)
        return here, np.searchsorted(keys, of[here]).astype(np.intp)

    def summed(self, values: Column) -> Column:
        """Per connection."""
        here, at = self.connections
        weights = np.nan_to_num(values[here])
        return np.bincount(at, weights=weights, minlength=len(self.habits.connections.keys)).astype(np.float64)

    def least(self, values: Column) -> Column:
        """Per connection, NaN where nothing is known."""
        here, at = self.connections
        least = np.full(len(self.habits.connections.keys), np.inf)
        known = ~np.isnan(values[here])
        np.minimum.at(least, at[known], values[here][known])
        return np.where(np.isinf(least), np.nan, least)

    def average(self, values: Column) -> Column:
        """Per connection over its consumers of which it is known."""
        known = self.summed((~np.isnan(values)).astype(np.float64))
        return np.where(known > 0, self.summed(values) / np.where(known > 0, known, 1), np.nan)


def flow_of(
    snapshot: Snapshot, clients: Grouping[ClientSeries], windows: WindowEstimate, shares: Shares, habits: Habits
) -> Flow:
    consumers = snapshot.consumers
    assert consumers is not None  # noqa: S101 - clients are made of them
    at = windows.index.positions(consumers.index.keys)
    measured = np.append(windows.limits()[0], np.nan)[at]
    bound, mean_bytes = of_destinations(snapshot)
    told = clients.index.column("client memory", lambda row: number(row.said.client_memory))
    limits = clients.index.column("connection flow limit", lambda row: number(row.said.connection_flow_limit or None))
    return Flow(
        snapshot=snapshot,
        habits=habits,
        clients=clients,
        windows=windows,
        shares=shares,
        limit=np.where(np.isnan(measured), bound, measured),
        mean_bytes=mean_bytes,
        memory=np.append(told, np.nan)[clients.member],
        connection_limit=np.append(limits, np.nan)[clients.member],
    )


def number(said: int | None) -> float:
    return np.nan if said is None else float(said)


def of_destinations(snapshot: Snapshot) -> tuple[Column, Column]:
    """Per consumer: the most that its limit can be, unless the client raises none; mean bytes of what came in."""
    consumers, addresses, queues = snapshot.consumers, snapshot.addresses, snapshot.queues
    assert consumers is not None  # noqa: S101 - as above
    size = len(consumers)
    if addresses is None or queues is None or "consumer_flow_limit" not in addresses:
        return np.full(size, np.nan), np.full(size, np.nan)
    rows = {row.name: i for i, row in enumerate(addresses.index)}
    at = np.array([rows.get(row.address, -1) for row in consumers.index], np.intp)
    limit = np.append(addresses["consumer_flow_limit"], np.nan)[at]
    limit = np.where(np.isnan(limit), DEFAULT_LIMIT, limit)
    shared = queues.index.column("subscription", lambda row: float(row.kind is QueueKind.SUBSCRIPTION)) > 0
    shared &= queues["consumers"] >= 2
    limit = np.where(np.append(shared, False)[queues.index.positions(snapshot.consumer_queue)], SHARED_LIMIT, limit)
    came = addresses["messages_added"]
    mean = np.where(came > 0, addresses["added_bytes"] / np.where(came > 0, came, 1), np.nan)
    return limit, np.append(mean, np.nan)[at]


# --- one consumer


def flow_threshold_extreme(flow: Flow) -> Iterator[Finding]:
    """A measured resume level next to nothing, or next to the limit; of each client one consumer is told."""
    windows, clients = flow.windows, flow.clients
    limits, resumes = windows.limits()
    share = resumes / limits
    extreme = (limits >= FEW) & (windows.steps >= SURE) & ((share <= EXTREME) | (share >= 1 - EXTREME))
    told: set[int] = set()
    for i in np.flatnonzero(extreme).tolist():
        (at,) = clients.source.positions(windows.index.keys[i : i + 1])
        member = int(clients.member[at]) if at >= 0 else -1
        if member < 0 or member in told or len(told) >= MOST:
            continue
        told.add(member)
        evidence = {
            "limit": float(limits[i]),
            "resume": float(resumes[i]),
            "threshold": float(100 * share[i]),
            "batch": float(limits[i] - resumes[i]),
            "starved": of_client(flow.shares, clients, member, flow.shares.starved),
            "at_limit": of_client(flow.shares, clients, member, flow.shares.at_limit),
        }
        row: ClientSeries = clients.index.rows[member]
        yield Finding(
            "flow_threshold_extreme", Scope.CLIENT, f"{row.queue}/{row.client}", row.address, row.queue, row.client,
            {name: value for name, value in evidence.items() if np.isfinite(value)},
            {"effect": RUNS_DRY if share[i] <= EXTREME else SMALL_BATCHES},
        )  # fmt: skip


RUNS_DRY = "the client has run dry before the next batch comes"
SMALL_BATCHES = "batches are small, each with a request of its own, and nothing is won by it"


def of_client(shares: Shares, clients: Grouping[ClientSeries], member: int, values: Column) -> float:
    if shares.clients.index is not clients.index or member >= len(values):
        return np.nan
    return float(values[member])


# --- all consumers of a connection


def flow_limit_exceeds_memory(flow: Flow) -> Iterator[Finding]:
    """What the limits of a connection's consumers let in is more than the operator gives the client."""
    most = at_most(flow)
    memory = flow.least(flow.memory)
    holds = (most > memory) & ~flow.habits.connections.varies
    of_one = flow.summed(flow.mean_bytes)
    advised = [limit_for_memory(m, s, 1) if s > 0 and m > 0 else 0 for m, s in zip(memory, of_one, strict=True)]
    yield from of_connections(
        "flow_limit_exceeds_memory",
        flow,
        holds,
        order=most,
        limit=flow.average(flow.limit),
        mean_bytes=flow.average(flow.mean_bytes),
        most_bytes=most,
        held_bytes=flow.summed(held_bytes(flow)),
        memory=memory,
        advised=np.array(advised, np.float64),
    )


def at_most(flow: Flow) -> Column:
    """Bytes that each connection's consumers are given ahead; its own limit, where the operator tells it, caps them."""
    most = flow.summed(flow.limit * flow.mean_bytes)
    capped = flow.least(flow.connection_limit) - 1 + CONNECTION_COUNT
    return np.fmin(most, capped * flow.average(flow.mean_bytes))


def held_bytes(flow: Flow) -> Column:
    """An estimate: of a consumer only messages are known."""
    assert flow.snapshot.consumers is not None  # noqa: S101 - as above
    return flow.snapshot.consumers["buffered"] * flow.mean_bytes


def connection_limit_advised(flow: Flow) -> Iterator[Finding]:
    """
    How many consumers a connection has is not known in advance, so no consumer limit bounds its memory.

    Told where at its fullest it goes beyond the memory that the operator gives, or, where nothing is said, with many.
    """
    connections, memory, mean = flow.habits.connections, flow.least(flow.memory), flow.average(flow.mean_bytes)
    per_consumer = flow.average(flow.limit)
    most = connections.most * per_consumer * mean
    beyond = np.where(np.isnan(memory), connections.most >= FEW, most > memory)
    holds = connections.varies & beyond & np.isnan(flow.least(flow.connection_limit))
    limits = [
        connection_limit_for_memory(m, s, CONNECTION_COUNT) if s > 0 and m > 0 else np.nan
        for m, s in zip(memory, mean, strict=True)
    ]
    yield from of_connections(
        "connection_limit_advised",
        flow,
        holds,
        order=connections.most,
        fewest=connections.fewest,
        consumers_most=connections.most,
        changes=connections.changes,
        limit=per_consumer,
        mean_bytes=mean,
        most_bytes=most,
        memory=memory,
        advised=np.array(limits, np.float64),
    )


CONTROLS = {
    AcknowledgeMode.CLIENT: "CLIENT_ACKNOWLEDGE",
    AcknowledgeMode.AUTO: "AUTO_ACKNOWLEDGE",
    AcknowledgeMode.TRANSACTED: "transactions",
}
"""Modes in which the client waits for answers to its acknowledgements."""


def connection_count_advised(flow: Flow) -> Iterator[Finding]:
    """
    The count, taken as its default for it is not shown, lets too much go before an acknowledgement, or asks a fast
    client that hardly acknowledges too often.
    """
    connections, mean = flow.habits.connections, flow.average(flow.mean_bytes)
    ahead = CONNECTION_COUNT * mean
    control = controlled(flow)
    churning = connections.came >= FEW
    lower = (control.any(axis=0) | churning) & (ahead >= CONTROL_WAITS_BYTES)
    higher = ~control.any(axis=0) & ~churning & (connections.rate >= CONNECTION_COUNT)
    modes = list(CONTROLS.values())

    def why(i: int) -> str:
        if higher[i]:
            return RARELY_CONTROLS
        said = [mode for mode, has in zip(modes, control[:, i], strict=True) if has]
        return " and ".join(said + ["consumers that come and go"] * bool(churning[i]))

    advised = np.where(higher, np.ceil(connections.rate), np.maximum(np.floor(CONTROL_WAITS_BYTES / mean), 1))
    yield from of_connections(
        "connection_count_advised",
        flow,
        lower | higher,
        order=np.where(higher, connections.rate, ahead),
        texts=lambda i: {"why": why(i), "change": "higher" if higher[i] else "lower"},
        count=np.full(len(mean), float(CONNECTION_COUNT)),
        mean_bytes=mean,
        ahead_bytes=ahead,
        rate=connections.rate,
        came=connections.came,
        advised=advised,
    )


RARELY_CONTROLS = "DUPS_OK_ACKNOWLEDGE, no transactions and consumers that stay"


def controlled(flow: Flow) -> NDArray[np.bool_]:
    """(CONTROLS, connections): whether one of its consumers works so; a mode that is not known works so too."""
    assert flow.snapshot.consumers is not None  # noqa: S101 - as above
    mode = flow.snapshot.consumers["acknowledge_mode"]
    rows = [flow.summed((mode == one).astype(np.float64)) > 0 for one in CONTROLS]
    rows[0] |= flow.summed(np.isnan(mode).astype(np.float64)) > 0
    return np.stack(rows)


def of_connections(
    rule: str, flow: Flow, holds: Mask, *, order: Column, texts: Texts = lambda _: {}, **evidence: Column
) -> Iterator[Finding]:
    """Of each client's connections that with the highest `order`, by the client's name: ids change at reconnects."""
    consumers = flow.snapshot.consumers
    assert consumers is not None  # noqa: S101 - as above
    keys, told = flow.habits.connections.keys, dict[str, int]()
    evidence = {"consumers": flow.habits.connections.consumers, **evidence}
    for i in np.flatnonzero(holds)[np.argsort(-np.nan_to_num(order[holds]), kind="stable")].tolist():
        rows: list[ConsumerRow] = consumers.index.rows[flow.snapshot.consumer_connection == keys[i]].tolist()
        client = rows[0].client
        if client in told or len(told) >= MOST:
            continue
        told[client] = i
        numbers = {name: float(column[i]) for name, column in evidence.items() if np.isfinite(column[i])}
        on = tuple(sorted({(row.address, row.queue) for row in rows}))
        yield Finding(rule, Scope.CONNECTION, client, client=client, evidence=numbers, texts=texts(i), on=on)


# --- sessions


def session_overloaded(snapshot: Snapshot, habits: Habits) -> Iterator[Finding]:
    """All consumers of a session hold messages while more waits, look after look: they share one thread."""
    consumers, broker = snapshot.consumers, snapshot.broker
    if consumers is None or broker is None or not habits.behind:
        return
    of, told = sessions(snapshot), set[str]()
    behind = sorted((key for key, looks in habits.behind.items() if looks >= LOOKS), key=lambda key: -sum(of == key))
    for key in behind:
        members = np.flatnonzero(of == key)
        rows: list[ConsumerRow] = consumers.index.rows[members].tolist()
        if len(rows) < LEAST_BEHIND[broker.kind] or rows[0].client in told or len(told) >= MOST:
            continue
        told.add(rows[0].client)
        evidence = {
            "consumers": float(len(rows)),
            "held": float(np.nansum(consumers["buffered"][members])),
            "waiting": waiting_for(snapshot, members),
            "producers": producers_of(snapshot, members),
            "looks": float(habits.behind[key]),
        }
        yield Finding(
            "session_overloaded", Scope.CONNECTION, rows[0].client, client=rows[0].client,
            evidence={name: value for name, value in evidence.items() if np.isfinite(value)},
            texts=SHARED[broker.kind], on=tuple(sorted({(row.address, row.queue) for row in rows})),
        )  # fmt: skip


SHARED = {
    BrokerKind.ARTEMIS: {"what": "session", "remark": ""},
    BrokerKind.OPENMQ: {
        "what": "connection",
        "remark": " (an estimate: OpenMQ does not show sessions; where each consumer has its own, give them more"
        " connections)",
    },
}


def waiting_for(snapshot: Snapshot, members: Positions) -> float:
    """Messages that wait in the queues of these consumers."""
    queues = snapshot.queues
    if queues is None:
        return np.nan
    at = np.unique(queues.index.positions(snapshot.consumer_queue[members]))
    ready = queues["messages"] - queues["delivering"] - np.nan_to_num(queues["scheduled"])
    return float(np.nansum(ready[at[at >= 0]]))


def producers_of(snapshot: Snapshot, members: Positions) -> float:
    """Of the connection of these consumers, where it is known."""
    connections = snapshot.connections
    keys: Keys = snapshot.consumer_connection[members[:1]]
    if connections is None or not len(keys) or keys[0] < 0:
        return np.nan
    (at,) = connections.index.positions(keys)
    return float(connections["producers"][at]) if at >= 0 else np.nan


OF_FLOW: tuple[Callable[[Flow], Iterator[Finding]], ...] = (
    flow_threshold_extreme,
    flow_limit_exceeds_memory,
    connection_limit_advised,
    connection_count_advised,
)
"""Rules that rest on what only OpenMQ shows."""
