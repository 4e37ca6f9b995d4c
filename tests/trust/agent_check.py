"""What befalls the agent itself: killed at any moment, configured anew a thousand times, its clock set."""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from agent.stored import known_in
from e2e.agent import Agent, Scrape, entry
from e2e.test_hang import up
from penstock.history.listing import days
from penstock.history.store import Store
from penstock_demo.broker import Broker
from trust import clocked, watched
from trust.inside import inside, sample

pytestmark = pytest.mark.broker

HISTORY = {"enabled": True, "publish": "10s", "keep": "35d"}


def snapshots(scrape: Scrape) -> float:
    return sum(
        value
        for labels, value in scrape.find("penstock_polls_total")
        if labels["result"] in ("ok", "partial")
    )


def published(agent: Agent) -> int:
    found: Counter[str] = Counter()
    for day in days(Store(str(agent.work / "data" / "history"))):
        found.update(day.polls)
    return found.total()


def test_killed_at_any_moment(artemis: Broker, tmp_path: Path) -> None:
    chance = random.Random(3)  # noqa: S311 - repeatable
    agent = Agent(tmp_path / "agent", brokers=[entry(artemis)], history=HISTORY)
    seen = 0.0
    runs = 8
    for _ in range(runs):
        agent.run()
        time.sleep(chance.uniform(0.5, 5))
        seen += snapshots(agent.scrape())
        agent.kill()
    with agent:
        agent.until(up, {artemis.name: 1}, timeout=30)
        last = agent.next_poll(artemis.name)
    assert published(agent) >= seen + snapshots(last) - runs, (
        "at most the poll under way of each run"
    )
    assert not list((agent.work / "data").glob("*.unusable"))
    assert known_in(agent.work / "data")
    assert "Traceback" not in agent.log.read_text()


def test_a_thousand_configurations(artemis: Broker, tmp_path: Path) -> None:
    """Rules, a broker that is opened anew, one that comes and goes, and some that are refused."""
    held = tmp_path / "held.json"
    program = [sys.executable, str(watched.__file__), str(held)]

    def brokers(number: int) -> list[dict[str, object]]:
        more = [entry(artemis, name="more")] if number % 3 == 0 else []
        return [entry(artemis, page_rows=5000 - number % 2), *more]

    with Agent(
        tmp_path / "agent", program=program, brokers=brokers(1), interval="2s"
    ) as agent:
        agent.until(up, {artemis.name: 1}, timeout=30)
        for number in range(1_000):
            if number == 300:
                before = sample(agent.pid)
                holds = inside(agent.pid, held)
            rules = [{"match": {"queue": f"q{number}"}, "owner": f"team-{number}"}]
            agent.configure(
                brokers=brokers(number),
                rules=rules if number % 5 else [{"nonsense": number}],
                interval="2s",
            )
            assert agent.request("/-/reload", method="POST")[0] == (
                200 if number % 5 else 500
            )
        agent.until(lambda scrape: up(scrape).get(artemis.name), 1.0, timeout=30)
        after = sample(agent.pid)
        holds_now = inside(agent.pid, held)
        assert after.descriptors - before.descriptors <= 4
        assert after.threads <= before.threads + 1
        assert holds_now.tasks <= holds.tasks + 2
        assert holds_now.objects <= 1.03 * holds.objects, (holds, holds_now)
        assert after.rss_mb - before.rss_mb <= 5
        assert "Traceback" not in agent.log.read_text()


@pytest.mark.parametrize("step", [3600.0, -7200.0, 40 * 86400.0])
def test_the_clock_is_set(artemis: Broker, tmp_path: Path, step: float) -> None:
    """
    Forth, and back again: polls go on, numbers stay, nothing is told but what is, and all of it is in the history,
    also what was too old by the clock of a moment.
    """
    offset = tmp_path / "offset"
    program = [sys.executable, str(clocked.__file__), str(offset)]
    artemis.manage.create_queue(queue := f"clock.{abs(int(step))}")

    def stamp(scrape: Scrape) -> float:
        return scrape.value("penstock_poll_timestamp_seconds", broker=artemis.name)

    with Agent(
        tmp_path / "agent", program=program, brokers=[entry(artemis)], history=HISTORY
    ) as agent:
        agent.until(up, {artemis.name: 1}, timeout=30)
        for seconds in (step, 0.0):
            offset.write_text(str(seconds))
            os.kill(agent.pid, signal.SIGUSR2)
            began = time.time() + seconds
            for _ in range(4):
                scrape = agent.next_poll(artemis.name)
            assert scrape.value("mq_up", broker=artemis.name) == 1
            assert abs(stamp(scrape) - began) < 60
            assert scrape.value("mq_queue_messages", queue=queue) == 0
            assert not scrape.find("mq_queue_unhealthy", queue=queue)
            assert scrape.value("penstock_history_success") == 1
        failed = sum(
            v
            for labels, v in scrape.find("penstock_polls_total")
            if labels["result"] == "failed"
        )
        assert failed == 0
        last = snapshots(agent.scrape())
    assert last <= published(agent) <= last + 2
    assert "Traceback" not in agent.log.read_text()
