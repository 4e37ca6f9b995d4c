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
    if consumers is None or judgement.openmq.said is None:
        return []
    if "flow_limit" not in consumers:
        return []
    place = (queue.address, queue.queue)
    rows = [
        i for i, row in enumerate(consumers.index) if (row.address, row.queue) == place
    ]
    return [consumer_flow(consumers, i) for i in rows[:MOST]]


def consumer_flow(consumers: Table[ConsumerSeries], i: int) -> ConsumerFlow:
    """The flow control of the consumer in this row."""
    row: ConsumerSeries = consumers.index.rows[i]
    buffered = float(consumers["buffered"][i])
    paused = bool(consumers["flow_paused"][i] > 0)
    window = window_of(consumers, i)
    text = next(text_lines(HERE, "flow", window, buffered, paused))
    return ConsumerFlow(
        client=row.client,
        consumer=row.consumer,
        held=None if np.isnan(buffered) else int(buffered),
        paused=paused,
        limit=window.limit if window else None,
        resume=window.resume if window else None,
        batch=window.batch if window else None,
        told=text,
    )


def window_of(consumers: Table[ConsumerSeries], i: int) -> ConsumerWindow | None:
    """The limit and the resume level of a consumer as measured; None while they are not known."""
    limit = float(consumers["flow_limit"][i])
    if np.isnan(limit):
        return None
    return ConsumerWindow(int(limit), int(consumers["flow_resume"][i]))


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
    place = (series.address, series.queue)
    by_connection: dict[int, ConnectionFlow] = {}
    for i, row in enumerate(consumers.index):
        key = int(snapshot.consumer_connection[i])
        if (row.address, row.queue) != place or key < 0 or key in by_connection:
            continue
        window = connection_window(rules, series.broker, row)
        if window is not None:
            by_connection[key] = connection_flow(snapshot, consumers, key, window)
        if len(by_connection) == MOST:
            break
    return list(by_connection.values())


def connection_window(
    rules: Rules, broker: str, row: ConsumerRow
) -> ConnectionWindow | None:
    """The limit that a rule gives for the connection of a consumer; None where no rule does."""
    rule = rules.resolve(broker, row.address, row.queue, row.client)
    limit = rule.connection_flow_limit
    return None if limit is None else ConnectionWindow(limit, CONNECTION_COUNT)


def connection_flow(
    snapshot: Snapshot,
    consumers: Table[ConsumerRow],
    key: int,
    window: ConnectionWindow,
) -> ConnectionFlow:
    """The messages that all consumers of a connection buffer, beside its limit.

    Args:
        snapshot: the last poll.
        consumers: of it.
        key: of the connection.
        window: its limit.
    """
    rows = np.flatnonzero(snapshot.consumer_connection == key)
    buffered = np.nan_to_num(consumers["buffered"][rows])
    total = float(buffered.sum())
    most = float(buffered.max())
    fullest: ConsumerRow = consumers.index.rows[rows[buffered.argmax()]]
    numbers = (window, len(rows), total, fullest, most)
    text = next(text_lines(HERE, "connection_flow", *numbers))
    return ConnectionFlow(
        client=fullest.client,
        connection=str(key),
        consumers=len(rows),
        held=int(total),
        limit=window.limit,
        told=text,
    )
