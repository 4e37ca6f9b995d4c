"""`python -m bench.trends_peer HISTORY OUT`: DuckDB makes the hourly aggregates of raw queues and consumers."""

import sys
from pathlib import Path

import duckdb

from penstock_trends.kernel import QUEUE

READY = "(messages - delivering - coalesce(scheduled, 0) > 0)"
MADE = {
    "backlog": f"({READY} AND consumers > 0)::INT",
    "starved": f"({READY} AND consumers > 0 AND delivering = 0)::INT",
    "quiet": "epoch(stamp - coalesce(came, first))",
    "away": "epoch(stamp - coalesce(taken, first))",
    "quiet_until": "CASE WHEN came = stamp THEN epoch(stamp - start) ELSE 3600 END",
    "away_until": "CASE WHEN taken = stamp THEN epoch(stamp - start) ELSE 3600 END",
}
HOW = {"last": "arg_max({}, stamp)"}
GAUGES = [
    f"{HOW.get(how, f'{how}({{}})').format(MADE.get(name, name))} AS {name}_{how}"
    for name, ways in QUEUE.gauges.items()
    for how in ways
]
COUNTERS = [f"{how}({name}) AS {end}_{name}" for name in QUEUE.counters for end, how in (("lo", "min"), ("hi", "max"))]
BINS = "histogram(CASE WHEN messages >= 1 THEN least(1 + floor(8 * log2(messages)), 399)::INT ELSE 0 END) AS hist"
QUEUES = f"""
    WITH hours AS (SELECT *, date_trunc('hour', stamp) AS start FROM raw),
    ends AS (SELECT *, first_value(stamp) OVER life AS first, added > lag(added) OVER life AS comes,
                    NOT ({READY} AND consumers = 0) AS takes
             FROM hours WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp)),
    ages AS (SELECT *, max(stamp) FILTER (comes) OVER life AS came, max(stamp) FILTER (takes) OVER life AS taken
             FROM ends WINDOW life AS (PARTITION BY sid, inc, start ORDER BY stamp))
    SELECT sid, inc, start, any_value(broker) AS broker,
           {", ".join(f"any_value({name}) AS {name}" for name in QUEUE.texts)}, count(*) AS n,
           max(interval) AS every, {", ".join((*GAUGES, *COUNTERS))}, {BINS}
    FROM ages GROUP BY sid, inc, start"""  # noqa: S608 - own names
"""As the kernel: the age of a silence begins at the first poll of the hour and the life, or when one ended since."""
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
        database.execute(f"CREATE VIEW raw AS SELECT * FROM read_parquet('{files}', hive_partitioning = false)")  # noqa: S608
        database.execute(f"COPY ({query}) TO '{out}-{kind}.parquet' (FORMAT parquet, COMPRESSION zstd)")


if __name__ == "__main__":
    aggregate(Path(sys.argv[1]), Path(sys.argv[2]), "queue", QUEUES)
    aggregate(Path(sys.argv[1]), Path(sys.argv[2]), "consumer", CLIENTS)
