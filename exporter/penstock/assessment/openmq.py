"""What the judgement measures of OpenMQ beside its conditions, as columns of the tables that are shown."""

from dataclasses import dataclass

import numpy as np

from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.core.table import Column, Index, Keys, Positions, Table
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import AddressSeries, Grouping, QueueSeries


@dataclass(frozen=True, slots=True)
class ConnectionCause:
    broker: str
    connection: str
    client: str
    cause: str


def consumer_limits(judgement: Judgement, consumers: Keys) -> dict[str, Column]:
    """Limit and resume level of the consumers with these keys, as measured; none while OpenMQ is not judged."""
    windows = judgement.openmq.windows
    if not len(windows.index):
        return {}
    at = windows.index.positions(consumers)
    return {
        name: np.append(column, np.nan)[at]
        for name, column in zip(("flow_limit", "flow_resume"), windows.limits(), strict=True)
    }


def rejected(
    judgement: Judgement, queues: Grouping[QueueSeries], of_queue: Positions, addresses: Index[AddressSeries]
) -> dict[str, Column]:
    """
    Messages that each destination refused since the agent watches; NaN where that is not counted (topics).

    of_queue: position of its address of each queue series.
    """
    openmq = judgement.openmq
    if openmq.said is None or openmq.queues.index is not queues.source or len(of_queue) != len(queues.index):
        return {}
    counts = queues.max(np.where(openmq.said.balanced, openmq.rejected.shown, np.nan))
    column = np.full(len(addresses), np.nan)
    known = (of_queue >= 0) & ~np.isnan(counts)
    column[of_queue[known]] = counts[known]
    return {"messages_rejected": column}


def connection_causes(judgement: Judgement, broker: str) -> Table[ConnectionCause]:
    """Connections whose limit one of their consumers uses up; always 1."""
    rows = [
        ConnectionCause(broker, str(key), client, CONNECTION_PAUSED.name) for key, client in judgement.openmq.blockers
    ]
    return Table(Index.of(rows), {"unhealthy": np.ones(len(rows))})
