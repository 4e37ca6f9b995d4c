"""`penstock events`: what changed, when."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from penstock.cli import completion, options
from penstock.cli.client import ask
from penstock.cli.examples import examples
from penstock.cli.telling import say
from penstock.config.values import parse_duration


def since_when(_: click.Context, __: click.Parameter, value: str | None) -> float:
    """Seconds since 1970 of `2h`, `30m` (ago), or of a time as ISO 8601 writes it (UTC unless it says otherwise)."""
    if value is None:
        return 0.0
    if re.fullmatch(r"[\d.]+(ms|[dhms]).*", value):
        try:
            return time.time() - parse_duration(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter("write a time ago (30m, 2h, 1d) or a time (2026-11-21T08:00)") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


@click.command(
    epilog=examples("penstock events --since 2h", "penstock events --broker demo --queue stock.updates --format json")
)
@click.option("--broker", help="Only of this broker.", shell_complete=completion.brokers)
@click.option("--queue", help="Only of this queue.", shell_complete=completion.queues)
@click.option("--since", callback=since_when, help="Only since then: a time ago (30m, 2h, 1d) or 2026-11-21T08:00.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="The newest so many.")
@options.agent_url
@options.http_config_file
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object a line.",
)
@options.command
async def events(
    broker: str | None, queue: str | None, since: float, limit: int, url: str, http_config_file: Path | None, form: str
) -> int:
    """Tell what changed: conditions that came and went, brokers that went down, came up or restarted, reloads."""
    found = await ask(
        url, http_config_file, "/api/v1/events", "events", broker=broker, queue=queue, since=since, limit=limit
    )
    say(shown(found["events"], form))
    if not found["events"]:
        click.echo("penstock: nothing changed, of what was asked for", err=True)
    return 0


def shown(found: list[Mapping[str, Any]], form: str) -> Iterator[str]:
    for event in found:
        yield json.dumps(event, ensure_ascii=False) if form == "json" else text(event)


def text(event: Mapping[str, Any]) -> str:
    """One line: when, what, on what."""
    at = datetime.fromtimestamp(event["time"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    where = " / ".join(event[name] for name in ("broker", "queue", "client") if event[name])
    if event["condition"]:
        told = {"condition_on": "on", "condition_off": "off"}.get(event["change"], event["detail"])
        since = ""
        if event["change"] == "condition_on" and event["since"] is not None:
            since = f", since {datetime.fromtimestamp(event['since'], UTC):%H:%M:%S}"
        return f"{at}  {event['severity']:8}  {told:3}  {event['condition']}  {where}{since}"
    return "  ".join(part for part in (at, event["change"].replace("_", " "), where, event["detail"]) if part)
