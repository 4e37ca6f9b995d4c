"""`penstock trends`: long-term trends of the history, on Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import files as writing
from penstock.cli import options
from penstock.core.errors import PenstockError
from penstock.insight.formatting import duration
from penstock.tui.lines import say, say_json
from penstock_trends.backtest_command import backtest

if TYPE_CHECKING:
    from penstock_trends.what_if import Outcome

out = click.option(
    "--out", required=True, help="Directory or s3://BUCKET/PREFIX of the results."
)


@options.group()
def trends() -> None:
    """Analyse the history on Spark: growth, forecasts, report. Needs Java 17."""


trends.add_command(backtest)


@options.command(group=trends)
@options.history_url
@out
@options.spark_master
@click.option("--conf", multiple=True)
@click.option("--spark.file", "spark_file", type=options.FILE)
@click.option("--rules", type=options.FILE)
@click.option(
    "--flow-target", type=click.FloatRange(0, 100), default=99.9, show_default=True
)
def run(history: str, out: str, master: str | None, **choices: Any) -> None:
    """Update tables, report and gauges; reads only days with new polls."""
    from penstock_trends import job  # noqa: PLC0415 - Spark is loaded for nothing else
    from penstock_trends.rules import wanted_of  # noqa: PLC0415
    from penstock_trends.session import settings_of  # noqa: PLC0415
    from penstock_trends.wanted import Wanted  # noqa: PLC0415

    settings = settings_of(choices["spark_file"], choices["conf"])
    target = choices["flow_target"] / 100
    wanted = (
        wanted_of(choices["rules"], target)
        if choices["rules"]
        else Wanted(flow_target=target)
    )
    facts = job.run(
        history,
        out,
        master,
        lambda text: say(text, err=True),
        settings=settings,
        wanted=wanted,
    )
    say(job.summary(facts, out))


@options.command(group=trends)
@options.history_url
@click.option("--broker", required=True)
@click.option("--queue", required=True)
@click.option("--address")
@click.option("--ring", type=click.IntRange(1))
@click.option("--limit", type=click.IntRange(1))
@click.option("--policy", type=click.Choice(["drop", "block", "page"]), default="drop")
@click.option("--consumers", type=click.FloatRange(0), default=1.0)
@click.option("--traffic", type=click.FloatRange(-100), default=0.0)
@click.option("--days", type=click.FloatRange(0, min_open=True), default=14.0)
@options.form
def what_if(history: str, form: str, days: float, **asked: Any) -> None:
    """Replay the polls of a queue with another setting, and show what it changes. Needs no Spark."""
    from penstock.history.schema import series_id  # noqa: PLC0415 - needs the extra
    from penstock.history.store import Store  # noqa: PLC0415
    from penstock_trends import advice  # noqa: PLC0415
    from penstock_trends.what_if import Setting, replay  # noqa: PLC0415

    broker = asked["broker"]
    queue = asked["queue"]
    store = Store(history)
    paths = [path for day in advice.last_days(store, days) for path in day]
    sid = series_id(broker, asked["address"] or queue, queue)
    polls, ring = advice.of_present_ring(advice.polls_of(store, paths, [sid]))
    steps = advice.steps_of(polls)
    if not steps.days:
        raise PenstockError(
            f"{history}: has no polls of the queue {queue} on {broker} in the last {days:g} days; check both names, and"
            " give --address where it is not that of the queue"
        )
    other = Setting(
        asked["ring"] or ring,
        asked["limit"] or float("inf"),
        asked["policy"],
        asked["consumers"],
        1 + asked["traffic"] / 100,
    )
    outcomes = {
        "as it was": replay(steps, Setting(ring)),
        "as asked": replay(steps, other),
    }
    if form == "json":
        say_json({"days": steps.days, **outcomes}, indent=None)
        return
    say(f"{queue} on {broker}, {steps.days:.3g} days of polls")
    for name, outcome in outcomes.items():
        say(f"{name}: {outcome_text(outcome)}")


def outcome_text(outcome: "Outcome") -> str:
    """Returns what became of the messages in a replay."""
    text = (
        f"{outcome.lost:,.0f} of {outcome.came:,.0f} messages lost, at most {outcome.peak:,.0f} in the queue,"
        f" longest backlog {duration(outcome.drain)}"
    )
    if outcome.waited > 0:
        seconds = outcome.waited / max(outcome.came, 1.0)
        text += f"; producers waited {duration(seconds)} a message"
    if outcome.paging > 0:
        over_limit = duration(outcome.paging)
        text += (
            f"; {over_limit} over the limit, by {outcome.paged:,.0f} messages at most"
        )
    return text


@options.command(group=trends)
@out
@click.option("--output", type=options.FILE)
def report(out: str, output: Path | None) -> None:
    """Write the HTML report again from the facts of the last run, and the pages of the brokers in `brokers/`."""
    from penstock_trends.job import pages_again  # noqa: PLC0415

    target = output or Path("report.html")
    writing.write(target.parent, pages_again(out, target.name))
