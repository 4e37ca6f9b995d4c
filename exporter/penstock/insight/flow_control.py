"""The flow control of a queue's consumers on OpenMQ, with the arithmetic: the calculator, live."""

import numpy as np

from penstock.core.table import Table
from penstock.findings.limits import CONNECTION_COUNT, ConnectionWindow, ConsumerWindow
from penstock.insight.answers import ConnectionFlow, ConsumerFlow
from penstock.insight.text import HERE, text_lines
from penstock.model import ConsumerRow, Snapshot
from penstock.rule_engine.judgement import Judgement
from penstock.series.labels import ConsumerSeries, QueueSeries
from penstock.settings.rules import Rules

MOST = 50
"""Consumers, or connections, that are shown."""


def flow_of(
    judgement: Judgement, consumers: Table[ConsumerSeries] | None, queue: QueueSeries
) -> list[ConsumerFlow]:
    """Of the queue's consumers that are shown one by one: limit and resume level as measured, and the level of each.

    Empty on a broker that shows no flow control.
    """
    if (
        consumers is None
        or judgement.openmq.said is None
        or "flow_limit" not in consumers
    ):
        return []
    here = [
        i
        for i, row in enumerate(consumers.index)
        if (row.address, row.queue) == (queue.address, queue.queue)
    ]
    return [consumer_flow(consumers, i) for i in here[:MOST]]


def consumer_flow(consumers: Table[ConsumerSeries], i: int) -> ConsumerFlow:
    row: ConsumerSeries = consumers.index.rows[i]
    limit = float(consumers["flow_limit"][i])
    resume = float(consumers["flow_resume"][i])
    held = float(consumers["buffered"][i])
    paused = bool(consumers["flow_paused"][i] > 0)
    window = None if np.isnan(limit) else ConsumerWindow(int(limit), int(resume))
    return ConsumerFlow(
        row.client,
        row.consumer,
        held=None if np.isnan(held) else int(held),
        paused=paused,
        limit=window.limit if window else None,
        resume=window.resume if window else None,
        batch=window.batch if window else None,
        told=next(text_lines(HERE, "flow", window, held, paused)),
    )


# --- what a connection holds together


def connections_of(
    snapshot: Snapshot, rules: Rules, series: QueueSeries
) -> list[ConnectionFlow]:
    """
    Of the connections of the queue's consumers whose limit the operator gives: what all their consumers hold together.

    No broker shows that limit, nor whether it is in force.
    """
    consumers = snapshot.consumers
    broker = snapshot.broker
    if consumers is None or broker is None or not broker.kind.counted_flow:
        return []
    found: dict[int, ConnectionFlow] = {}
    for i, row in enumerate(consumers.index):
        key = int(snapshot.consumer_connection[i])
        if (
            (row.address, row.queue) != (series.address, series.queue)
            or key < 0
            or key in found
            or len(found) == MOST
        ):
            continue
        limit = rules.resolve(
            series.broker, row.address, row.queue, row.client
        ).connection_flow_limit
        if limit is not None:
            found[key] = connection_flow(
                snapshot, consumers, key, ConnectionWindow(limit, CONNECTION_COUNT)
            )
    return list(found.values())


def connection_flow(
    snapshot: Snapshot,
    consumers: Table[ConsumerRow],
    key: int,
    window: ConnectionWindow,
) -> ConnectionFlow:
    on = np.flatnonzero(snapshot.consumer_connection == key)
    held = np.nan_to_num(consumers["buffered"][on])
    fullest: ConsumerRow = consumers.index.rows[on[held.argmax()]]
    told = next(
        text_lines(
            HERE,
            "connection_flow",
            window,
            len(on),
            float(held.sum()),
            fullest,
            float(held.max()),
        )
    )
    return ConnectionFlow(
        fullest.client, str(key), len(on), int(held.sum()), window.limit, told
    )
