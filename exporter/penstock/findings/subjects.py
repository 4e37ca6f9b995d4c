"""From rows of a table to findings about what they name."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.conditions.wording import KNOBS
from penstock.core.table import Column
from penstock.core.windows import Mask
from penstock.findings.context import Clients, FindingContext
from penstock.findings.finding import Finding, FindingRule, Found
from penstock.findings.flow_control import FlowControl
from penstock.model import ConsumerRow, QueueRow
from penstock.series.labels import ClientSeries

FEW = 10
"""Messages or consumers: fewer show no pattern."""
Texts = Callable[[int], Mapping[str, str]]
"""Words of says and advice, by the position of a connection."""


def of_queues(rule: FindingRule, context: FindingContext, holds: Mask, **evidence: Column) -> Found:
    for i in np.flatnonzero(holds).tolist():
        row: QueueRow = context.queues.index.rows[i]
        yield Finding(rule, row.name, row.address, row.name, evidence=at(i, evidence))


def of_clients(rule: FindingRule, clients: Clients, holds: Mask, **evidence: Column) -> Found:
    rows = np.flatnonzero(holds)
    for i, protocol in zip(rows.tolist(), clients.protocols(rows), strict=True):
        texts = {"knob": KNOBS.get(protocol, "a smaller window or prefetch")}
        yield of_client(rule, clients.grouping.index.rows[i], at(i, evidence), texts)


def of_client(rule: FindingRule, row: ClientSeries, evidence: Mapping[str, float], texts: Mapping[str, str]) -> Finding:
    return Finding(rule, f"{row.queue}/{row.client}", row.address, row.queue, row.client, finite(evidence), texts)


def of_connections(
    rule: FindingRule, flow: FlowControl, holds: Mask, *, order: Column, texts: Texts = lambda _: {}, **evidence: Column
) -> Found:
    """Those with the highest `order` first."""
    evidence = {"consumers": flow.connections.consumers, **evidence}
    for i in np.flatnonzero(holds)[np.argsort(-np.nan_to_num(order[holds]), kind="stable")].tolist():
        rows: list[ConsumerRow] = flow.consumers.index.rows[flow.connection == flow.connections.keys[i]].tolist()
        yield of_connection(rule, rows, at(i, evidence), texts(i))


def of_connection(
    rule: FindingRule, rows: Sequence[ConsumerRow], evidence: Mapping[str, float], texts: Mapping[str, str]
) -> Finding:
    """By the name of its client, as ids change at reconnects. rows: its consumers."""
    client, on = rows[0].client, tuple(sorted({(row.address, row.queue) for row in rows}))
    return Finding(rule, client, client=client, evidence=finite(evidence), texts=texts, on=on)


def at(i: int, evidence: Mapping[str, Column]) -> dict[str, float]:
    return finite({name: float(column[i]) for name, column in evidence.items()})


def finite(evidence: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in evidence.items() if np.isfinite(value)}
