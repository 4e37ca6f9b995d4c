"""The number of consumers of a connection is not known in advance, so no consumer limit bounds its memory."""

import numpy as np

from penstock.findings.context import FindingContext
from penstock.findings.finding import OPENMQ, FindingRule, FindingScope, Found
from penstock.findings.limits import CONNECTION_COUNT, connection_limit_for_memory
from penstock.findings.subjects import FEW, of_connections
from penstock.findings.usage import CHANGES, VARIES


def find(context: FindingContext) -> Found:
    """At its fullest it exceeds the memory that the operator gives, or has many consumers where none is configured."""
    if (flow := context.flow) is None:
        return
    connections, memory, mean = flow.connections, flow.least(flow.memory), flow.average(flow.mean_bytes)
    limit = flow.average(flow.limit)
    most = connections.most * limit * mean
    beyond = np.where(np.isnan(memory), connections.most >= FEW, most > memory)
    advised = [
        connection_limit_for_memory(m, s, CONNECTION_COUNT) if s > 0 and m > 0 else np.nan
        for m, s in zip(memory, mean, strict=True)
    ]
    yield from of_connections(
        RULE,
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


RULE = FindingRule(
    name="connection_limit_advised",
    scope=FindingScope.CONNECTION,
    brokers=OPENMQ,
    find=find,
    when=f"the number of consumers of a connection changed at {CHANGES} evaluations, the most {VARIES} times the fewest"
    " or more, and at the most they can be given more than `client_memory`"
    f" (not configured: {FEW} consumers or more); no `connection_flow_limit` is configured",
    says="the connection has {fewest:.0f} to {consumers_most:.0f} consumers, so imqConsumerFlowLimit does not bound its"
    " memory",
    advice="set imqConnectionFlowLimitEnabled=true and imqConnectionFlowLimit {advised:.0f}: {consumers_most:.0f}"
    " consumers with {limit:.0f} messages of {mean_bytes:.0f} bytes can take {most_bytes:.0f}, the client may use"
    " {memory:.0f} (client_memory of its rule)",
    arithmetic="fewest, most, what the most can be given; the connection limit that fits: memory / size -"
    " imqConnectionFlowCount + 1",
    evidence={
        "consumers": ("consumers", "fewest", "consumers_most"),
        "looks": ("changes",),
        "messages": ("limit", "advised"),
        "bytes": ("mean_bytes", "most_bytes", "memory"),
    },
)
