"""`penstock account`: what became of messages, as an accountant's sheet."""

from pathlib import Path

import click

from penstock.cli import completion, options
from penstock.cli.client import ask
from penstock.insight.answers import AccountList
from penstock.insight.text import account_lines


@options.command()
@click.argument("broker", shell_complete=completion.brokers)
@click.argument(
    "name",
    required=False,
    metavar="[ADDRESS|QUEUE|CLIENT]",
    shell_complete=completion.queues,
)
@options.agent_url
@options.http_config_file
@options.form
async def account(
    broker: str, name: str | None, url: str, http_config_file: Path | None, form: str
) -> int:
    """Show where messages went: still in the queue, or gone for which reason.

    Of an ADDRESS or QUEUE of the BROKER, or what a CLIENT received and sent; without a name: all queues and addresses
    that lost messages. A single number is exact, "1 to 3" are bounds, "unknown" has its reason beside it.
    """
    answer = await ask(
        url, http_config_file, "/api/v1/account", AccountList, broker=broker, name=name
    )
    options.show(answer, account_lines(answer), form)
    return 0
