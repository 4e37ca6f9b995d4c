"""A broker, or who stands in its place, that answers to do harm: told, bounded in memory, over when it is over."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.agent import Agent, Scrape, entry
from e2e.test_hang import console, through, up
from penstock_demo.broker import Broker
from rig.proxy import Fault, Proxy
from trust.bombs import BOMBS, Bomb
from trust.inside import sample

pytestmark = pytest.mark.broker

MAX_ANSWER = 16 * 2**20
MEMORY_MB = 16 * MAX_ANSWER / 2**20
"""What the worst answer of the largest size allowed may cost, and gives back."""


@contextmanager
def highest(pid: int) -> Iterator[list[float]]:
    """The resident memory of a process meanwhile, in MB."""
    seen = [sample(pid).rss_mb]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            seen.append(sample(pid).rss_mb)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def failed(scrape: Scrape) -> float:
    """Polls of the bad broker that did not reach it."""
    return scrape.value("penstock_polls_total", broker="bad", result="failed")


def good(scrape: Scrape) -> float:
    return scrape.value("penstock_polls_total", broker="good", result="ok")


def defused(
    artemis: Broker, folder: Path, bombs: Mapping[str, Bomb]
) -> dict[str, float]:
    """One after the other against one agent; by name what each cost in memory, MB."""
    peaks: dict[str, float] = {}
    with Proxy(console(artemis)) as proxy:
        bad = entry(
            artemis, name="bad", url=through(proxy), max_answer=f"{MAX_ANSWER}B"
        )
        with Agent(
            folder / "agent", brokers=[bad, entry(artemis, name="good")]
        ) as agent:
            agent.until(up, {"bad": 1, "good": 1})
            for name, bomb in bombs.items():
                began = good(agent.scrape())
                proxy.instead = bomb
                proxy.fault = Fault.REPLACE
                with highest(agent.pid) as seen:
                    agent.until(lambda scrape: up(scrape)["bad"], 0.0)
                told = agent.request("/")[1]
                assert "unexpected" not in told, f"{name}: {agent.tail()}"
                peaks[name] = round(max(seen) - seen[0], 1)
                proxy.fault = Fault.NONE
                before = failed(agent.scrape())
                after = agent.until(lambda scrape: up(scrape)["bad"], 1.0)
                assert failed(after) - before <= 2, (
                    f"{name}: the poll under way, and one"
                )
                assert good(after) > began
            log = agent.log.read_text()
            assert "Traceback" not in log
            assert "level=error" not in log
    assert max(peaks.values()) < MEMORY_MB, peaks
    return peaks


@pytest.mark.parametrize(
    "name", ["endless", "compressed", "nested_value", "many_answers"]
)
def test_answers_that_do_harm(artemis: Broker, tmp_path: Path, name: str) -> None:
    defused(artemis, tmp_path, {name: BOMBS[name]})
