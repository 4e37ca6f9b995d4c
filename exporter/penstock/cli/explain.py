"""`penstock explain`: what holds on a queue, since when, on what evidence, and what to do."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from penstock.agent import Watch
from penstock.agent.opening import open_reader, policy_of
from penstock.agent.tables import Result
from penstock.cli import completion, logs, options
from penstock.cli.client import ask
from penstock.cli.examples import examples
from penstock.cli.telling import say
from penstock.config import load
from penstock.errors import PenstockError
from penstock.flow.explain import NotFound
from penstock.flow.explain import explain as explain_queue
from penstock.flow.figures import duration, moment, number, value

Plain = Mapping[str, Any]


@click.command(
    epilog=examples(
        "penstock explain demo stock.updates",
        "penstock explain demo stock.updates stock-service --format json",
        "penstock explain demo stock.updates --config.file penstock.yaml --polls 2",
    )
)
@click.argument("broker", shell_complete=completion.brokers)
@click.argument("queue", shell_complete=completion.queues)
@click.argument("client", required=False, shell_complete=completion.clients)
@click.option("--address", help="Its address, where several queues have this name.")
@options.agent_url
@options.http_config_file
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path),
    help="Ask the broker itself, as this configuration says, in place of an agent.",
)
@click.option(
    "--polls", type=click.IntRange(min=1, max=1000), default=3, show_default=True, help="Polls of the broker itself."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@options.command
async def explain(  # noqa: PLR0913, PLR0917 - the command's options
    broker: str, queue: str, client: str | None, address: str | None, url: str, http_config_file: Path | None,
    config_file: Path | None, polls: int, form: str,
) -> int:  # fmt: skip
    """
    Tell what is known of a QUEUE of a BROKER, or of one CLIENT of it: conditions with evidence and advice.

    Conditions that last longer than the polls are told only by a running agent. Exit status 1 when it is not healthy.
    """
    logs.set_up("error", "logfmt")
    if config_file is None:
        found = await ask(
            url,
            http_config_file,
            "/api/v1/explain",
            "conditions",
            broker=broker,
            queue=queue,
            address=address,
            client=client,
        )
    else:
        found = await polled(config_file, broker, queue, address, client, polls)
    if form == "json":
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        say(told(found))
    return int(not found["healthy"])


async def polled(
    config_file: Path, broker: str, queue: str, address: str | None, client: str | None, polls: int
) -> Plain:
    """The same by a few polls of our own."""
    config = load(config_file)
    chosen = options.chosen(config, broker)
    interval = config.interval_of(chosen)
    watch = Watch(open_reader(config, chosen), policy_of(config, chosen), interval, config.timeout_of(chosen))
    try:
        for number in range(1, polls + 1):
            began = time.monotonic()
            outcome = await watch.poll()
            if outcome.result is Result.FAILED:
                raise PenstockError(outcome.error)
            click.echo(f"poll {number} of {polls}: {outcome.result} {outcome.error}".rstrip(), err=True)
            if number < polls:
                await asyncio.sleep(max(0.0, began + interval - time.monotonic()))
    finally:
        await watch.close()
    assert watch.sight is not None  # noqa: S101 - a poll has succeeded
    try:
        return explain_queue(watch.sight, queue, address=address, client=client)
    except NotFound as error:
        raise PenstockError(f"{error}; {error.hint}") from None


# --- as text


def told(found: Plain) -> Iterator[str]:
    """The explanation, line by line."""
    address = f" of address {found['address']}" if found["address"] != found["queue"] else ""
    yield f"{found['broker']} / {found['queue']}{address}   {found['kind']}, {found['routing_type']}"
    yield ""
    for condition in found["conditions"]:
        yield from condition_told(condition, found["stamp"])
    if found["healthy"]:
        yield verdict(found["conditions"])
    yield ""
    yield from numbers_told(found)
    yield from ring_told(found["ring"])
    yield from flow_told(found["flow"], found["connections"])
    for client in found["clients"]:
        yield from client_told(client, found["stamp"])
    if found["clients_left_out"]:
        yield f"  and {found['clients_left_out']} more clients"
    if found["findings"]:
        yield "Findings"
        for finding in found["findings"]:
            yield from finding_told(finding)
    if found["rules"]:
        yield "Rules of the configuration"
        yield from (f"  {rule_told(rule)}" for rule in found["rules"])
    if found["unknown"]:
        yield "Not known"
        yield from (f"  {one['what']}: {one['why']}" for one in found["unknown"])


def verdict(conditions: Sequence[Plain]) -> str:
    """Of a queue on which nothing holds that is unhealthy."""
    if any(one["condition"] == "unknown" and not one["client"] for one in conditions):
        return "Not known to be healthy."
    return "Nothing to act on." if conditions else "Healthy: nothing holds that needs attention."


def condition_told(condition: Plain, now: float) -> Iterator[str]:
    on = f" on client {condition['client']}" if condition["client"] else ""
    silenced = ", silenced by a rule" if condition["silenced"] else ""
    yield f"{condition['severity'].upper()}  {condition['condition']}{on}{silenced}"
    yield f"  since     {moment(condition['since'])}, {duration(now - condition['since'])}"
    yield f"  rule      {condition['rule']}"
    evidence = [f"{name} {value(one)}" for name, one in condition["evidence"].items()]
    rests = condition["completeness"]
    share = "" if rests["share"] is None else f" ({rests['share']:.0%})"
    evidence.append(f"{rests['polls']} of {rests['due']} polls{share}")
    yield f"  evidence  {', '.join(evidence)}"
    yield f"  causes    {condition['causes'][0] if len(condition['causes']) == 1 else 'one of:'}"
    if len(condition["causes"]) > 1:
        yield from (f"            - {cause}" for cause in condition["causes"])
    yield f"  advice    {condition['advice']}"
    yield ""


def numbers_told(found: Plain) -> Iterator[str]:
    yield "Numbers"
    shown = {name: number(name, value) for name, value in found["numbers"].items()}
    rates = {"in": found["rate_in"], "out": found["rate_out"]}
    shown |= {name: f"{rate:g}/s" for name, rate in rates.items() if rate is not None}
    yield "  " + ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in shown.items())


def ring_told(ring: Plain | None) -> Iterator[str]:
    if ring is None:
        return
    yield "Ring"
    limit = "none" if ring["limit"] is None else f"{ring['limit']:g} messages"
    yield f"  size      {limit}: {ring['where']}"
    yield f"  evicted   {'unknown' if ring['evicted'] is None else format(ring['evicted'], 'g')}: {ring['ledger']}"


def flow_told(flow: Sequence[Plain], connections: Sequence[Plain]) -> Iterator[str]:
    if flow or connections:
        yield "Flow control"
    for one in flow:
        yield f"  {one['client']}, consumer {one['consumer']}: {one['told']}"
    for one in connections:
        yield f"  {one['client']}, connection {one['connection']}: {one['told']}"


def client_told(client: Plain, now: float) -> Iterator[str]:
    yield f"Client {client['client']}"
    numbers = dict(client["numbers"])
    since = numbers.pop("blocked_since", None)
    text = ", ".join(f"{name} {number(name, value)}" for name, value in numbers.items())
    yield f"  {text}" + (f", settles nothing for {duration(now - since)}" if since is not None else "")
    patience = client["patience"]
    if patience is not None:
        origin = f"learned of {patience['gaps']} gaps" if patience["origin"] == "learned" else patience["origin"]
        yield f"  patience  {duration(patience['seconds'])}, {origin}: {patience['why']}"
    yield from (f"  {rule_told(rule)}" for rule in client["rules"])


def finding_told(finding: Plain) -> Iterator[str]:
    yield f"  {finding['rule']} ({finding['scope']} {finding['object']}): {finding['says']}"
    evidence = [f"{name} {value(one)}" for name, one in finding["evidence"].items()]
    if evidence:
        yield f"    evidence  {', '.join(evidence)}"
    yield f"    advice    {finding['advice']}"


def rule_told(rule: Plain) -> str:
    return f"{rule['key']}: {rule['value']} (rule {rule['rule']})"
