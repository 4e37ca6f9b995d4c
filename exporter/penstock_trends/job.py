"""The whole job: history → tiers → tables of facts → report. `python -m penstock_trends.job` is the spark-submit entry.

In the output: the tiers (see `days.py`), the tables of the last run (`*.parquet`), `facts.json` (the rows of the
report), `report.html`, and what agents read: `gauges.json`, shown in /metrics, and `profiles.parquet`, by which they
judge; `run.json` is written last. These and the report may be read by others as the umask allows, all else by its
owner only.
"""

import argparse
import contextlib
import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.core.errors import ConfigError, PenstockError
from penstock.core.safe_files import FOR_OTHERS, appending
from penstock.core.standard_streams import standard_streams
from penstock.core.visible import visible
from penstock.history.compact import DAY, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.store import Store
from penstock_trends.advice import advise, utilised
from penstock_trends.analysis import WINDOW_DAYS, cleaned
from penstock_trends.days import (
    day_names,
    files_of,
    generation,
    load,
    plausible,
    read_json,
)
from penstock_trends.forecast import WEEK, pooled_quantile
from penstock_trends.profiles import write_profiles
from penstock_trends.report import PAGES, REPORT, VERSION, pages
from penstock_trends.results import MOST, MOST_ROWS, Tables
from penstock_trends.session import (
    clear_errors,
    description,
    settings_of,
    spark_session,
)
from penstock_trends.tiers import roll_up
from penstock_trends.wanted import FLOW_TARGET, Wanted, policy_of

RUN: Final = "run.json"
FACTS: Final = "facts.json"
GAUGES: Final = "gauges.json"
OWNED: Final = ("queues", "brokers", "addresses", "fates", "stalls")
"""Facts of which each row has an owner."""

Plain = dict[str, Any]


class JobError(PenstockError):
    """The job could not run, and what to do."""


def run(
    history: str,
    out: str,
    master: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    session: Any = None,
    settings: Mapping[str, str] | None = None,
    wanted: Wanted | None = None,
) -> Plain:
    """Bring everything in `out` up to date; returns the facts of the report. Raises PenstockError.

    settings: of Spark, by name.
    """
    source = Store(history)
    target = Store(out)
    wanted = wanted or Wanted()
    with locked(target), clear_errors():
        if session is None:
            session = spark_session(master, settings)
            progress(description(session))
        began = time.time()
        rolled = roll_up(session, source, target, progress)
        window = load(target, days_within(plausible(day_names(target), began)))
        if not files_of(window, "h1/kind=queue"):
            raise JobError(
                f"{history}: holds no history of queues; is this where the agent publishes (history: url)?"
            )
        this_run = {
            day: generation(VERSION, one.generation, one.increases)
            for day, one in window.items()
        }
        this_run["made of"] = generation(wanted.key(), rolled.ahead)
        last_run = read_json(target, RUN)
        facts = read_json(target, FACTS)
        if this_run != last_run or not facts or not target.exists(REPORT):
            progress(f"analysing {len(window)} days")
            changed = {
                day: one
                for day, one in window.items()
                if last_run.get(day) != this_run[day]
            }
            made = Tables(session, target, window, wanted.calendars())
            made.write(changed)
            write_profiles(session, target, window)
            facts = report_facts(made, wanted)
            facts["unread"] |= dict.fromkeys(rolled.ahead, "dated ahead of the clock")
            progress("replaying what other settings would have done")
            facts["unadvised"] = {}
            facts["advice"] = advise(
                session, source, facts["queues"], facts["unadvised"]
            )
            target.write_table("forecast.parquet", forecast_table(facts["queues"]))
            target.write_bytes(
                FACTS,
                json.dumps(
                    cleaned(facts), sort_keys=True, separators=(",", ":")
                ).encode(),
            )
            write_report(target, facts)
        facts["window"]["rolled"] = len(rolled.days)
        target.write_bytes(
            GAUGES,
            json.dumps(gauges(facts, began), sort_keys=True).encode(),
            FOR_OTHERS,
        )
        target.write_bytes(RUN, json.dumps(this_run).encode())
    return facts


def pages_again(out: str, name: str) -> dict[str, str]:
    """The report of the last run, that of the fleet by this name. Raises PenstockError where there was none."""
    facts = read_json(Store(out), FACTS)
    if not facts:
        raise JobError(f"{out}: holds no {FACTS}; `penstock trends run` makes it")
    return pages(facts, name)


def write_report(target: Store, facts: Plain) -> None:
    """The page of the fleet last: its links lead to pages that are there."""
    made = pages(facts)
    for name, page in reversed(made.items()):
        target.write_bytes(name, page.encode(), FOR_OTHERS)
    for entry in target.files(PAGES):
        if entry.path not in made:
            target.delete(entry.path)


def report_facts(made: Tables, wanted: Wanted) -> Plain:
    """All that the report, the forecasts and the gauges are about: the rows of what leads, and sums of the rest."""
    window = list(made.window)
    facts: Plain = {
        "version": VERSION,
        "window": {
            "first": window[0],
            "last": window[-1],
            "days": len(window),
            "until": made.until,
        },
        "periods": made.periods(),
        "flow": made.flow(wanted.flow_target),
        "fleet": made.fleet(),
        "queues": made.top_queues(),
        "brokers": made.brokers(),
        "fates": made.rows("losses", MOST_ROWS),
        "stalls": made.rows("stalls", MOST),
        "incidents": made.rows("incidents", MOST),
        "addresses": made.addresses(),
        "unread": {
            path: why
            for one in made.window.values()
            for path, why in one.damaged.items()
        }
        | {
            path: "came late, when other files were gone"
            for one in made.window.values()
            for path in one.refused
        }
        | {
            path: what
            for one in made.window.values()
            for path, what in one.left_out.items()
        },
    }
    for one in chain(facts["flow"]["worst"], *(facts[name] for name in OWNED)):
        one["owner"] = wanted.owner(one)
    for queue in facts["queues"]:
        queue["targets"] = wanted.targets(queue)
    facts["zones"] = sorted(
        {
            policy_of(wanted.policies, one["broker"]).calendar.zone
            for one in facts["brokers"]
        }
    )
    facts["clients"] = made.clients_of(facts["queues"])
    utilised(facts["clients"], facts["queues"])
    finish_forecasts(facts["queues"])
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
            (file.parent / PAGES).mkdir(
                parents=True, exist_ok=True
            )  # others read the report in both
            handle = stack.enter_context(appending(file))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobError(
                f"{out.url}: another trend job is at work there; wait for its end"
            ) from None
        yield


def days_within(days: Sequence[str]) -> list[str]:
    """The days of the window, counted back from the last: what a run costs does not grow with the history."""
    last = start_of(days[-1], ALL_DAY) if days else 0
    return [day for day in days if last - start_of(day, ALL_DAY) < WINDOW_DAYS * DAY]


def finish_forecasts(queues: Sequence[Plain]) -> None:
    """Intervals from the errors of the whole fleet; what needs only one series was made by the workers."""
    for measure in ("added", "messages"):
        made = [
            forecast for queue in queues if (forecast := queue["forecasts"][measure])
        ]
        width = pooled_quantile([np.array(one.pop("scores")) for one in made])
        for one in made:
            values = np.array(one["values"])
            scale = np.array(one.pop("scale"))
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
    fields += [
        ("time", pa.timestamp("us", tz="UTC")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def main(arguments: Sequence[str] | None = None) -> int:
    """For spark-submit: no other dependencies than those of the job, but for rules."""
    parser = argparse.ArgumentParser(
        description="Trends of the history: rolled up, analysed, reported."
    )
    parser.add_argument(
        "--history", required=True, help="where the agent publishes its history"
    )
    parser.add_argument(
        "--out", required=True, help="directory or s3:// URL of the results"
    )
    parser.add_argument(
        "--master", help="Spark master; default: what spark-submit says, else local[*]"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark",
    )
    parser.add_argument(
        "--spark.file",
        dest="file",
        type=Path,
        help="Spark's settings, as in spark-defaults.conf",
    )
    parser.add_argument(
        "--rules",
        type=Path,
        help="a configuration: owners, targets, time zones and holidays",
    )
    parser.add_argument(
        "--flow-target", type=share, default=FLOW_TARGET, help="percent of the time"
    )
    given = parser.parse_args(arguments)
    try:
        settings = settings_of(given.file, given.conf)
        wanted = Wanted(flow_target=given.flow_target)
        if given.rules:
            from penstock_trends.rules import wanted_of  # noqa: PLC0415 - needs more than the job

            wanted = wanted_of(given.rules, wanted.flow_target)
        facts = run(
            given.history,
            given.out,
            given.master,
            say,
            settings=settings,
            wanted=wanted,
        )
    except PenstockError as error:
        say(f"penstock: {error}")
        return 2 if isinstance(error, ConfigError) else 1
    say(summary(facts, given.out))
    return 0


def share(percent: str) -> float:
    return float(percent) / 100


def summary(facts: Plain, out: str) -> str:
    window = facts["window"]
    return f"{facts['fleet']['queues']} queues, {window['days']} days, {window['rolled']} of them new: {out}/{REPORT}"


def say(text: str) -> None:
    print(visible(text), file=sys.stderr, flush=True)


HORIZONS: Final = {"1d": 24, "7d": WEEK}


def gauges(facts: Plain, now: float) -> Plain:
    """What of the facts goes back into /metrics: rows by table and column of the catalogue, no metric names.

    now: seconds since 1970, of the run. A number that is not known is left out, one that never comes is "never".
    """
    queues: Sequence[Plain] = facts["queues"]
    return {
        "version": 1,
        "rows": [
            {"table": "trend_run", "labels": {}, "values": {"timestamp": now}},
            *(row for queue in queues for row in _forecasts(queue)),
            *(row for queue in queues for row in _queue(queue)),
            *(row for broker in facts["brokers"] for row in _limits(broker)),
            *(row for address in facts["addresses"] for row in _address_limit(address)),
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
    return (
        [{"table": "trend_queue", "labels": _labels(queue), "values": values}]
        if values
        else []
    )


def _limits(broker: Plain) -> list[Plain]:
    return [
        row
        for name, limit in sorted(broker["limits"].items())
        for row in _bounds(
            "trend_limit",
            {"broker": broker["broker"], "limit": name},
            limit["days_low"],
            limit["days_high"],
        )
    ]


def _address_limit(one: Plain) -> list[Plain]:
    labels = {
        "broker": one["broker"],
        "address": one["address"],
        "limit": one["limit_name"],
    }
    return _bounds("trend_address_limit", labels, one["low"], one["high"])


def _bounds(table: str, labels: dict[str, str], low: Any, high: Any) -> list[Plain]:
    """low, high: days from now, "never", None where it is not known."""
    return [
        {
            "table": table,
            "labels": labels | {"bound": bound},
            "values": {"seconds": days if days == "never" else days * 86400.0},
        }
        for bound, days in (("low", low), ("high", high))
        if days is not None
    ]


if __name__ == "__main__":
    with standard_streams():
        sys.exit(main())
