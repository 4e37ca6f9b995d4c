"""Disks that are full or read-only: polls and answers go on, what is lost is counted, and it mends by itself."""

import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from agent.stored import known_in
from e2e.agent import PENSTOCK, Agent, Scrape, entry
from e2e.test_hang import console, through, up
from penstock.history.listing import days
from penstock.history.store import Store
from penstock_demo.broker import Broker
from rig.proxy import Fault, Proxy
from trust import disks

pytestmark = pytest.mark.broker

BREAKS: dict[str, Callable[[int, Path], AbstractContextManager[None]]] = {
    "full": disks.full,
    "read-only": disks.read_only,
}


def snapshots(scrape: Scrape) -> float:
    return sum(
        value
        for labels, value in scrape.find("penstock_polls_total")
        if labels["result"] in ("ok", "partial")
    )


def history(scrape: Scrape) -> float:
    """NaN before the first poll."""
    return next(
        (value for _, value in scrape.find("penstock_history_success")), math.nan
    )


def published(url: str) -> int:
    found: Counter[str] = Counter()
    for day in days(Store(url)):
        found.update(day.polls)
    return found.total()


def change(agent: Agent, proxy: Proxy) -> None:
    """The broker goes and comes: that is an event, after which the state is saved."""
    proxy.fault = Fault.RESET
    agent.until(lambda scrape: set(up(scrape).values()), {0.0})
    proxy.fault = Fault.NONE
    agent.until(lambda scrape: set(up(scrape).values()), {1.0})


@pytest.mark.parametrize("how", BREAKS)
def test_where_state_and_spool_are(artemis: Broker, tmp_path: Path, how: str) -> None:
    (disk := tmp_path / "disk").mkdir()
    url = str(tmp_path / "history")
    with Proxy(console(artemis)) as proxy:
        agent = Agent(
            tmp_path / "agent",
            program=disks.on_small_disk(disk, [str(PENSTOCK)], megabytes=3),
            options=["--storage.path", str(disk)],
            brokers=[entry(artemis, url=through(proxy))],
            history={"enabled": True, "url": url, "publish": "10s"},
        )
        with agent:
            agent.until(
                lambda scrape: history(scrape) == 1 and snapshots(scrape) >= 3,
                expected=True,
                timeout=30,
            )
            with BREAKS[how](agent.pid, disk):
                agent.until(history, 0.0, timeout=20)
                change(agent, proxy)
                broken = agent.until(
                    lambda scrape: scrape.value("penstock_state_save_success"),
                    0.0,
                    timeout=20,
                )
                assert broken.value("penstock_history_polls_dropped_total") > 0
                assert agent.next_poll(artemis.name).value("mq_up") == 1
            agent.until(history, 1.0, timeout=20)
            change(agent, proxy)
            agent.until(
                lambda scrape: scrape.value("penstock_state_save_success"),
                1.0,
                timeout=20,
            )
            assert known_in(disks.seen_by(agent.pid, disk))
            last = agent.next_poll(artemis.name)
            log = agent.log.read_text()
        whole = snapshots(last) - last.value("penstock_history_polls_dropped_total")
        assert whole <= published(url) <= whole + 2
        assert "Traceback" not in log
        assert "please report" not in log
        assert ("No space left" if how == "full" else "Read-only") in log


def test_where_the_history_is_published(artemis: Broker, tmp_path: Path) -> None:
    """What cannot be published waits in the spool."""
    (disk := tmp_path / "disk").mkdir()
    agent = Agent(
        tmp_path / "agent",
        program=disks.on_small_disk(disk, [str(PENSTOCK)], megabytes=4),
        brokers=[entry(artemis)],
        history={"enabled": True, "url": str(disk / "history"), "publish": "10s"},
    )
    with agent:
        agent.until(lambda scrape: snapshots(scrape) >= 2, expected=True, timeout=30)
        with disks.full(agent.pid, disk):
            agent.until(history, 0.0, timeout=30)
            agent.next_poll(artemis.name)
        scrape = agent.until(history, 1.0, timeout=30)
        assert scrape.value("penstock_history_polls_dropped_total") == 0
        assert published(str(disks.seen_by(agent.pid, disk) / "history")) > 0
        assert "Traceback" not in agent.log.read_text()
