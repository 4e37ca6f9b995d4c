"""The limits of a connection's consumers allow more than the memory that the operator gives the client."""

import numpy as np

from penstock.core.table import Column
from penstock.findings.context import FindingContext
from penstock.findings.finding import OPENMQ, FindingRule, FindingScope, Found
from penstock.findings.flow_control import FlowControl
from penstock.findings.limits import CONNECTION_COUNT, limit_for_memory
from penstock.findings.subjects import of_connections


def find(context: FindingContext) -> Found:
    if (flow := context.flow) is None:
        return
    most, memory, of_one = most_bytes(flow), flow.least(flow.memory), flow.summed(flow.mean_bytes)
    advised = [limit_for_memory(m, s, 1) if s > 0 and m > 0 else 0 for m, s in zip(memory, of_one, strict=True)]
    yield from of_connections(
        RULE,
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


RULE = FindingRule(
    name="flow_limit_exceeds_memory",
    scope=FindingScope.CONNECTION,
    brokers=OPENMQ,
    find=find,
    when="`client_memory` is configured, and the consumers of one connection can be given more ahead",
    says="the buffers of one connection can take {most_bytes:.0f} bytes, and the client may use {memory:.0f}",
    advice="set imqConsumerFlowLimit {advised:.0f}: {consumers:.0f} consumers with {limit:.0f} messages of"
    " {mean_bytes:.0f} bytes each are {most_bytes:.0f}; {held_bytes:.0f} are held now",
    arithmetic="sum of limit * mean message size over the consumers, capped by `connection_flow_limit` where that is"
    " configured; held now; the limit that fits: memory / sum of sizes",
    evidence={
        "consumers": ("consumers",),
        "messages": ("limit", "advised"),
        "bytes": ("mean_bytes", "most_bytes", "held_bytes", "memory"),
    },
)
