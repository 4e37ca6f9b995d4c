"""`penstock explain`: what holds on a queue, since when, on what evidence, and what to do."""

from contextlib import aclosing
from pathlib import Path

import click

from penstock.agent import Result
from penstock.cli import completion, logs, options
from penstock.cli.client import ask
from penstock.cli.polling import open_poller, polls_of
from penstock.config import load
from penstock.core.errors import PenstockError
from penstock.insight.answers import Explanation, ObjectView
from penstock.insight.explain import HEALTHY, BrokerView, NotFound
from penstock.insight.explain import explain as explain_queue
from penstock.insight.objects import explain_address, explain_broker, explain_connection
from penstock.insight.text import explanation, object_lines


@options.command(
    "penstock explain demo",
    "penstock explain demo stock.updates",
    "penstock explain demo --address stock.updates",
    "penstock explain demo stock.updates stock-service --format json",
    "penstock explain demo stock.updates --config.file penstock.yaml --polls 2",
)
@click.argument("broker", shell_complete=completion.brokers)
@click.argument("queue", required=False, shell_complete=completion.queues)
@click.argument("client", required=False, shell_complete=completion.clients)
@click.option("--address")
@click.option("--connection")
@options.agent_url
@options.http_config_file
@options.in_place_of_agent
@click.option("--polls", type=click.IntRange(min=1, max=1000), default=3)
@options.form
async def explain(  # noqa: PLR0913, PLR0917 - the command's options
    broker: str, queue: str | None, client: str | None, address: str | None, connection: str | None, url: str,
    http_config_file: Path | None, config_file: Path | None, polls: int, form: str,
) -> int:  # fmt: skip
    """Tell what is known of a BROKER, of a QUEUE, an address or a connection of it, or of one CLIENT of a queue:
    whether it is healthy and how sure that is, conditions with evidence and advice.

    Conditions that last longer than the polls are told only by a running agent. Exit status 1 where it is not healthy,
    or that cannot be said.
    """
    logs.set_up("error", "logfmt")
    kind, name = ("connection", connection) if connection else ("address", address) if address else ("broker", None)
    found: Explanation | ObjectView
    if config_file is not None:
        view = await polled(config_file, broker, polls)
        try:
            found = explained(view, queue, address, client, connection)
        except NotFound as error:
            raise PenstockError(f"{error}; {error.hint}") from None
    elif queue is not None:
        given = {"queue": queue, "address": address, "client": client}
        found = await ask(url, http_config_file, "/api/v1/explain", Explanation, broker=broker, **given)
    else:
        given = {} if name is None else {kind: name}
        found = await ask(url, http_config_file, f"/api/v1/{kind}", ObjectView, broker=broker, **given)
    options.show(found, explanation(found) if isinstance(found, Explanation) else object_lines(found), form)
    return int(found.knowledge.state not in HEALTHY)


async def polled(config_file: Path, broker: str, polls: int) -> BrokerView:
    """What a few polls of our own show."""
    config = load(config_file)
    chosen = options.chosen(config, broker)
    poller = open_poller(config, chosen)
    async with aclosing(polls_of(poller, config.interval_of(chosen), polls)) as made:
        async for poll in made:
            if poll.result is Result.FAILED:
                raise PenstockError(poll.error)
    assert poller.assessor.view is not None  # noqa: S101 - a poll has succeeded
    return poller.assessor.view


def explained(
    view: BrokerView, queue: str | None, address: str | None, client: str | None, connection: str | None
) -> Explanation | ObjectView:
    if queue is not None:
        return explain_queue(view, queue, address=address, client=client)
    if connection is not None:
        return explain_connection(view, connection, None)
    return explain_broker(view, None) if address is None else explain_address(view, address, None)
