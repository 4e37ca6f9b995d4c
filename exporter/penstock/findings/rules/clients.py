"""How clients use queues, sessions and windows on every kind of broker."""

import numpy as np

from penstock.core.table import Keys, Positions
from penstock.findings.finding import (
    FEW,
    FindingRule,
    Found,
    finding_rule,
    of_client,
    of_clients,
    of_connection,
)
from penstock.findings.usage import FindingContext, ready, sessions
from penstock.model import ConsumerRow, Snapshot


@finding_rule()
def window_exceeds_ring(rule: FindingRule, context: FindingContext) -> Found:
    """All consumers of the queue are taken to have windows like those of this client."""
    clients = context.clients
    ring = clients.of_queue(context.queues["ring_limit"])
    consumers = clients.of_queue(context.queues["consumers"])
    most = clients.window * consumers
    advised = np.maximum(np.floor(ring / np.maximum(consumers, 1)), 1)
    yield from of_clients(
        rule,
        clients,
        (clients.of_queue(context.applications) > 0) & (most > ring),
        window=clients.window,
        consumers=consumers,
        ring=ring,
        held_most=most,
        at_risk=most,
        advised=advised,
        advised_bytes=advised * clients.of_queue(context.mean_bytes),
    )


@finding_rule()
def slow_consumer_policy(rule: FindingRule, context: FindingContext) -> Found:
    clients = context.clients
    kills = context.of_address("slow_consumer_kills") > 0
    limit = clients.of_queue(
        np.where(kills, context.of_address("slow_consumer_rate"), np.nan)
    )
    gap = np.where(clients.longest > 0, clients.longest, np.nan)
    period = clients.of_queue(context.of_address("slow_consumer_period"))
    yield from of_clients(
        rule,
        clients,
        gap * limit > 1,
        slow_rate=limit,
        gap=gap,
        rate=1 / gap,
        period=period,
    )


LEAST_POLLS = 5
PER_MESSAGE = 2
"""Messages that a new consumer had got, at most."""
NEW_SHARE = 0.8
"""Of the consumers seen, those that were new, at least."""


@finding_rule(polls=LEAST_POLLS, few=FEW, share=100 * NEW_SHARE, each=PER_MESSAGE)
def consumer_per_message(rule: FindingRule, context: FindingContext) -> Found:
    came = context.clients.arrivals
    begin, seen, new, delivered, polls, last = came.numbers
    each = delivered / np.maximum(new, 1)
    often = (new >= FEW) & (polls >= LEAST_POLLS) & (new >= NEW_SHARE * seen)
    for i in np.flatnonzero(often & (each <= PER_MESSAGE)).tolist():
        evidence = {
            "new": float(new[i]),
            "seconds": float(last[i] - begin[i]),
            "each": float(each[i]),
        }
        yield of_client(rule, came.clients[i], evidence, {})


@finding_rule(few=FEW)
def prefetch_exceeds_queue(rule: FindingRule, context: FindingContext) -> Found:
    clients = context.clients
    queues = context.queues
    shared = (
        context.applications
        & ~(queues["exclusive"] > 0)
        & ~(queues["grouped"] > 0)
        & (queues["consumers"] >= 2)
    )
    consumers = clients.of_queue(np.where(shared, queues["consumers"], np.nan))
    deepest = clients.of_queue(context.deepest)
    prefetch = np.fmax(clients.window, clients.largest)
    most = prefetch * consumers
    advised = np.maximum(np.floor(deepest / consumers), 1)
    holds = (prefetch >= FEW) & (most > deepest)
    yield from of_clients(
        rule,
        clients,
        holds,
        prefetch=prefetch,
        consumers=consumers,
        taken_most=most,
        deepest=deepest,
        advised=advised,
    )


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


@finding_rule(
    evaluations=EVALUATIONS,
    of_session=LEAST_CONSUMERS[True],
    of_connection=LEAST_CONSUMERS[False],
)
def session_overloaded(rule: FindingRule, context: FindingContext) -> Found:
    snapshot = context.snapshot
    behind = context.usage.behind
    shown = context.broker.kind.shows_sessions
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
        yield of_connection(rule, rows, evidence, TEXTS[shown])


def waiting_for(context: FindingContext, members: Positions) -> float:
    """Ready messages in the queues of these consumers."""
    at = np.unique(
        context.queues.index.positions(context.snapshot.consumer_queue[members])
    )
    return float(np.nansum(ready(context.queues)[at[at >= 0]]))


def producers_of(snapshot: Snapshot, members: Positions) -> float:
    """Of the connection of these consumers, NaN where it is not known."""
    connections = snapshot.connections
    keys: Keys = snapshot.consumer_connection[members[:1]]
    if connections is None or not len(keys) or keys[0] < 0:
        return np.nan
    (at,) = connections.index.positions(keys)
    return float(connections["producers"][at]) if at >= 0 else np.nan
