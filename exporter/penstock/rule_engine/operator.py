"""What the operator says of queues and clients, as the rules of one poll need it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Index
from penstock.core.windows import Mask
from penstock.observation.facts import JUDGED, PARKED, Facts
from penstock.observation.poll import Groups
from penstock.series.labels import Grouping, QueueSeries


def of_given_kind(found: Facts, queues: Grouping[QueueSeries]) -> Facts:
    """With the kind that a rule gives a queue in place of what the broker's settings say."""
    given = queues.by_source("kind given", lambda series: float(series.said.kind is not None)) > 0
    if not given.any():
        return found
    judged = queues.by_source("judged as", lambda series: float(series.said.kind in JUDGED)) > 0
    parked = queues.by_source("parked as", lambda series: float(series.said.kind in PARKED)) > 0
    return replace(found, judged=np.where(given, judged, found.judged), parked=np.where(given, parked, found.parked))


def closed(queues: Grouping[QueueSeries], now: float) -> Mask:
    """Queues outside of their business hours at `now`, by the agent's clock."""
    timed = np.flatnonzero(queues.by_source("hours", lambda series: float(series.said.hours is not None)) > 0)
    mask = np.zeros(len(queues.member), np.bool_)
    hours = [queues.index.rows[queues.member[i]].said.hours for i in timed.tolist()]
    is_open = {one: one(now) for one in set(hours)}
    mask[timed] = [not is_open[one] for one in hours]
    return mask


def with_silence(conditions: Iterable[ActiveCondition], groups: Groups) -> tuple[ActiveCondition, ...]:
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
