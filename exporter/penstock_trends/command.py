"""`penstock trends`: long-term trends of the history, on Spark."""

from pathlib import Path
from typing import Any

import click

from penstock.cli import files as writing
from penstock.cli import options
from penstock.core.errors import PenstockError
from penstock.insight.formatting import duration
from penstock.tui.lines import say, say_json
from penstock_trends.backtest_command import backtest

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
def run(history: str, out: str, master: str | None, **given: Any) -> None:
    """Update tables, report and gauges; reads only days with new polls."""
    from penstock_trends import job  # noqa: PLC0415 - Spark is loaded for nothing else
    from penstock_trends.rules import wanted_of  # noqa: PLC0415
    from penstock_trends.session import settings_of  # noqa: PLC0415
    from penstock_trends.wanted import Wanted  # noqa: PLC0415

    settings = settings_of(given["spark_file"], given["conf"])
    target = given["flow_target"] / 100
    wanted = (
        wanted_of(given["rules"], target)
        if given["rules"]
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
    sid = series_id(broker, asked["address"] or queue, queue)
    polls = advice.polls_of(
        store,
        [path for paths in advice.last_days(store, days) for path in paths],
        [sid],
    )
    polls, ring = advice.of_present_ring(polls)
    of = advice.steps_of(polls)
    if not of.days:
        raise PenstockError(
            f"{history}: has no polls of the queue {queue} on {broker} in the last {days:g} days; check both names, and"
            " give --address where it is not that of the queue"
        )
    limit = asked["limit"] or float("inf")
    other = Setting(
        asked["ring"] or ring,
        limit,
        asked["policy"],
        asked["consumers"],
        1 + asked["traffic"] / 100,
    )
    outcomes = {"as it was": replay(of, Setting(ring)), "as asked": replay(of, other)}
    if form == "json":
        say_json({"days": of.days, **outcomes}, indent=None)
        return
    say(f"{queue} on {broker}, {of.days:.3g} days of polls")
    for name, one in outcomes.items():
        waited = (
            f"; producers waited {duration(one.waited / max(one.came, 1.0))} a message"
        )
        paging = f"; {duration(one.paging)} over the limit, by {one.paged:,.0f} messages at most"
        say(
            f"{name}: {one.lost:,.0f} of {one.came:,.0f} messages lost, at most {one.peak:,.0f} in the queue,"
            f" longest backlog {duration(one.drain)}"
            + waited * (one.waited > 0)
            + paging * (one.paging > 0)
        )


@options.command(group=trends)
@out
@click.option("--output", type=options.FILE)
def report(out: str, output: Path | None) -> None:
    """Write the HTML report again from the facts of the last run, and the pages of the brokers in `brokers/`."""
    from penstock_trends.job import pages_again  # noqa: PLC0415

    target = output or Path("report.html")
    writing.write(target.parent, pages_again(out, target.name))
