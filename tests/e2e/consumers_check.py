"""
Clients on a real broker that leak, crash and settle in any order, for four minutes (`make check-consumers`).

The age of the oldest message is compared at each poll with what the clients know, and each is named for what it does.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from proton import Delivery

from e2e.agent import Agent, Scrape, entry
from penstock_demo.broker import Broker
from penstock_demo.load import paced
from rig.drivers import AmqpHolder, AmqpProducer, ClientError
from rig.waiting import eventually

pytestmark = pytest.mark.broker

SECONDS = 215
COMPARISONS = 600
SLACK = 0.5
"""Seconds that the broker may take to do what a client asked for."""
OLDEST = "mq_queue_oldest_message_timestamp_seconds"


class Sender:
    """Sends at a rate; `sent` has for each number when it was about to be sent, and when the broker had it."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        rate: float,
        fields: Callable[[int], Mapping[str, Any]],
    ) -> None:
        self.sent: dict[int, tuple[float, float]] = {}
        self._fields = fields
        self._producer = AmqpProducer(broker.endpoint(), queue)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(rate,), daemon=True)
        self._thread.start()

    def _run(self, rate: float) -> None:
        for number, _ in enumerate(paced(rate, self._ending)):
            begin = time.time()
            self._producer.send(**self._fields(number))
            self.sent[number] = begin, time.time()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self._producer.close()


class Taker(AmqpHolder):
    """Acknowledges what `chosen` says, at each arrival: the positions of those in hand. accepted: when, by number."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        chosen: Callable[[list[int]], list[int]],
        client_id: str,
    ) -> None:
        self.accepted: dict[int, float] = {}
        self._chosen = chosen
        self._numbers: list[int] = []
        super().__init__(broker.endpoint(), queue, credit=1000, client_id=client_id)

    def arrived(self) -> None:
        self._numbers.append(self.counts.numbers[-1])
        for at in self._chosen(self._numbers):
            self.accepted[self._numbers.pop(at)] = time.time()
            delivery = self._held[at]
            del self._held[at]
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            self._link.flow(1)


def at_once(_: list[int]) -> list[int]:
    return [0]


def all_but_one_of_100(numbers: list[int]) -> list[int]:
    return [] if numbers[-1] % 100 == 99 else [len(numbers) - 1]


def backlog(numbers: list[int]) -> list[int]:
    return [0] if len(numbers) > 30 else []


def any_of_thirty(numbers: list[int]) -> list[int]:
    return [random.randrange(len(numbers))] if len(numbers) > 30 else []  # noqa: S311


class Queue:
    """A queue with its clients: what truly is the oldest message."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        rate: float,
        *takers: Callable[[list[int]], list[int]],
        fields: Callable[[int], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        self.name = name
        self.takers = [
            Taker(broker, name, one, f"{name}-{n}") for n, one in enumerate(takers)
        ]
        self.sender = Sender(broker, name, rate, fields)

    def oldest(self, begin: float, end: float) -> tuple[float, float] | None:
        """Between which times the oldest message came that was there while the poll read; None if perhaps none was."""
        accepted = {
            number: at for one in self.takers for number, at in [*one.accepted.items()]
        }
        sent = [*self.sender.sent.items()]
        possible = [
            came[0]
            for number, came in sent
            if accepted.get(number, end) > begin - SLACK
        ]
        sure = [
            came[1]
            for number, came in sent
            if came[1] < begin and accepted.get(number, end) >= end
        ]
        return (min(possible), min(sure)) if sure else None

    def close(self) -> None:
        self.sender.close()
        for one in self.takers:
            one.close()


def compared(queues: list[Queue], scrape: Scrape, stamp: float) -> list[str]:
    """One line for each queue of which a bound is known: what is wrong, or nothing."""
    found = []
    for queue in queues:
        bounds = {
            labels["bound"]: value
            for labels, value in scrape.find(OLDEST, queue=queue.name)
        }
        truth = queue.oldest(stamp - SLACK, stamp + 1.5)
        if bounds and truth is not None:
            least = bounds.get("earliest", -1.0)
            most = bounds.get("latest", float("inf"))
            right = least <= truth[1] + SLACK and most >= truth[0] - SLACK
            found.append(
                "" if right else f"{queue.name} at {stamp}: {bounds}, truth {truth}"
            )
    return found


def crash(broker: Broker, queue: str, ending: threading.Event) -> None:
    """A client that is gone again and again with ten messages."""
    while not ending.wait(0.3):
        try:
            holder = AmqpHolder(
                broker.endpoint(), queue, credit=10, client_id="crasher"
            )
            ending.wait(2.0)
            holder.drop()
        except ClientError:
            continue


def active(
    agent: Agent, broker: Broker
) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Conditions by name, client and severity."""
    status, body = agent.request(
        f"/api/v1/conditions?broker={quote(broker.name)}&limit=1000"
    )
    assert status == 200
    rows = json.loads(body)["conditions"]
    return {
        (one["condition"], one["client"], one["severity"]): one["evidence"]
        for one in rows
    }


@pytest.mark.slow  # minutes, on purpose
def test_what_leaks_crashes_and_ages(artemis: Broker, tmp_path: Path) -> None:
    names = {
        name: f"check.{name}"
        for name in ("fifo", "waits", "any", "groups", "leak", "crash")
    }
    for name in names.values():
        artemis.manage.create_queue(name)
    watched = entry(artemis, include=[{"queue": name} for name in names.values()])
    ending = threading.Event()
    seen = 0
    wrong: list[str] = []
    with Agent(tmp_path / "agent", brokers=[watched]) as agent, ExitStack() as stack:
        for _ in range(3):
            agent.next_poll(artemis.name)
        queues = [
            Queue(artemis, names["fifo"], 20, at_once),
            Queue(artemis, names["waits"], 20, backlog),
            Queue(artemis, names["any"], 20, any_of_thirty),
            Queue(
                artemis,
                names["groups"],
                20,
                backlog,
                at_once,
                fields=lambda n: {"group_id": f"g{n % 7}"},
            ),
            Queue(artemis, names["leak"], 50, all_but_one_of_100),
            Queue(artemis, names["crash"], 20, at_once),
        ]
        for queue in queues:
            stack.callback(queue.close)
        crasher = threading.Thread(target=crash, args=(artemis, names["crash"], ending))
        crasher.start()
        stack.callback(crasher.join)
        stack.callback(ending.set)
        names_of_crash: set[tuple[str, str]] = set()
        until = time.monotonic() + SECONDS
        stamp = 0.0
        while time.monotonic() < until:
            scrape = agent.scrape()
            now = scrape.value("penstock_poll_timestamp_seconds", broker=artemis.name)
            if now > stamp:
                time.sleep(0.2)  # what the clients hear of it
                stamp = now
                found = compared(queues[:5], scrape, now)
                seen = seen + len(found)
                wrong = wrong + [one for one in found if one]
                causes = scrape.find("mq_client_unhealthy_consumers")
                names_of_crash |= {
                    (labels["cause"], labels["client"]) for labels, _ in causes
                }
            time.sleep(0.1)
        assert not wrong, wrong[:5]
        assert seen >= COMPARISONS
        bounds = {
            labels["bound"]: value
            for labels, value in agent.scrape().find(OLDEST, queue=names["leak"])
        }
        assert (
            bounds["latest"] - bounds["earliest"] > 60
        )  # the order of arrival alone would say it is young
        leaker = (f"{names['leak']}-0", "info")
        eventually(
            lambda: ("leaking", *leaker) in active(agent, artemis),
            expected=True,
            timeout=30,
        )
        assert names_of_crash == {("crash_looping", "crasher")}
        queues[4].sender.close()
        proven = ("leaking", f"{names['leak']}-0", "warning")
        eventually(lambda: proven in active(agent, artemis), expected=True, timeout=30)
        leaked = active(agent, artemis)[proven]["leaked"]["value"]
        assert leaked == len(queues[4].sender.sent) - len(queues[4].takers[0].accepted)
        print(f"{seen} comparisons, none wrong; {leaked} leaked")  # noqa: T201 - with -s
