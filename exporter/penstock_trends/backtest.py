"""The live rules over raw history: which conditions other rules would have raised, how often, for how long, where.

A unit of work is a broker, a part of its addresses and a slice of time. It begins to judge some hours early, so that
the rules have learned enough when its slice begins. Spark spreads the units; episodes are those of the trends.
"""

import json
import pickle
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
from penstock_trends.untyped import SparkSession
from penstock_trends.wanted import Policies

QUEUES_A_PART: Final = 2000
POLLED: Final = (
    "unix_seconds(date_trunc('hour', stamp)) AS start",
    "unix_micros(stamp) / 1e6 AS t1",
)


class BacktestError(PenstockError):
    """There is nothing to judge; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A condition from its begin to its end.

    Attributes:
        begin: Seconds since 1970.
        end: Seconds since 1970.
        open: Whether it was still active at the last poll.
    """

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
    """How the history is judged.

    Attributes:
        span: Of time.
        warm_up: Seconds judged before each slice.
        slice: Days of a slice; 0 for one slice over all.
        parts: Of the addresses of each Artemis broker; 0 = by the number of its queues.
    """

    span: Span = field(default_factory=lambda: Span(-np.inf, np.inf))
    warm_up: float = 24 * 3600.0
    slice: float = 0.0
    parts: int = 0


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """The episodes of a back-test.

    Attributes:
        rules: By the given rules.
        agent: As the agent reported them at the time.
        polls: Judged polls by broker.
    """

    rules: list[Episode]
    agent: list[Episode]
    polls: dict[str, int]


def backtest(
    session: SparkSession, history: Store, policies: Policies, plan: BacktestPlan
) -> BacktestResult:
    """Judge the raw history again. Raises BacktestError where there is none."""
    hours = hours_of(history)
    span = within(plan.span, span_of(history, hours))
    if span.begin >= span.end:
        raise BacktestError(
            f"{history.url}: holds no polls of this time; `penstock history list` says what there is"
        )
    units = [json.dumps(unit) for unit in units_of(history, hours, span, plan)]
    # The rules travel with the function: they are objects, made where the configuration can be read.
    rules = pickle.dumps(dict(policies))
    work = partial(judge_units, history.url, rules, plan.warm_up)
    with clear_errors():
        rows = spread(session, units, work, SCHEMA).persist()
        polls = polls_by_broker(session, rows)
        if not polls:
            raise BacktestError(
                f"{history.url}: its polls of this time were imported; rules need what an agent kept itself"
            )
        reported = reports_of_agent(session, history, hours, span)
        return BacktestResult(
            rules=episodes(session, rows.where("condition IS NOT NULL")),
            agent=episodes(session, reported),
            polls=polls,
        )


def polls_by_broker(session: SparkSession, rows: Any) -> dict[str, int]:
    """How many polls of each broker were judged.

    It also makes the view `polls`, from which the query of `episodes` knows until when
    each broker was polled.

    rows: of SCHEMA; those without a condition are about hours.
    """
    polled = rows.where("condition IS NULL").selectExpr("broker", *POLLED, "polls")
    polled.createOrReplaceTempView("polls")
    counts = session.sql(
        "SELECT broker, sum(polls) AS polls FROM polls GROUP BY broker ORDER BY broker"
    )
    return {row.broker: row.polls for row in counts.collect()}


def reports_of_agent(
    session: SparkSession, history: Store, hours: Hours, span: Span
) -> Any:
    """A DataFrame of the conditions that agents reported in a span of time, without incidents."""
    paths = [path for files in hours.values() for path in files.get(CONDITION.name, [])]
    reports = tables.frame(session, history, paths, tables.REPORTS)
    begin = round(span.begin * 1e6)
    last = round(span.end * 1e6) - 1
    conditions = reports.where(f"condition NOT LIKE '{INCIDENT}%'")
    return conditions.where(f"unix_micros(stamp) BETWEEN {begin} AND {last}")


def episodes(session: SparkSession, reports: Any) -> list[Episode]:
    """The episodes of conditions, sorted, made of their reports.

    The query is that of the trends. It reads the views `condition` (the reports) and
    `polls` (see `polls_by_broker`).
    """
    reports.createOrReplaceTempView("condition")
    rows = session.sql(tables.sql("episodes", unseen=UNSEEN)).collect()
    return sorted(map(episode_of, rows), key=astuple)


def episode_of(row: Any) -> Episode:
    """The episode in a row of the query."""
    return Episode(
        broker=row.broker,
        address=row.address,
        queue=row.queue,
        client=row.client,
        condition=row.condition,
        severity=row.severity,
        begin=row.begin.timestamp(),
        end=row.end.timestamp(),
        open=row.open,
    )


# --- units of work


def within(span: Span, whole: Span) -> Span:
    """The time that both spans have; empty where the end is not after the begin."""
    return Span(
        max(span.begin, whole.begin),
        min(span.end, whole.end),
    )


def span_of(history: Store, hours: Hours) -> Span:
    """The time from the first poll to just after the last; empty without any."""
    files = list(hours.values())
    # The first and the last hour are enough.
    paths = [
        path for hour in files[:1] + files[-1:] for path in hour.get(BROKER.name, [])
    ]
    rows = read(history, paths, BROKER, ["stamp"])
    stamps = rows["stamp"].cast(pa.int64()).to_pylist()
    if not stamps:
        return Span(0.0, 0.0)
    return Span(
        min(stamps) / 1e6, max(stamps) / 1e6 + 1e-6
    )  # a span is without its end


def units_of(
    history: Store, hours: Hours, span: Span, plan: BacktestPlan
) -> Iterator[dict[str, Any]]:
    """Yields a unit of work for each broker, slice of time and part of its addresses, see `judging.judge_units`."""
    kinds = kinds_by_broker(history, hours)
    sizes = queues_by_broker(history, hours, span)
    slices = slices_of(span, plan.slice * DAY)
    for broker, kind in sorted(kinds.items()):
        parts = parts_of_broker(kind, sizes.get(broker, 0), plan)
        for slice_ in slices:
            for part in range(parts):
                yield {
                    "broker": broker,
                    "begin": slice_.begin,
                    "end": slice_.end,
                    "parts": parts,
                    "part": part,
                }


def slices_of(span: Span, seconds: float) -> list[Span]:
    """The span in slices of so many seconds, the last one shorter; 0: in one."""
    length = span.end - span.begin
    step = seconds or length
    begins = [
        span.begin + number * step for number in range(int(np.ceil(length / step)))
    ]
    return [Span(begin, min(begin + step, span.end)) for begin in begins]


def parts_of_broker(kind: str, queues: int, plan: BacktestPlan) -> int:
    """The number of parts in which the addresses of a broker are judged: as planned, else by its number of queues."""
    if kind != "artemis":
        # An OpenMQ connection shares one limit among its destinations: they are judged together.
        return 1
    return plan.parts or -(-max(queues, 1) // QUEUES_A_PART)


def kinds_by_broker(history: Store, hours: Hours) -> dict[str, str]:
    """The kind of each broker, as it was polled last."""
    kinds: dict[str, str] = {}
    for files in hours.values():
        paths = files.get(BROKER.name, [])
        rows = read(history, paths, BROKER, ["broker", "broker_kind"])
        brokers = rows["broker"].cast(pa.string()).to_pylist()
        broker_kinds = rows["broker_kind"].cast(pa.string()).to_pylist()
        kinds |= zip(brokers, broker_kinds, strict=True)
    return kinds


def queues_by_broker(history: Store, hours: Hours, span: Span) -> dict[str, int]:
    """How many queues each broker has in the last hour of a span of time, or in the last day that is one group."""
    in_span = [
        files
        for (day, hour), files in hours.items()
        if hour == ALL_DAY or start_of(day, hour) < span.end
    ]
    rows = read(history, in_span[-1].get(QUEUE.name, []), QUEUE, ["broker", "sid"])
    counts = rows.group_by(["broker"]).aggregate([("sid", "count_distinct")])
    return {row["broker"]: row["sid_count_distinct"] for row in counts.to_pylist()}
