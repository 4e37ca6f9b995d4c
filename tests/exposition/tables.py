"""Small tables to render, and the two parsers of prometheus_client as the judge of what came out."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from penstock.core.table import Index, Table
from penstock.exposition.catalogue import CATALOGUE, TABLES, Family
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format

patiently = settings(suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no reason to fail."""

Labels = tuple[tuple[str, str], ...]


def row(**labels: object) -> SimpleNamespace:
    return SimpleNamespace(**labels)


def table(rows: Sequence[object], **columns: Sequence[float]) -> Table[Any]:
    return Table(
        Index.of(rows),
        {name: np.array(column, np.float64) for name, column in columns.items()},
    )


def queues(broker: str, **columns: Sequence[float]) -> dict[str, Table[Any]]:
    """A table of as many queues as the columns are long."""
    length = len(next(iter(columns.values())))
    return {
        "queue": table(
            [row(broker=broker, address="a", queue=f"q{n}") for n in range(length)],
            **columns,
        )
    }


def everything(broker: str, length: int = 3) -> dict[str, Table[Any]]:
    """Every table of a broker with every column of the catalogue, each value another."""
    tables = {}
    for name, base in TABLES.items():
        families = [family for family in CATALOGUE if family.table == name]
        labels = {*base, *(label for family in families for label in family.labels)} - {
            "broker"
        }
        count = 1 if base == ("broker",) else length
        rows = [
            row(broker=broker, **{label: f"{label} {n}" for label in labels})
            for n in range(count)
        ]
        columns = {
            family.column: [n + 1.5 * place for n in range(count)]
            for place, family in enumerate(families)
        }
        columns |= {
            family.column: [1.0] * count for family in families if family.type == "info"
        }
        if "broker" in base:
            tables[name] = table(rows, **columns)
    return tables


def blocks(tables: Mapping[str, Table[Any]]) -> BrokerBlocks:
    made = BrokerBlocks()
    made.update(tables)
    return made


def parse(form: Format, body: bytes) -> list[Metric]:
    parser = parse_text if form is Format.TEXT else parse_openmetrics
    return list(parser(body.decode()))


def samples(form: Format, body: bytes) -> dict[tuple[str, Labels], float]:
    """Every sample of a body by name and labels; fails on one that stands twice."""
    found: dict[tuple[str, Labels], float] = {}
    for metric in parse(form, body):
        for sample in metric.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def expected(
    families: Sequence[Family], tables: Mapping[str, Table[Any]]
) -> dict[tuple[str, Labels], float]:
    """What `samples` must find for these families, worked out row by row."""
    return {
        (
            family.name,
            tuple(
                sorted((name, str(getattr(one, name))) for name in family.label_names)
            ),
        ): value
        for family in families
        if family.table in tables and family.column in tables[family.table]
        for one, value in zip(
            tables[family.table].index,
            tables[family.table][family.column].tolist(),
            strict=True,
        )
        if np.isfinite(value)
    }
