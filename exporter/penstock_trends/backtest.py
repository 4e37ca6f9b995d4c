"""The live rules over raw history: what would have been told with other rules, how often, for how long, where.

A unit of work is some brokers, a part of their addresses and a slice of time; it begins to judge some hours early, so
that what the rules learn is there when its slice begins. Spark spreads the units, what they tell is joined again.
"""

import json
import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import PenstockError
from penstock.history.compact import DAY, read, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.schema import BROKER, CONDITION, INCIDENT, QUEUE
from penstock.history.store import Store
from penstock_trends.episodes import RANK, Episode, episodes
from penstock_trends.judging import SCHEMA, Hours, Policies, Span, hours_of, judge_units
from penstock_trends.session import spread

QUEUES_A_PART: Final = 2000


class BacktestError(PenstockError):
    """There is nothing to judge, and what to do."""


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
    """rules: by the rules given; agent: as the agent told them at the time. polls: by broker, judged."""

    rules: list[Episode]
    agent: list[Episode]
    polls: dict[str, int]


def backtest(session: Any, history: Store, policies: Policies, plan: BacktestPlan) -> BacktestResult:
    """Judge the raw history anew. Raises BacktestError where there is none."""
    hours = hours_of(history)
    whole = span_of(history, hours)
    span = Span(max(plan.span.begin, whole.begin), min(plan.span.end, whole.end))
    if span.begin >= span.end:
        raise BacktestError(f"{history.url}: holds no polls of this time; `penstock history list` says what there is")
    units = [json.dumps(unit) for unit in units_of(history, hours, span, plan)]
    # The rules travel with the function: they are objects, made where the configuration can be read.
    work = partial(judge_units, history.url, pickle.dumps(dict(policies)), plan.warm_up)
    rows = [row.asDict() for row in spread(session, units, work, SCHEMA).collect()]
    polls: dict[str, int] = defaultdict(int)
    last: dict[str, float] = defaultdict(float)
    for row in rows:
        if not row["condition"]:
            polls[row["broker"]] += row["polls"]
            last[row["broker"]] = max(last[row["broker"]], row["end"])
    if not any(polls.values()):
        raise BacktestError(
            f"{history.url}: its polls of this time were imported; rules need what an agent kept itself"
        )
    again = joined([row for row in rows if row["condition"]])
    then = told_then(history, hours, span)
    return BacktestResult(ended(again, last), ended(then, last), dict(sorted(polls.items())))


# --- what there is


def span_of(history: Store, hours: Hours) -> Span:
    """From the first poll to just after the last."""
    stamps = [
        stamp
        for (_, first), last in zip([*hours.items()][:1], [*hours.values()][-1:], strict=True)
        for files in (first, last)
        for stamp in read(history, files.get(BROKER.name, []), BROKER, ["stamp"])["stamp"].cast(pa.int64()).to_pylist()
    ]
    return Span(min(stamps) / 1e6, max(stamps) / 1e6 + 1e-6) if stamps else Span(0.0, 0.0)


def units_of(history: Store, hours: Hours, span: Span, plan: BacktestPlan) -> Iterator[dict[str, Any]]:
    """One per broker, part and slice."""
    sizes: dict[str, int] = defaultdict(int)
    kinds: dict[str, str] = {}
    for files in hours.values():
        rows = read(history, files.get(BROKER.name, []), BROKER, ["broker", "broker_kind"])
        kinds |= zip(*(rows[name].cast(pa.string()).to_pylist() for name in ("broker", "broker_kind")), strict=True)
    last = [files for (dt, hour), files in hours.items() if hour == ALL_DAY or start_of(dt, hour) < span.end][-1]
    rows = read(history, last.get(QUEUE.name, []), QUEUE, ["broker", "sid"])
    for pair in rows.group_by(["broker"]).aggregate([("sid", "count_distinct")]).to_pylist():
        sizes[pair["broker"]] = pair["sid_count_distinct"]
    step = plan.slice * DAY or span.end - span.begin
    for broker, kind in sorted(kinds.items()):
        # An OpenMQ connection shares one limit among the destinations it reads: they are judged together.
        parts = 1 if kind != "artemis" else plan.parts or -(-max(sizes[broker], 1) // QUEUES_A_PART)
        for number in range(int(np.ceil((span.end - span.begin) / step))):
            begin = span.begin + number * step
            at = {"broker": broker, "begin": begin, "end": min(begin + step, span.end), "parts": parts}
            yield from ({**at, "part": part} for part in range(parts))


# --- together again


def joined(pieces: Sequence[Mapping[str, Any]]) -> list[Episode]:
    """Episodes over the ends of slices: what stood at the end of one and at the first poll of the next is one."""
    found: list[Episode] = []
    names = ("broker", "address", "queue", "client", "condition")
    fields = (*names, "severity", "begin", "end", "open")
    for piece in sorted(pieces, key=lambda one: (*(one[name] for name in names), one["end"])):
        one = Episode(**{name: piece[name] for name in fields})
        before = found[-1] if found else None
        same = before is not None and all(getattr(before, name) == getattr(one, name) for name in names)
        if before is not None and same and before.open and piece["stood"]:
            worst = max(before.severity, one.severity, key=RANK.__getitem__)
            found[-1] = replace(before, end=one.end, open=one.open, severity=worst)
        else:
            found.append(one)
    return found


def ended(found: Sequence[Episode], last: Mapping[str, float]) -> list[Episode]:
    """Open is what stood at the last poll of its broker; it is known up to that."""
    return [replace(e, open=e.end >= last[e.broker], end=min(e.end, last[e.broker])) if e.open else e for e in found]


def told_then(history: Store, hours: Hours, span: Span) -> list[Episode]:
    """What the agent told at the time."""
    paths = [path for files in hours.values() for path in files.get(CONDITION.name, [])]
    low, high = round(span.begin * 1e6), round(span.end * 1e6)

    def within(table: Any) -> Any:
        at = table["stamp"].cast(pa.int64())
        return pc.and_(pc.greater_equal(at, low), pc.less(at, high))

    rows = read(history, paths, CONDITION, mask=within).to_pylist()
    return episodes([row for row in rows if not row["condition"].startswith(INCIDENT)], span.end)
