"""From the rows of conditions to episodes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock.history.compact import read
from penstock.history.schema import CONDITION
from penstock.history.store import Store
from penstock.trends.episodes import episodes
from penstock_demo.history import Fleet, generate


def told(event: str, at: float, since: float = 100.0, severity: str = "warning") -> dict[str, Any]:
    names = {"broker": "b", "address": "a", "queue": "q", "client": "c", "condition": "stalled"}
    moments = {"stamp": at, "since": since, "seen": at}
    times = {name: datetime.fromtimestamp(seconds, UTC) for name, seconds in moments.items()}
    return {**names, **times, "event": event, "severity": severity}


def spans(*rows: dict[str, Any], until: float = 10_000.0) -> list[tuple[float, float, bool]]:
    return [(one.begin, one.end, one.open) for one in episodes(rows, until)]


def test_from_its_begin_to_its_end() -> None:
    assert spans(told("enter", 160), told("hold", 200), told("leave", 400)) == [(100, 400, False)]


def test_rows_out_of_order_and_twice_are_the_same() -> None:
    rows = [told("leave", 400), told("enter", 160), told("enter", 160), told("leave", 400)]
    assert spans(*rows) == [(100, 400, False)]


def test_what_still_stands_is_open() -> None:
    assert spans(told("enter", 160), told("hold", 3600), told("hold", 7200)) == [(100, 10_000, True)]


def test_one_whose_end_was_never_written_ends_where_it_was_last_seen() -> None:
    rows = [told("enter", 160), told("hold", 3600), told("enter", 8000, since=7900), told("leave", 8100)]
    assert spans(*rows) == [(100, 3600, False), (7900, 8100, False)]


def test_it_is_as_severe_as_at_its_worst() -> None:
    rows = [told("enter", 160), told("severity", 200, severity="critical"), told("severity", 300), told("leave", 400)]
    assert [one.severity for one in episodes(rows, 1000)] == ["critical"]


ISLANDS = """
WITH told AS (SELECT DISTINCT * FROM rows),
     runs AS (SELECT *, count(*) FILTER (WHERE event = 'leave')
              OVER (PARTITION BY broker, queue, client, condition ORDER BY stamp ROWS UNBOUNDED PRECEDING)
              - (event = 'leave')::INT AS run FROM told)
SELECT broker, queue, client, epoch(min(since)) AS begin, epoch(max(stamp)) AS "end" FROM runs
GROUP BY broker, queue, client, condition, run HAVING bool_or(event = 'leave') AND bool_or(event = 'enter') ORDER BY ALL
"""


@pytest.mark.slow  # random histories through DuckDB
@pytest.mark.parametrize("seed", range(3))
def test_they_are_the_islands_that_duckdb_finds(seed: int, tmp_path: Path) -> None:
    """A week of an imagined fleet, its rows in any order and some of them twice."""
    fleet = Fleet(brokers=2, queues=5, days=7, interval=60, stalls=9.0, seed=seed)
    store = Store(str(tmp_path))
    generate(store, fleet)
    rows = read(store, [entry.path for entry in store.files("raw/kind=condition")], CONDITION)
    random = np.random.default_rng(seed)
    order = random.permutation(np.concatenate([np.arange(len(rows)), random.integers(0, len(rows), 20)]))
    rows = rows.take(pa.array(order))
    found = sorted((e.broker, e.queue, e.client, e.begin, e.end) for e in episodes(rows.to_pylist(), 2e9) if not e.open)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("rows", rows)
        wanted = database.execute(ISLANDS).fetchall()
    assert len(wanted) > 40
    assert found == [tuple(row) for row in wanted]
