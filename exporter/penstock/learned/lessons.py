"""What the ends of waits, absences and gaps teach, and the thresholds in seconds that follow for every consumer."""

from dataclasses import replace

import numpy as np

from penstock.core.table import Column
from penstock.core.windows import Mask, since
from penstock.learned.timeout import FEW, LearnedTimeout
from penstock.model import QueueKind
from penstock.observation.facts import Facts
from penstock.observation.poll import Groups
from penstock.observation.unacked import QueueTimers, Unacked
from penstock.series.labels import ClientSeries, Grouping
from penstock.series.queues import number_or_nan
from penstock.settings.constants import Constants

CLIENT_KINDS = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION, QueueKind.DEAD_LETTER, QueueKind.EXPIRY})
"""Kinds of queues whose consumers are judged."""


def advance_timers(
    timers: QueueTimers,
    dispatch: LearnedTimeout,
    absence: LearnedTimeout,
    found: Facts,
    then: float,
    constants: Constants,
) -> tuple[QueueTimers, LearnedTimeout, LearnedTimeout]:
    """
    The timers after this poll, and what the ends of waits for a delivery and of absences teach about the queues.

    then: the poll before, NaN where there was none. A counter that has not moved since has been still from then on.
    """
    before, now = timers.reindexed(found.queues, found.known), found.now
    then = now if np.isnan(then) else then
    moves = (found.d_settled > 0) | (found.d_delivered > 0) | ~found.known
    settles, there = found.d_settled > 0, found.consumers > 0
    served = there | settles
    dispatch = dispatch.advance(found.queues)
    ended = (found.d_delivered > 0) & ~np.isnan(before.still) & ~np.isnan(before.ready)
    dispatch = learned_from(dispatch, ended, now - np.fmax(before.still, before.ready), constants, found.interval)
    absence = absence.advance(found.queues)
    # Who came and went between two polls ended no absence: nobody was gone for longer than that.
    ended = served & (before.absent < then) & ~np.isnan(before.ready)
    absence = learned_from(absence, ended, now - np.fmax(before.absent, before.ready), constants, found.interval)
    address = found.address
    timers = QueueTimers(
        index=found.queues,
        still=since(~moves, before.still, then),
        ready=since(found.ready > 0, before.ready, now),
        # Where the number of consumers is missing nobody came and nobody went. Who came and went is absent from now on.
        absent=np.where(
            np.isnan(found.consumers) & ~served,
            before.absent,
            since(~there & ~np.isnan(found.consumers), np.where(settles, np.nan, before.absent), now),
        ),
        unsettled=since(~(found.d_settled > 0), before.unsettled, np.where(found.known, then, now)),
        blocked=since(found.known & (address.d_added == 0), before.blocked, then),
        # Up to the poll before: the first consumer that ever comes ends an absence, it does not make it a worse one.
        had_consumer=before.had_consumer
        | np.where(found.known, np.isnan(before.absent) | (found.settled > found.d_settled), found.settled > 0),
    )
    return timers, dispatch, absence


def learned_from(
    patience: LearnedTimeout, ended: Mask, gaps: Column, constants: Constants, interval: float
) -> LearnedTimeout:
    at = np.flatnonzero(ended & (gaps > 0))
    return patience.learn(at, gaps[at], patience.seconds_of(at, constants, interval), constants)


def advance_patience(
    before: LearnedTimeout, unacked: Unacked, clients: Grouping[ClientSeries], found: Facts, constants: Constants
) -> tuple[LearnedTimeout, Column]:
    """What the clients taught by this poll, and the patience of each of them."""
    patience = before.advance(clients.index)
    configured = clients.index.column("patience", lambda series: number_or_nan(series.said.patience))
    learns = np.flatnonzero(~np.isnan(unacked.gaps) & (clients.member >= 0))
    at = clients.member[learns]
    before_these = patience.seconds_of(at, constants, found.interval, configured)
    patience = patience.learn(at, unacked.gaps[learns], before_these, constants)
    return patience, patience.seconds(constants, found.interval, configured)


def eager_patience(
    patience: LearnedTimeout, clients: Grouping[ClientSeries], found: Facts, constants: Constants
) -> Column:
    """Of each client where a buffer is seen to be full: the longest of few gaps counts twice, not three times."""
    configured = clients.index.column("patience", lambda series: number_or_nan(series.said.patience))
    usual = patience.seconds(constants, found.interval, configured)
    twice = patience.seconds(replace(constants, factor=min(constants.factor, 2.0)), found.interval, configured)
    return np.where(patience.weight < FEW, twice, usual)


def consumer_patience(groups: Groups, found: Facts, of_clients: Column) -> Column:
    """Per consumer; NaN for those that are not judged: hidden ones, and those of queues that are the broker's own."""
    judged = found.queues.column("consumers judged", lambda row: row.kind in CLIENT_KINDS) > 0
    patience = np.append(of_clients, np.nan)[groups.clients.member]
    return np.where(found.consumer.at_queue(judged, np.False_), patience, np.nan)


def queue_patience(found: Facts, per_consumer: Column, constants: Constants) -> Column:
    """Per queue the longest of its consumers', else cold."""
    longest = np.full(len(found.queues) + 1, -np.inf)
    np.fmax.at(longest, found.consumer.queue, per_consumer)
    return np.where(np.isinf(longest), constants.cold, longest)[:-1]
