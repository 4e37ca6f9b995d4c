"""The kernel against DuckDB and against Spark's window functions: the same rows, to the last digit."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from bench.trends_peer import QUEUES as PEER
from bench.trends_peer import aggregate

from penstock.history.publish import in_order
from penstock.history.schema import CONSUMER, series_id
from penstock.history.schema import QUEUE as QUEUE_ROWS
from penstock.history.store import Store
from penstock_demo.history import Truth, _table
from penstock_trends import tables
from penstock_trends.facts import bins_of
from penstock_trends.kernel import QUEUE as KERNEL
from penstock_trends.kernel import percentile
from penstock_trends.tiers import days_query, increases_query
from trends.rows import START, grown, hours_of, polls_of, total, untidy

QUEUES = tables.TierTables("queue")
TIERS = """
SELECT sid, inc, epoch(date_trunc('hour', stamp))::BIGINT AS start, count(*) AS n,
       min(messages) AS low, max(messages) AS high, sum(messages) AS total, min(added) AS lo, max(added) AS hi
FROM (SELECT DISTINCT sid, inc, stamp, messages, added FROM rows) GROUP BY ALL ORDER BY sid, inc, start
"""
INCREASE = """
SELECT sid, epoch(date_trunc('hour', stamp))::BIGINT AS start, sum(grown)::BIGINT AS grown FROM (
  SELECT sid, stamp, added - lag(added) OVER (PARTITION BY sid, inc ORDER BY stamp) AS grown
  FROM (SELECT DISTINCT sid, inc, stamp, added FROM rows WHERE added IS NOT NULL))
GROUP BY ALL HAVING grown IS NOT NULL ORDER BY sid, start
"""


def asked(query: str, rows: Any) -> list[tuple[Any, ...]]:
    """What DuckDB says; `rows` is the table that the query names."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("rows", rows)
        return database.execute(query).fetchall()


def kernel(directory: Path, rows: Any, files: int = 1) -> Any:
    store = Store(str(directory))
    names = [f"raw/{i}.parquet" for i in range(files)]
    for i, name in enumerate(names):
        store.write_table(name, rows.take(pa.array(np.arange(i, len(rows), files))))
    return hours_of(store, "queue", names)


def by_hour(rows: Any, increases: Any) -> list[tuple[int, int, int]]:
    """Series, hour and increase, of those that are not 0."""
    sums: dict[tuple[int, int], float] = {}
    for sid, start, by in zip(
        *(rows[name].to_pylist() for name in ("sid", "start")), increases, strict=True
    ):
        if by is not None and not np.isnan(by):
            sums[sid, start] = sums.get((sid, start), 0.0) + by
    return sorted((*key, int(value)) for key, value in sums.items() if value)


def asked_of_spark(spark: Any, directory: Path, rows: Any, query: str) -> Any:
    """`rows` of a tier are the view that the queries of the tiers read."""
    store = Store(str(directory))
    schema = QUEUES.rows
    store.write_table("h1.parquet", rows.select(schema.names).cast(schema))
    frame = tables.frame(spark, store, ["h1.parquet"], schema)
    frame.selectExpr("*", "false AS before").createOrReplaceTempView("h1")
    found = [row.asDict() for row in spark.sql(query).collect()]
    for one in found:
        if "bins" in one:
            one["bins"] = [list(pair) for pair in one["bins"].items()]
    return pa.Table.from_pylist(found).sort_by(
        [(name, "ascending") for name in tables.KEYS]
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("files", [1, 7])
@pytest.mark.slow  # starts DuckDB
def test_hours_are_those_of_duckdb(seed: int, files: int, tmp_path: Path) -> None:
    rows = untidy(seed)
    table = kernel(tmp_path, rows, files)
    wanted = asked(TIERS, rows)
    names = (
        "sid",
        "inc",
        "start",
        "n",
        "messages_min",
        "messages_max",
        "messages_sum",
        "lo_added",
        "hi_added",
    )
    assert (
        list(zip(*(table[name].to_pylist() for name in names), strict=True)) == wanted
    )
    assert {row[0] for row in wanted} == set(rows["sid"].to_pylist())


@pytest.mark.slow  # DuckDB works out the same beside it
def test_all_gauges_are_those_of_the_bench(
    fleet: tuple[Store, Truth], tmp_path: Path
) -> None:
    """What DuckDB makes beside the job in `bench.trends` is the same work."""
    alike(fleet[0], tmp_path)


@pytest.mark.slow  # long courses
def test_windows_over_polls_that_are_missing_and_consumers_that_change_are_those_of_the_bench(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(5)
    store = Store(str(tmp_path / "rough"))
    size = 800
    for number in range(20):
        stamp = START + 20.0 * np.sort(random.choice(1000, size, replace=False))
        came = np.cumsum(random.integers(0, 40, size)).astype(float)
        left = np.maximum(np.maximum.accumulate(came - random.integers(0, 60, size)), 0)
        said = {
            "consumers": np.repeat(random.integers(0, 4, size // 20), 20).astype(float)
        }
        said |= {"removed" if number % 5 == 0 else "acknowledged": left}
        said |= {"exclusive": np.ones(size)} if number % 3 == 0 else {}
        rows = polls_of(
            f"q{number}", stamp, 20.0, added=came, messages=came - left, **said
        )
        store.write_table(
            f"raw/kind=queue/dt=2026-09-01/hour=all/{number}.parquet",
            in_order(rows, QUEUE_ROWS),
        )
    found = alike(store, tmp_path)
    assert np.isfinite(found["service_max"].to_numpy()).sum() > 100


def alike(store: Store, tmp_path: Path) -> Any:
    """The hours of all queues, which are those of DuckDB."""
    aggregate(Path(store.root), tmp_path / "peer", "queue", PEER)
    names = ["n", *KERNEL.summed, *KERNEL.bounds]
    order = [("sid", "ascending"), ("inc", "ascending"), ("start", "ascending")]
    paths = [entry.path for entry in store.files("raw/kind=queue")]
    found = hours_of(store, "queue", paths).sort_by(order)
    wanted = pq.read_table(tmp_path / "peer-queue.parquet").sort_by(order)
    assert len(found) == len(wanted) > 100
    for name in names:
        ours, theirs = (
            np.array(rows[name].to_pylist(), float) for rows in (found, wanted)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, err_msg=name)
    return found


def test_increases_are_those_of_a_window_over_single_polls(
    spark: Any, tmp_path: Path
) -> None:
    """By the query of the tiers, by numpy, and by DuckDB over the raw rows; what came in gaps is apart."""
    rows = untidy(2)
    hours = kernel(tmp_path, rows)
    wanted = [
        (sid, start, increase)
        for sid, start, increase in asked(INCREASE, rows)
        if increase
    ]
    assert by_hour(hours, grown(hours, "added").tolist()) == wanted
    found = asked_of_spark(spark, tmp_path, hours, increases_query(QUEUES))
    both = pc.add(found["added"], found["gap_added"])
    assert by_hour(found, both.to_pylist()) == wanted
    assert len(rows) > 3000
    assert pc.sum(pc.greater(found["gap_added"], 0)).as_py() > 20
    assert set(found["removed"].to_pylist()) == {None}, "what is not known is not 0"


def with_unknown(began: float, ended: float) -> Any:
    """Polls of a queue each minute, ten hours of 60 messages; its counter is not known for a time, in hours."""
    stamp = START + 60.0 * np.arange(600)
    since = (stamp - START) / 3600
    added = np.where((since >= began) & (since < ended), np.nan, np.arange(600.0))
    return polls_of("q", stamp, 60.0, added=added, messages=np.zeros(600))


@pytest.mark.parametrize(
    ("began", "ended"), [(3, 7), (2.5, 6.5), (2.9, 3.95), (4.2, 4.8)]
)
def test_what_came_while_a_counter_was_not_known_is_counted_in_no_hour(
    began: float, ended: float, spark: Any, tmp_path: Path
) -> None:
    rows = with_unknown(began, ended)
    found = asked_of_spark(
        spark,
        tmp_path,
        kernel(tmp_path, in_order(rows, QUEUE_ROWS)),
        increases_query(QUEUES),
    )
    added, gap = (
        np.array(found[name].to_pylist(), float) for name in ("added", "gap_added")
    )
    assert np.nansum(added) + np.nansum(gap) == 599
    assert np.nanmax(added) <= 60
    if ended - began > 1:
        assert np.nansum(gap) == pytest.approx(60 * (ended - began), abs=1)


def test_a_day_that_ends_without_a_counter_is_joined_by_when_it_was_known(
    spark: Any, tmp_path: Path
) -> None:
    """However the days are put together: what came is in the gap of the hour after, and its sum is right."""
    hours = kernel(tmp_path, in_order(with_unknown(3, 7), QUEUE_ROWS))
    whole = asked_of_spark(spark, tmp_path, hours, increases_query(QUEUES))
    early = pc.less(hours["start"], START + 5 * 3600)
    day = asked_of_spark(spark, tmp_path, hours.filter(early), days_query(QUEUES))
    past = day.append_column("before", pa.array([True] * len(day)))
    store = Store(str(tmp_path))
    schema = QUEUES.rows
    for name, table in (("past", past), ("now", hours.filter(pc.invert(early)))):
        fitted = pa.table(
            {
                field.name: table[field.name].cast(field.type)
                for field in schema
                if field.name != "bins"
            }
        )
        store.write_table(f"{name}.parquet", fitted)
    frames = [
        tables.frame(spark, store, [f"{name}.parquet"], schema).selectExpr(
            "*", f"{name == 'past'} AS before".lower()
        )
        for name in ("past", "now")
    ]
    frames[0].unionByName(frames[1]).createOrReplaceTempView("h1")
    apart = pa.Table.from_pylist(
        [row.asDict() for row in spark.sql(increases_query(QUEUES)).collect()]
    )
    names = ["start", "added", "gap_added"]
    later = whole.filter(pc.greater_equal(whole["start"], START + 5 * 3600)).select(
        names
    )
    assert apart.sort_by("start").select(names).to_pylist() == later.to_pylist()
    assert pc.sum(later["gap_added"]).as_py() == 241


def test_days_made_of_hours_are_days_made_of_polls(spark: Any, tmp_path: Path) -> None:
    rows = untidy(3)
    day = asked_of_spark(spark, tmp_path, kernel(tmp_path, rows), days_query(QUEUES))
    wanted = asked(TIERS.replace("'hour'", "'day'"), rows)
    names = (
        "sid",
        "inc",
        "start",
        "n",
        "messages_min",
        "messages_max",
        "messages_sum",
        "lo_added",
        "hi_added",
    )
    assert list(zip(*(day[name].to_pylist() for name in names), strict=True)) == wanted
    exact = dict(
        asked(
            "SELECT sid, list(messages) FROM (SELECT DISTINCT sid, stamp, messages FROM rows) GROUP BY ALL",
            rows,
        )
    )
    bins = bins_of(
        day.set_column(
            day.column_names.index("bins"),
            "bins",
            pa.array(
                [[*map(tuple, one)] for one in day["bins"].to_pylist()], tables.BINS
            ),
        )
    )
    assert bins.keys() == exact.keys()
    for sid, one in bins.items():
        said = percentile(one["hist_at"], one["hist_n"], 0.95)
        assert said == pytest.approx(
            np.quantile(exact[sid], 0.95, method="inverted_cdf"), rel=0.1
        )


def seen_by(rows: Any, shift: float, begin: float, end: float, life: int) -> Any:
    """The same broker as another agent polls it: some seconds later, from begin to end, with a name of its own."""
    at = rows["stamp"].cast(pa.int64()).to_numpy()
    seconds = at / 1e6 - START
    mine = rows.filter(pa.array((seconds >= begin) & (seconds < end)))
    stamps = pa.array(
        mine["stamp"].cast(pa.int64()).to_numpy() + int(shift * 1e6)
    ).cast(rows["stamp"].type)
    lives = pa.array(mine["inc"].to_numpy() + life)
    return mine.set_column(0, rows.schema.field("stamp"), stamps).set_column(
        rows.schema.get_field_index("inc"), rows.schema.field("inc"), lives
    )


@pytest.mark.slow  # long courses
@pytest.mark.parametrize("files", [1, 3])
def test_a_broker_that_two_agents_watch_counts_once(files: int, tmp_path: Path) -> None:
    alone = untidy(4, reset=0.0)
    one = seen_by(alone, 0, 0, 26_000, 0)
    two = seen_by(alone, 7, 5000, 1e9, 999)
    both = pa.concat_tables([one, two]).unify_dictionaries()
    wanted = total(kernel(tmp_path / "alone", alone))
    found = total(kernel(tmp_path / "both", both, files))
    assert found.keys() == wanted.keys()
    for sid, came in wanted.items():
        # One step is lost where the first agent ends and the other's names go on.
        assert 0.97 * came - 50 <= found[sid] <= came
    assert max(kernel(tmp_path / "polls", both, files)["n"].to_pylist()) <= 60


CLIENTS = """
SELECT sid, epoch(date_trunc('hour', stamp))::BIGINT AS start, count(*) AS n, max(buffered) AS most,
       sum(buffered) AS held, sum((buffered = 0)::INT) AS empty, sum(settled)::BIGINT AS grown, count(settled) AS steps
FROM (SELECT *, acknowledged - lag(acknowledged) OVER (PARTITION BY sid, key, hour(stamp) ORDER BY stamp) AS settled
      FROM (SELECT DISTINCT sid, key, stamp, buffered, acknowledged FROM rows)) GROUP BY ALL ORDER BY sid, start
"""


def consumers(seed: int) -> Any:
    """Three clients with one to three consumers each, polled every minute for five hours, some rows twice."""
    random = np.random.default_rng(seed)
    key = np.repeat(np.arange(6), 300)
    client = np.array(["one", "two", "two", "three", "three", "three"])[key]
    rows = {
        "stamp": START + 60.0 * np.tile(np.arange(300), 6),
        "sid": np.array([series_id("b", "q", "q", name) for name in client.tolist()]),
        "key": key,
        "inc": np.full(1800, 7),
        "buffered": random.integers(0, 4, 1800).astype(float),
        "acknowledged": random.integers(0, 9, (6, 300))
        .cumsum(axis=1)
        .ravel()
        .astype(float),
        "interval": np.full(1800, 60.0),
    }
    order = random.permutation(
        np.concatenate([np.arange(1800), random.integers(0, 1800, 90)])
    )
    rows = {name: column[order] for name, column in rows.items()}
    texts = {"client": pa.array(client[order].tolist()).dictionary_encode()}
    constants = {"broker": "b", "address": "q", "queue": "q", "protocol": "CORE"}
    return _table(CONSUMER, rows.pop("stamp"), rows, texts, constants)


@pytest.mark.parametrize("seed", range(3))
def test_clients_are_those_of_duckdb(seed: int, tmp_path: Path) -> None:
    rows = consumers(seed)
    store = Store(str(tmp_path))
    store.write_table("raw/0.parquet", rows)
    table = hours_of(store, "consumer", ["raw/0.parquet"])
    names = (
        "sid",
        "start",
        "n",
        "buffered_max",
        "buffered_sum",
        "empty_sum",
        "settled_sum",
        "steps_sum",
    )
    found = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    assert found == asked(CLIENTS, rows)
    assert len(found) == 3 * 5


def test_polls_at_which_messages_wait_and_nobody_holds_one(tmp_path: Path) -> None:
    numbers = {
        "sid": np.full(4, 1), "inc": np.full(4, 1), "interval": np.full(4, 60.0), "consumers": np.full(4, 1.0),
        "messages": np.array([9.0, 9, 9, 0]), "delivering": np.array([0.0, 2, 0, 0]),
        "scheduled": np.array([0.0, np.nan, 9, 0]),
    }  # fmt: skip
    store = Store(str(tmp_path))
    store.write_table(
        "0.parquet",
        _table(QUEUE_ROWS, START + 60.0 * np.arange(4), numbers, {}, {"broker": "b"}),
    )
    (row,) = hours_of(store, "queue", ["0.parquet"]).to_pylist()
    assert (row["n"], row["backlog_sum"], row["starved_sum"]) == (4, 2, 1)
