"""`penstock completion`: what a shell needs to complete commands, options and names."""

import asyncio
import os
from collections.abc import Awaitable
from typing import TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from penstock.cli import options
from penstock.cli.client import DEFAULT_URL, ask
from penstock.core.errors import PenstockError
from penstock.core.visible import visible
from penstock.insight.answers import LISTS

AnswerT = TypeVar("AnswerT")

SHELLS = ("bash", "zsh", "fish")
ENOUGH = 200
"""Names that are offered."""
SECONDS = 2.0
"""An agent that takes longer completes nothing."""


@options.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL. Bash must be 4.4 or later.

    Names of brokers, queues and clients come from the agent that the command itself would ask.
    """
    from penstock.cli.main import main  # noqa: PLC0415 - which loads this module

    completion_class = get_completion_class(shell)
    assert completion_class is not None  # noqa: S101 - click has all SHELLS
    click.echo(completion_class(main, {}, "penstock", "_PENSTOCK_COMPLETE").source())  # noqa: TID251 - a script, which holds no name


# --- names


def brokers(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _offered(context, incomplete, "brokers", "name")


def queues(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    parameters = {
        "broker": context.params.get("broker"),
        "text": incomplete,
        "limit": ENOUGH,
    }
    return _offered(context, incomplete, "queues", "queue", **parameters)


def clients(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    parameters = {name: context.params.get(name) for name in ("broker", "queue")}
    return _offered(
        context, incomplete, "clients", "client", **parameters, limit=ENOUGH
    )


async def _soon(answer: Awaitable[AnswerT]) -> AnswerT:
    async with asyncio.timeout(SECONDS):
        return await answer


def _offered(
    context: click.Context,
    incomplete: str,
    kind: str,
    name: str,
    **given: str | float | None,
) -> list[CompletionItem]:
    """Names that begin so; none when no agent answers in time: a shell must not hang nor show an error."""
    url = context.params.get("url") or os.environ.get("PENSTOCK_URL") or DEFAULT_URL
    http = context.params.get("http_config_file")
    try:
        answer = asyncio.run(
            _soon(ask(url, http, f"/api/v1/{kind}", LISTS[kind], **given))
        )
    except (PenstockError, TimeoutError):
        return []
    names: set[str] = {getattr(row, name) for row in answer.rows}
    return [
        CompletionItem(one)
        for one in sorted(names)
        if one.startswith(incomplete) and visible(one) == one
    ]
