"""Objects in a state that becomes a condition if it lasts: how long it has lasted, and how long it must last."""

from dataclasses import dataclass

import numpy as np

from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.not_dispatching import NOT_DISPATCHING
from penstock.core.table import Column, Mask, Positions, Table
from penstock.observation.facts import PARKED
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ClientSeries, Grouping, QueueSeries
from penstock.settings.constants import Constants

EARLY = 0.25
"""Share of the time after which a state is a condition: a state that has lasted for less is not worth showing."""
NEARLY = 0.9
"""Share of the interval after which a poll may already come."""
WAITING = frozenset({NO_CONSUMER.name, NOT_DISPATCHING.name})
"""Conditions for messages that wait: where one is active, nothing more is watched."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """How long each row has been in a state, and how long until that is a condition.

    Attributes:
        seconds: (rows,) For how long the row has been in the state; NaN where it is not.
        needed: (rows,) Seconds until it is a condition; NaN where it is not in the state.
        without_consumer: (rows,) The state is that no consumer comes; else it is that nothing is delivered.
    """

    seconds: Column
    needed: Column
    without_consumer: Mask

    @property
    def long_enough(self) -> Mask:
        """(rows,) Whether the state has lasted for long enough to be worth showing."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.seconds > EARLY * self.needed)

    @property
    def not_yet_due(self) -> Mask:
        """(rows,) Whether the state has not lasted for long enough to be a condition."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.seconds < self.needed)


def spans_polls(since: float, read: float, interval: float) -> bool:
    """Return whether a state has lasted from one poll to the next at least.

    A consumer at work has unacknowledged messages at each poll: a shorter time says nothing about it.

    Args:
        since: When the state began, in seconds.
        read: When the last poll was read, in seconds.
        interval: Seconds between two polls.
    """
    return read - since > NEARLY * interval


def window_seconds(judgement: Judgement, constants: Constants) -> tuple[float, float]:
    """Return for how long the agent has watched the broker, and how long the rules on trends look back, in seconds."""
    watched = judgement.activity.trend.known_seconds
    looked_back = constants.trend_seconds(interval_of(judgement))
    return watched, looked_back


def window_is_young(judgement: Judgement, constants: Constants) -> bool:
    """Return whether the agent has watched for too short a time to see a backlog grow or messages come back."""
    seconds, needed = window_seconds(judgement, constants)
    return seconds < needed - interval_of(judgement)


def interval_of(judgement: Judgement) -> float:
    """Return the seconds between the last two polls; 0 before the second one."""
    return max(0.0, judgement.seen.times.interval)


def waiting_queues(
    judgement: Judgement, grouping: Grouping[QueueSeries], constants: Constants
) -> Lasting:
    """Return for how long messages have waited, by the queues' series; NaN for sums and for queues of dead letters."""
    timers = judgement.timers
    if timers.index is not grouping.source:
        return no_waits(len(grouping.index))
    queues = np.flatnonzero(may_be_watched(grouping) & ~np.isnan(timers.ready))
    if not len(queues):
        return no_waits(len(grouping.index))
    waits = waits_of(queues, judgement, constants)
    return by_series(waits, grouping.member[queues], len(grouping.index))


def may_be_watched(grouping: Grouping[QueueSeries]) -> Mask:
    """(queues,) Whether the queue is a series of its own, and no place where messages are put away."""
    column = grouping.by_source(
        "watched alone", lambda series: not series.summed and series.kind not in PARKED
    )
    return column > 0


def waits_of(queues: Positions, judgement: Judgement, constants: Constants) -> Lasting:
    """Return for how long messages of these queues have waited: for a consumer where there is none, or for delivery.

    They wait since messages are ready and, at the same time, no consumer is there or nothing is delivered.
    """
    timers = judgement.timers
    unattended_since = timers.absent[queues]
    is_unattended = ~np.isnan(unattended_since)
    idle_since = np.where(is_unattended, unattended_since, timers.still[queues])
    waiting_since = np.maximum(timers.ready[queues], idle_since)
    delivery_timeout = judgement.dispatch.seconds(
        constants, interval_of(judgement), rows=queues
    )
    absence_timeout = judgement.absence_seconds(constants)[queues]
    return Lasting(
        seconds=judgement.seen.times.now - waiting_since,
        needed=np.where(is_unattended, absence_timeout, delivery_timeout),
        without_consumer=is_unattended,
    )


def by_series(waits: Lasting, series: Positions, size: int) -> Lasting:
    """Return the waits by series; a series without a row is in no such state.

    series: (rows,) the position of each row's series, which has one row. size: how many series there are.
    """
    spread = no_waits(size)
    spread.seconds[series] = waits.seconds
    spread.needed[series] = waits.needed
    spread.without_consumer[series] = waits.without_consumer
    return spread


def no_waits(size: int) -> Lasting:
    """Return rows of which none is in the state."""
    return Lasting(
        seconds=np.full(size, np.nan),
        needed=np.full(size, np.nan),
        without_consumer=np.zeros(size, np.bool_),
    )


def holding_clients(clients: Table[ClientSeries], now: float) -> Lasting:
    """Return for how long clients have buffered messages and acknowledged none. now: by the agent's clock."""
    return Lasting(
        seconds=now - clients["blocked_since"],
        needed=clients["patience"],
        without_consumer=np.zeros(len(clients), np.bool_),
    )
