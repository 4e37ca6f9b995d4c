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
from penstock.insight.answers import Explanation
from penstock.insight.explain import NotFound
from penstock.insight.explain import explain as explain_queue
from penstock.insight.text import explanation
from penstock.tui.lines import say, say_json


@options.command(
    "penstock explain demo stock.updates",
    "penstock explain demo stock.updates stock-service --format json",
    "penstock explain demo stock.updates --config.file penstock.yaml --polls 2",
)
@click.argument("broker", shell_complete=completion.brokers)
@click.argument("queue", shell_complete=completion.queues)
@click.argument("client", required=False, shell_complete=completion.clients)
@click.option("--address", help="Its address, where several queues have this name.")
@options.agent_url
@options.http_config_file
@options.in_place_of_agent
@click.option("--polls", type=click.IntRange(min=1, max=1000), default=3, help="Polls of the broker itself.")
@options.form
async def explain(  # noqa: PLR0913, PLR0917 - the command's options
    broker: str, queue: str, client: str | None, address: str | None, url: str, http_config_file: Path | None,
    config_file: Path | None, polls: int, form: str,
) -> int:  # fmt: skip
    """Tell what is known of a QUEUE of a BROKER, or of one CLIENT of it: conditions with evidence and advice.

    Conditions that last longer than the polls are told only by a running agent. Exit status 1 when it is not healthy.
    """
    logs.set_up("error", "logfmt")
    if config_file is None:
        found = await ask(
            url,
            http_config_file,
            "/api/v1/explain",
            Explanation,
            broker=broker,
            queue=queue,
            address=address,
            client=client,
        )
    else:
        found = await polled(config_file, broker, queue, address, client, polls)
    if form == "json":
        say_json(found)
    else:
        say(*explanation(found))
    return int(not found.healthy)


async def polled(
    config_file: Path, broker: str, queue: str, address: str | None, client: str | None, polls: int
) -> Explanation:
    """The same by a few polls of our own."""
    config = load(config_file)
    chosen = options.chosen(config, broker)
    poller = open_poller(config, chosen)
    async with aclosing(polls_of(poller, config.interval_of(chosen), polls)) as made:
        async for poll in made:
            if poll.result is Result.FAILED:
                raise PenstockError(poll.error)
    assert poller.assessor.view is not None  # noqa: S101 - a poll has succeeded
    try:
        return explain_queue(poller.assessor.view, queue, address=address, client=client)
    except NotFound as error:
        raise PenstockError(f"{error}; {error.hint}") from None
