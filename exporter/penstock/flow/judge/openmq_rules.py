"""
The rules that OpenMQ needs otherwise, or alone: one small function a condition, columns in, mask out.

Those of `rules` hold for both brokers where this module has none of the same name.
"""

import numpy as np

from penstock.flow.judge import rules
from penstock.flow.judge.history import persistent
from penstock.flow.judge.openmq import REJECTED, REMOVED, Openmq, Said, at_limit, near_limit
from penstock.flow.judge.poll import Poll
from penstock.flow.judge.spans import Mask, longer
from penstock.flow.queues import told
from penstock.table import Column, Keys, Positions


def of(poll: Poll) -> tuple[Openmq, Said]:
    """What is carried of OpenMQ, and what this poll said."""
    assert poll.openmq is not None and poll.openmq.said is not None  # noqa: S101, PT018 - only asked of OpenMQ
    return poll.openmq, poll.openmq.said


# --- on a consumer


def stalled(poll: Poll) -> Mask:
    """
    As on Artemis; not while it gives back what it gets: that is a loop.

    A consumer whose buffer the broker shows as full and untouched is given less time while little is known of it.
    """
    usual = rules.stalled(poll.found, poll.holds, poll.client_patience)
    full = full_and_untouched(poll) & rules.stalled(poll.found, poll.holds, poll.eager)
    return (usual | full) & ~gives_back(poll)


def full_and_untouched(poll: Poll) -> Mask:
    """Paused by its own limit, and not asking for more all the time since it last made progress, while more waits."""
    state, said = of(poll)
    since_progress = state.still_since <= poll.holds.mark + 2 * poll.found.interval
    return said.flow_paused & since_progress & (np.append(poll.found.ready, 0.0)[poll.found.consumer.queue] > 0)


def open_transaction(poll: Poll) -> Mask:
    """Acknowledged and not committed for longer than its patience; a transaction that has failed ends by no commit."""
    lasts = rules.open_transaction(poll.found, poll.holds, poll.client_patience) & ~gives_back(poll)
    return lasts | longer(of(poll)[0].failed_since, poll.found.now, poll.constants.proof) & judged(poll)


def judged(poll: Poll) -> Mask:
    """Consumers that are judged at all."""
    return ~np.isnan(poll.client_patience)


def gives_back(poll: Poll) -> Mask:
    """Messages left its hands at this poll, and it settled none."""
    return ~np.isnan(of(poll)[0].returning_since)


def returning(poll: Poll) -> Mask:
    """The same for longer than its patience; a topic tells it by nothing else."""
    return longer(of(poll)[0].returning_since, poll.found.now, poll.client_patience)


# --- on a queue


def redelivery_loop(poll: Poll) -> Mask:
    """Messages keep coming back to a queue; of a subscription, which counts nothing, a consumer gives them back."""
    by_count = rules.redelivery_loop(poll.found, poll.returns) & of(poll)[1].balanced
    by_member = poll.found.of_queue(returning(poll).astype(np.float64)) > 0
    return by_count | (poll.found.judged & ~of(poll)[1].balanced & by_member)


def falling_behind(poll: Poll) -> Mask:
    """As on Artemis; not where the backlog grows by what a stalled consumer is given."""
    stuck = poll.found.of_queue(np.where(stalled(poll), poll.found.consumer.held, 0.0))
    return rules.falling_behind(poll.found, poll.trend) & ~((stuck > 0) & (stuck >= poll.trend.growth))


def blockers(poll: Poll) -> Mask:
    """
    Consumers that may use up the limit of their connection.

    They hold messages, are not paused by their own limit and get no more, though more is there for them. Where the
    operator says what the limit is, the consumers of the connection must hold as much.
    """
    state, said = of(poll)
    found, at = poll.found, poll.found.consumer.queue
    waits = (said.unsent > 0) | (np.append(found.ready, 0.0)[at] > 0)
    stuck = longer(state.still_since, found.now, poll.client_patience)
    blocks = (found.consumer.held > 0) & stuck & ~said.flow_paused & waits & (said.connection >= 0)
    return blocks & reaches_limit(poll) if blocks.any() else blocks


def connection_limits(poll: Poll) -> Column:
    """Per consumer the limit of its connection as the operator says it; NaN where nothing is said."""
    clients = poll.groups.clients
    limit = clients.index.column("connection limit", lambda series: told(series.said.connection_flow_limit))
    return np.append(limit, np.nan)[clients.member]


def reaches_limit(poll: Poll) -> Mask:
    """Consumers whose connection holds what the operator says is its limit, or nothing is said; 0: there is none."""
    limit, connection = connection_limits(poll), of(poll)[1].connection
    _, at = np.unique(connection, return_inverse=True)
    held = np.bincount(at, weights=poll.found.consumer.held)[at]
    return np.isnan(limit) | ((limit > 0) & (held >= limit))


def starving_connections(poll: Poll, starving: Mask) -> Keys:
    """Connections with a blocker, and a consumer of one of the queues `starving` that holds nothing."""
    found, connection = poll.found, of(poll)[1].connection
    idle = np.isnan(poll.holds.hold_since) & np.append(starving, False)[found.consumer.queue]
    shared: Keys = np.intersect1d(connection[idle & (connection >= 0)], connection[blockers(poll)])
    return shared


def connection_paused(poll: Poll, starving: Mask) -> Mask:
    """Of queues that are not dispatched: a consumer that could take them shares its connection with a blocker."""
    found = poll.found
    idle = np.isnan(poll.holds.hold_since)
    of_blocked = np.isin(of(poll)[1].connection, starving_connections(poll, starving)) & idle
    return starving & (found.of_queue(of_blocked.astype(np.float64)) > 0)


def producer_transaction_open(poll: Poll) -> Mask:
    """Messages stand in an open transaction and nothing is settled, or the transaction is old; beyond the patience."""
    state, said = of(poll)
    found, patience = poll.found, poll.queue_patience
    held = longer(state.held_since, found.now, patience) & longer(poll.spans.unsettled, found.now, patience)
    return found.judged & (held | longer(said.transaction_since, found.now, patience))


def producers_blocked(poll: Poll) -> Mask:
    """
    Nothing comes in to a full destination that makes its producers wait, or that an operator closed to them.

    Close to its limit the same proves it only after the patience. What producers say of themselves proves nothing.
    """
    said = of(poll)[1]
    found, blocked = poll.found, poll.spans.blocked
    waits = said.flow_control & (said.producers > 0) & said.balanced
    full = waits & at_limit(found, said) & longer(blocked, found.now, poll.constants.proof)
    nearly = waits & near_limit(found, said) & longer(blocked, found.now, poll.queue_patience)
    closed = (found.address.producers_paused > 0) & (said.producers > 0)
    return found.judged & (full | nearly | closed & longer(blocked, found.now, poll.constants.proof))


def rejecting(poll: Poll) -> Mask:
    """Messages come in, are counted, and are neither there nor have left."""
    state, said = of(poll)
    return poll.found.judged & said.balanced & persistent(state.balances, REJECTED, poll.constants, poll.found.interval)


def limit_losing(poll: Poll) -> Mask:
    """A full destination that removes messages to make room has just done so; dead letters are kept so by design."""
    shown = max(poll.constants.proof, 3 * poll.found.interval)
    return poll.found.judged & ~poll.found.parked & (poll.found.now - of(poll)[0].removing_at <= shown)


def removed_unsettled(poll: Poll) -> Mask:
    """Messages leave that no consumer let go: expired or purged."""
    state, said = of(poll)
    lasting = persistent(state.balances, REMOVED, poll.constants, poll.found.interval)
    return poll.found.judged & said.balanced & ~said.removes & lasting


def blocking(poll: Poll, paused: Positions) -> tuple[tuple[int, str], ...]:
    """Connections by key, and the client that uses up their limit; paused: queues of which that stands."""
    if not len(paused):
        return ()
    starving = np.zeros(len(poll.found.queues), np.bool_)
    starving[paused] = True
    connection = of(poll)[1].connection
    at = np.flatnonzero(blockers(poll) & np.isin(connection, starving_connections(poll, starving)))
    rows = poll.found.consumer.index.rows
    return tuple(sorted({(int(connection[i]), rows[i].client) for i in at.tolist()}))


def held_by(poll: Poll, queue: int, starving: Mask) -> tuple[float, Column]:
    """What the blockers of a starving queue's connections hold, and the keys of these connections."""
    found, connection = poll.found, of(poll)[1].connection
    here = found.consumer.queue == queue
    keys = np.intersect1d(connection[here], starving_connections(poll, starving))
    return float(found.consumer.held[blockers(poll) & np.isin(connection, keys)].sum()), keys
