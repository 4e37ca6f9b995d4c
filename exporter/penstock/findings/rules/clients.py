"""How clients use queues, sessions and windows on every kind of broker."""

import numpy as np

from penstock.core.table import Column, Keys, Positions
from penstock.findings.finding import (
    FEW,
    FindingRule,
    Found,
    finding_rule,
    numbers_of,
    of_client,
    of_clients,
    of_connection,
)
from penstock.findings.usage import FindingContext, ready, sessions
from penstock.model import ConsumerRow, Snapshot


@finding_rule()
def window_exceeds_ring(rule: FindingRule, context: FindingContext) -> Found:
    """Find clients whose windows take more messages than the ring of their queue holds.

    When they close or roll back, the ring has no room for all that comes back. All consumers of the queue are assumed
    to have windows like those of this client.
    """
    clients = context.clients
    ring = clients.of_queue(context.queues["ring_limit"])
    consumers = clients.of_queue(context.queues["consumers"])
    most_buffered = clients.window * consumers
    share_of_ring = ring / np.maximum(consumers, 1)
    advised = np.maximum(np.floor(share_of_ring), 1)
    mean_bytes = clients.of_queue(context.mean_bytes)
    is_application = clients.of_queue(context.applications) > 0
    evidence = {
        "window": clients.window,
        "consumers": consumers,
        "ring": ring,
        "held_most": most_buffered,
        "at_risk": most_buffered,
        "advised": advised,
        "advised_bytes": advised * mean_bytes,
    }
    exceeds_ring = most_buffered > ring
    applies = is_application & exceeds_ring
    yield from of_clients(rule, clients, applies, evidence)


@finding_rule()
def slow_consumer_policy(rule: FindingRule, context: FindingContext) -> Found:
    """Find clients whose longest gap is so long that the broker would have closed their connections.

    The broker does so where a consumer acknowledges fewer messages per second than the address allows.
    """
    clients = context.clients
    kills = context.of_address("slow_consumer_kills") > 0
    slow_rate = context.of_address("slow_consumer_rate")
    limit = clients.of_queue(np.where(kills, slow_rate, np.nan))  # messages per second
    has_gap = clients.longest > 0
    gap = np.where(has_gap, clients.longest, np.nan)
    is_longer_than_allowed = gap * limit > 1  # one message a gap is below the limit
    period = clients.of_queue(context.of_address("slow_consumer_period"))
    evidence = {
        "slow_rate": limit,
        "gap": gap,
        "rate": 1 / gap,
        "period": period,
    }
    yield from of_clients(rule, clients, is_longer_than_allowed, evidence)


LEAST_POLLS = 5
"""New consumers must have come at so many polls."""
PER_MESSAGE = 2
"""A new consumer got so many messages at most, on average."""
NEW_SHARE = 0.8
"""The least share of new consumers among those that were seen."""


@finding_rule(polls=LEAST_POLLS, few=FEW, share=100 * NEW_SHARE, each=PER_MESSAGE)
def consumer_per_message(rule: FindingRule, context: FindingContext) -> Found:
    """Find clients that make a new consumer for each message or two: most of their consumers are new at each poll."""
    arrivals = context.clients.arrivals
    first_poll, seen, new, delivered, polls, last_poll = arrivals.numbers
    per_consumer = delivered / np.maximum(new, 1)
    are_many = (new >= FEW) & (polls >= LEAST_POLLS)
    are_mostly_new = new >= NEW_SHARE * seen
    got_few = per_consumer <= PER_MESSAGE
    applies = are_many & are_mostly_new & got_few
    evidence = {
        "new": new,
        "seconds": last_poll - first_poll,
        "each": per_consumer,
    }
    for row in np.flatnonzero(applies).tolist():
        numbers = numbers_of(row, evidence)
        yield of_client(rule, arrivals.clients[row], numbers, {})


@finding_rule(few=FEW)
def prefetch_exceeds_queue(rule: FindingRule, context: FindingContext) -> Found:
    """Find clients whose consumers could buffer more than the queue ever had: one may take all, and others get none."""
    clients = context.clients
    consumers = clients.of_queue(sharing_consumers(context))
    deepest = clients.of_queue(context.deepest)
    prefetch = np.fmax(clients.window, clients.largest)  # the one that is known
    most_taken = prefetch * consumers
    fair_share = np.floor(deepest / consumers)
    evidence = {
        "prefetch": prefetch,
        "consumers": consumers,
        "taken_most": most_taken,
        "deepest": deepest,
        "advised": np.maximum(fair_share, 1),
    }
    takes_all = most_taken > deepest
    applies = takes_all & (prefetch >= FEW)
    yield from of_clients(rule, clients, applies, evidence)


def sharing_consumers(context: FindingContext) -> Column:
    """(queues,) How many consumers share the messages of the queue; NaN where fewer than two do.

    With an exclusive consumer, or message groups, the broker does not spread messages over the consumers.
    """
    queues = context.queues
    consumers = queues["consumers"]
    is_exclusive = queues["exclusive"] > 0
    is_grouped = queues["grouped"] > 0
    are_several = consumers >= 2
    are_shared = context.applications & ~is_exclusive & ~is_grouped & are_several
    return np.where(are_shared, consumers, np.nan)


EVALUATIONS = 5
"""So many in a row must agree."""
LEAST_CONSUMERS = {True: 2, False: 5}
"""The fewest consumers of a session (True: the broker shows sessions), or else of a connection (False)."""
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
    """Find sessions whose one thread is too slow for all their consumers, those with most consumers first.

    At some evaluations in a row all consumers had messages while more waited (`usage.sessions_behind`).
    """
    snapshot = context.snapshot
    behind = context.usage.behind
    shows_sessions = context.broker.kind.shows_sessions
    consumers = snapshot.consumers
    if consumers is None or not behind:
        return
    session = sessions(snapshot, consumers)
    overloaded = [
        key for key, evaluations in behind.items() if evaluations >= EVALUATIONS
    ]

    def consumers_of(key: int) -> int:
        return int(np.count_nonzero(session == key))

    for key in sorted(overloaded, key=consumers_of, reverse=True):
        members = np.flatnonzero(session == key)
        if len(members) < LEAST_CONSUMERS[shows_sessions]:
            continue
        buffered = consumers["buffered"][members]
        evidence = {
            "consumers": float(len(members)),
            "held": float(np.nansum(buffered)),
            "waiting": waiting_for(context, members),
            "producers": producers_of(snapshot, members),
            "looks": float(behind[key]),
        }
        of_session = consumers.index.rows[members]
        rows: list[ConsumerRow] = of_session.tolist()
        yield of_connection(rule, rows, evidence, TEXTS[shows_sessions])


def waiting_for(context: FindingContext, consumers: Positions) -> float:
    """Return the ready messages in the queues of these consumers."""
    queue_keys = context.snapshot.consumer_queue[consumers]
    positions = context.queues.index.positions(queue_keys)
    queues = np.unique(positions[positions >= 0])
    messages = ready(context.queues)[queues]
    return float(np.nansum(messages))


def producers_of(snapshot: Snapshot, consumers: Positions) -> float:
    """Return how many producers the connection of these consumers has; NaN where that is not known."""
    connections = snapshot.connections
    if connections is None or not len(consumers):
        return np.nan
    # The key is -1 where the connection is not known: no connection has it.
    keys: Keys = snapshot.consumer_connection[consumers[:1]]
    (row,) = connections.index.positions(keys)
    if row < 0:
        return np.nan
    return float(connections["producers"][row])
