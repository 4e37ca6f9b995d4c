"""The whole job: history → tiers → facts → files and report. `python -m penstock.trends.job` is the spark-submit entry.

In the output: `h1/`, `d1/`, `condition/` (Parquet, kept for ever), `facts.json`, `forecast.parquet` and `fates.parquet`
(the numbers of the report), `report.html`, and `gauges.json`, which the agent shows in /metrics; that is written last.
These two may be read by others as the umask allows, all else by its owner only.
"""

import argparse
import contextlib
import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.account.fates import LOSSES
from penstock.core.errors import PenstockError
from penstock.core.safe_files import FOR_OTHERS, appending
from penstock.core.visible import visible
from penstock.history.compact import DAY, read, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.schema import CONDITION
from penstock.history.store import Store
from penstock.trends.advice import advise, utilised
from penstock.trends.analysis import WINDOW_DAYS, analyse, cleaned
from penstock.trends.episodes import episodes
from penstock.trends.fates import by_culprit
from penstock.trends.forecast import WEEK, pooled_quantile
from penstock.trends.report import render
from penstock.trends.session import spark_session
from penstock.trends.tiers import roll_up

FACTS: Final = "facts.json"
GAUGES: Final = "gauges.json"
REPORT: Final = "report.html"

Plain = dict[str, Any]


class JobError(PenstockError):
    """The job could not run, and what to do."""


def run(
    history: str,
    out: str,
    master: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    session: Any = None,
) -> Plain:
    """Bring everything in `out` up to date; returns the facts. Raises PenstockError."""
    source, target = Store(history), Store(out)
    with locked(target):
        if session is None:
            progress("starting Spark")
            session = spark_session(master)
        began = time.time()
        rolled = roll_up(session, source, target, progress)
        days = [name.removeprefix("dt=") for name in target.directories("h1/kind=queue")]
        if not days:
            raise JobError(f"{history}: holds no history of queues; is this where the agent publishes (history: url)?")
        window = days_within(days)
        progress(f"analysing {len(window)} days")
        facts: Plain = {
            "window": {"first": window[0], "last": window[-1], "days": len(window), "rolled": len(rolled.days)},
            "queues": analyse(session, target, window, "queue"),
            "clients": analyse(session, target, window, "consumer"),
            "brokers": analyse(session, target, window, "broker"),
            "fates": analyse(session, target, window, "fate"),
        }
        utilised(facts["clients"], facts["queues"])
        progress("replaying what other settings would have done")
        facts["advice"] = advise(session, source, facts["queues"])
        finish_forecasts(facts["queues"])
        facts["episodes"] = told_episodes(target, window, max(queue["last"] for queue in facts["queues"]))
        progress("writing the report")
        target.write_table("fates.parquet", fate_table(facts["fates"]))
        for one in facts["fates"]:
            del one["daily"]  # which is in that table
        target.write_bytes(FACTS, json.dumps(cleaned(facts), sort_keys=True, separators=(",", ":")).encode())
        target.write_table("forecast.parquet", forecast_table(facts["queues"]))
        target.write_bytes(REPORT, render(facts).encode(), FOR_OTHERS)
        target.write_bytes(GAUGES, json.dumps(gauges(facts, began), sort_keys=True).encode(), FOR_OTHERS)
    return facts


@contextlib.contextmanager
def locked(out: Store) -> Iterator[None]:
    """One run at a time. On an object store the scheduler must see to that (concurrencyPolicy: Forbid)."""
    if not out.local:
        yield
        return
    file = Path(out.path("_lock"))
    with contextlib.ExitStack() as stack:
        with out.errors(file.name):
            file.parent.mkdir(parents=True, exist_ok=True)  # others read the report in it
            handle = stack.enter_context(appending(file))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobError(f"{out.url}: another trend job is at work there; wait for its end") from None
        yield


def days_within(days: Sequence[str]) -> list[str]:
    """The days of the window, counted back from the last: what a run costs does not grow with the history."""
    last = start_of(days[-1], ALL_DAY)
    return [day for day in days if last - start_of(day, ALL_DAY) < WINDOW_DAYS * DAY]


def told_episodes(out: Store, days: Sequence[str], until: float) -> list[Plain]:
    paths = [name for day in days if out.exists(name := f"condition/dt={day}/part.parquet")]
    return [asdict(one) | {"seconds": one.seconds} for one in episodes(read(out, paths, CONDITION).to_pylist(), until)]


def finish_forecasts(queues: Sequence[Plain]) -> None:
    """Intervals from the errors of the whole fleet; what only one series can tell was made by the workers."""
    for measure in ("added", "messages"):
        made = [forecast for queue in queues if (forecast := queue["forecasts"][measure])]
        width = pooled_quantile([np.array(one.pop("scores")) for one in made])
        for one in made:
            values, scale = np.array(one["values"]), np.array(one.pop("scale"))
            one["low"] = np.maximum(values - width * scale, 0.0).tolist()
            one["high"] = (values + width * scale).tolist()


def forecast_table(queues: Sequence[Plain]) -> Any:
    """One row per queue, measure and hour ahead; only forecasts that beat the seasonal naive."""
    rows = [
        {
            "broker": queue["broker"], "address": queue["address"], "queue": queue["queue"], "measure": measure,
            "time": datetime.fromtimestamp(queue["last"] + 3600 * hour, UTC),
            "value": value, "low": one["low"][hour], "high": one["high"][hour],
        }
        for queue in queues
        for measure, one in queue["forecasts"].items()
        if one and one["shown"]
        for hour, value in enumerate(one["values"])
    ]  # fmt: skip
    fields = [(name, pa.string()) for name in ("broker", "address", "queue", "measure")]
    fields += [("time", pa.timestamp("us", tz="UTC")), *((name, pa.float64()) for name in ("value", "low", "high"))]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def fate_table(fates: Sequence[Plain]) -> Any:
    """One row per day, queue or address (queue empty), fate and client (empty: none is known), so that sums of
    `messages` count each once. uncertain: may be so many more in all, null where no most is known.
    """
    rows = [
        {
            **{name: one[name] for name in ("broker", "address", "queue", "fate", "client")},
            "day": datetime.fromtimestamp(DAY * day, UTC).date(), "messages": messages, "uncertain": one["uncertain"],
            "lost": one["fate"] in LOSSES,
        }
        for one in by_culprit(fates)
        for day, messages in one["daily"]
    ]  # fmt: skip
    fields = [("day", pa.date32()), *((name, pa.string()) for name in ("broker", "address", "queue", "fate", "client"))]
    fields += [("messages", pa.int64()), ("uncertain", pa.float64()), ("lost", pa.bool_())]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def main(arguments: Sequence[str] | None = None) -> int:
    """For spark-submit: no other dependencies than those of the job."""
    parser = argparse.ArgumentParser(description="Trends of the history: rolled up, analysed, reported.")
    parser.add_argument("--history", required=True, help="where the agent publishes its history")
    parser.add_argument("--out", required=True, help="directory or s3:// URL of the results")
    parser.add_argument("--master", help="Spark master; default: what spark-submit says, else local[*]")
    given = parser.parse_args(arguments)
    try:
        facts = run(given.history, given.out, given.master, say)
    except PenstockError as error:
        say(f"penstock: {error}")
        return 1
    say(f"{len(facts['queues'])} queues, {facts['window']['days']} days: {given.out}/{REPORT}")
    return 0


def say(text: str) -> None:
    print(visible(text), file=sys.stderr, flush=True)


HORIZONS: Final = {"1d": 24, "7d": WEEK}
MOST: Final = 200
"""Queues for which a forecast is shown, the busiest."""


def gauges(facts: Plain, now: float) -> Plain:
    """What of the facts goes back into /metrics: rows by table and column of the catalogue, no metric names.

    now: seconds since 1970, of the run. A number that is not known is left out, one that never comes is "never".
    """
    queues: Sequence[Plain] = facts["queues"]
    busiest = sorted(queues, key=lambda queue: -(queue["added"] or 0.0))[:MOST]
    return {
        "version": 1,
        "rows": [
            {"table": "trend_run", "labels": {}, "values": {"timestamp": now}},
            *(row for queue in busiest for row in _forecasts(queue)),
            *(row for queue in queues for row in _queue(queue)),
            *(row for broker in facts["brokers"] for row in _limits(broker)),
        ],
    }


def _labels(queue: Plain, **more: str) -> dict[str, str]:
    return {name: queue[name] for name in ("broker", "address", "queue")} | more


def _forecasts(queue: Plain) -> list[Plain]:
    made = queue["forecasts"]["messages"]
    if not made or not made["shown"]:
        return []
    return [
        {
            "table": "trend_forecast",
            "labels": _labels(queue, horizon=horizon, bound=bound),
            "values": {"messages": max(made[column][: HORIZONS[horizon]])},
        }
        for horizon in HORIZONS
        for bound, column in (("low", "low"), ("mean", "values"), ("high", "high"))
    ]


def _queue(queue: Plain) -> list[Plain]:
    values = {}
    if queue["traffic"]["clear"]:
        values["growth"] = queue["traffic"]["per_week"]
    if queue["evicted"] is not None and queue["added"]:
        values["ring_loss"] = queue["evicted"] / queue["added"]
    return [{"table": "trend_queue", "labels": _labels(queue), "values": values}] if values else []


def _limits(broker: Plain) -> list[Plain]:
    return [
        {
            "table": "trend_limit",
            "labels": {"broker": broker["broker"], "limit": name, "bound": bound},
            "values": {"seconds": days if days == "never" else days * 86400.0},
        }
        for name, limit in broker["limits"].items()
        for bound in ("low", "high")
        if (days := limit[f"days_{bound}"]) is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
