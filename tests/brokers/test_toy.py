"""A kind that no code outside of its folder knows, registered and run through the whole agent."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession

from brokers import toy
from brokers.server import Toy, serving
from e2e.agent import Scrape, parsed
from penstock.agent import Agent
from penstock.brokers.registry import KINDS, register
from penstock.config import load
from penstock.core.errors import ConfigError
from penstock.model import BROKER_KINDS
from penstock.server import make_app, serve

CONFIG = """\
interval: 1s
brokers:
  - {{name: t, kind: toy, url: "{url}"}}
rules:
  - {{match: {{queue: orders}}, patience: 2s}}
"""
TICK = 0.1
NAME = toy.ABOUT.name


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The toy is a kind until the end of the test."""
    register(toy.KIND)
    yield
    del KINDS[NAME], BROKER_KINDS[NAME]


@asynccontextmanager
async def running(folder: Path, url: str) -> AsyncIterator[str]:
    """The agent that watches the broker at `url`; where its metrics are."""
    config = folder / "penstock.yaml"
    config.write_text(CONFIG.format(url=url))
    agent = Agent(config, folder)
    async with serve(make_app(agent.lookups), ["127.0.0.1:0"]) as (address,):
        await agent.start()
        try:
            yield f"http://127.0.0.1:{address.port}/metrics"
        finally:
            await agent.stop()


async def until(url: str, holds: Callable[[Scrape], object]) -> Scrape:
    """The first scrape of which `holds` is true."""
    deadline = time.monotonic() + 30
    async with ClientSession() as client:
        while time.monotonic() < deadline:
            async with client.get(url) as response:
                scrape = parsed(await response.text())
            if holds(scrape):
                return scrape
            await asyncio.sleep(TICK)
    raise AssertionError(f"not within 30 s: {scrape.samples}")


def polls(scrape: Scrape, result: str) -> float:
    return sum(
        value
        for _, value in scrape.find("penstock_polls_total", broker="t", result=result)
    )


def stalled(scrape: Scrape) -> bool:
    return bool(
        scrape.find("mq_client_unhealthy_consumers", client="billing", cause="stalled")
    )


@pytest.mark.slow  # polls until a condition stands
async def test_a_kind_of_its_own_through_the_whole_agent(tmp_path: Path) -> None:
    broker = Toy()
    async with serving(broker) as url:
        async with running(tmp_path, url) as metrics:
            scrape = await until(metrics, lambda scrape: polls(scrape, "ok"))
            assert (
                scrape.value(
                    "mq_broker_info", kind="toy", version="1.0", node_id="toy-1"
                )
                == 1
            )
            assert scrape.value("mq_queue_messages", queue="orders") == 25
            assert scrape.value("mq_client_buffered_messages", client="billing") == 0

            broker.refused = {"connections"}
            scrape = await until(metrics, lambda scrape: polls(scrape, "partial"))
            assert (
                scrape.value("penstock_collector_success", collector="connections") == 0
            )
            assert scrape.value("penstock_collector_success", collector="queues") == 1
            assert scrape.value("mq_queue_messages", queue="orders") == 25

            broker.refused = set()
            broker.buffered = 10
            scrape = await until(metrics, stalled)
            assert scrape.value("mq_client_buffered_messages", client="billing") == 10
            assert polls(scrape, "failed") == 0
            since = scrape.value(
                "mq_client_blocked_since_timestamp_seconds", client="billing"
            )
            assert broker.asked["queues"] >= 5
            assert broker.asked["settings"] == 2, "once for each queue"
        before = broker.asked["queues"]
        async with running(tmp_path, url) as metrics:
            scrape = await until(metrics, stalled)
            assert broker.asked["queues"] - before <= 2, (
                "read from the state file, not found again"
            )
            assert (
                scrape.value(
                    "mq_client_blocked_since_timestamp_seconds", client="billing"
                )
                == since
            )


def test_a_kind_that_is_not_registered_is_refused_with_those_that_are(
    tmp_path: Path,
) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(
        CONFIG.format(url="http://127.0.0.1:1/toy").replace("toy,", "other,")
    )
    with pytest.raises(
        ConfigError,
        match="kind: must be one of 'artemis' or 'openmq' or 'classic' or 'toy'",
    ):
        load(file)
