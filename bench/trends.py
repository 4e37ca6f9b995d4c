"""
`make bench-trends`: what trends cost. The last line is JSON.

rollup: raw rows to hourly ones by the job on a warm Spark session, beside DuckDB for the same aggregates of the same
files, in turn. daily: a run after one more day, with 90 and with 365 days of history. bytes: of a value in a day file,
beside Prometheus' own blocks for the same samples, of the generator and of a real broker.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import click
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench.harness import facts, print_table

from penstock.agent import Agent
from penstock.history.compact import Keep, tidy
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock_demo.history import Fleet, generate
from penstock_trends import job
from penstock_trends.kernel import QUEUE
from penstock_trends.session import spark_session
from penstock_trends.tiers import roll_up
from rig.prometheus import tool

ROWS_A_DAY = 500 * 5760
RUNS = 5
DAY = 86400.0
SAMPLED = 50
"""Queues of which the generator's samples go into Prometheus."""
MINUTES = 5.0
"""For which the real broker is polled, each second."""


def timed(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


# --- rollup


def hourly_by_duckdb(history: Path, out: Path) -> Callable[[], None]:
    """The same columns, and the same bins, written as the same kind of file."""
    waits = "(messages - delivering - coalesce(scheduled, 0) > 0 AND consumers > 0)"
    made = {"backlog": f"{waits}::INT", "starved": f"({waits} AND delivering = 0)::INT"}
    gauges = [f"{how}({made.get(name, name)}) AS {name}_{how}" for name, ways in QUEUE.gauges.items() for how in ways]
    counters = [
        f"{how}({name}) AS {end}_{name}" for name in QUEUE.counters for end, how in (("lo", "min"), ("hi", "max"))
    ]
    bins = "histogram(CASE WHEN messages >= 1 THEN least(1 + floor(8 * log2(messages)), 399)::INT ELSE 0 END) AS hist"
    query = f"""
        COPY (SELECT sid, inc, date_trunc('hour', stamp) AS start, any_value(broker) AS broker,
              {", ".join(f"any_value({name}) AS {name}" for name in QUEUE.texts)}, count(*) AS n,
              max(interval) AS every, {", ".join((*gauges, *counters))}, {bins}
              FROM read_parquet('{history}/raw/kind=queue/*/*/*.parquet', hive_partitioning = false)
              GROUP BY sid, inc, start) TO '{out}' (FORMAT parquet, COMPRESSION zstd)"""  # noqa: S608 - own names

    def work() -> None:
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            database.execute(query)

    return work


def bench_rollup(session: Any, folder: Path, days: int) -> dict[str, Any]:
    history = Store(str(folder / "history"))
    generate(history, Fleet(brokers=4, queues=125, days=days, interval=15, gaps=0.0))
    peer = hourly_by_duckdb(folder / "history", folder / "peer.parquet")
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(RUNS + 1):
        out = Store(str(folder / f"rolled-{number}"))
        ours.append(timed(lambda: roll_up(session, history, out)))  # noqa: B023 - called at once
        theirs.append(timed(peer))
    rows = sum(pq.read_metadata(out.path(e.path)).num_rows for e in out.files("h1/kind=queue"))
    wanted = pq.read_metadata(folder / "peer.parquet").num_rows
    if rows != wanted:
        raise SystemExit(f"{rows} hourly rows, DuckDB has {wanted}")
    ratio = median(a / b for a, b in zip(ours[1:], theirs[1:], strict=True))
    read = sum(pq.read_metadata(history.path(e.path)).num_rows for e in history.files("raw/kind=queue"))
    return {
        "rows": read,
        "ours_s": round(median(ours[1:]), 2),
        "duckdb_s": round(median(theirs[1:]), 2),
        "ratio": round(ratio, 2),
    }


# --- the daily job


def bench_daily(session: Any, folder: Path) -> dict[str, float]:
    """Seconds of the job when one day is new, by days of history; in turn."""
    prepared = {days: with_history(session, folder / str(days), days) for days in (90, 365)}
    seconds: dict[int, list[float]] = {days: [] for days in prepared}
    for _ in range(RUNS):
        for days, (history, out, last) in prepared.items():
            forget(out, last)
            seconds[days].append(timed(lambda: job.run(str(history), str(out), session=session)))  # noqa: B023
    found = {f"days_{days}_s": round(median(values), 2) for days, values in seconds.items()}
    return found | {"ratio": round(median(b / a for a, b in zip(seconds[90], seconds[365], strict=True)), 2)}


def with_history(session: Any, folder: Path, days: int) -> tuple[Path, Path, str]:
    """History and results of so many days, and the name of the last one."""
    history, out = folder / "history", folder / "out"
    store = Store(str(history))
    fleet = Fleet(brokers=2, queues=10, days=days, interval=300)
    generate(store, fleet)
    tidy(store, Keep(days=1000.0), fleet.start + (days + 3) * DAY)
    job.run(str(history), str(out), session=session)
    # What retention leaves of the raw files.
    tidy(store, Keep(days=35.0), fleet.start + (days + 3) * DAY)
    return history, out, store.directories("raw/kind=queue")[-1].removeprefix("dt=")


def forget(out: Path, day: str) -> None:
    """As if the last day had not been rolled up yet."""
    (out / "days" / f"{day}.json").unlink()


# --- bytes


def bench_bytes(table: Any, folder: Path) -> dict[str, Any]:
    """table: rows of queues of at most a day. Bytes of a number in a day file, and in a block of Prometheus."""
    folder.mkdir()
    store = Store(str(folder))
    store.write_table("day.parquet", table)
    names = [n for n, of in ROW_TYPES["queue"].numbers.items() if table[n].null_count < len(table)]
    values = sum(len(table) - table[name].null_count for name in names)
    size = (folder / "day.parquet").stat().st_size
    file = folder / "samples.txt"
    with file.open("w") as out:
        out.writelines(samples(table, names))
        out.write("# EOF\n")
    command = [str(tool("promtool")), "tsdb", "create-blocks-from", "openmetrics", str(file), str(folder / "blocks")]
    subprocess.run(command, check=True, capture_output=True)
    blocks = sum(path.stat().st_size for path in (folder / "blocks").rglob("*") if path.is_file())
    return {
        "rows": len(table),
        "values": values,
        "ours": round(size / values, 3),
        "prometheus": round(blocks / values, 3),
    }


def samples(table: Any, names: list[str]) -> Iterator[str]:
    """As OpenMetrics, a family for each column."""
    stamps = (table["stamp"].cast(pa.int64()).to_numpy() / 1e6).tolist()
    labels = [
        f'{{broker="{broker}",queue="{queue}"}}'
        for broker, queue in zip(*(table[n].cast(pa.string()).to_pylist() for n in ("broker", "queue")), strict=True)
    ]
    for name in names:
        yield f"# TYPE mq_{name} gauge\n"
        values = table[name].cast(pa.float64()).to_pylist()
        for label, value, stamp in zip(labels, values, stamps, strict=True):
            if value is not None:
                yield (
                    f"mq_{name}{label} {value:g} {stamp:.3f}\n"
                    if abs(value) < 1e5
                    else f"mq_{name}{label} {value!r} {stamp:.3f}\n"
                )


def generated_day(folder: Path) -> Any:
    """One day of SAMPLED queues, in one file's order."""
    store = Store(str(folder / "history"))
    day = store.directories("raw/kind=queue")[0]
    paths = [store.path(entry.path) for entry in store.files(f"raw/kind=queue/{day}")]
    table = pa.concat_tables([pq.ParquetFile(path).read() for path in paths]).unify_dictionaries()
    sids = np.unique(table["sid"].to_numpy())[:SAMPLED]
    return table.filter(pa.array(np.isin(table["sid"].to_numpy(), sids))).sort_by(
        [("sid", "ascending"), ("key", "ascending"), ("stamp", "ascending")]
    )


def recorded(folder: Path, minutes: float) -> Any:
    """What the agent keeps of a real broker with load and faults, polled each second."""
    from penstock_demo.run import Scenario  # noqa: PLC0415 - where a broker is wanted

    scenario = Scenario()
    scenario.start()
    try:
        config = folder / "penstock.yaml"
        config.touch(mode=0o600)
        config.write_text(scenario.config_yaml(interval="1s") + "history: {enabled: true}\n")
        asyncio.run(watched(Agent(config, folder / "data"), minutes))
    finally:
        scenario.stop()
    store = Store(str(folder / "data" / "history"))
    paths = [store.path(entry.path) for entry in store.files("raw/kind=queue")]
    return (
        pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
        .unify_dictionaries()
        .sort_by([("sid", "ascending"), ("key", "ascending"), ("stamp", "ascending")])
    )


async def watched(agent: Agent, minutes: float) -> None:
    await agent.start()
    try:
        await asyncio.sleep(60 * minutes)
    finally:
        await agent.stop()


@click.command()
@click.option("--days", default=7, show_default=True, help="Of 2.9 million raw rows each, for the rollup.")
@click.option("--minutes", default=MINUTES, show_default=True, help="For which a real broker is polled; 0: not at all.")
@click.option("--only", type=click.Choice(["rollup", "daily", "bytes"]), help="One part; default: all.")
def main(*, days: int, minutes: float, only: str | None) -> None:
    found: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = None if only == "bytes" else spark_session("local[*]")
        if only in (None, "rollup"):
            found["rollup"] = bench_rollup(session, folder, days)
            shutil.rmtree(folder / "rolled-0")
        if only in (None, "daily"):
            found["daily"] = bench_daily(session, folder)
        if only in (None, "bytes"):
            if only:
                generate(Store(str(folder / "history")), Fleet(brokers=4, queues=125, days=1, interval=15, gaps=0.0))
            found["bytes_generated"] = bench_bytes(generated_day(folder), folder / "generated")
            if minutes:
                found["bytes_recorded"] = bench_bytes(recorded(folder, minutes), folder / "recorded")
        if session is not None:
            session.stop()
    for part, numbers in found.items():
        print_table({name: [str(value)] for name, value in numbers.items()}, [part, ""])
    print(json.dumps({"bench": "trends", **found, **facts()}))


if __name__ == "__main__":
    main()
