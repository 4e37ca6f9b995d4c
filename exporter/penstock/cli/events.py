"""`penstock events`: what changed, when."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from penstock.cli import completion, options
from penstock.cli.client import ask
from penstock.config.values import parse_duration
from penstock.insight.answers import EventList
from penstock.tui.lines import say


def since_when(text: str) -> float:
    """Seconds since 1970 of `2h`, `30m` (ago), or of a time as ISO 8601 writes it (UTC unless it says otherwise)."""
    if re.fullmatch(r"[\d.]+(ms|[dhms]).*", text):
        return time.time() - parse_duration(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "write a time ago (30m, 2h, 1d) or a time (2026-11-21T08:00)"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@options.command()
@click.option("--broker", shell_complete=completion.brokers)
@click.option("--queue", shell_complete=completion.queues)
@click.option(
    "--since", type=options.Parsed("text", since_when), default=0.0, show_default=False
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100)
@options.agent_url
@options.http_config_file
@options.form_of_lines
async def events(
    broker: str | None,
    queue: str | None,
    since: float,
    limit: int,
    url: str,
    http_config_file: Path | None,
    form: str,
) -> int:
    """List what changed: conditions raised and cleared, brokers down, up and restarted, reloads."""
    answer = await ask(
        url,
        http_config_file,
        "/api/v1/events",
        EventList,
        broker=broker,
        queue=queue,
        since=since,
        limit=limit,
    )
    for event in answer.events:
        options.show_event(event, form)
    if not answer.events:
        say("penstock: no matching events", err=True)
    return 0
