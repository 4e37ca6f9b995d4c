"""
`make bench-trends`: what trends cost. The last line is JSON.

rollup: raw rows to hourly ones by the job on a warm Spark session, beside DuckDB for the same aggregates of the same
files, in turn. daily: a run after one more day, with 90 and with 365 days of history. bytes: of a value in a day file,
beside Prometheus' own blocks for the same samples, of the generator and of a real broker. scale: the whole job, as a
process of its own, on one day of so many queues with five consumers each, polled each minute: CPU of all its processes
and memory of the driver, beside DuckDB for the aggregates of queues and consumers, and a run with nothing new.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench.harness import facts, print_table
from bench.trends_peer import QUEUES, aggregate

from penstock.agent import Agent
from penstock.history.compact import Keep, tidy
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock_demo.history import Fleet, generate
from penstock_trends import job
from penstock_trends.session import spark_session
from penstock_trends.tiers import roll_up
from rig.prometheus import tool

ROWS_A_DAY = 500 * 5760
RUNS = 5
DAY = 86400.0
SAMPLED = 50
"""Queues of which the generator's samples go into Prometheus."""
CONSUMERS = 5
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE = 0.25
"""Seconds between two looks at the processes."""
START = "from penstock_trends.session import spark_session; spark_session().range(1).count()"
MINUTES = 5.0
"""For which the real broker is polled, each second."""


def timed(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


# --- rollup


def hourly_by_duckdb(history: Path, out: Path) -> Callable[[], None]:
    """The same columns, and the same bins, written as the same kind of file."""
    return lambda: aggregate(history, out, "queue", QUEUES)


def bench_rollup(session: Any, folder: Path, days: int) -> dict[str, Any]:
    history = Store(str(folder / "history"))
    generate(history, Fleet(brokers=4, queues=125, days=days, interval=15, gaps=0.0))
    peer = hourly_by_duckdb(folder / "history", folder / "peer")
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(RUNS + 1):
        out = Store(str(folder / f"rolled-{number}"))
        ours.append(timed(lambda: roll_up(session, history, out)))  # noqa: B023 - called at once
        theirs.append(timed(peer))
    rows = sum(
        pq.read_metadata(out.path(e.path)).num_rows for e in out.files("h1/kind=queue")
    )
    wanted = pq.read_metadata(folder / "peer-queue.parquet").num_rows
    if rows != wanted:
        raise SystemExit(f"{rows} hourly rows, DuckDB has {wanted}")
    ratio = median(a / b for a, b in zip(ours[1:], theirs[1:], strict=True))
    read = sum(
        pq.read_metadata(history.path(e.path)).num_rows
        for e in history.files("raw/kind=queue")
    )
    return {
        "rows": read,
        "ours_s": round(median(ours[1:]), 2),
        "duckdb_s": round(median(theirs[1:]), 2),
        "ratio": round(ratio, 2),
    }


# --- the daily job


def bench_daily(session: Any, folder: Path) -> dict[str, float]:
    """Seconds of the job when one day is new, by days of history; in turn."""
    prepared = {
        days: with_history(session, folder / str(days), days) for days in (90, 365)
    }
    seconds: dict[int, list[float]] = {days: [] for days in prepared}
    for _ in range(RUNS):
        for days, (history, out, last) in prepared.items():
            forget(out, last)
            seconds[days].append(
                timed(lambda: job.run(str(history), str(out), session=session))  # noqa: B023
            )
    found = {
        f"days_{days}_s": round(median(values), 2) for days, values in seconds.items()
    }
    return found | {
        "ratio": round(
            median(b / a for a, b in zip(seconds[90], seconds[365], strict=True)), 2
        )
    }


def with_history(session: Any, folder: Path, days: int) -> tuple[Path, Path, str]:
    """History and results of so many days, and the name of the last one."""
    history = folder / "history"
    out = folder / "out"
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


# --- scale


def bench_scale(folder: Path, queues: int) -> dict[str, Any]:
    """One day of a fleet; brokers have up to 2,500 queues each."""
    history = folder / f"history-{queues}"
    out = folder / f"trends-{queues}"
    brokers = -(-queues // 2500)
    fleet = Fleet(
        brokers=brokers,
        queues=queues // brokers,
        days=1,
        interval=60,
        gaps=0.0,
        consumers=CONSUMERS,
        active=1.0,
    )
    generate(Store(str(history)), fleet)
    start = observed([sys.executable, "-c", START])
    job_of = [
        sys.executable,
        "-m",
        "penstock_trends.job",
        "--history",
        str(history),
        "--out",
        str(out),
    ]
    first = observed(job_of)
    again = observed(job_of)
    theirs = observed(
        [sys.executable, "-m", "bench.trends_peer", str(history), str(folder / "peer")]
    )
    report = [
        path.stat().st_size
        for path in (out / "report.html", *(out / "brokers").iterdir())
    ]
    return {
        "queues": queues,
        "cpu_s": first["cpu_s"],
        "duckdb_cpu_s": theirs["cpu_s"],
        "allowed_cpu_s": round(3 * theirs["cpu_s"] + 60, 1),
        "driver_mb": first["driver_mb"],
        "tree_mb": first["tree_mb"],
        "nothing_new_beyond_start_cpu_s": round(again["cpu_s"] - start["cpu_s"], 1),
        "start_cpu_s": start["cpu_s"],
        "report_mb": round(max(report) / 1e6, 2),
        "tables_mb": round(
            sum(file.stat().st_size for file in out.rglob("*.parquet")) / 1e6, 1
        ),
    }


def observed(command: list[str]) -> dict[str, float]:
    """CPU seconds of a process and all it starts; highest memory of its driver (itself and Java) and of all, in MB."""
    cpu: dict[int, float] = {}
    driver = tree = 0.0
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=log, stderr=log) as run,
    ):
        while run.poll() is None:
            found = processes_of(run.pid)
            cpu |= {pid: seconds for pid, (seconds, _, _) in found.items()}
            driver = max(
                driver,
                sum(
                    size
                    for pid, (_, size, name) in found.items()
                    if pid == run.pid or name == "java"
                ),
            )
            tree = max(tree, sum(size for _, size, _ in found.values()))
            time.sleep(SAMPLE)
        if run.returncode:
            log.seek(0)
            raise SystemExit(f"{command}: {log.read().decode()[-2000:]}")
    return {
        "cpu_s": round(sum(cpu.values()), 1),
        "driver_mb": round(driver),
        "tree_mb": round(tree),
    }


def processes_of(root: int) -> dict[int, tuple[float, float, str]]:
    """CPU seconds, resident MB and name of a process and all below it."""
    parents = {}
    seen = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (
                (path / "stat").read_text().partition("(")[2].rpartition(")")
            )
            resident = int((path / "statm").read_text().split()[1]) * PAGE / 1e6
        except (OSError, IndexError):
            continue
        parts = rest.split()
        pid = int(path.name)
        parents[int(path.name)] = int(parts[1])
        seen[pid] = (int(parts[11]) + int(parts[12])) / TICKS, resident, name
    mine = {root}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return {pid: seen[pid] for pid in mine & seen.keys()}


# --- bytes


def bench_bytes(table: Any, folder: Path) -> dict[str, Any]:
    """table: rows of queues of at most a day. Bytes of a number in a day file, and in a block of Prometheus."""
    folder.mkdir()
    store = Store(str(folder))
    store.write_table("day.parquet", table)
    names = [
        n
        for n, of in ROW_TYPES["queue"].numbers.items()
        if table[n].null_count < len(table)
    ]
    values = sum(len(table) - table[name].null_count for name in names)
    size = (folder / "day.parquet").stat().st_size
    file = folder / "samples.txt"
    with file.open("w") as out:
        out.writelines(samples(table, names))
        out.write("# EOF\n")
    command = [
        str(tool("promtool")),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(file),
        str(folder / "blocks"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    blocks = sum(
        path.stat().st_size for path in (folder / "blocks").rglob("*") if path.is_file()
    )
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
        for broker, queue in zip(
            *(table[n].cast(pa.string()).to_pylist() for n in ("broker", "queue")),
            strict=True,
        )
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
    table = pa.concat_tables(
        [pq.ParquetFile(path).read() for path in paths]
    ).unify_dictionaries()
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
        config.write_text(
            scenario.config_yaml(interval="1s") + "history: {enabled: true}\n"
        )
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
@click.option(
    "--days",
    default=7,
    show_default=True,
    help="Of 2.9 million raw rows each, for the rollup.",
)
@click.option(
    "--minutes",
    default=MINUTES,
    show_default=True,
    help="For which a real broker is polled; 0: not at all.",
)
@click.option(
    "--only",
    type=click.Choice(["rollup", "daily", "bytes", "scale"]),
    help="One part; default: all.",
)
@click.option(
    "--queues",
    multiple=True,
    default=(500, 2000, 10_000),
    show_default=True,
    help="Of the scale.",
)
def main(
    *, days: int, minutes: float, only: str | None, queues: tuple[int, ...]
) -> None:
    found: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if only in (None, "scale"):
            for size in queues:
                found[f"scale_{size}"] = bench_scale(folder, size)
                print(json.dumps(found[f"scale_{size}"]), flush=True)
        session = None if only in ("bytes", "scale") else spark_session("local[*]")
        if only in (None, "rollup"):
            found["rollup"] = bench_rollup(session, folder, days)
            shutil.rmtree(folder / "rolled-0")
        if only in (None, "daily"):
            found["daily"] = bench_daily(session, folder)
        if only in (None, "bytes"):
            if only:
                generate(
                    Store(str(folder / "history")),
                    Fleet(brokers=4, queues=125, days=1, interval=15, gaps=0.0),
                )
            found["bytes_generated"] = bench_bytes(
                generated_day(folder), folder / "generated"
            )
            if minutes:
                found["bytes_recorded"] = bench_bytes(
                    recorded(folder, minutes), folder / "recorded"
                )
        if session is not None:
            session.stop()
    for part, numbers in found.items():
        print_table({name: [str(value)] for name, value in numbers.items()}, [part, ""])
    print(json.dumps({"bench": "trends", **found, **facts()}))


if __name__ == "__main__":
    main()
