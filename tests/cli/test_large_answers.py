"""Commands on a busy estate: answers of hundreds of kilobytes, and a network that passes them on in small pieces."""

import asyncio
import os
from pathlib import Path
from unittest.mock import patch

import pytest
from aiohttp import ClientSession
from click.testing import CliRunner, Result

from agent.world import World
from pages.served import rests, served
from penstock.cli import main
from penstock.cli.client import AgentClient
from penstock.insight.answers import QueueList
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.tui.app import Top
from rig.proxy import Proxy
from tui.views import grid, settled

QUEUES = 2_000
BUFFER = 128 * 1024
"""Bytes of an answer that aiohttp holds before the sender has to wait."""
PIECE = 1_400
"""What a network packet carries."""
FORGOTTEN = 600
"""Queues that clients left: each has a condition, and an event."""


def estate() -> World:
    """2,000 queues, of which 600 have messages and no consumer any more."""
    world = World(Policy("b1", constants=Constants(cold=60.0, trend=120.0)))
    for number in range(QUEUES):
        forgotten = number < FORGOTTEN
        name = f"orders.region-{number % 40:02}.customer-{number:05}.confirmations"
        world.queue(
            number + 1,
            name,
            messages=5 if forgotten else 0,
            added=9,
            acknowledged=4 if forgotten else 9,
        )
    return world


FIRST = "orders.region-00.customer-00000.confirmations"
LAST = "orders.region-39.customer-01999.confirmations"


@pytest.mark.slow  # polls 2,000 queues: four seconds
async def test_every_command_reads_whole_answers(tmp_path: Path) -> None:
    async with served(estate(), tmp_path, rests, polls=4) as agent:
        port = int(agent.url.rstrip("/").rpartition(":")[2])
        await commands_work(f"http://127.0.0.1:{port}")
        with Proxy(("127.0.0.1", port), piece=PIECE) as proxy:
            await commands_work(f"http://127.0.0.1:{proxy.port}")


async def commands_work(url: str) -> None:
    """Each command that asks an agent, with an answer that is larger than the buffer where there is one."""
    assert await size_of(f"{url}/api/v1/events?limit=1000") > BUFFER
    assert await size_of(f"{url}/api/v1/queues?limit=1000") > BUFFER
    events = await command("events", "--limit", "1000", "--url", url)
    assert (events.exit_code, events.stderr) == (0, "")
    assert len(events.stdout.splitlines()) >= FORGOTTEN
    account = await command("account", "b1", "--url", url)
    assert (account.exit_code, account.stderr) == (0, "")
    for words in ((), ("b1",), ("b1", FIRST), ("b1", LAST)):
        explained = await command("explain", *words, "--url", url)
        assert "\n" in explained.stdout
        assert explained.stderr == ""
    assert FIRST in await completed(url)
    async with AgentClient(url) as client:
        listed = await client.get("/api/v1/queues", QueueList, limit=1000)
        assert len(listed.rows) == 1000
        async with Top(client.get, url, 3600).run_test(size=(200, 60)) as pilot:
            await settled(pilot)
            assert len(grid(pilot)) > 40


async def size_of(url: str) -> int:
    async with ClientSession() as session, session.get(url) as response:
        return len(await response.read())


async def command(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, words)


async def completed(url: str) -> str:
    """What a shell offers after `penstock explain b1 orders`."""
    asked = {
        "COMP_WORDS": "penstock explain b1 orders",
        "COMP_CWORD": "3",
        "_PENSTOCK_COMPLETE": "bash_complete",
        "PENSTOCK_URL": url,
    }

    def complete() -> Result:
        return CliRunner().invoke(main, [], prog_name="penstock")

    with patch.dict(os.environ, asked):
        return (await asyncio.to_thread(complete)).output
