"""Brokers that hang: the process frozen, the network silent."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from e2e.agent import Agent, Scrape, entry, parsed
from penstock.agent import Agent as InProcess
from penstock.exposition.syntax import Format
from penstock.series import last_good as retention
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker
from rig.proxy import Fault, Proxy
from rig.waiting import eventually

pytestmark = pytest.mark.broker

SECONDS = 10


def console(broker: Broker) -> tuple[str, int]:
    return broker.host, int(broker.jolokia_url.split(":")[2].split("/")[0])


def through(proxy: Proxy) -> str:
    return f"http://{proxy.host}:{proxy.port}/console/jolokia/"


def up(scrape: Scrape) -> dict[str, float]:
    return {labels["broker"]: value for labels, value in scrape.find("mq_up")}


def polls(scrape: Scrape, broker: str, *results: str) -> float:
    return sum(
        scrape.value("penstock_polls_total", broker=broker, result=result)
        for result in results
    )


@pytest.mark.nightly  # a broker that is frozen for long
def test_others_do_not_notice(
    artemis: Broker,
    own_artemis: Callable[..., ArtemisBroker],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    frozen = own_artemis(name="frozen", read_only_user="exporter")
    name = unique("q")
    frozen.manage.create_queue("q")
    artemis.manage.create_queue(name)
    hanging = ("frozen", "silent")
    with Proxy(console(artemis)) as proxy:
        brokers = [
            entry(artemis, name="good"),
            entry(frozen),
            entry(
                artemis, name="silent", url=through(proxy), include=[{"queue": name}]
            ),
        ]
        with Agent(tmp_path / "agent", brokers=brokers) as agent:
            all_up = {"frozen": 1.0, "good": 1.0, "silent": 1.0}
            agent.until(
                lambda scrape: {
                    one["broker"]: value for one, value in scrape.find("mq_up")
                },
                all_up,
            )
            frozen.pause()
            proxy.fault = Fault.HANG
            before = agent.until(
                lambda scrape: [scrape.value("mq_up", broker=one) for one in hanging],
                [0, 0],
            )
            began = time.monotonic()
            slowest = 0.0
            while time.monotonic() - began < SECONDS:
                asked = time.monotonic()
                assert agent.request("/-/healthy")[0] == 200
                agent.body()
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.1)
            after = agent.scrape()
            elapsed = time.monotonic() - began
            assert slowest < SECONDS / 2
            assert (
                polls(after, "good", "ok") - polls(before, "good", "ok") >= SECONDS / 2
            )
            for one in hanging:
                counted = [
                    polls(scrape, one, "failed", "skipped")
                    for scrape in (before, after)
                ]
                assert abs(counted[1] - counted[0] - elapsed) <= 4
                stamps = [
                    scrape.value("penstock_poll_timestamp_seconds", broker=one)
                    for scrape in (before, after)
                ]
                assert stamps[0] == stamps[1] < time.time() - SECONDS
                assert after.find("mq_queue_messages", broker=one)
            assert "no answer within" in agent.request("/")[1]
            frozen.resume()
            proxy.fault = Fault.NONE
            # The rest after a slow poll is as long as the poll was.
            agent.until(
                lambda scrape: [scrape.value("mq_up", broker=one) for one in hanging],
                [1, 1],
            )


def test_a_slow_listing_leaves_time_for_the_other_parts(
    artemis: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    def delayed(request: bytes) -> bytes:
        proxy.delay = 10.0 if b"listConsumers" in request else 0.0
        return request

    def failed(scrape: Scrape) -> set[str]:
        return {
            labels["collector"]
            for labels, ok in scrape.find("penstock_collector_success")
            if not ok
        }

    artemis.manage.create_queue(name := unique("q"))
    with Proxy(console(artemis), alter=delayed) as proxy:
        slow = entry(
            artemis, name="slow", url=through(proxy), include=[{"queue": name}]
        )
        with Agent(
            tmp_path / "agent", brokers=[slow], interval="6s", timeout="5500ms"
        ) as agent:
            scrape = agent.until(failed, {"consumers"}, timeout=60)
            assert scrape.value("mq_queue_messages", queue=name) == 0


async def test_what_is_too_old_goes(
    artemis: Broker,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "KEEP_SECONDS", 0.0)  # 3 polls remain
    artemis.manage.create_queue(name := unique("q"))
    with Proxy(console(artemis)) as proxy:
        one = entry(
            artemis, name="silent", url=through(proxy), include=[{"queue": name}]
        )
        file = Agent(tmp_path / "agent", brokers=[one]).file
        async with running(file) as agent:
            shown = await settled(agent, {"mq_queue_messages"})
            assert shown.value("mq_queue_messages", queue=name) == 0
            proxy.fault = Fault.HANG
            hung = time.monotonic()
            assert (await settled(agent, set())).find("mq_up", broker="silent") == [
                ({"broker": "silent"}, 0.0)
            ]
            assert time.monotonic() - hung > 2
            left = {
                family
                for family, labels, _ in body(agent).samples
                if "broker" in labels
            }
            assert {
                family for family in left if not family.startswith("penstock_")
            } == {"mq_up"}
            assert not body(agent).find("penstock_poll_timestamp_seconds")
            assert body(agent).find(
                "penstock_polls_total", broker="silent", result="failed"
            )
            proxy.fault = Fault.NONE
            assert (await settled(agent, {"mq_queue_messages"})).value(
                "mq_up", broker="silent"
            ) == 1


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[InProcess]:
    agent = InProcess(file)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


def body(agent: InProcess) -> Scrape:
    return parsed(b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode())


async def settled(agent: InProcess, families: set[str]) -> Scrape:
    """The first body that shows exactly these of the families of queues' messages."""

    def shown() -> set[str]:
        return {name for name, *_ in body(agent).samples if name == "mq_queue_messages"}

    # In a thread: the agent's own loop goes on meanwhile.
    await asyncio.to_thread(eventually, shown, families, timeout=15)
    return body(agent)
