"""Large brokers in worker processes: as if one process polled all, whatever ends, hangs or is reloaded."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.broker import Broker, running

from penstock.agent import Agent
from penstock.agent.processes import pool
from penstock.exposition.syntax import Format

COMMAND = (sys.executable, "-P", "-m", "penstock.cli.worker", "info", "logfmt")


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with running(60, 60) as one, running(40, 40) as two:
        yield {"one": one, "two": two}


def written(path: Path, brokers: dict[str, Broker], more: str = "") -> Path:
    lines = [f"  - {{name: {name}, kind: artemis, url: '{broker.url}'}}\n" for name, broker in brokers.items()]
    path.write_text("interval: 1s\nbrokers:\n" + "".join(lines) + more)
    return path


@asynccontextmanager
async def agent_of(file: Path, storage: Path, processes: int = 1) -> AsyncIterator[Agent]:
    agent = Agent(file, storage, worker=(*COMMAND, str(file)), processes=processes)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


async def until(holds: Callable[[], Any], seconds: float = 15.0) -> Any:
    async with asyncio.timeout(seconds):
        while not (found := await asyncio.to_thread(holds)):
            await asyncio.sleep(0.05)
    return found


def body(agent: Agent, gzip: bool = False) -> str:
    return b"".join(agent.exposition.chunks(Format.TEXT, gzip=gzip)).decode()


def samples(agent: Agent, broker: str) -> dict[str, str]:
    lines = [line for line in body(agent).splitlines() if f'broker="{broker}"' in line]
    return dict(line.rsplit(" ", 1) for line in lines)


async def test_move(tmp_path: Path, brokers: dict[str, Broker], monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "p.yml", brokers)
    async with agent_of(file, tmp_path / "data") as agent:
        await until(lambda: agent.lookups.ready()[0])
        brokers["one"].step()
        await asyncio.sleep(2)
        before = samples(agent, "one")
        monkeypatch.setattr(pool, "LARGE", 1e-6)
        await until(lambda: agent._pool.assigned)
        print(agent._pool.assigned, time.time())
        for i in range(12):
            await asyncio.sleep(1)
            now = samples(agent, "one")
            print(len(before), len(now), now.get('penstock_poll_timestamp_seconds{broker="one"}'), sorted(before.keys()-now.keys())[:5])
        assert 0
