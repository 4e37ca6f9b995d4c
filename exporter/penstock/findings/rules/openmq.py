"""Flow limits of OpenMQ, of consumers, connections and destinations."""

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column
from penstock.findings.finding import (
    FEW,
    FindingRule,
    Found,
    finding_rule,
    of_client,
    of_connections,
    of_queues,
)
from penstock.findings.limits import (
    CONNECTION_COUNT,
    DEFAULT_THRESHOLD,
    connection_limit_for_memory,
    limit_for_memory,
)
from penstock.findings.usage import CHANGES, VARIES, FindingContext, FlowControl
from penstock.model import AcknowledgeMode
from penstock.observation.flow_window import STEPS

EXTREME = 0.1
"""A resume level of so much of the limit or less, or of all but so much."""
SURE = 2 * STEPS
"""Moves between pauses until a measured limit is called extreme: a wrong one is by then as good as impossible."""
RUNS_DRY = "the client has run dry before the next batch comes"
SMALL_BATCHES = (
    "batches are small, each with a request of its own, and nothing is won by it"
)


@finding_rule(
    share=100 * EXTREME,
    rest=100 - 100 * EXTREME,
    few=FEW,
    sure=SURE,
    threshold=DEFAULT_THRESHOLD,
)
def flow_threshold_extreme(rule: FindingRule, context: FindingContext) -> Found:
    flow = context.flow
    windows = context.flow.windows
    clients = context.flow.clients
    limits, resumes = windows.limits()
    share = resumes / limits
    extreme = (
        (limits >= FEW)
        & (windows.steps >= SURE)
        & ((share <= EXTREME) | (share >= 1 - EXTREME))
    )
    for i in np.flatnonzero(extreme).tolist():
        (at,) = clients.source.positions(windows.index.keys[i : i + 1])
        member = int(clients.member[at]) if at >= 0 else -1
        if member < 0:
            continue
        evidence = {
            "limit": float(limits[i]),
            "resume": float(resumes[i]),
            "threshold": float(100 * share[i]),
            "batch": float(limits[i] - resumes[i]),
            "starved": of_member(flow, member, flow.shares.starved),
            "at_limit": of_member(flow, member, flow.shares.at_limit),
        }
        effect = RUNS_DRY if share[i] <= EXTREME else SMALL_BATCHES
        yield of_client(rule, clients.index.rows[member], evidence, {"effect": effect})


def of_member(flow: FlowControl, member: int, values: Column) -> float:
    if flow.shares.clients.index is not flow.clients.index or member >= len(values):
        return np.nan
    return float(values[member])


@finding_rule()
def flow_limit_exceeds_memory(rule: FindingRule, context: FindingContext) -> Found:
    flow = context.flow
    most = most_bytes(flow)
    memory = flow.least(flow.memory)
    of_one = flow.summed(flow.mean_bytes)
    advised = [
        limit_for_memory(m, s, 1) if s > 0 and m > 0 else 0
        for m, s in zip(memory, of_one, strict=True)
    ]
    yield from of_connections(
        rule,
        flow,
        (most > memory) & ~flow.connections.varies,
        order=most,
        limit=flow.average(flow.limit),
        mean_bytes=flow.average(flow.mean_bytes),
        most_bytes=most,
        held_bytes=flow.summed(flow.consumers["buffered"] * flow.mean_bytes),
        memory=memory,
        advised=np.array(advised, np.float64),
    )


def most_bytes(flow: FlowControl) -> Column:
    """What the consumers of each connection are given ahead; a connection limit that is configured caps it."""
    most = flow.summed(flow.limit * flow.mean_bytes)
    capped = flow.least(flow.connection_limit) - 1 + CONNECTION_COUNT
    return np.fmin(most, capped * flow.average(flow.mean_bytes))


@finding_rule(changes=CHANGES, varies=VARIES, few=FEW)
def connection_limit_advised(rule: FindingRule, context: FindingContext) -> Found:
    """At its fullest it exceeds the memory that the operator gives, or has many consumers where none is configured."""
    flow = context.flow
    connections = flow.connections
    memory = flow.least(flow.memory)
    mean = flow.average(flow.mean_bytes)
    limit = flow.average(flow.limit)
    most = connections.most * limit * mean
    beyond = np.where(np.isnan(memory), connections.most >= FEW, most > memory)
    advised = [
        connection_limit_for_memory(m, s, CONNECTION_COUNT)
        if s > 0 and m > 0
        else np.nan
        for m, s in zip(memory, mean, strict=True)
    ]
    yield from of_connections(
        rule,
        flow,
        connections.varies & beyond & np.isnan(flow.least(flow.connection_limit)),
        order=connections.most,
        fewest=connections.fewest,
        consumers_most=connections.most,
        changes=connections.changes,
        limit=limit,
        mean_bytes=mean,
        most_bytes=most,
        memory=memory,
        advised=np.array(advised, np.float64),
    )


CONTROL_WAITS_BYTES = 2.0**20
"""More in front of an acknowledgement delays it noticeably."""
CONTROLS = {
    AcknowledgeMode.CLIENT: "CLIENT_ACKNOWLEDGE",
    AcknowledgeMode.AUTO: "AUTO_ACKNOWLEDGE",
    AcknowledgeMode.TRANSACTED: "transactions",
}
"""Modes in which the client waits for answers to its acknowledgements."""
RARELY_CONTROLS = "DUPS_OK_ACKNOWLEDGE, no transactions and consumers that stay"


@finding_rule(count=CONNECTION_COUNT, mebibytes=CONTROL_WAITS_BYTES / 2**20)
def connection_count_advised(rule: FindingRule, context: FindingContext) -> Found:
    flow = context.flow
    connections = flow.connections
    mean = flow.average(flow.mean_bytes)
    control = controlled(flow)
    ahead = CONNECTION_COUNT * mean
    churning = connections.came >= FEW
    waits = control.any(axis=0) | churning
    higher = ~waits & (connections.rate >= CONNECTION_COUNT)

    def texts(i: int) -> dict[str, str]:
        if higher[i]:
            return {"why": RARELY_CONTROLS, "change": "higher"}
        modes = [
            mode
            for mode, used in zip(CONTROLS.values(), control[:, i], strict=True)
            if used
        ]
        return {
            "why": " and ".join(
                modes + ["consumers that come and go"] * bool(churning[i])
            ),
            "change": "lower",
        }

    yield from of_connections(
        rule,
        flow,
        waits & (ahead >= CONTROL_WAITS_BYTES) | higher,
        order=np.where(higher, connections.rate, ahead),
        texts=texts,
        count=np.full(len(mean), float(CONNECTION_COUNT)),
        mean_bytes=mean,
        ahead_bytes=ahead,
        rate=connections.rate,
        came=connections.came,
        advised=np.where(
            higher,
            np.ceil(connections.rate),
            np.maximum(np.floor(CONTROL_WAITS_BYTES / mean), 1),
        ),
    )


def controlled(flow: FlowControl) -> NDArray[np.bool_]:
    """(CONTROLS, connections): whether one of its consumers uses the mode; one that is not known counts as CLIENT."""
    mode = flow.consumers["acknowledge_mode"]
    rows = [flow.summed((mode == one).astype(np.float64)) > 0 for one in CONTROLS]
    rows[0] |= flow.summed(np.isnan(mode).astype(np.float64)) > 0
    return np.stack(rows)


@finding_rule()
def limit_below_buffer(rule: FindingRule, context: FindingContext) -> Found:
    stale = context.stale
    limit = context.of_address("limit_messages")
    buffered = context.queues["delivering"] + stale
    yield from of_queues(
        rule,
        context,
        context.applications & (stale > 0),
        stale=stale,
        limit=limit,
        buffered=buffered,
        advised=np.maximum(np.floor(limit / 10), 1),
    )
