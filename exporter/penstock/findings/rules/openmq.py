"""Rules about flow limits of consumers, connections and destinations on OpenMQ; the words are those of `limits`."""

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column, Mask, Positions
from penstock.findings.finding import (
    FEW,
    FindingRule,
    Found,
    finding_rule,
    numbers_of,
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
from penstock.series.labels import HIDDEN

EXTREME = 0.1
"""Share of the limit: a resume level below it, or nearer than that to the limit, is extreme."""
SURE = 2 * STEPS
"""Moves between pauses until a measured limit is called extreme: after so many a wrong one is as good as impossible."""
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
    """Find clients whose resume level is near to 0 or near to the limit, as measured at their consumers."""
    flow = context.flow
    limits, resumes = flow.windows.limits()
    share = resumes / limits
    is_low = share <= EXTREME
    is_extreme = is_low | (share >= 1 - EXTREME)
    is_measured = flow.windows.steps >= SURE
    is_sure = is_measured & (limits >= FEW)  # of a few messages every share is extreme
    client = clients_of_windows(flow)
    evidence = {
        "limit": limits,
        "resume": resumes,
        "threshold": 100 * share,
        "batch": limits - resumes,
        "starved": of_each_client(flow, client, flow.shares.starved),
        "at_limit": of_each_client(flow, client, flow.shares.at_limit),
    }
    applies = is_extreme & is_sure & (client != HIDDEN)
    for row in np.flatnonzero(applies).tolist():
        series = flow.clients.index.rows[client[row]]
        effect = RUNS_DRY if is_low[row] else SMALL_BATCHES
        numbers = numbers_of(row, evidence)
        yield of_client(rule, series, numbers, {"effect": effect})


def clients_of_windows(flow: FlowControl) -> Positions:
    """(windows,) The position of the client of each window's consumer; HIDDEN where it has none."""
    consumers = flow.clients.source.positions(flow.windows.index.keys)
    return np.append(flow.clients.member, HIDDEN)[consumers]


def of_each_client(flow: FlowControl, client: Positions, values: Column) -> Column:
    """(windows,) The value of each one's client; NaN where the values are those of other clients.

    client: (windows,) positions of clients; values: (clients of the last poll,).
    """
    clients = flow.clients.index
    is_current = flow.shares.clients.index is clients
    if not is_current or len(values) != len(clients):
        return np.full(len(client), np.nan)
    return np.append(values, np.nan)[client]


@finding_rule()
def flow_limit_exceeds_memory(rule: FindingRule, context: FindingContext) -> Found:
    """Find connections whose consumers may buffer more bytes than their client's memory, as the operator gives it.

    Where the number of consumers varies, `connection_limit_advised` is the rule.
    """
    flow = context.flow
    most = most_bytes(flow)
    memory = flow.smallest(flow.memory)
    buffered = flow.consumers["buffered"]
    evidence = {
        "limit": flow.mean(flow.limit),
        "mean_bytes": flow.mean(flow.mean_bytes),
        "most_bytes": most,
        "held_bytes": flow.sum(buffered * flow.mean_bytes),
        "memory": memory,
        "advised": consumer_limits(memory, flow.sum(flow.mean_bytes)),
    }
    exceeds_memory = most > memory
    applies = exceeds_memory & ~flow.connections.varies
    yield from of_connections(rule, flow, applies, evidence, order=most)


def consumer_limits(memory: Column, one_message_each: Column) -> Column:
    """(connections,) The limit of each consumer that fits into the memory; 0 where memory or size is not known.

    one_message_each: (connections,) bytes of one message for each of the connection's consumers.
    """
    limits = [
        limit_for_memory(available, size, consumers=1)
        if size > 0 and available > 0
        else 0
        for available, size in zip(memory, one_message_each, strict=True)
    ]
    return np.array(limits, np.float64)


def most_bytes(flow: FlowControl) -> Column:
    """(connections,) The most bytes that its consumers buffer; a configured limit of the connection caps it."""
    most = flow.sum(flow.limit * flow.mean_bytes)
    limit = flow.smallest(flow.connection_limit)
    most_messages = limit - 1 + CONNECTION_COUNT  # as `limits.ConnectionWindow.most`
    size = flow.mean(flow.mean_bytes)
    return np.fmin(
        most, most_messages * size
    )  # NaN, without such a limit, caps nothing


@finding_rule(changes=CHANGES, varies=VARIES, few=FEW)
def connection_limit_advised(rule: FindingRule, context: FindingContext) -> Found:
    """Find connections that need a limit of their own, as the number of their consumers is not known in advance.

    With the most consumers that they had, they exceed the client's memory; where none is configured, these were many.
    """
    flow = context.flow
    connections = flow.connections
    memory = flow.smallest(flow.memory)
    size = flow.mean(flow.mean_bytes)
    limit = flow.mean(flow.limit)
    most = connections.most * limit * size
    is_unknown = np.isnan(memory)
    has_many = connections.most >= FEW
    is_beyond = np.where(is_unknown, has_many, most > memory)
    has_no_limit = np.isnan(flow.smallest(flow.connection_limit))
    evidence = {
        "fewest": connections.fewest,
        "consumers_most": connections.most,
        "changes": connections.changes,
        "limit": limit,
        "mean_bytes": size,
        "most_bytes": most,
        "memory": memory,
        "advised": connection_limits(memory, size),
    }
    applies = connections.varies & is_beyond & has_no_limit
    yield from of_connections(rule, flow, applies, evidence, order=connections.most)


def connection_limits(memory: Column, size: Column) -> Column:
    """(connections,) The limit that fits into the memory; NaN where memory or size of a message is not known."""
    limits = [
        connection_limit_for_memory(available, mean_bytes, CONNECTION_COUNT)
        if mean_bytes > 0 and available > 0
        else np.nan
        for available, mean_bytes in zip(memory, size, strict=True)
    ]
    return np.array(limits, np.float64)


CONTROL_WAITS_BYTES = 2.0**20
"""So many bytes of messages before the answer to an acknowledgement delay it noticeably."""
CONTROLS = {
    AcknowledgeMode.CLIENT: "CLIENT_ACKNOWLEDGE",
    AcknowledgeMode.AUTO: "AUTO_ACKNOWLEDGE",
    AcknowledgeMode.TRANSACTED: "transactions",
}
"""Modes in which the client waits for answers to its acknowledgements."""
RARELY_CONTROLS = "DUPS_OK_ACKNOWLEDGE, no transactions and consumers that stay"


@finding_rule(count=CONNECTION_COUNT, mebibytes=CONTROL_WAITS_BYTES / 2**20)
def connection_count_advised(rule: FindingRule, context: FindingContext) -> Found:
    """Find connections for which another count than the default is better (`limits.CONNECTION_COUNT`).

    An answer of the broker comes after up to so many messages. A client that waits for answers wants a lower count
    where these messages are large; one that does not wants a higher one where they are many: fewer interruptions.
    """
    flow = context.flow
    connections = flow.connections
    size = flow.mean(flow.mean_bytes)
    bytes_ahead = CONNECTION_COUNT * size
    controls = controls_of(flow)
    has_control = controls.any(axis=0)
    waits = has_control | is_churning(flow)
    wants_higher = ~waits & (connections.rate >= CONNECTION_COUNT)
    wants_lower = waits & (bytes_ahead >= CONTROL_WAITS_BYTES)
    higher = np.ceil(connections.rate)
    lower = np.maximum(np.floor(CONTROL_WAITS_BYTES / size), 1)
    evidence = {
        "count": np.full(len(size), float(CONNECTION_COUNT)),
        "mean_bytes": size,
        "ahead_bytes": bytes_ahead,
        "rate": connections.rate,
        "came": connections.joined,
        "advised": np.where(wants_higher, higher, lower),
    }

    def texts(connection: int) -> dict[str, str]:
        if wants_higher[connection]:
            return {"why": RARELY_CONTROLS, "change": "higher"}
        why = why_it_waits(flow, controls, connection)
        return {"why": why, "change": "lower"}

    yield from of_connections(
        rule,
        flow,
        wants_lower | wants_higher,
        evidence,
        order=np.where(wants_higher, connections.rate, bytes_ahead),
        texts=texts,
    )


def is_churning(flow: FlowControl) -> Mask:
    """(connections,) Whether many consumers came to the connection after the first ones."""
    return flow.connections.joined >= FEW


def controls_of(flow: FlowControl) -> NDArray[np.bool_]:
    """(CONTROLS, connections) Whether any consumer of the connection uses the mode; an unknown one counts as CLIENT."""
    mode = flow.consumers["acknowledge_mode"]
    is_unknown = np.isnan(mode)
    mode = np.where(is_unknown, float(AcknowledgeMode.CLIENT), mode)
    consumers = [flow.sum((mode == control).astype(np.float64)) for control in CONTROLS]
    return np.stack(consumers) > 0


def why_it_waits(
    flow: FlowControl, controls: NDArray[np.bool_], connection: int
) -> str:
    """Return why the client of the connection waits for answers. controls: as `controls_of` returns them."""
    uses = controls[:, connection]
    reasons = [
        name for name, is_used in zip(CONTROLS.values(), uses, strict=True) if is_used
    ]
    if is_churning(flow)[connection]:
        reasons.append("consumers that come and go")
    return " and ".join(reasons)


@finding_rule()
def limit_below_buffer(rule: FindingRule, context: FindingContext) -> Found:
    """Find queues whose limit removed messages while consumers buffered them: these are processed all the same."""
    stale = context.stale
    limit = context.of_address("limit_messages")
    tenth = np.floor(limit / 10)
    evidence = {
        "stale": stale,
        "limit": limit,
        "buffered": context.queues["delivering"] + stale,
        "advised": np.maximum(tenth, 1),
    }
    applies = context.applications & (stale > 0)
    yield from of_queues(rule, context, applies, evidence)
