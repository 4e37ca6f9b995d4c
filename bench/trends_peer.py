"""`python -m bench.trends_peer HISTORY OUT`: DuckDB makes the hourly aggregates of raw queues and consumers."""

import sys
from pathlib import Path

import duckdb

from penstock_trends.kernel import QUEUE

READY = "(messages - delivering - coalesce(scheduled, 0) > 0)"
SUMS = {
    "spent": "coalesce(works * step, 0)", "settled": "d_settled", "watched": "step",
    "busy_spent": "at_backlog * coalesce(works * step, 0)", "busy_settled": "at_backlog * d_settled",
    "busy_watched": "at_backlog * step",
}  # fmt: skip
"""Running sums of an hour, which windows are differences of: `in_…`."""
BUSY = "in_busy_settled >= 3 AND in_busy_watched >= 0.75 * minutes"
MADE = {
    "backlog": f"({READY} AND consumers > 0)::INT",
    "starved": f"({READY} AND consumers > 0 AND delivering = 0)::INT",
    "quiet": "epoch(stamp - coalesce(came, first))",
    "away": "epoch(stamp - coalesce(taken, first))",
    "quiet_until": "CASE WHEN came = stamp THEN epoch(stamp - start) ELSE 3600 END",
    "away_until": "CASE WHEN taken = stamp THEN epoch(stamp - start) ELSE 3600 END",
    "peak": "300 * came_in_five / five_minutes",
    "service": f"CASE WHEN {BUSY} THEN in_busy_spent / in_busy_settled END",
    "busy": f"coalesce({BUSY}, false)::INT",
    "pace": """CASE WHEN in_settled >= 20 AND in_spent > 0 AND in_watched >= 0.75 * minutes
                THEN in_settled / in_spent END""",
}
HOW = {"last": "arg_max({}, stamp)"}
GAUGES = [
    f"{HOW.get(how, f'{how}({{}})').format(MADE.get(name, name))} AS {name}_{how}"
    for name, ways in QUEUE.gauges.items()
    for how in ways
]
COUNTERS = [
    f"{how}({name}) AS {end}_{name}"
    for name in QUEUE.counters
    for end, how in (("lo", "min"), ("hi", "max"))
]
BINS = "histogram(CASE WHEN messages >= 1 THEN least(1 + floor(8 * log2(messages)), 399)::INT ELSE 0 END) AS hist"
SAME_HOUR = "a.sid = {0}.sid AND a.inc = {0}.inc AND a.start = {0}.start AND a.stamp - INTERVAL {1} MINUTE >= {0}.stamp"
QUEUES = f"""
    WITH hours AS (SELECT *, date_trunc('hour', stamp) AS start FROM raw),
    ends AS (SELECT *, first_value(stamp) OVER life AS first, added > lag(added) OVER life AS comes,
                    NOT ({READY} AND consumers = 0) AS takes
             FROM hours WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp)),
    ages AS (SELECT *, max(stamp) FILTER (comes) OVER life AS came, max(stamp) FILTER (takes) OVER life AS taken
             FROM ends WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp)),
    steps AS (SELECT *, epoch(stamp - lag(stamp) OVER life) AS apart,
                     coalesce(acknowledged, removed - coalesce(expired, 0)) AS gone,
                     CASE WHEN exclusive > 0 THEN least(consumers, 1) ELSE consumers END AS works,
                     messages - coalesce(scheduled, 0) >= 2 * works AND works > 0 AS deep,
                     (consumers IS DISTINCT FROM lag(consumers) OVER life)::INT AS change
              FROM ages WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp)),
    moves AS (SELECT *, CASE WHEN apart <= 3 * interval THEN apart ELSE 0 END AS step,
                     (step > 0)::INT * greatest(coalesce(gone - lag(gone) OVER life, 0), 0) AS d_settled,
                     (step > 0 AND coalesce(lag(deep) OVER life, false))::INT AS at_backlog,
                     sum(change) OVER life AS alike
              FROM steps WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp)),
    sums AS (SELECT *, {", ".join(f"sum({of}) OVER life AS {name}" for name, of in SUMS.items())}
             FROM moves WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp)),
    windows AS (SELECT a.*, {", ".join(f"a.{name} - two.{name} AS in_{name}" for name in SUMS)},
                       epoch(a.stamp - two.stamp) AS minutes, a.added - five.added AS came_in_five,
                       epoch(a.stamp - five.stamp) AS five_minutes
                FROM sums AS a
                ASOF LEFT JOIN sums AS two ON {SAME_HOUR.format("two", 2)} AND a.alike = two.alike
                ASOF LEFT JOIN sums AS five ON {SAME_HOUR.format("five", 5)})
    SELECT sid, inc, start, any_value(broker) AS broker,
           {", ".join(f"any_value({name}) AS {name}" for name in QUEUE.texts)}, count(*) AS n,
           max(interval) AS every, {", ".join((*GAUGES, *COUNTERS))}, {BINS}
    FROM windows GROUP BY sid, inc, start"""  # noqa: S608 - own names
"""As the kernel: the age of a silence begins at the first poll of the hour and the life, or when one ended since.
Windows are of one hour.
"""
CLIENTS = """
    SELECT sid, start, any_value(broker) AS broker, any_value(address) AS address, any_value(queue) AS queue,
           any_value(client) AS client, count(*) AS n, max(buffered), sum(buffered), max(buffered_bytes),
           sum(buffered_bytes), max(flow_limit), sum(settled), max(settled), count(settled), sum((buffered = 0)::INT)
    FROM (SELECT *, greatest(acknowledged - lag(acknowledged) OVER same, 0) AS settled FROM (
            SELECT *, date_trunc('hour', stamp) AS start FROM raw)
          WINDOW same AS (PARTITION BY sid, key, start ORDER BY stamp))
    GROUP BY sid, start"""


def aggregate(history: Path, out: Path, kind: str, query: str) -> None:
    """Hourly rows of one kind into one file, as the job makes them."""
    files = f"{history}/raw/kind={kind}/*/*/*.parquet"
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute(
            f"CREATE VIEW raw AS SELECT * FROM read_parquet('{files}', hive_partitioning = false)"  # noqa: S608
        )
        database.execute(
            f"COPY ({query}) TO '{out}-{kind}.parquet' (FORMAT parquet, COMPRESSION zstd)"
        )


if __name__ == "__main__":
    aggregate(Path(sys.argv[1]), Path(sys.argv[2]), "queue", QUEUES)
    aggregate(Path(sys.argv[1]), Path(sys.argv[2]), "consumer", CLIENTS)
