"""`penstock top`: brokers, queues, clients and consumers in a terminal, refreshed."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from penstock.agent import Agent
from penstock.cli import completion, logs, options
from penstock.cli.client import AgentClient
from penstock.core.errors import PenstockError
from penstock.insight.answers import BrokerList
from penstock.server.api import ROUTES
from penstock.server.view import AgentView


@options.command()
@options.agent_url
@options.http_config_file
@options.in_place_of_agent
@click.option(
    "--broker", default="", show_default=False, shell_complete=completion.brokers
)
@click.option("--interval", type=click.FloatRange(min=0.5, max=3600), default=2.0)
async def top(
    url: str,
    http_config_file: Path | None,
    config_file: Path | None,
    broker: str,
    interval: float,
) -> int:
    """Watch brokers, queues, clients and consumers in the terminal, the worst first.

    Press ? for the keys. Honors NO_COLOR; severity is also shown by symbols. Without a terminal: penstock once --format
    table.
    """
    logs.set_up("critical", "logfmt")
    from penstock.tui.app import Top  # noqa: PLC0415 - an extra: the agent runs without it

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PenstockError(
            "top needs a terminal; for a table: penstock once --format table"
        )
    if config_file is not None:
        agent = Agent(config_file)
        try:
            await agent.start()
            await Top(
                asked_here(agent.lookups), str(config_file), interval, broker
            ).run_async()
        finally:
            await agent.stop()
        return 0
    async with AgentClient(url, http_config_file) as client:
        await client.get(
            "/api/v1/brokers", BrokerList
        )  # an error before the screen is taken stays readable
        await Top(client.get, url, interval, broker).run_async()
    return 0


def asked_here(agent: AgentView) -> Callable[..., Awaitable[Any]]:
    """The answers of an agent in this process, which serves no one else."""
    look_ups = {route.path: route.look_up for route in ROUTES}

    async def get(path: str, _: type, **parameters: str | float) -> Any:
        arguments = {
            name: str(value) for name, value in parameters.items() if value != ""
        }
        return await asyncio.to_thread(look_ups[path], agent, arguments)

    return get
