"""`penstock history`: what history there is."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from penstock.cli import options
from penstock.tui.lines import say


@options.group()
def history() -> None:
    """List the recorded history, or import one from Prometheus."""


@options.command(group=history, name="list")
@click.argument("url", default="data/history")
def list_days(url: str) -> None:
    """List days, polls, gaps and sizes of the history at URL (a directory or s3://BUCKET/PREFIX)."""
    from penstock.history.listing import days  # noqa: PLC0415 - needs the extra
    from penstock.history.store import Store  # noqa: PLC0415

    listed_days = days(Store(url))
    if not listed_days:
        say(
            f"{url}: no history; set history: {{enabled: true}} in the configuration of the agent",
            err=True,
        )
        return
    for day in listed_days:
        polls = ", ".join(f"{broker} {number}" for broker, number in day.polls.items())
        say(
            f"{day.day}  {day.bytes / 2**20:8.1f} MiB  {day.files:5d} files  polls: {polls}"
        )
        for gap in day.gaps:
            begin, end = (
                datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")
                for moment in (gap.begin, gap.end)
            )
            say(f"            gap of {gap.broker}: {begin} to {end} UTC")
    say(
        f"{len(listed_days)} days, {sum(day.bytes for day in listed_days) / 2**20:.1f} MiB"
    )


DEFAULT_DAYS = 15
"""What Prometheus keeps when nothing else is said."""


@options.command(group=history, name="import")
@click.option("--prometheus", "url", required=True)
@click.option("--history", "target", default="data/history")
@click.option("--match", default="", show_default=False)
@click.option("--broker", default="", show_default=False)
@click.option(
    "--from",
    "first",
    type=options.DAY,
    metavar="DATE[THH:MM]",
    help=f"UTC; default: {DEFAULT_DAYS} days ago.",
)
@click.option("--to", "last", type=options.DAY, metavar="DATE[THH:MM]")
@click.option("--bearer-token-file", "token", type=options.FILE)
def import_samples(
    url: str,
    target: str,
    match: str,
    broker: str,
    token: Path | None,
    **when: float | None,
) -> None:
    """Import history from a Prometheus that scraped Penstock, the JMX exporter or the Artemis metrics plugin.

    It imports numbers of queues and brokers: enough for trends, not to evaluate the rules again. A second run changes
    nothing.
    """
    from penstock.history.backfill import Prometheus, backfill, secret  # noqa: PLC0415 - needs the extra
    from penstock.history.store import Store  # noqa: PLC0415

    end = when["last"] or time.time()
    begin = when["first"] or end - DEFAULT_DAYS * 86400
    source = Prometheus(url, match, secret(token) if token else "")
    imported = backfill(
        source, Store(target), begin, end, broker, lambda text: say(text, err=True)
    )
    if not imported.rows:
        say(
            f"{url}: has no samples of queues in this time; see --from, --match",
            err=True,
        )
        return
    say(
        f"{imported.queues} queues, {imported.hours} hours, {imported.rows} rows: {target}"
    )
