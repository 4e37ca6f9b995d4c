"""What the agent says about its polls of one broker, as tables beside those of the assessment."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.agent.result import Result
from penstock.assessment.assess import Tables
from penstock.core.table import Column, Index, Table
from penstock.exposition.catalogue import CATALOGUE
from penstock.model import Collector
from penstock.series.labels import BrokerSeries


@dataclass(frozen=True, slots=True)
class CollectorSeries:
    broker: str
    collector: str


@dataclass(frozen=True, slots=True)
class PollSeries:
    broker: str
    result: str


def collector_table(broker: str, collectors: Mapping[str, Collector]) -> Table[CollectorSeries]:
    return Table(
        Index.of([CollectorSeries(broker, name) for name in collectors]),
        {
            "success": np.array([float(collector.success) for collector in collectors.values()]),
            "duration": np.array([collector.seconds for collector in collectors.values()]),
        },
    )


def poll_table(broker: str, polls: Mapping[Result, int]) -> Table[PollSeries]:
    return Table(
        Index.of([PollSeries(broker, result) for result in polls]),
        {"polls": np.array(list(polls.values()), dtype=np.float64)},
    )


def with_poll(tables: Tables, broker: str, numbers: Mapping[str, float]) -> Table[BrokerSeries]:
    """The broker's table with what the agent knows of it: up, and when and how it was polled."""
    table: Table[BrokerSeries] = tables.get("broker") or Table(Index.of([BrokerSeries(broker)]))
    added: dict[str, Column] = {name: np.array([value]) for name, value in numbers.items()}
    return Table(table.index, {**table.columns, **added})


def series(tables: Tables) -> int:
    """How many samples the tables make."""
    return sum(
        int(np.count_nonzero(~np.isnan(table.columns[family.column])))
        for family in CATALOGUE
        if (table := tables.get(family.table)) is not None and family.column in table
    )


def series_of_hidden(hidden: Mapping[str, int]) -> int:
    """How many samples the rows that are held back would make; `hidden`: rows by table."""
    return sum(hidden.get(family.table, 0) for family in CATALOGUE)
