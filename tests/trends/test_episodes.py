"""From the rows of conditions to episodes: by the query, on Spark."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.history.compact import read
from penstock.history.schema import CONDITION, STAMP, UNSEEN
from penstock.history.store import Store
from penstock_demo.history import Fleet, generate
from penstock_trends import tables

Row = dict[str, Any]
HOUR = 3600.0
POLLED = [0.0, HOUR, 2 * HOUR, 4 * HOUR]
"""Hours in which the broker was polled; the last poll of all was five minutes into the last one."""
NOW = 4 * HOUR + 300


def row(
    event: str,
    at: float,
    since: float = 100.0,
    severity: str = "warning",
    seen: float | None = None,
) -> Row:
    moments = {"stamp": at, "since": since, "seen": at if seen is None else seen}
    times = {
        name: datetime.fromtimestamp(seconds, UTC) for name, seconds in moments.items()
    }
    return {**times, "event": event, "severity": severity}


def still(*hours: float) -> list[Row]:
    return [row("enter", 160), *(row("hold", hour) for hour in hours)]


CASES: dict[str, tuple[list[Row], list[tuple[float, float, bool, str | None]]]] = {
    "from its begin to its end": ([*still(200), row("leave", 400)], [(100, 400, False, "leave")]),
    "out of order and twice": ([row("leave", 400), *still(), *still()], [(100, 400, False, "leave")]),
    "still active at the last poll": (still(HOUR, 2 * HOUR, 4 * HOUR), [(100, NOW, True, None)]),
    "began at the last poll": ([row("enter", NOW, since=NOW - 60)], [(NOW - 60, NOW, True, None)]),
    "no hold in the next polled hour": (still(), [(100, 160, False, "missing hold")]),
    "no hold, two hours on": (still(HOUR), [(100, HOUR, False, "missing hold")]),
    "the agent was away, and it was active after": (still(HOUR, 2 * HOUR, 4 * HOUR), [(100, NOW, True, None)]),
    "the agent was away and it had ended": (still(HOUR, 2 * HOUR), [(100, 2 * HOUR, False, "missing hold")]),
    "the end was never written, then it began again": (
        [*still(HOUR), row("enter", 8000, since=7900), row("leave", 8100, since=7900)],
        [(100, HOUR, False, "enter"), (7900, 8100, False, "leave")],
    ),
    "a leave that says when it was seen": (
        [*still(HOUR), row("leave", 4 * HOUR, seen=3700)], [(100, 3700, False, "leave")],
    ),
    "a restart of the agent in between": ([*still(), row("leave", 300, seen=160)], [(100, 300, False, "leave")]),
    "ended and began at one poll": (
        [row("enter", 160), row("leave", 400), row("enter", 400, since=390), row("leave", 500, since=390)],
        [(100, 400, False, "leave"), (390, 500, False, "leave")],
    ),
    "only a leave": ([row("leave", 400)], []),
    "its begin became another": (
        [*still(HOUR), row("severity", 4000, since=2000), row("leave", 5000, since=2000)],
        [(100, 5000, False, "leave")],
    ),
    "raised again since the same begin": (
        [*still(), row("leave", 400), row("enter", 600), row("leave", 800)], [(100, 800, False, "leave")],
    ),
    # Each agent has its own begin, polls at its own times, and sees the end a little later.
    "two agents": (
        [*still(HOUR), row("enter", 163, since=103), row("hold", 3603, since=103), row("leave", 3700),
         row("leave", 3715, since=103)],
        [(100, 3715, False, "leave")],
    ),
    "two agents, of which one began later": (
        [*still(HOUR, 2 * HOUR), row("enter", 175, since=165), row("hold", 3603, since=165), row("leave", 8000),
         row("leave", 8010, since=165)],
        [(100, 8010, False, "leave")],
    ),
    "two agents, both on at the last poll": (
        [*still(HOUR, 2 * HOUR, 4 * HOUR), row("enter", 170, since=165), row("hold", 4 * HOUR + 7, since=165)],
        [(100, NOW, True, None)],
    ),
}  # fmt: skip
Asked = Callable[[list[Row]], list[Row]]


@pytest.fixture
def asked(spark: Any) -> Asked:
    polls = [("b", int(hour), int(min(hour + HOUR - 10, NOW))) for hour in POLLED]
    spark.createDataFrame(
        polls, "broker string, start long, t1 long"
    ).createOrReplaceTempView("polls")

    def of(rows: list[Row]) -> list[Row]:
        types = ", ".join(
            f"{name} {'timestamp' if name in ('stamp', 'since', 'seen') else 'string'}"
            for name in rows[0]
        )
        spark.createDataFrame(
            [tuple(one.values()) for one in rows], types
        ).createOrReplaceTempView("condition")
        query = tables.sql("episodes", unseen=UNSEEN)
        return [
            one.asDict() for one in spark.sql(query).orderBy("queue", "begin").collect()
        ]

    return of


def test_each_case_by_hand(asked: Asked) -> None:
    """Each is a queue of its own."""
    named = {"broker": "b", "address": "a", "client": "c", "condition": "stalled"}
    rows = [
        {**named, "queue": name, **one}
        for name, (told, _) in CASES.items()
        for one in told
    ]
    worst = [
        row("enter", 160),
        row("severity", 200, severity="critical"),
        row("severity", 300),
        row("leave", 400),
    ]
    found = asked(
        [
            *rows,
            *({**named, "queue": "as severe as at its worst", **one} for one in worst),
        ]
    )
    for name, (_, wanted) in CASES.items():
        mine = [
            (
                one["begin"].timestamp(),
                one["end"].timestamp(),
                one["open"],
                one["ended_by"],
            )
            for one in found
            if one["queue"] == name
        ]
        assert mine == wanted, name
    assert [
        one["severity"] for one in found if one["queue"] == "as severe as at its worst"
    ] == ["critical"]
    known = {one["queue"]: one["end_known"] for one in found}
    assert {
        known[name]
        for name in ("from its begin to its end", "still active at the last poll")
    } == {True}
    assert {
        known[name]
        for name in (
            "no hold in the next polled hour",
            "a leave that says when it was seen",
        )
    } == {False}


def test_incidents_are_told_with_their_root_and_the_most_victims_that_they_had(
    asked: Asked, spark: Any
) -> None:
    one = {
        "broker": "b",
        "address": "x.reply",
        "queue": "",
        "client": "54fe491a",
        "condition": "incident address_full",
    }
    rows = [
        {**one, **row("enter", 160), "evidence": '{"victims": 1.0}'},
        {**one, **row("hold", HOUR), "evidence": '{"victims": 3.0}'},
        {**one, **row("leave", HOUR + 40), "evidence": '{"victims": 2.0}'},
        {**one, **row("enter", 160), "condition": "stalled", "evidence": "{}"},
        {
            **one,
            **row("enter", 160, severity="info"),
            "client": "a notice",
            "evidence": "{}",
        },
    ]
    asked(rows)
    spark.sql(tables.sql("episodes", unseen=UNSEEN)).createOrReplaceTempView("of_all")
    (found,) = spark.sql(tables.sql("incidents", most=9)).collect()
    known = (
        found.kind,
        found.root,
        found.id,
        found.begin,
        found.end,
        found.open,
        found.victims,
    )
    assert known == ("address full", "x.reply", "54fe491a", 100, HOUR + 40, False, 3)


ISLANDS = """
WITH told AS (SELECT DISTINCT * FROM rows),
     runs AS (SELECT *, count(*) FILTER (WHERE event = 'leave')
              OVER (PARTITION BY broker, queue, client, condition ORDER BY stamp ROWS UNBOUNDED PRECEDING)
              - (event = 'leave')::INT AS run FROM told)
SELECT broker, queue, client, epoch(min(since)) AS begin, epoch(max(stamp)) AS "end" FROM runs
GROUP BY broker, queue, client, condition, run HAVING bool_or(event = 'leave') AND bool_or(event = 'enter') ORDER BY ALL
"""


@pytest.mark.nightly  # a run of Spark
def test_they_are_the_islands_that_duckdb_finds(asked: Asked, tmp_path: Path) -> None:
    """A week of an imagined fleet, some of its rows twice."""
    store = Store(str(tmp_path))
    generate(
        store, Fleet(brokers=2, queues=5, days=7, interval=300, stalls=9.0, seed=1)
    )
    rows = read(
        store, [entry.path for entry in store.files("raw/kind=condition")], CONDITION
    )
    rows = pa.concat_tables([rows, rows.slice(0, 20)])
    columns = {
        name: rows[name]
        for name in (
            "broker",
            "address",
            "queue",
            "client",
            "condition",
            "event",
            "severity",
        )
    }
    texts = {name: column.cast(pa.string()) for name, column in columns.items()}
    times = {name: rows[name].cast(STAMP) for name in ("stamp", "since", "seen")}
    found = [
        (
            one["broker"],
            one["queue"],
            one["client"],
            one["begin"].timestamp(),
            one["end"].timestamp(),
        )
        for one in asked(pa.table({**texts, **times}).to_pylist())
        if one["ended_by"] == "leave"
    ]
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("rows", rows)
        wanted = database.execute(ISLANDS).fetchall()
    assert len(wanted) > 30
    assert sorted(found) == [tuple(one) for one in wanted]
