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
from dataclasses import dataclass
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
    Pointers,
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
from penstock_trends.tiers import Rolled, roll_up
from penstock_trends.untyped import SparkSession
from penstock_trends.wanted import FLOW_TARGET, Wanted, policy_of

RUN: Final = "run.json"
FACTS: Final = "facts.json"
GAUGES: Final = "gauges.json"
OWNED: Final = ("queues", "brokers", "addresses", "fates", "stalls")
"""Tables of the facts whose rows have owners."""

FORECASTS: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("address", pa.string()),
        ("queue", pa.string()),
        ("measure", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
CAME_LATE: Final = "came late, when other files were gone"

Plain = dict[str, Any]


class JobError(PenstockError):
    """The job could not run, and what to do."""


def run(
    history: str,
    out: str,
    master: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
    session: SparkSession = None,
    settings: Mapping[str, str] | None = None,
    wanted: Wanted | None = None,
) -> Plain:
    """Bring everything in `out` up to date; returns the facts of the report. Raises PenstockError.

    settings: of Spark, by name.
    """
    source = Store(history)
    target = Store(out)
    with locked(target), clear_errors():
        if session is None:
            session = spark_session(master, settings)
            progress(description(session))
        this_run = Run(session, source, target, wanted or Wanted(), progress)
        return this_run.bring_up_to_date()


def generations_of(window: Pointers, wanted: Wanted, rolled: Rolled) -> dict[str, str]:
    """Returns a name for each day and one for the settings; if none differs from the last run, its report is right.

    A name follows from the files that a day is made of, see `days.generation`.
    """
    names = {
        day: generation(VERSION, pointer.generation, pointer.increases)
        for day, pointer in window.items()
    }
    names["made of"] = generation(wanted.key(), rolled.ahead)
    return names


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the job."""

    session: SparkSession
    source: Store
    target: Store
    wanted: Wanted
    progress: Callable[[str], None]

    def bring_up_to_date(self) -> Plain:
        """Roll up and, where something is new, analyse; returns the facts of the report."""
        began = time.time()
        rolled = roll_up(self.session, self.source, self.target, self.progress)
        window = self.window(began)
        generations = generations_of(window, self.wanted, rolled)
        last_run = read_json(self.target, RUN)
        facts = read_json(self.target, FACTS)
        is_new = generations != last_run
        if is_new or not facts or not self.target.exists(REPORT):
            changed = {
                day: pointer
                for day, pointer in window.items()
                if last_run.get(day) != generations[day]
            }
            facts = self.analyse(window, changed, rolled)
            write_report(self.target, facts)
        facts["window"]["rolled"] = len(rolled.days)
        values = json.dumps(gauges(facts, began), sort_keys=True)
        self.target.write_bytes(GAUGES, values.encode(), FOR_OTHERS)
        self.target.write_bytes(RUN, json.dumps(generations).encode())
        return facts

    def window(self, now: float) -> Pointers:
        """Returns the days to analyse. Raises JobError where no queue was recorded."""
        days = plausible(day_names(self.target), now)
        window = load(self.target, days_within(days))
        if not files_of(window, "h1/kind=queue"):
            raise JobError(
                f"{self.source.url}: holds no history of queues; is this where the agent publishes (history: url)?"
            )
        return window

    def analyse(self, window: Pointers, changed: Pointers, rolled: Rolled) -> Plain:
        """Write tables, profiles, forecasts and facts; returns the facts. changed: days new since the last run."""
        self.progress(f"analysing {len(window)} days")
        tables = Tables(self.session, self.target, window, self.wanted.calendars())
        tables.write(changed)
        write_profiles(self.session, self.target, window)
        facts = report_facts(tables, self.wanted)
        facts["unread"] |= dict.fromkeys(rolled.ahead, "dated ahead of the clock")
        self.progress("replaying what other settings would have done")
        facts["unadvised"] = {}
        facts["advice"] = advise(
            self.session, self.source, facts["queues"], facts["unadvised"]
        )
        forecasts = forecast_table(facts["queues"])
        self.target.write_table("forecast.parquet", forecasts)
        text = json.dumps(cleaned(facts), sort_keys=True, separators=(",", ":"))
        self.target.write_bytes(FACTS, text.encode())
        return facts


def pages_again(out: str, name: str) -> dict[str, str]:
    """The report of the last run, that of the fleet by this name. Raises PenstockError where there was none."""
    facts = read_json(Store(out), FACTS)
    if not facts:
        raise JobError(f"{out}: holds no {FACTS}; `penstock trends run` makes it")
    return pages(facts, name)


def write_report(target: Store, facts: Plain) -> None:
    """Write the pages, that of the fleet last: so its links lead to pages that exist."""
    texts = pages(facts)
    for path, text in reversed(texts.items()):
        target.write_bytes(path, text.encode(), FOR_OTHERS)
    for entry in target.files(PAGES):
        if entry.path not in texts:
            target.delete(entry.path)


def report_facts(made: Tables, wanted: Wanted) -> Plain:
    """Returns the facts, of which report, forecasts and gauges are made: rows of leading queues, and sums over all."""
    days = list(made.window)
    facts: Plain = {
        "version": VERSION,
        "window": {
            "first": days[0],
            "last": days[-1],
            "days": len(days),
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
        "unread": unread_files(made.window),
    }
    add_owners(facts, wanted)
    for queue in facts["queues"]:
        queue["targets"] = wanted.targets(queue)
    zones = {
        policy_of(wanted.policies, broker["broker"]).calendar.zone
        for broker in facts["brokers"]
    }
    facts["zones"] = sorted(zones)
    facts["clients"] = made.clients_of(facts["queues"])
    utilised(facts["clients"], facts["queues"])
    finish_forecasts(facts["queues"])
    return facts


def unread_files(window: Pointers) -> dict[str, str]:
    """Returns the raw files that are not counted, or not in full, and why.

    A file with several reasons has the last of: damaged, came late, some numbers left
    out.
    """
    reasons: dict[str, str] = {}
    for pointer in window.values():
        reasons |= pointer.damaged
    for pointer in window.values():
        reasons |= dict.fromkeys(pointer.refused, CAME_LATE)
    for pointer in window.values():
        reasons |= pointer.left_out
    return reasons


def add_owners(facts: Plain, wanted: Wanted) -> None:
    """Give each row of OWNED, and each queue that missed the flow target, its owner."""
    tables = [facts["flow"]["worst"], *(facts[name] for name in OWNED)]
    for row in chain.from_iterable(tables):
        row["owner"] = wanted.owner(row)


@contextlib.contextmanager
def locked(out: Store) -> Iterator[None]:
    """Hold the lock of a directory, so that one job runs at a time. Raises JobError where another has it.

    On an object store there is no lock: the scheduler must see to it
    (concurrencyPolicy: Forbid).
    """
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
    """Returns the days of the window, counted back from the last: a run does not cost more as the history grows."""
    if not days:
        return []
    earliest = start_of(days[-1], ALL_DAY) - WINDOW_DAYS * DAY
    return [day for day in days if start_of(day, ALL_DAY) > earliest]


def finish_forecasts(queues: Sequence[Plain]) -> None:
    """Give the forecasts their intervals, in place: `low` and `high` take the place of `scores` and `scale`.

    How many scales wide an interval is follows from the errors of the whole fleet. All
    else needs one series only, and was made by workers.
    """
    for measure in ("added", "messages"):
        forecasts = [queue["forecasts"][measure] for queue in queues]
        forecasts = [forecast for forecast in forecasts if forecast]
        scores = [np.array(forecast.pop("scores")) for forecast in forecasts]
        width = pooled_quantile(scores)
        for forecast in forecasts:
            values = np.array(forecast["values"])
            margin = width * np.array(forecast.pop("scale"))
            forecast["low"] = np.maximum(values - margin, 0.0).tolist()
            forecast["high"] = (values + margin).tolist()


def forecast_table(queues: Sequence[Plain]) -> Any:
    """Returns a row for each queue, measure and hour ahead, of the forecasts that beat the seasonal naive."""
    rows = [
        row
        for queue in queues
        for measure, forecast in queue["forecasts"].items()
        if forecast and forecast["shown"]
        for row in forecast_rows(queue, measure, forecast)
    ]
    return pa.Table.from_pylist(rows, FORECASTS)


def forecast_rows(queue: Plain, measure: str, forecast: Plain) -> Iterator[Plain]:
    """Yields the rows of FORECASTS for one forecast, one for each hour ahead. measure: messages, or added."""
    for hour, value in enumerate(forecast["values"]):
        yield {
            **_labels(queue),
            "measure": measure,
            "time": datetime.fromtimestamp(queue["last"] + 3600 * hour, UTC),
            "value": value,
            "low": forecast["low"][hour],
            "high": forecast["high"][hour],
        }


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
    options = parser.parse_args(arguments)
    try:
        settings = settings_of(options.file, options.conf)
        wanted = Wanted(flow_target=options.flow_target)
        if options.rules:
            from penstock_trends.rules import wanted_of  # noqa: PLC0415 - needs more than the job

            wanted = wanted_of(options.rules, wanted.flow_target)
        facts = run(
            options.history,
            options.out,
            options.master,
            say,
            settings=settings,
            wanted=wanted,
        )
    except PenstockError as error:
        say(f"penstock: {error}")
        return 2 if isinstance(error, ConfigError) else 1
    say(summary(facts, options.out))
    return 0


def share(percent: str) -> float:
    """Returns a share from the text of a percentage."""
    return float(percent) / 100


def summary(facts: Plain, out: str) -> str:
    """Returns the line that ends a run, for people."""
    window = facts["window"]
    return f"{facts['fleet']['queues']} queues, {window['days']} days, {window['rolled']} of them new: {out}/{REPORT}"


def say(text: str) -> None:
    """Print a line to standard error; characters that could steer a terminal are made visible."""
    print(visible(text), file=sys.stderr, flush=True)


HORIZONS: Final = {"1d": 24, "7d": WEEK}
"""Name → hours."""
FORECAST_BOUNDS: Final = {"low": "low", "mean": "values", "high": "high"}
"""Label → column of a forecast."""


def gauges(facts: Plain, now: float) -> Plain:
    """Returns the values that go back into /metrics: rows by table and column of the catalogue, no metric names.

    now: seconds since 1970, of the run. A number that is not known is left out, one that never comes is "never".
    """
    rows: list[Plain] = [
        {"table": "trend_run", "labels": {}, "values": {"timestamp": now}}
    ]
    for queue in facts["queues"]:
        rows += _forecasts(queue)
    for queue in facts["queues"]:
        rows += _queue(queue)
    for broker in facts["brokers"]:
        rows += _limits(broker)
    for limit in facts["addresses"]:
        rows += _address_limit(limit)
    return {"version": 1, "rows": rows}


def _labels(queue: Plain, **more: str) -> dict[str, str]:
    """Returns the labels of a queue in /metrics, and more."""
    names = ("broker", "address", "queue")
    return {name: queue[name] for name in names} | more


def _forecasts(queue: Plain) -> list[Plain]:
    """Returns a row for each horizon and bound: the most messages of any hour within it; none of a poor forecast."""
    forecast = queue["forecasts"]["messages"]
    if not forecast or not forecast["shown"]:
        return []
    return [
        {
            "table": "trend_forecast",
            "labels": _labels(queue, horizon=horizon, bound=bound),
            "values": {"messages": max(forecast[column][:hours])},
        }
        for horizon, hours in HORIZONS.items()
        for bound, column in FORECAST_BOUNDS.items()
    ]


def _queue(queue: Plain) -> list[Plain]:
    """Returns one row with growth and losses of a queue; no row where both are unknown."""
    values = {}
    if queue["traffic"]["clear"]:
        values["growth"] = queue["traffic"]["per_week"]
    if queue["evicted"] is not None and queue["added"]:
        values["ring_loss"] = queue["evicted"] / queue["added"]
    if not values:
        return []
    return [{"table": "trend_queue", "labels": _labels(queue), "values": values}]


def _limits(broker: Plain) -> list[Plain]:
    """Returns two rows for each limit of a broker: when it is met at the earliest, and at the latest."""
    rows = []
    for name, limit in sorted(broker["limits"].items()):
        labels = {"broker": broker["broker"], "limit": name}
        rows += _bounds("trend_limit", labels, limit["days_low"], limit["days_high"])
    return rows


def _address_limit(limit: Plain) -> list[Plain]:
    """Returns two rows for a limit of an address: when it is met at the earliest, and at the latest."""
    labels = {
        "broker": limit["broker"],
        "address": limit["address"],
        "limit": limit["limit_name"],
    }
    return _bounds("trend_address_limit", labels, limit["low"], limit["high"])


def _bounds(table: str, labels: dict[str, str], low: Any, high: Any) -> list[Plain]:
    """Returns a row for the earliest and one for the latest time until a limit is met; none for an unknown time.

    low, high: days from now; "never"; None where it is not known.
    """
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
