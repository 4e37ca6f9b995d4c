"""Conditions, queues and clients of some brokers as tables for a terminal."""

import math
import time
from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid

from penstock.agent import Poller, Result
from penstock.core.formatting import duration
from penstock.core.table import Column, Table
from penstock.insight.explain import BrokerView, client_numbers
from penstock.insight.lists import ListQuery, condition_list
from penstock.series.labels import ClientSeries, QueueSeries
from penstock.tui.styled import Line, add_row, styled

ROWS = 20
"""Rows of a grid, the busiest."""


def overview(pollers: Sequence[Poller], rows: int = ROWS) -> RenderableType:
    """Of each broker a heading, the conditions, the queues and the clients; the worst or largest first."""
    parts: list[RenderableType] = []
    for poller in pollers:
        view = poller.assessor.view
        tables = poller.assessor.tables
        parts.append(heading(poller))
        if poller.last is not None and poller.last.error:
            parts.append(Padding.indent(styled(poller.last.error, "yellow"), 2))
        if view is not None and view.conditions:
            parts.append(conditions(view, rows))
        if "queue" in tables:
            parts.append(queues(tables["queue"], rows))
        if view is not None and "client" in tables:
            parts.append(clients(view, rows))
    return Group(*parts)


def heading(poller: Poller) -> Line:
    snapshot = poller.assessor.snapshot
    last = poller.last
    about = snapshot.broker if snapshot else None
    up = last is not None and last.result is not Result.FAILED
    text = styled(f"{poller.name}  ", "bold").append_text(
        styled("up" if up else "down", "green" if up else "red")
    )
    if about is not None:
        text.append_text(
            styled(f"  {about.kind} {about.version}  {about.role}", "default")
        )
    return text


QUEUE_COLUMNS = {"msgs": "messages", "ready": "ready", "deliv": "delivering", "sched": "scheduled", "cons": "consumers",
                 "added": "added", "acked": "acknowledged"}  # fmt: skip
CLIENT_COLUMNS = {"cons": "consumers", "buff": "buffered", "uncom": "uncommitted", "deliv": "delivered",
                  "acks+rb": "acknowledged"}  # fmt: skip
STYLES = {"critical": "bold red", "warning": "yellow", "info": "default"}


def conditions(view: BrokerView, rows: int = ROWS) -> Grid:
    """The active conditions, the worst first, and what to do."""
    grid = _grid("condition", "on", "for", "what to do")
    for condition in condition_list([view], ListQuery(limit=rows)).rows:
        where = (
            f"{condition.queue}, {condition.client}"
            if condition.client
            else condition.queue
        )
        add_row(
            grid,
            styled(condition.condition, STYLES[condition.severity]),
            where,
            _age(condition.since),
            styled(condition.advice),
        )
    return grid


def queues(table: Table[QueueSeries], rows: int = ROWS) -> Grid:
    grid = _grid("queue", *QUEUE_COLUMNS, "ring")
    for i in np.argsort(-np.nan_to_num(table["messages"]), kind="stable")[
        :rows
    ].tolist():
        ring = table["ring_used_ratio"][i]
        numbers = [_number(table[name][i]) for name in QUEUE_COLUMNS.values()]
        add_row(
            grid,
            table.index.rows[i].queue,
            *numbers,
            "" if math.isnan(ring) else f"{ring:.0%}",
        )
    return grid


def clients(view: BrokerView, rows: int = ROWS) -> Grid:
    table: Table[ClientSeries] = view.table("client")
    grid = _grid("client", "queue", *CLIENT_COLUMNS, "no acks for")
    in_delivery: Column = np.nan_to_num(table["buffered"]) + np.nan_to_num(
        table["uncommitted"]
    )
    for i in np.argsort(-in_delivery, kind="stable")[:rows].tolist():
        row = table.index.rows[i]
        numbers = [_number(table[name][i]) for name in CLIENT_COLUMNS.values()]
        since = client_numbers(view, table, ("blocked_since",), i).get(
            "blocked_since", math.nan
        )
        add_row(grid, row.client, row.queue, *numbers, _age(since))
    return grid


def _grid(*names: str) -> Grid:
    grid = Grid(box=None, header_style="bold", padding=(0, 1))
    for number, name in enumerate(names):
        text = name in ("queue", "client", "on", "what to do")
        grid.add_column(
            name, justify="left" if text or number == 0 else "right", no_wrap=not text
        )
    return grid


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:,.0f}"


def _age(since: float) -> str:
    return "" if math.isnan(since) else duration(round(time.time() - since))
