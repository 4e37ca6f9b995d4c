"""Three agents share twenty brokers: each broker is on exactly one `/metrics`."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from penstock.agent import Agent
from penstock.agent.shard import Shard
from penstock.exposition.syntax import Format

RECORDING = Path(__file__).parents[1] / "recordings" / "artemis-2.44.0.jsonl.gz"
NAMES = [f"b{number}" for number in range(20)]


async def watched(agent: Agent) -> set[str]:
    """The brokers that an agent's `/metrics` says are up, once all of them were polled."""
    async with asyncio.timeout(30):
        while not agent.lookups.ready()[0]:  # noqa: ASYNC110 - polls tell no event
            await asyncio.sleep(0.05)
    body = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
    return {name for name in NAMES if f'mq_up{{broker="{name}"}} 1\n' in body}


@pytest.mark.slow  # three agents, each polls a few times
async def test_every_broker_is_polled_by_exactly_one_of_three(tmp_path: Path) -> None:
    brokers = "".join(
        f"- {{name: {name}, kind: artemis, transport: recording, url: 'recording:{RECORDING}'}}\n"
        for name in NAMES
    )
    (tmp_path / "p.yml").write_text(f"interval: 60s\nbrokers:\n{brokers}")
    agents = [
        Agent(tmp_path / "p.yml", shard=Shard(ordinal, 3)) for ordinal in range(3)
    ]
    try:
        for agent in agents:
            await agent.start()
        seen = Counter([name for agent in agents for name in await watched(agent)])
    finally:
        for agent in agents:
            await agent.stop()
    assert seen == dict.fromkeys(NAMES, 1)
