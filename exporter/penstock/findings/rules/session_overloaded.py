"""All consumers of a session stay behind, as they share one thread."""

import numpy as np

from penstock.core.table import Keys, Positions
from penstock.findings.context import FindingContext
from penstock.findings.finding import FindingRule, FindingScope, Found
from penstock.findings.subjects import of_connection
from penstock.findings.usage import ready, sessions
from penstock.model import ConsumerRow, Snapshot

EVALUATIONS = 5
"""In a row."""
LEAST_CONSUMERS = {True: 2, False: 5}
"""By whether the broker shows sessions: of one session, else of one connection, which has one thread that reads."""
TEXTS = {
    True: {"what": "session", "remark": ""},
    False: {
        "what": "connection",
        "remark": " (an estimate: OpenMQ does not show sessions; where each consumer has its own, give them more"
        " connections)",
    },
}


def find(context: FindingContext) -> Found:
    snapshot, behind, shown = context.snapshot, context.usage.behind, context.broker.kind.shows_sessions
    if (consumers := snapshot.consumers) is None or not behind:
        return
    of = sessions(snapshot, consumers)
    long = [key for key, evaluations in behind.items() if evaluations >= EVALUATIONS]
    for key in sorted(long, key=lambda key: -sum(of == key)):
        members = np.flatnonzero(of == key)
        rows: list[ConsumerRow] = consumers.index.rows[members].tolist()
        if len(rows) < LEAST_CONSUMERS[shown]:
            continue
        evidence = {
            "consumers": float(len(rows)),
            "held": float(np.nansum(consumers["buffered"][members])),
            "waiting": waiting_for(context, members),
            "producers": producers_of(snapshot, members),
            "looks": float(behind[key]),
        }
        yield of_connection(RULE, rows, evidence, TEXTS[shown])


def waiting_for(context: FindingContext, members: Positions) -> float:
    """Ready messages in the queues of these consumers."""
    at = np.unique(context.queues.index.positions(context.snapshot.consumer_queue[members]))
    return float(np.nansum(ready(context.queues)[at[at >= 0]]))


def producers_of(snapshot: Snapshot, members: Positions) -> float:
    """Of the connection of these consumers, NaN where it is not known."""
    connections = snapshot.connections
    keys: Keys = snapshot.consumer_connection[members[:1]]
    if connections is None or not len(keys) or keys[0] < 0:
        return np.nan
    (at,) = connections.index.positions(keys)
    return float(connections["producers"][at]) if at >= 0 else np.nan


RULE = FindingRule(
    name="session_overloaded",
    scope=FindingScope.CONNECTION,
    find=find,
    when=f"at {EVALUATIONS} evaluations in a row all consumers of one session"
    f" ({LEAST_CONSUMERS[True]} or more) hold messages while more wait, and take some. OpenMQ does not"
    f" show sessions: there {LEAST_CONSUMERS[False]} consumers or more of one connection, as an estimate",
    says="all {consumers:.0f} consumers of one {what} have {held:.0f} messages in hand while {waiting:.0f} more wait,"
    " at {looks:.0f} looks in a row: a session handles one message at a time",
    advice="spread consumers and producers over more sessions, sessions over more connections{remark}",
    arithmetic="consumers, producers of the connection, messages in hand, messages that wait",
    evidence={
        "consumers": ("consumers",),
        "messages": ("held", "waiting"),
        "producers": ("producers",),
        "looks": ("looks",),
    },
)
