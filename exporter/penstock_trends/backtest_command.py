"""`penstock trends backtest`: the live rules over old polls."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from penstock.assets.thresholds import THRESHOLDS
from penstock.cli import options
from penstock.config import load_rules
from penstock_trends.rules import policies_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock_trends.backtest import BacktestResult, Episode

ALERT_FOR = 60.0 * float(THRESHOLDS.judged_for.removesuffix("m"))
"""Seconds that a condition must be active until its alert fires."""


@dataclass(frozen=True, slots=True)
class BacktestLine:
    """One condition. Times in seconds; alerts: how often its alert would have fired; then: raised by the agent."""

    condition: str
    times: int
    alerts: int
    total: float
    typical: float
    longest: float
    queues: int
    then: int


@options.command()
@options.history_url
@click.option("--rules", required=True, type=options.FILE)
@click.option("--from", "first", type=options.DAY, metavar="DATE[THH:MM]")
@click.option("--to", "last", type=options.DAY, metavar="DATE[THH:MM]")
@click.option("--warm-up", type=click.FloatRange(0), default=24.0)
@click.option(
    "--slice", "slice_days", type=click.FloatRange(0), default=0.0, show_default=False
)
@options.form
@options.spark_master
def backtest(
    history: str, rules: Path, form: str, master: str | None, **when: Any
) -> None:
    """Count how often each condition would have been raised with other rules, for how long, on which queues."""
    policies = policies_of(load_rules(rules))
    from penstock.history.store import Store  # noqa: PLC0415 - needs the extra
    from penstock_trends import backtest as job  # noqa: PLC0415
    from penstock_trends.judging import Span  # noqa: PLC0415
    from penstock_trends.session import clear_errors, spark_session  # noqa: PLC0415

    span = Span(when["first"] or -float("inf"), when["last"] or float("inf"))
    plan = job.BacktestPlan(span, when["warm_up"] * 3600.0, when["slice_days"])
    session = spark_session(master)
    with clear_errors():
        found = job.backtest(session, Store(history), policies, plan)
    told = {
        "polls": found.polls,
        "conditions": lines_of(found),
        "rules": found.rules,
        "agent": found.agent,
    }
    options.show(told, as_lines(found), form, indent=None)


def lines_of(found: "BacktestResult") -> list[BacktestLine]:
    """By condition, the one that was active longest in all first."""
    by_name: dict[str, list[Episode]] = defaultdict(list)
    for one in found.rules:
        by_name[one.condition].append(one)
    then = Counter(one.condition for one in found.agent)
    lines = []
    for name in sorted({*by_name, *then}):
        lasting = [one.seconds for one in by_name[name]]
        alerts = sum(alarming(one) for one in by_name[name])
        queues = len({(one.broker, one.address, one.queue) for one in by_name[name]})
        typical, longest = (median(lasting), max(lasting)) if lasting else (0.0, 0.0)
        lines.append(
            BacktestLine(
                name,
                len(lasting),
                alerts,
                sum(lasting),
                typical,
                longest,
                queues,
                then[name],
            )
        )
    return sorted(lines, key=lambda line: -line.total)


def alarming(one: "Episode") -> bool:
    return one.severity != "info" and one.seconds >= ALERT_FOR


def as_lines(found: "BacktestResult") -> list[str]:
    """A line per condition, then one per queue or client on which it was active."""
    from penstock_trends.wording import lasted  # noqa: PLC0415 - needs the extra

    out = [
        f"{sum(found.polls.values())} polls of {len(found.polls)} brokers evaluated",
        "",
    ]
    head = (
        "condition",
        "times",
        "alerts",
        "in all",
        "median",
        "longest",
        "queues",
        "agent",
    )
    rows = [
        (line.condition, str(line.times), str(line.alerts), *map(lasted, (line.total, line.typical, line.longest)),
         str(line.queues), str(line.then))
        for line in lines_of(found)
    ]  # fmt: skip
    if not rows:
        return [*out, "No condition would have been raised, and none was."]
    widths = [
        max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)
    ]
    out += [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in (head, *rows)
    ]
    out += [
        "",
        f"alerts: active for {ALERT_FOR:.0f} s or longer and more than a notice; agent: raised by it at the time",
        "",
    ]
    for (broker, queue, client, condition), (count, total) in places(found.rules):
        who = f"{client} on {queue}" if client else queue
        out.append(
            f"{condition}: {who} ({broker}), {count} times, {lasted(total)} in all"
        )
    return out


def places(
    episodes: "Sequence[Episode]",
) -> list[tuple[tuple[str, ...], tuple[int, float]]]:
    """How often and how long, by broker, queue, client and condition, the longest first."""
    of: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in episodes:
        of[one.broker, one.queue, one.client, one.condition].append(one.seconds)
    return sorted(
        ((name, (len(s), sum(s))) for name, s in of.items()),
        key=lambda one: (-one[1][1], one[0]),
    )
