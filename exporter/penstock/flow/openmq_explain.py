"""The flow control of a queue's consumers on OpenMQ in plain values, with the arithmetic: the calculator, live."""

from typing import Any

import numpy as np

from penstock.flow.judge.judge import Judgement
from penstock.flow.limits import ConsumerWindow
from penstock.flow.series import ConsumerSeries, QueueSeries
from penstock.table import Table

Plain = dict[str, Any]
MOST = 50
"""Consumers that are told."""


def flow_of(judgement: Judgement, consumers: Table[ConsumerSeries] | None, queue: QueueSeries) -> list[Plain]:
    """
    Of the queue's consumers that are shown one by one: limit and resume level as measured, and where each stands.

    Empty on a broker that shows no flow control.
    """
    if consumers is None or judgement.openmq.said is None or "flow_limit" not in consumers:
        return []
    here = [i for i, row in enumerate(consumers.index) if (row.address, row.queue) == (queue.address, queue.queue)][
        :MOST
    ]
    return [consumer_flow(consumers, i) for i in here]


def consumer_flow(consumers: Table[ConsumerSeries], i: int) -> Plain:
    row: ConsumerSeries = consumers.index.rows[i]
    limit, resume = float(consumers["flow_limit"][i]), float(consumers["flow_resume"][i])
    held, paused = float(consumers["buffered"][i]), bool(consumers["flow_paused"][i] > 0)
    known = not np.isnan(limit)
    window = ConsumerWindow(int(limit), int(resume)) if known else None
    return {
        "client": row.client,
        "consumer": row.consumer,
        "held": None if np.isnan(held) else int(held),
        "paused": paused,
        "limit": window.limit if window else None,
        "resume": window.resume if window else None,
        "batch": list(window.batch) if window else None,
        "told": told(window, held, paused=paused),
    }


def told(window: ConsumerWindow | None, held: float, *, paused: bool) -> str:
    """One sentence; held counts what is handed to the application and not acknowledged too."""
    state = "paused, which is usual under load" if paused else "not paused"
    if window is None:
        return f"{state}; its limit is not known yet: it takes several pauses of a slow consumer to measure"
    least, most = window.batch
    place = "above its resume level" if held > window.resume else "at or below its resume level: it asks for more next"
    return (
        f"{state}; holds {held:,.0f}, {place}; stops at {window.limit:,}, asks again at {window.resume:,}"
        f" ({window.resume / window.limit:.0%}) for {least:,} to {most:,}: {window.limit:,} less what is buffered"
    )
