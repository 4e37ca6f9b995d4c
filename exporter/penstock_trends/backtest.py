"""The live rules over raw history: what would have been raised with other rules, how often, for how long, where.

A unit of work is some brokers, a part of their addresses and a slice of time; it begins to judge some hours early, so
that what the rules learn is there when its slice begins. Spark spreads the units; episodes are those of the trends.
"""

import json
import pickle
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.history.compact import DAY, read, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.schema import BROKER, CONDITION, INCIDENT, QUEUE, UNSEEN
from penstock.history.store import Store
from penstock_trends import tables
from penstock_trends.judging import SCHEMA, Hours, Span, hours_of, judge_units
from penstock_trends.session import clear_errors, spread
from penstock_trends.wanted import Policies

QUEUES_A_PART: Final = 2000
POLLED: Final = (
    "unix_seconds(date_trunc('hour', stamp)) AS start",
    "unix_micros(stamp) / 1e6 AS t1",
)


class BacktestError(PenstockError):
    """There is nothing to judge, and what to do."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A condition from its begin to its end, seconds since 1970. open: still active at the last poll."""

    broker: str
    address: str
    queue: str
    client: str
    condition: str
    severity: str
    begin: float
    end: float
    open: bool

    @property
    def seconds(self) -> float:
        return max(self.end - self.begin, 0.0)


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """warm_up: seconds judged before each slice. slice: its length in days, 0 for one slice over all."""

    span: Span = field(default_factory=lambda: Span(-np.inf, np.inf))
    warm_up: float = 24 * 3600.0
    slice: float = 0.0
    parts: int = 0
    """Of the addresses of each Artemis broker; 0 = by the number of its queues."""


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """rules: by the rules given; agent: as the agent reported them at the time. polls: by broker, judged."""

    rules: list[Episode]
    agent: list[Episode]
    polls: dict[str, int]


def backtest(
    session: Any, history: Store, policies: Policies, plan: BacktestPlan
) -> BacktestResult:
    """Judge the raw history again. Raises BacktestError where there is none."""
    hours = hours_of(history)
    whole = span_of(history, hours)
    span = Span(max(plan.span.begin, whole.begin), min(plan.span.end, whole.end))
    if span.begin >= span.end:
        raise BacktestError(
            f"{history.url}: holds no polls of this time; `penstock history list` says what there is"
        )
    units = [json.dumps(unit) for unit in units_of(history, hours, span, plan)]
    # The rules travel with the function: they are objects, made where the configuration can be read.
    work = partial(judge_units, history.url, pickle.dumps(dict(policies)), plan.warm_up)
    with clear_errors():
        rows = spread(session, units, work, SCHEMA).persist()
        polled = rows.where("condition IS NULL").selectExpr("broker", *POLLED, "polls")
        polled.createOrReplaceTempView("polls")
        counts = session.sql(
            "SELECT broker, sum(polls) AS polls FROM polls GROUP BY broker ORDER BY broker"
        ).collect()
        if not counts:
            raise BacktestError(
                f"{history.url}: its polls of this time were imported; rules need what an agent kept itself"
            )
        paths = [
            path for files in hours.values() for path in files.get(CONDITION.name, [])
        ]
        told = tables.frame(session, history, paths, tables.REPORTS).where(
            f"condition NOT LIKE '{INCIDENT}%'"
        )
        told = told.where(
            f"unix_micros(stamp) BETWEEN {round(span.begin * 1e6)} AND {round(span.end * 1e6) - 1}"
        )
        again = episodes(session, rows.where("condition IS NOT NULL"))
        return BacktestResult(
            again, episodes(session, told), {row.broker: row.polls for row in counts}
        )


def episodes(session: Any, reports: Any) -> list[Episode]:
    """By the query of the trends, of the polls in the view `polls`."""
    reports.createOrReplaceTempView("condition")
    rows = session.sql(tables.sql("episodes", unseen=UNSEEN)).collect()
    names = ("broker", "address", "queue", "client", "condition", "severity")
    found = [
        Episode(
            **{name: row[name] for name in names},
            begin=row.begin.timestamp(),
            end=row.end.timestamp(),
            open=row.open,
        )
        for row in rows
    ]
    return sorted(found, key=astuple)


# --- what there is


def span_of(history: Store, hours: Hours) -> Span:
    """From the first poll to just after the last."""
    stamps = [
        stamp
        for (_, first), last in zip(
            [*hours.items()][:1], [*hours.values()][-1:], strict=True
        )
        for files in (first, last)
        for stamp in read(history, files.get(BROKER.name, []), BROKER, ["stamp"])[
            "stamp"
        ]
        .cast(pa.int64())
        .to_pylist()
    ]
    return (
        Span(min(stamps) / 1e6, max(stamps) / 1e6 + 1e-6) if stamps else Span(0.0, 0.0)
    )


def units_of(
    history: Store, hours: Hours, span: Span, plan: BacktestPlan
) -> Iterator[dict[str, Any]]:
    """One per broker, part and slice."""
    sizes: dict[str, int] = defaultdict(int)
    kinds: dict[str, str] = {}
    for files in hours.values():
        rows = read(
            history, files.get(BROKER.name, []), BROKER, ["broker", "broker_kind"]
        )
        kinds |= zip(
            *(
                rows[name].cast(pa.string()).to_pylist()
                for name in ("broker", "broker_kind")
            ),
            strict=True,
        )
    last = [
        files
        for (dt, hour), files in hours.items()
        if hour == ALL_DAY or start_of(dt, hour) < span.end
    ][-1]
    rows = read(history, last.get(QUEUE.name, []), QUEUE, ["broker", "sid"])
    for pair in (
        rows.group_by(["broker"]).aggregate([("sid", "count_distinct")]).to_pylist()
    ):
        sizes[pair["broker"]] = pair["sid_count_distinct"]
    step = plan.slice * DAY or span.end - span.begin
    for broker, kind in sorted(kinds.items()):
        # An OpenMQ connection shares one limit among the destinations it reads: they are judged together.
        parts = (
            1
            if kind != "artemis"
            else plan.parts or -(-max(sizes[broker], 1) // QUEUES_A_PART)
        )
        for number in range(int(np.ceil((span.end - span.begin) / step))):
            begin = span.begin + number * step
            at = {
                "broker": broker,
                "begin": begin,
                "end": min(begin + step, span.end),
                "parts": parts,
            }
            yield from ({**at, "part": part} for part in range(parts))
