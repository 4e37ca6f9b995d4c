"""What the operator says of queues and clients, as the rules of one poll need it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.flow.judge.conditions import Condition
from penstock.flow.judge.facts import JUDGED, PARKED, Facts
from penstock.flow.judge.poll import Groups
from penstock.flow.judge.spans import Mask
from penstock.flow.series import Grouping, QueueSeries
from penstock.table import Column, Index


def of_queues(queues: Grouping[QueueSeries], name: str, number: Callable[[QueueSeries], float]) -> Column:
    """A number of each series, by the queues; NaN for hidden ones. Asked once in a series' life."""
    by_series = queues.index.column(name, number)
    column = np.full(len(queues.member), np.nan)
    shown = queues.member >= 0
    column[shown] = by_series[queues.member[shown]]
    return column


def of_given_kind(found: Facts, queues: Grouping[QueueSeries]) -> Facts:
    """With the kind that a rule gives a queue in place of what the broker's settings say."""
    given = of_queues(queues, "kind given", lambda series: float(series.said.kind is not None)) > 0
    if not given.any():
        return found
    judged = of_queues(queues, "judged as", lambda series: float(series.said.kind in JUDGED)) > 0
    parked = of_queues(queues, "parked as", lambda series: float(series.said.kind in PARKED)) > 0
    return replace(found, judged=np.where(given, judged, found.judged), parked=np.where(given, parked, found.parked))


def closed(queues: Grouping[QueueSeries], now: float) -> Mask:
    """Queues outside of their business hours at `now`, by the agent's clock."""
    timed = np.flatnonzero(of_queues(queues, "hours", lambda series: float(series.said.hours is not None)) > 0)
    mask = np.zeros(len(queues.member), np.bool_)
    hours = [queues.index.rows[queues.member[i]].said.hours for i in timed.tolist()]
    is_open = {one: one(now) for one in set(hours)}
    mask[timed] = [not is_open[one] for one in hours]
    return mask


def with_silence(conditions: Iterable[Condition], groups: Groups) -> tuple[Condition, ...]:
    """The conditions, those that a rule silences marked."""
    queues = {(row.address, row.queue) for row in silenced(groups.queues.index)}
    clients = {(row.address, row.queue, row.client) for row in silenced(groups.clients.index)}
    if not queues and not clients:
        return tuple(conditions)
    return tuple(
        one._replace(silenced=True)
        if (one.address, one.queue) in queues or (one.address, one.queue, one.client) in clients
        else one
        for one in conditions
    )


def silenced(index: Index[Any]) -> list[Any]:
    """The series that a rule silences."""
    rows: list[Any] = index.rows[np.flatnonzero(index.column("silence", lambda row: bool(row.said.silence)))].tolist()
    return rows
