"""Where messages went: by hour and day, over restarts and gaps, with two agents; as a table and in the report."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.history.schema import FATE, series_id
from penstock.history.store import Store
from penstock_demo.history import Truth, _table
from penstock_trends import job
from penstock_trends.days import day_names, load
from penstock_trends.fates import totals, went
from penstock_trends.report import pages
from penstock_trends.results import Tables
from penstock_trends.tiers import roll_up
from trends.rows import START

HOUR = 3600
DAY = 86400
ACCOUNT_PAGE = Path(__file__).parents[2] / "docs" / "account.md"
Done = tuple[Path, dict[str, Any]]
"""Where the job wrote, and its facts."""

Row = tuple[float, int, int | None, int, int]
"""Seconds after START, messages, most, before, life."""


def fate_rows(
    *rows: Row, fate: str = "evicted", queue: str = "q", client: str = ""
) -> Any:
    stamp = np.array([START + row[0] for row in rows], float)
    numbers = {
        "messages": np.array([row[1] for row in rows], float),
        "most": np.array([np.nan if row[2] is None else row[2] for row in rows], float),
        "before": np.array([row[3] for row in rows], float),
        "inc": np.array([row[4] for row in rows], float),
        "sid": np.full(len(rows), series_id("b", "a", queue, fate, client)),
    }
    return _table(
        FATE,
        stamp,
        numbers,
        {},
        {"broker": "b", "address": "a", "queue": queue, "fate": fate, "client": client},
    )


@pytest.fixture
def account(spark: Any, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Rows of raw history → rows of the table `fates`, through all tiers."""

    def of(*parts: Any) -> list[dict[str, Any]]:
        store = Store(str(tmp_path / "raw"))
        out = Store(str(tmp_path / "out"))
        for number, part in enumerate(parts):
            days = part["stamp"].cast(pa.int64()).to_numpy() // (DAY * 1_000_000)
            for day in np.unique(days).tolist():
                name = f"raw/kind=fate/dt={datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}/hour=all/{number}.parquet"
                store.write_table(name, part.filter(pa.array(days == day)))
        roll_up(spark, store, out)
        made = Tables(spark, out, load(out, day_names(out)))
        made.write_accounts(made.window)
        return [
            row.asDict()
            for row in spark.table("fates")
            .orderBy("day", "queue", "fate", "client")
            .collect()
        ]

    return of


def every(
    seconds: int, until: int, value: int, before: int | None = None, life: int = 1
) -> list[Row]:
    """The same at each poll; at the first there was `before`."""
    stamps = range(seconds, until, 15)
    return [
        (at, value, value, value if i or before is None else before, life)
        for i, at in enumerate(stamps)
    ]


def with_most(most: int | None, rows: list[Row]) -> list[Row]:
    return [(at, low, most, before, life) for at, low, _, before, life in rows]


CASES: dict[str, tuple[list[list[Row]], list[int]]] = {
    "the first loss counts in full": ([[(600, 18239, 18239, 0, 1), (615, 18239, 18239, 18239, 1)]], [18239]),
    "what is older than the history does not count": ([[(0, 500, 500, 500, 1), (15, 502, 502, 500, 1)]], [2]),
    # Nothing of what was lost while nobody looked is lost again: the account knows it.
    "it goes on over hours, days and gaps": (
        [[(0, 1, 1, 0, 1), (HOUR, 3, 3, 1, 1), (30 * HOUR, 10, 10, 3, 1), (31 * HOUR, 10, 10, 10, 1)]], [3, 7],
    ),
    # Its first poll knows no poll before, but what it counted is the same life.
    "an agent that begins again goes on": (
        [[(0, 4, 4, 0, 1), (2 * HOUR, 9, 9, 9, 1), (2 * HOUR + 15, 10, 10, 9, 1)]], [10],
    ),
    # Its account goes on with what was saved, a minute before.
    "an agent that was killed counts nothing twice": (
        [[(HOUR - 15, 100, 100, 0, 1), (HOUR, 80, 80, 80, 1), (HOUR + 15, 105, 105, 80, 1)]], [105],
    ),
    "an account begun again is another life": (
        [[(0, 100, 100, 0, 1), (HOUR, 7, 7, 0, 2), (HOUR + 15, 9, 9, 7, 2)]], [109],
    ),
    "two agents on one broker count once": ([every(0, HOUR, 50, 0, life=1), every(3, HOUR, 40, 0, life=2)], [50]),
    "files that come twice change nothing": ([[(0, 4, 4, 0, 1), (15, 9, 9, 4, 1)]] * 2, [9]),
}  # fmt: skip


def test_messages_of_a_day_count_once(
    account: Callable[..., list[dict[str, Any]]],
) -> None:
    """Each case is a queue; how many more there may be is what the end says."""
    parts = [
        fate_rows(*rows, queue=name)
        for name, (agents, _) in CASES.items()
        for rows in agents
    ]
    ends = {5: 0.0, 8: 3.0, None: None}
    parts += [
        fate_rows(
            (0, 0, 800, 0, 1), (15, 5, 900, 0, 1), (30, 5, most, 5, 1), queue=f"{most}"
        )
        for most in ends
    ]
    found = account(*parts)
    for name, (_, days) in CASES.items():
        assert [
            one["messages"] for one in found if one["queue"] == name and one["messages"]
        ] == days, name
    for most, uncertain in ends.items():
        (one,) = (one for one in found if one["queue"] == f"{most}")
        assert (one["messages"], one["uncertain"]) == (5, uncertain)


def row(
    fate: str,
    messages: int,
    uncertain: float | None = 0.0,
    queue: str = "q",
    client: str = "",
) -> dict[str, Any]:
    of = {"broker": "b", "address": "a", "queue": queue, "fate": fate, "client": client}
    return of | {"messages": messages, "uncertain": uncertain}


def test_losses_come_first_with_whom_and_in_words() -> None:
    fates = [
        row("acknowledged", 1000), row("expired", 900), row("evicted", 10), row("evicted", 6, 2.0, client="taker"),
        row("evicted", 1, client="other"), row("dropped", 42, None, queue=""), row("duplicate", 0, 3.0, queue=""),
        row("unwanted", 0, queue=""),
    ]  # fmt: skip
    queue = {
        "broker": "b",
        "address": "a",
        "queue": "q",
        "owner": "",
        "added": 2000,
        "expired": 7,
    }
    found = went({"fates": fates, "queues": [queue]})
    assert [
        (one["queue"], one["fate"], one["amount"], one["who"]) for one in found
    ] == [
        ("", "dropped", "at least 42", "a full address (policy DROP)"),
        ("q", "evicted", "10", "taker 6 to 8, other 1, arrivals at a full ring"),
        ("", "duplicate", "0 to 3", "the duplicate id of its producer"),
        ("q", "expired", "900", "its time to live"),
    ]
    assert [one["share"] for one in found] == [None, 0.005, None, 0.45]
    assert [(one["fate"], one["amount"]) for one in totals(found)] == [
        ("dropped", "at least 42"), ("evicted", "10"), ("duplicate", "0 to 3"), ("expired", "900"),
    ]  # fmt: skip


def test_a_broker_whose_history_has_no_account_says_what_its_queues_counted() -> None:
    queue = {"broker": "old", "address": "a", "queue": "q", "owner": "x", "added": 100}
    queue |= {"expired": 7, "killed": 0, "evicted": None}
    assert [(one["fate"], one["amount"]) for one in went({"queues": [queue]})] == [
        ("expired", "7")
    ]


# --- the whole job


@pytest.fixture(scope="module")
def done(
    spark: Any, fleet: tuple[Store, Truth], tmp_path_factory: pytest.TempPathFactory
) -> Done:
    """Four days of a fleet; on two of them a ring loses 10 and then 90, of these 30 to 35 to a client."""
    store = Store(str(tmp_path_factory.mktemp("own")))
    for entry in fleet[0].files():
        content = fleet[0].read_bytes(entry.path)
        assert content is not None
        store.write_bytes(entry.path, content)
    for part in (
        fate_rows(*every(HOUR, 2 * HOUR, 10, 0), *every(DAY, DAY + HOUR, 100, 10)),
        fate_rows(*with_most(35, every(DAY, DAY + 60, 30, 0)), client="taker"),
        fate_rows(*every(2 * HOUR, 3 * HOUR, 4000, 0), fate="expired"),
        fate_rows(*with_most(None, every(0, 60, 42, 0)), fate="rejected", queue=""),
    ):
        (fate,), (queue,), (client,) = (
            set(part[name].to_pylist()) for name in ("fate", "queue", "client")
        )
        days = (
            part["stamp"].cast(pa.int64()).to_numpy() // (DAY * 1_000_000)
            - START // DAY
        )
        for day in (0, 1):
            here = part.filter(pa.array(days == day))
            store.write_table(
                f"raw/kind=fate/dt=2026-09-0{day + 1}/hour=all/{fate}{queue}{client}.parquet",
                here,
            )
    out = tmp_path_factory.mktemp("fates")
    return out, job.run(store.url, str(out), session=spark)


def test_losses_by_reason_and_culprit_are_one_table(done: Done) -> None:
    """As anyone may ask for it."""
    query = f"""SELECT day::VARCHAR, queue, fate, client, sum(messages)::BIGINT, any_value(uncertain)
        FROM '{done[0]}/fates.parquet' WHERE broker = 'b' AND messages > 0
        GROUP BY lost, day, queue, fate, client ORDER BY lost DESC, 1, 2, 3, 4"""  # noqa: S608
    with duckdb.connect() as database:
        found = database.execute(query).fetchall()
    first = "2026-09-01"
    second = "2026-09-02"
    assert found == [
        (first, "", "rejected", "", 42, None), (first, "q", "evicted", "", 10, 0.0),
        (second, "q", "evicted", "", 60, 0.0), (second, "q", "evicted", "taker", 30, 5.0),
        (first, "q", "expired", "", 4000, 0.0),
    ]  # fmt: skip


def test_the_example_of_the_documentation_is_answered(done: Done) -> None:
    query = ACCOUNT_PAGE.read_text().split("```sql\n")[1].split("```")[0]
    with duckdb.connect() as database:
        found = database.execute(
            query.replace("OUT", str(done[0])).replace(
                "current_date", "DATE '2026-09-05'"
            )
        ).fetchall()
    assert [one for one in found if one[2] == "b"] == [
        ("evicted", "", "b", "a", "q", 70), ("rejected", "", "b", "a", "", 42), ("evicted", "taker", "b", "a", "q", 30),
    ]  # fmt: skip


def test_the_report_says_where_messages_went(done: Done) -> None:
    page = (done[0] / "report.html").read_text()
    section = page[page.index("10 Where messages went") : page.index("11 Unused")]
    said = [
        " | ".join(re.findall(r"<td[^>]*>(.*?)</td>", line))
        for line in section.splitlines()
        if "<td" in line
    ]
    said = [line for line in said if "broker-" not in line]
    assert said == [
        "evicted (lost) | 100 | 1", "rejected (lost) | at least 42 | 1", "expired | 4,000 | 1",
        "q | b | evicted | 100 | \N{EN DASH} | taker 30 to 35, arrivals at a full ring",
        "address a | b | rejected | at least 42 | \N{EN DASH} | a full address (policy FAIL)",
        "q | b | expired | 4,000 | \N{EN DASH} | its time to live",
    ]  # fmt: skip
    assert "Counted since 2026-09-01" in section
    first = page[
        page.index("<h3>Lost messages since 2026-09-01</h3>") : page.index(
            "2 How complete"
        )
    ]
    said = [
        " | ".join(re.findall(r"<td[^>]*>(.*?)</td>", line))
        for line in first.splitlines()
        if "<td" in line
    ]
    assert (
        "rejected | address a | b | at least 42 | a full address (policy FAIL) | \N{EN DASH}"
        in said
    )


def test_without_a_loss_the_report_says_so(done: Done) -> None:
    queues = [
        queue | {"evicted": None, "expired": 0, "killed": 0}
        for queue in done[1]["queues"]
    ]
    page = pages(done[1] | {"fates": [], "queues": queues})["report.html"]
    assert (
        "<p>None.</p>"
        in page[page.index("Where messages went") : page.index("11 Unused")]
    )


@pytest.mark.nightly  # a run of Spark for an older history
def test_a_history_without_an_account_still_reads(
    spark: Any, own_fleet: Store, tmp_path: Path
) -> None:
    for entry in own_fleet.files():
        if "kind=fate" in entry.path or "dt=2026-09-01" not in entry.path:
            own_fleet.delete(entry.path)
    facts = job.run(own_fleet.url, str(tmp_path / "out"), session=spark)
    assert facts["fates"] == []
    assert pq.read_table(tmp_path / "out" / "fates.parquet").num_rows == 0
