"""`penstock explain` of an agent whose broker is made up: the worst, a whole broker, nothing wrong."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.world import BEGIN, World
from pages.served import Served, rests, served, troubled, works
from penstock.cli import main
from penstock.core.errors import Unreachable
from penstock.model import Snapshot


async def explained(agent: Served, *words: str) -> Result:
    return await asyncio.to_thread(
        CliRunner().invoke, main, ["explain", *words, "--url", agent.url.rstrip("/")]
    )


@pytest.mark.slow  # an agent and its commands
async def test_without_a_name_the_worst_is_explained(tmp_path: Path) -> None:
    async with served(troubled(), tmp_path, works) as agent:
        worst = await explained(agent)
        assert worst.output.startswith("b1 / ")
        assert "\nCRITICAL  " in worst.output
        assert worst.exit_code == 1
        whole = await explained(agent, "b1")
        assert whole.output.startswith("b1\n\nCRITICAL since ")
        assert "  stuck acknowledges nothing on queue orders\n" in whole.output
        assert re.search(
            r"\n[2-9] conditions belong to these incidents: `penstock explain b1 QUEUE`\n",
            whole.output,
        )
        assert "orders: stalled" not in whole.output
        assert "\n  who       stuck" in whole.output
        assert "\\u0000" not in whole.output
        assert "drain 0 s" not in worst.output + whole.output
        assert whole.exit_code == 1


async def test_where_nothing_is_wrong_it_says_so(tmp_path: Path) -> None:
    world = World()
    world.queue(1, "orders")
    async with served(world, tmp_path, rests, polls=3) as agent:
        found = await explained(agent)
        assert (found.output, found.exit_code) == ("No active conditions.\n", 0)


class PartlyRefused(World):
    def snapshot(self) -> Snapshot:
        read = super().snapshot()
        refused = replace(
            read.collectors["consumers"], error="the account may not list consumers"
        )
        return replace(read, collectors={**read.collectors, "consumers": refused})


async def test_of_a_broker_that_was_not_read_it_does_not_say_that_nothing_is_wrong(
    tmp_path: Path,
) -> None:
    world = PartlyRefused()
    world.queue(1, "orders")
    async with served(world, tmp_path, rests, polls=3) as agent:
        found = await explained(agent)
        assert (
            found.output
            == "Not all of b1 was read or judged: see `penstock explain b1`.\n"
        )
        assert found.exit_code == 1
        assert "consumers could not be read" in (await explained(agent, "b1")).output


class Gone(World):
    def snapshot(self) -> Snapshot:
        if self.now > BEGIN + 60:
            raise Unreachable("connection refused")
        return super().snapshot()


async def test_a_broker_that_is_down_is_said_and_nothing_is_called_well(
    tmp_path: Path,
) -> None:
    world = Gone()
    world.queue(1, "orders")
    async with served(world, tmp_path, rests, polls=6) as agent:
        found = await explained(agent)
        assert found.output.startswith("b1 is down: ")
        assert "No active conditions" not in found.output
        assert found.exit_code == 1
