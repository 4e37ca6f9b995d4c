"""The agent is told to stop in the very moment in which something else happens to it."""

import asyncio
from pathlib import Path

import pytest

from penstock.agent import Agent


@pytest.mark.parametrize("steps", range(5))
async def test_stops_while_a_change_asks_for_a_save(
    tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.agent.agent.SAVE_PAUSE", 0.0)
    file = tmp_path / "penstock.yml"
    file.write_text("brokers: [{name: b, kind: artemis, url: 'http://127.0.0.1:1/jolokia/'}]\n")
    agent = Agent(file, tmp_path / "data")
    await agent.start()
    await asyncio.sleep(0.3)

    async def change() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        agent._changed.set()

    changing, stopping = asyncio.create_task(change()), asyncio.create_task(agent.stop())
    _, pending = await asyncio.wait([changing, stopping], timeout=10)
    assert not pending
    await stopping
