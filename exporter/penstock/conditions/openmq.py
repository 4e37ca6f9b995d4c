"""What the rules of several conditions read of an OpenMQ broker: who gives back, who fills a connection."""

import numpy as np

from penstock.core.table import Column, Keys, Mask, Positions
from penstock.core.windows import longer
from penstock.observation.openmq import Openmq, OpenmqFacts
from penstock.observation.poll import RuleInputs
from penstock.series.queues import number_or_nan


def of(poll: RuleInputs) -> tuple[Openmq, OpenmqFacts]:
    """What is carried from poll to poll, and the facts of this poll."""
    assert poll.openmq is not None and poll.openmq.said is not None  # noqa: S101, PT018 - only asked of OpenMQ
    return poll.openmq, poll.openmq.said


def facts(poll: RuleInputs) -> OpenmqFacts:
    return of(poll)[1]


def accounted(poll: RuleInputs, name: str) -> Mask:
    """What the account has of the queues; nothing where it has none."""
    return poll.accounted.get(name, np.zeros(len(poll.found.queues))) > 0


def accounted_since(poll: RuleInputs, name: str) -> Column:
    """When it began, of the queues of which `accounted` says that it is so; NaN of all others."""
    since = poll.accounted.get(f"{name}_since")
    return (
        np.full(len(poll.found.queues), np.nan)
        if since is None
        else np.asarray(since, np.float64)
    )


def gives_back(poll: RuleInputs) -> Mask:
    """Consumers that messages left at this poll without being settled."""
    return ~np.isnan(of(poll)[0].consumers.returning_since)


def unacked_since(poll: RuleInputs) -> Column:
    return np.fmax(poll.unacked.unacked_since, poll.unacked.hold_since)


# --- the flow limit of a connection


def connection_limits(poll: RuleInputs) -> Column:
    """Per consumer the limit of its connection as the operator gives it; NaN where nothing is given."""
    clients = poll.groups.clients
    limit = clients.index.column(
        "connection limit",
        lambda series: number_or_nan(series.said.connection_flow_limit),
    )
    return np.append(limit, np.nan)[clients.member]


def reaches_limit(poll: RuleInputs) -> Mask:
    """Consumers whose connection buffers as much as its given limit, or has none given; 0: there is no limit."""
    limit = connection_limits(poll)
    connection = facts(poll).connection
    _, at = np.unique(connection, return_inverse=True)
    held = np.bincount(at, weights=poll.found.consumer.held)[at]
    return np.isnan(limit) | ((limit > 0) & (held >= limit))


def blockers(poll: RuleInputs) -> Mask:
    """Consumers that may use up the limit of their connection.

    They buffer messages, are not paused by their own limit and get no more, though more is there for them. Where the
    operator gives the limit, the consumers of the connection must buffer as much.
    """
    return filling(
        poll,
        np.where(
            connection_limits(poll) > 0, poll.constants.proof, poll.client_patience
        ),
    )


def filling(poll: RuleInputs, patience: Column | float) -> Mask:
    """The same after so many seconds without progress."""
    state, said = of(poll)
    found = poll.found
    at = poll.found.consumer.queue
    waits = (said.unsent > 0) | (np.append(found.ready, 0.0)[at] > 0)
    stuck = longer(state.consumers.still_since, found.now, patience)
    blocks = (
        (found.consumer.held > 0)
        & stuck
        & ~said.flow_paused
        & waits
        & (said.connection >= 0)
    )
    return blocks & reaches_limit(poll) if blocks.any() else blocks


def starving_connections(poll: RuleInputs, starving: Positions) -> Keys:
    """Connections with a blocker, and a consumer of one of the queues `starving` that buffers nothing."""
    connection = facts(poll).connection
    idle = np.isnan(poll.unacked.hold_since) & np.isin(
        poll.found.consumer.queue, starving
    )
    shared: Keys = np.intersect1d(
        connection[idle & (connection >= 0)], connection[blockers(poll)]
    )
    return shared


def starved_by(poll: RuleInputs, blocks: Mask) -> Mask:
    """Queues with a consumer that buffers nothing, on a connection with one that `blocks`."""
    connection = facts(poll).connection
    idle = np.isnan(poll.unacked.hold_since) & np.isin(connection, connection[blocks])
    return np.asarray(poll.found.of_queue(idle) > 0)


def blocking(poll: RuleInputs, paused: Positions) -> tuple[tuple[int, str], ...]:
    """Connections by key, and the client that uses up their limit; paused: queues that starve for it."""
    if not len(paused):
        return ()
    connection = facts(poll).connection
    rows = poll.found.consumer.index.rows
    at = np.flatnonzero(
        blockers(poll) & np.isin(connection, starving_connections(poll, paused))
    )
    return tuple(sorted({(int(connection[i]), rows[i].client) for i in at.tolist()}))
