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
    """One condition.

    Attributes:
        condition: Its name.
        times: How often the rules raised it.
        alerts: How often its alert would have fired.
        total: Seconds in all.
        typical: Seconds, the median.
        longest: Seconds.
        queues: On how many.
        then: How often the agent raised it at the time.
    """

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

    span = Span(
        when["first"] or -float("inf"),
        when["last"] or float("inf"),
    )
    plan = job.BacktestPlan(span, when["warm_up"] * 3600.0, when["slice_days"])
    session = spark_session(master)
    with clear_errors():
        result = job.backtest(session, Store(history), policies, plan)
    answer = {
        "polls": result.polls,
        "conditions": lines_of(result),
        "rules": result.rules,
        "agent": result.agent,
    }
    options.show(answer, as_lines(result), form, indent=None)


def lines_of(result: "BacktestResult") -> list[BacktestLine]:
    """A line for each condition, the one that was active longest in all first."""
    by_condition: dict[str, list[Episode]] = defaultdict(list)
    for episode in result.rules:
        by_condition[episode.condition].append(episode)
    by_agent = Counter(episode.condition for episode in result.agent)
    lines = [
        line_of(condition, by_condition[condition], by_agent[condition])
        for condition in sorted({*by_condition, *by_agent})
    ]
    return sorted(lines, key=lambda line: -line.total)


def line_of(condition: str, episodes: "list[Episode]", then: int) -> BacktestLine:
    """The line of a condition.

    Args:
        condition: Its name.
        episodes: By the given rules.
        then: How often the agent raised it at the time.
    """
    seconds = [episode.seconds for episode in episodes]
    queues = {(episode.broker, episode.address, episode.queue) for episode in episodes}
    return BacktestLine(
        condition=condition,
        times=len(episodes),
        alerts=sum(map(alarming, episodes)),
        total=sum(seconds),
        typical=median(seconds) if seconds else 0.0,
        longest=max(seconds, default=0.0),
        queues=len(queues),
        then=then,
    )


def alarming(episode: "Episode") -> bool:
    """Whether the alert for an episode would have fired: it is more than a notice and lasted for ALERT_FOR."""
    return episode.severity != "info" and episode.seconds >= ALERT_FOR


def as_lines(result: "BacktestResult") -> list[str]:
    """A line for each condition, then one for each queue or client on which it was active."""
    from penstock_trends.wording import lasted  # noqa: PLC0415 - needs the extra

    polls = sum(result.polls.values())
    lines = [f"{polls} polls of {len(result.polls)} brokers evaluated", ""]
    conditions = lines_of(result)
    if not conditions:
        return [*lines, "No condition would have been raised, and none was."]
    lines += table_of(conditions)
    lines += [
        "",
        f"alerts: active for {ALERT_FOR:.0f} s or longer and more than a notice; agent: raised by it at the time",
        "",
    ]
    for (broker, queue, client, condition), (count, total) in places(result.rules):
        where = f"{client} on {queue}" if client else queue
        lines.append(
            f"{condition}: {where} ({broker}), {count} times, {lasted(total)} in all"
        )
    return lines


def table_of(conditions: list[BacktestLine]) -> list[str]:
    """The lines of a table: a head, then one line for each condition, in columns of equal width."""
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
    rows = [head, *map(cells_of, conditions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def cells_of(line: BacktestLine) -> tuple[str, ...]:
    """The cells of a row of the table."""
    from penstock_trends.wording import lasted  # noqa: PLC0415 - needs the extra

    return (
        line.condition,
        str(line.times),
        str(line.alerts),
        lasted(line.total),
        lasted(line.typical),
        lasted(line.longest),
        str(line.queues),
        str(line.then),
    )


def places(
    episodes: "Sequence[Episode]",
) -> list[tuple[tuple[str, ...], tuple[int, float]]]:
    """For each broker, queue, client and condition the number of its episodes and their seconds, the longest first."""
    seconds_at: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for episode in episodes:
        place = (episode.broker, episode.queue, episode.client, episode.condition)
        seconds_at[place].append(episode.seconds)
    sums = [
        (place, (len(seconds), sum(seconds))) for place, seconds in seconds_at.items()
    ]
    return sorted(sums, key=lambda row: (-row[1][1], row[0]))
