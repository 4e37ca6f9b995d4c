"""The agent's metrics of its polls of one broker, as tables beside those of the assessment; and which rows are shown
where a broker makes more series than its budget: what is unhealthy, then the largest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.assessment.assess import Tables
from penstock.core.catalogues import read_toml
from penstock.core.table import Index, Table
from penstock.exposition.catalogue import CATALOGUE
from penstock.model import Collector, LeftOut
from penstock.series.labels import BrokerSeries
from penstock.settings.policy import Policy

ResultT = TypeVar("ResultT", bound=str)


@dataclass(frozen=True, slots=True)
class CollectorSeries:
    broker: str
    collector: str


@dataclass(frozen=True, slots=True)
class PollSeries:
    broker: str
    result: str


def collector_table(
    broker: str, collectors: Mapping[str, Collector]
) -> Table[CollectorSeries]:
    parts = collectors.values()
    columns = {
        "success": np.array([float(part.success) for part in parts]),
        "duration": np.array([part.seconds for part in parts]),
        "left_out": np.array([float(part.left_out) for part in parts]),
    }
    rows = [CollectorSeries(broker, name) for name in collectors]
    return Table(Index.of(rows), columns)


def poll_table(broker: str, polls: Mapping[ResultT, int]) -> Table[PollSeries]:
    """polls: how many, by their `Result`."""
    numbers = np.array(list(polls.values()), dtype=np.float64)
    return Table(
        Index.of([PollSeries(broker, result) for result in polls]), {"polls": numbers}
    )


def with_poll(
    tables: Tables, broker: str, numbers: Mapping[str, float]
) -> Table[BrokerSeries]:
    """The broker's table with what the agent knows of it: up, and when and how it was polled."""
    table: Table[BrokerSeries] = tables.get("broker") or Table(
        Index.of([BrokerSeries(broker)])
    )
    return Table(
        table.index,
        {
            **table.columns,
            **{name: np.array([value]) for name, value in numbers.items()},
        },
    )


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


# --- the budget of series

SERIES = "series"
SIZES = read_toml("penstock.agent", "sizes.toml")
"""The tables that grow with the broker, and what is large in them."""


@dataclass(slots=True)
class SeriesBudget:
    """Cuts the tables of one broker to its budget; what is shown stays while others are of the same magnitude."""

    dropped: int = 0
    """Series that were held back at the last poll."""
    left_out: LeftOut | None = None
    """The same, beside all that there were."""
    _policy: Policy | None = None
    _shown: dict[str, Index[object]] = field(default_factory=dict)

    def fitted(
        self, tables: Mapping[str, Table[object]], policy: Policy
    ) -> dict[str, Table[object]]:
        """`tables` with at most as many series as the policy allows, but for those of the broker and of conditions."""
        if policy is not self._policy:  # what was shown may have other labels now
            self._policy = policy
            self._shown = {}
        made = series(tables)
        most = policy.limits.series
        if made <= most:
            self.dropped = 0
            self.left_out = None
            self._shown = {}
            return dict(tables)
        counts = {name: samples(name, tables[name]) for name in SIZES if name in tables}
        large = sum(int(count.sum()) for count in counts.values())
        share = max(most - (made - large), 0) / large if large else 0.0
        cut = {
            name: self._cut(name, tables, count, share)
            for name, count in counts.items()
        }
        self._shown = {name: table.index for name, table in cut.items()}
        fitted = {**tables, **cut}
        self.dropped = made - series(fitted)
        self.left_out = LeftOut(SERIES, self.dropped, made) if self.dropped else None
        return fitted

    def _cut(
        self,
        name: str,
        tables: Mapping[str, Table[object]],
        count: NDArray[np.int64],
        share: float,
    ) -> Table[object]:
        """The rows of a table that come first, as many as have this share of its series."""
        table = tables[name]
        index = table.index
        before = self._shown.get(name, Index.empty())
        size = np.nan_to_num(table[SIZES[name]])
        # lexsort: the last key counts first.
        order = np.lexsort(
            (
                -size,
                before.positions(index.keys) < 0,
                -np.frexp(size)[1],
                ~unhealthy(tables, table),
            )
        )
        rows = np.sort(order[np.cumsum(count[order]) <= share * count.sum()])
        index_shown, _ = before.advance(
            index.keys[rows], lambda new: index.rows[rows[new]].tolist()
        )
        return Table(
            index_shown,
            {column: values[rows] for column, values in table.columns.items()},
        )


def samples(name: str, table: Table[object]) -> NDArray[np.int64]:
    """How many samples each row of a table makes."""
    columns = [
        table.columns[family.column]
        for family in CATALOGUE
        if family.table == name and family.column in table
    ]
    return sum(
        (~np.isnan(column) for column in columns), np.zeros(len(table), np.int64)
    )


def unhealthy(
    tables: Mapping[str, Table[object]], table: Table[object]
) -> NDArray[np.bool_]:
    """(rows,) Whether the queue of a row, or a queue of its address, has a condition."""
    causes: Table[object] | None = tables.get("queue_cause")
    ill = [] if causes is None else causes.index.rows[causes["unhealthy"] > 0].tolist()
    if not ill or not len(table):
        return np.zeros(len(table), np.bool_)
    names = (
        ("address", "queue") if hasattr(table.index.rows[0], "queue") else ("address",)
    )
    name_of = attrgetter(*names)
    having = set(map(name_of, ill))
    return np.fromiter(
        (name_of(row) in having for row in table.index), np.bool_, len(table)
    )
