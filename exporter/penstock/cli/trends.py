"""`penstock trends`: long-term trends of the history, on Spark."""

from pathlib import Path

import click

from penstock.cli import files as writing
from penstock.cli import options
from penstock.cli.backtest import backtest
from penstock.core.errors import PenstockError
from penstock.tui.lines import say

out = click.option("--out", required=True, help="Directory or s3://BUCKET/PREFIX of the results.")


@click.group()
def trends() -> None:
    """Long-term trends from the history: roll up, analyse, forecast, report. Needs Java 17."""


trends.add_command(backtest)


@options.command("penstock trends run --history data/history --out data/trends", of=trends)
@options.history_url
@out
@options.spark_master
def run(history: str, out: str, master: str | None) -> None:
    """Bring tiers, report and gauges up to date; only days with something new are read."""
    from penstock.trends import job  # noqa: PLC0415 - Spark is loaded for nothing else

    facts = job.run(history, out, master, lambda text: say(text, err=True))
    window = facts["window"]
    say(f"{len(facts['queues'])} queues, {window['days']} days, {window['rolled']} of them new: {out}/{job.REPORT}")


@options.command("penstock trends report --out data/trends --output report.html", of=trends)
@out
@click.option("--output", type=options.FILE)
def report(out: str, output: Path | None) -> None:
    """Write the HTML report anew from the facts of the last run."""
    import json  # noqa: PLC0415

    from penstock.history.store import Store  # noqa: PLC0415
    from penstock.trends.job import FACTS, REPORT  # noqa: PLC0415
    from penstock.trends.report import render  # noqa: PLC0415

    content = Store(out).read_bytes(FACTS)
    if content is None:
        raise PenstockError(f"{out}: holds no {FACTS}; `penstock trends run` makes it")
    writing.write_one(output or Path(REPORT), render(json.loads(content)))
