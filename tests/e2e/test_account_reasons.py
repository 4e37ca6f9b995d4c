"""Dead letters, purges, moves and rollbacks on a real broker: each message booked as clients and operator say."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from e2e.agent import Agent, entry
from flowbench.core import CoreProcess
from penstock_demo.artemis import ArtemisBroker
from rig.drivers import AmqpProducer, AmqpSendTransaction
from rig.waiting import eventually

QUEUES = ("first", "second", "dead", "from", "to", "sends")
MOVE = "moveMessages(java.lang.String,java.lang.String)"
SOONER = (
    "from penstock.account import moves, rollbacks; moves.QUIET, rollbacks.QUIET = 4, 3.0;"
    " from penstock.cli import main; main()"
)
"""The agent, which needs to see quiet for seconds in place of half a minute."""


class Watched:
    """A broker of its own, at rest but for what a test does, and the agent that polls it each second."""

    def __init__(self, broker: ArtemisBroker, agent: Agent) -> None:
        self.broker = broker
        self.agent = agent
        self.endpoint = broker.endpoint()

    def polls(self, count: int) -> None:
        for _ in range(count):
            self.agent.next_poll(self.broker.name)

    def sheets(self, name: str) -> dict[str, dict[str, Any]]:
        """Of the address under an empty name."""
        path = f"/api/v1/account?broker={quote(self.broker.name)}&name={quote(name)}"
        status, body = self.agent.request(path)
        assert status == 200, body
        return {sheet["queue"]: sheet for sheet in json.loads(body)["accounts"]}

    def events(self) -> list[dict[str, Any]]:
        """The oldest first."""
        status, body = self.agent.request(
            f"/api/v1/events?broker={quote(self.broker.name)}"
        )
        assert status == 200, body
        return sorted(json.loads(body)["events"], key=lambda event: event["time"])

    def left(self, name: str) -> dict[str, Any]:
        left: dict[str, Any] = self.sheets(name)[name]["left"]
        return {fate: value for fate, value in left.items() if value != 0}

    def comes_to(self, name: str, **left: Any) -> None:
        """All that left a queue, in the end."""
        eventually(lambda: self.left(name), left)

    def send(self, queue: str, count: int) -> None:
        with AmqpProducer(self.endpoint, queue) as producer:
            producer.send(count)
            self.polls(2)

    def do(self, queue: str, operation: str, *arguments: Any) -> int:
        return int(
            self.broker.manage.call(
                self.broker.manage.queue_mbean(queue), operation, *arguments
            )
        )


@pytest.fixture
def watched(
    own_artemis: Callable[..., ArtemisBroker], tmp_path: Path
) -> Iterator[Watched]:
    broker = own_artemis(read_only_user="exporter")
    for source in ("first", "second"):
        broker.manage.add_settings(
            source, deadLetterAddress="dead", maxDeliveryAttempts=2
        )
    broker.manage.create_queues(QUEUES)
    with Agent(
        tmp_path / "agent",
        program=(sys.executable, "-c", SOONER),
        brokers=[entry(broker)],
    ) as agent:
        known = ("mq_queue_dead_letter_info", "first")
        agent.until(
            lambda scrape: bool(scrape.find(known[0], queue=known[1])), expected=True
        )
        yield Watched(broker, agent)


def test_who_ended_it(watched: Watched, tmp_path: Path) -> None:
    watched.send("first", 10)
    watched.send("second", 8)
    with CoreProcess(tmp_path / "core") as clients:
        takers = [
            clients.open(
                watched.endpoint,
                name,
                mode="transacted",
                returns=1,
                client_id=f"taker-{name}",
            )
            for name in ("first", "second")
        ]
        eventually(lambda: watched.broker.manage.queue("dead", "MessageCount"), 18)
        watched.polls(3)
        for name, taker in zip(("first", "second"), takers, strict=True):
            said = taker.counts()
            sheet = watched.sheets(name)[name]
            assert sheet["given_back"] == said["returned"] > 0
        taken = watched.sheets("taker-first")[""]
        assert (taken["client"], taken["came"]["delivered"] > 0) == (
            "taker-first",
            True,
        )
        for taker in takers:
            taker.close()
    watched.comes_to("first", dead_lettered=10)
    watched.comes_to("second", dead_lettered=8)
    watched.send("first", 5)
    assert watched.broker.manage.purge("first") == 5
    watched.comes_to("first", dead_lettered=10, purged=5)
    assert (
        watched.sheets("first")["first"]["sums"]
        == "15 added = 10 dead lettered + 5 purged"
    )

    watched.send("from", 7)
    watched.polls(6)
    assert watched.do("from", MOVE, "", "to") == 7
    watched.comes_to("from", moved=7)
    assert watched.do("dead", "retryMessages()") == 18
    watched.comes_to("dead", moved=18)
    assert watched.sheets("first")["first"]["there"]["ready"] == 10

    with AmqpSendTransaction(watched.endpoint, "sends") as sender:
        sender.send(20)
        watched.polls(3)
        assert watched.sheets("sends")[""]["there"]["uncommitted"] == [0, 20]
        sender.abort()
        sender.send(5)
        sender.commit()
        assert (sender.counts.sent, sender.counts.returned) == (5, 20)
        watched.polls(
            3
        )  # what it commits is seen to arrive, so the 20 were no messages for another kind of queue
    eventually(lambda: watched.sheets("sends")[""]["left"]["rolled_back"], 20)
    found = watched.sheets("sends")
    assert found[""]["there"]["uncommitted"] == 0
    assert found["sends"]["there"]["ready"] == 5
    told = [
        (event["change"], event["queue"], event["detail"]) for event in watched.events()
    ]
    assert [one for one in told if one[0] in {"moved", "purged"}] == [
        ("purged", "first", "5 messages"),
        ("moved", "from", "7 messages to to"),
        ("moved", "dead", "18 messages to first, second"),
    ]
    for name in QUEUES:
        sheet = watched.sheets(name)[name]
        assert sheet["unexplained"] == 0
        assert all(isinstance(value, int) for value in sheet["left"].values()), sheet
