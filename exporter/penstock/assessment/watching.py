"""What holds of an object and would be a condition if it lasted: for how long it has, and how long it takes."""

from dataclasses import dataclass

import numpy as np

from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.not_dispatching import NOT_DISPATCHING
from penstock.core.table import Column, Mask, Table
from penstock.observation.facts import PARKED
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ClientSeries, Grouping, QueueSeries
from penstock.settings.constants import Constants

EARLY = 0.25
"""Of the time that proof needs: what has lasted less is not worth watching."""
NEARLY = 0.9
"""Polls are not made to the moment."""
WAITING = frozenset({NO_CONSUMER.name, NOT_DISPATCHING.name})
"""Conditions that say that messages wait: where one is active nothing more is watched."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """Per row for how long something has been so, and how long it must last to be a condition, in seconds.

    NaN where it is not so. without_consumer: it is that no consumer comes; else that nothing is delivered.
    """

    seconds: Column
    needed: Column
    without_consumer: Mask

    @property
    def long_enough(self) -> Mask:
        """Where it has lasted for long enough to be worth saying."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.seconds > EARLY * self.needed)

    @property
    def not_yet_due(self) -> Mask:
        """Where the rule does not decide yet."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.seconds < self.needed)


def spans_polls(since: float, read: float, interval: float) -> bool:
    """Whether something lasts from one poll to the next at least; the last one was read at `read`, all in seconds.

    A consumer at work has unacknowledged messages at each poll: what is shorter says nothing about it.
    """
    return read - since > NEARLY * interval


def window_seconds(judgement: Judgement, constants: Constants) -> tuple[float, float]:
    """For how long the agent has watched the broker, and how long the rules on trends look back, in seconds."""
    return judgement.activity.trend.known_seconds, constants.trend_seconds(
        interval_of(judgement)
    )


def window_is_young(judgement: Judgement, constants: Constants) -> bool:
    """Growing backlogs and returning messages cannot show yet."""
    seconds, needed = window_seconds(judgement, constants)
    return seconds < needed - interval_of(judgement)


def interval_of(judgement: Judgement) -> float:
    """Seconds between two polls as they were made; 0 before the second one."""
    return max(0.0, judgement.seen.times.interval)


def waiting_queues(
    judgement: Judgement, grouping: Grouping[QueueSeries], constants: Constants
) -> Lasting:
    """Messages that wait in a queue, by the queues' series. Not of sums, nor of what keeps dead letters."""
    size = len(grouping.index)
    seconds = np.full(size, np.nan)
    needed = np.full(size, np.nan)
    without = np.zeros(size, np.bool_)
    timers = judgement.timers
    if timers.index is not grouping.source:
        return Lasting(seconds, needed, without)
    one_queue = (
        grouping.index.column(
            "watched alone", lambda row: not row.summed and row.kind not in PARKED
        )
        > 0
    )
    shown = np.append(one_queue, np.False_)[grouping.member]
    waits = ~np.isnan(timers.ready)
    rows = np.flatnonzero(shown & waits)
    if not len(rows):
        return Lasting(seconds, needed, without)
    absent = ~np.isnan(timers.absent[rows])
    began = np.where(absent, timers.absent[rows], timers.still[rows])
    dispatch = judgement.dispatch.seconds(constants, interval_of(judgement), rows=rows)
    series = grouping.member[rows]
    both_since = np.maximum(timers.ready[rows], began)
    seconds[series] = judgement.seen.times.now - both_since
    absence = judgement.absence_seconds(constants)[rows]
    needed[series] = np.where(absent, absence, dispatch)
    without[series] = absent
    return Lasting(seconds, needed, without)


def holding_clients(clients: Table[ClientSeries], now: float) -> Lasting:
    """Clients that buffer messages and acknowledge none, by the rows of their table. now: by the agent's clock."""
    seconds = now - clients["blocked_since"]
    return Lasting(seconds, clients["patience"], np.zeros(len(clients), np.bool_))
