"""
`make kills`: the agent is killed (SIGKILL) at random moments, while it polls a real broker under load once a second.

A scraper stands in for Prometheus: no counter that it saw may fall, no event that the API told may be lost or stand
twice, and the broker is polled within two intervals of the start. The last line is JSON; exit code 1: a bar is missed.
"""

import http.client
import itertools
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from e2e.agent import Agent, entry
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker
from penstock_demo.errors import DemoError
from penstock_demo.load import StompConsumer, StompProducer
from penstock_demo.ports import free_port
from trust.churn import TROUBLE, Churn

INTERVAL = 1.0
RECOVERY = 2.0
"""Polls after the start until one has succeeded."""
WORKERS = 4
_COUNTER = re.compile(r"^(mq_\w+_total\{[^\n]*\}) (\S+)$", re.MULTILINE)
_UP = re.compile(r"^mq_up\{[^\n]*\} 1$", re.MULTILINE)
_STAMP = re.compile(r"^penstock_poll_timestamp_seconds\{[^\n]*\} (\S+)$", re.MULTILINE)
_GONE = (OSError, http.client.HTTPException, AssertionError, ValueError)
"""What a request to an agent that is being killed ends with."""


@dataclass(slots=True)
class Scraper:
    """Asks as often as it can, in a thread of its own."""

    agent: Agent
    counters: dict[str, float] = field(default_factory=dict)
    fallen: list[str] = field(default_factory=list)
    events: set[str] = field(default_factory=set)
    scrapes: int = 0
    last: str = ""
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        for number in itertools.count():
            if self.ending.wait(0.05):
                return
            with suppress(*_GONE):
                self.scrape()
                if number % 4 == 0:
                    self.look()

    def scrape(self) -> None:
        body = self.agent.body()
        self.scrapes += 1
        for series, value in _COUNTER.findall(body):
            if float(value) < self.counters.get(series, 0.0):
                self.fallen.append(f"{series}: {self.counters[series]} to {value}")
            self.counters[series] = float(value)
        self.last = body

    def look(self) -> None:
        _, text = self.agent.request("/api/v1/events?limit=1000")
        self.events.update(plain(event) for event in json.loads(text)["events"])


def plain(event: dict[str, Any]) -> str:
    """The same of the API and of the database: what is left out where it is empty."""
    return json.dumps(
        {
            name: value
            for name, value in sorted(event.items())
            if value not in ("", None)
        }
    )


class Load:
    """Clients that work, a ring that loses, a queue that is paused and resumed: events, a few each minute."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self._broker, self._dice = broker, random.Random(seed)  # noqa: S311 - repeatable
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._stack = ExitStack()

    def __enter__(self) -> None:
        manage = self._broker.manage
        at = self._broker.endpoint()
        manage.create_queue("ring", ring_size=50)
        for number in range(WORKERS):
            manage.create_queue(f"work{number}")
            self._stack.enter_context(
                StompConsumer(at, f"work{number}", client_id=f"worker{number}")
            )
            self._stack.enter_context(
                StompProducer(at, f"work{number}", client_id=f"source{number}")
            ).run(40)
        self._stack.enter_context(StompProducer(at, "ring")).run(30)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)
        self._stack.close()

    def _run(self) -> None:
        """A queue is paused for some polls, another one each time."""
        for number in itertools.count():
            queue = f"work{number % WORKERS}"
            with suppress(*TROUBLE):
                self._broker.manage.pause_queue(queue)
            ended = self._ending.wait(self._dice.uniform(3, 9))
            with suppress(*TROUBLE):
                self._broker.manage.resume_queue(queue)
            if ended or self._ending.wait(self._dice.uniform(3, 9)):
                return


def kill_at_start(agent: Agent, seconds: float) -> None:
    """Start it, and kill it so long after, ready or not."""

    def kill() -> None:
        with suppress(DemoError, ProcessLookupError):
            os.kill(agent.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    with suppress(DemoError):  # it ended before it was ready
        agent.run()
    timer.join()
    agent.kill()


def recovered(scraper: Scraper, started: float) -> float:
    """Intervals from the start to the poll that was the first to succeed."""
    while time.time() < started + 20 * INTERVAL:
        if (
            _UP.search(scraper.last)
            and (stamp := _STAMP.search(scraper.last))
            and float(stamp[1]) >= started
        ):
            return (float(stamp[1]) - started) / INTERVAL
        time.sleep(0.02)
    return 20.0


def events_of(folder: Path) -> Counter[str]:
    """The events in the state database."""
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        rows = connection.execute(
            "SELECT body FROM event UNION ALL SELECT body FROM agent_event"
        ).fetchall()
    return Counter(plain(json.loads(zlib.decompress(body))) for (body,) in rows)


def alternating(found: Counter[str]) -> list[str]:
    """Conditions that were raised twice without an end between, or ended twice."""
    wrong = []
    on = dict[tuple[str, ...], bool]()
    for event in sorted(
        (json.loads(one) for one in found), key=lambda event: float(event["time"])
    ):
        if event["change"] in ("condition_on", "condition_off"):
            name = tuple(
                event.get(part, "")
                for part in ("condition", "address", "queue", "client")
            )
            raised = event["change"] == "condition_on"
            if on.get(name, False) is raised:
                wrong.append(f"{event['change']} again: {name}")
            on[name] = raised
    return wrong


@click.command()
@click.option("--kills", default=200, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(kills: int, seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-kills-") as name:
        result, wrong = run(Path(name), kills, seed)
    for one in wrong[:20]:
        click.echo(one)  # noqa: TID251
    click.echo(json.dumps(result))  # noqa: TID251
    sys.exit(bool(wrong))


def run(folder: Path, kills: int, seed: int) -> tuple[dict[str, Any], list[str]]:
    dice, began = random.Random(seed), time.monotonic()  # noqa: S311 - repeatable
    broker = ArtemisBroker.create(folder / "a1", name="a1", read_only_user="exporter")
    recoveries: list[float] = []
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start(timeout=300)
        stack.enter_context(Churn(broker, seed, pause=0.2))
        stack.enter_context(Load(broker, seed))
        agent = Agent(
            folder / "agent",
            port=free_port(),
            brokers=[entry(broker)],
            interval=f"{INTERVAL:g}s",
        )
        stack.callback(agent.stop)
        scraper = Scraper(agent)
        scraping = threading.Thread(target=scraper.run, name="scraper", daemon=True)
        scraping.start()
        for number in range(kills):
            if number % 5 == 4:
                kill_at_start(agent, dice.uniform(0.2, 1.5))
                continue
            agent.run()
            started = time.time()
            until = time.monotonic() + dice.uniform(0.0, 4.0)
            if number % 5 == 0:
                recoveries.append(recovered(scraper, started))
            time.sleep(max(until - time.monotonic(), 0.0))
            agent.kill()
        agent.run()
        recoveries.append(recovered(scraper, time.time()))
        time.sleep(10 * INTERVAL)
        scraper.ending.set()
        scraping.join(30)
        scraper.look()
        agent.stop()
        data = agent.work / "data"
        found = events_of(data)
        wrong = [f"fell: {one}" for one in scraper.fallen]
        wrong += [f"lost: {event}" for event in scraper.events if event not in found]
        wrong += [f"twice: {event}" for event, times in found.items() if times > 1]
        wrong += alternating(found)
        wrong += [f"set aside: {path.name}" for path in data.glob("*.unusable")]
        wrong += (
            ["a traceback in the log"] if "Traceback" in agent.log.read_text() else []
        )
        wrong += [
            f"recovery of {one:.1f} polls" for one in recoveries if one > RECOVERY
        ]
    changes = Counter(json.loads(event)["change"] for event in found.elements())
    return {
        "check": "kills",
        "kills": kills,
        "scrapes": scraper.scrapes,
        "counters": len(scraper.counters),
        "fallen": len(scraper.fallen),
        "events": changes,
        "events_lost": sum(event not in found for event in scraper.events),
        "events_twice": sum(times > 1 for times in found.values())
        + len(alternating(found)),
        "longest_recovery_polls": round(max(recoveries), 2),
        "wrong": len(wrong),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }, wrong


if __name__ == "__main__":
    main()
