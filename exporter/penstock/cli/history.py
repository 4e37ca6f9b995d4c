"""`penstock history`: what history there is."""

from datetime import UTC, datetime

import click

from penstock.cli.examples import examples
from penstock.cli.told import told


@click.group()
def history() -> None:
    """The history of every poll: what there is of it."""


@history.command("list", epilog=examples("penstock history list", "penstock history list data/history"))
@click.argument("url", default="data/history")
@told
def list_days(url: str) -> None:
    """Days, polls, gaps and sizes of the history at URL (a directory or s3://BUCKET/PREFIX)."""
    from penstock.history.listing import days  # noqa: PLC0415 - needs the extra
    from penstock.history.store import Store  # noqa: PLC0415

    found = days(Store(url))
    if not found:
        click.echo(f"{url}: no history; set history: {{enabled: true}} in the configuration of the agent", err=True)
        return
    for day in found:
        polls = ", ".join(f"{broker} {number}" for broker, number in day.polls.items())
        click.echo(f"{day.day}  {day.bytes / 2**20:8.1f} MiB  {day.files:5d} files  polls: {polls}")
        for gap in day.gaps:
            begin, end = (datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S") for at in (gap.begin, gap.end))
            click.echo(f"            gap of {gap.broker}: {begin} to {end} UTC")
    click.echo(f"{len(found)} days, {sum(day.bytes for day in found) / 2**20:.1f} MiB")
