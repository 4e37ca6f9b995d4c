"""The ring examples of the manual on a real broker: the account balances to the message, and names who evicted it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from e2e.agent import entry
from e2e.conftest import Observer
from e2e.test_account import sheets
from flowbench.observer import Observer as Watcher
from penstock.agent import Poller, poller
from penstock_demo.broker import Broker
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, AmqpTransaction
from rig.waiting import eventually

Unique = Callable[[str], str]


class Ring:
    """A new ring, watched from its first message on."""

    def __init__(self, observer: Observer, name: str, size: int) -> None:
        self.observer = observer
        self.name = name
        self.manage = observer.broker.manage
        self.manage.create_queue(name, ring_size=size)
        observer.until(
            lambda scrape: bool(scrape.find("mq_queue_messages", queue=name)),
            expected=True,
        )
        self.producer = AmqpProducer(observer.broker.endpoint(), name)
        self.polls(2)

    def polls(self, number: int = 3) -> None:
        for _ in range(number):
            self.observer.agent.next_poll(self.observer.broker.name)

    def sheet(self) -> dict[str, Any]:
        found = sheets(self.observer, self.name)[self.name]
        assert found["unexplained"] == 0
        return found

    def counts(self) -> tuple[int, int]:
        """In all, and in delivery or scheduled: as the manual writes them, 4/4."""
        read = {name: int(self.manage.queue(self.name, name)) for name in
                ("MessageCount", "DeliveringCount", "ScheduledCount")}  # fmt: skip
        return read["MessageCount"], read["DeliveringCount"] or read["ScheduledCount"]

    def holder(self, client: str, credit: int) -> AmqpHolder:
        holder = AmqpHolder(
            self.observer.broker.endpoint(), self.name, credit=credit, client_id=client
        )
        eventually(lambda: int(self.manage.queue(self.name, "DeliveringCount")), credit)
        return holder

    def lost(self) -> dict[str, float]:
        """mq_queue_messages_lost_by_consumer_total by client."""
        family = "mq_queue_messages_lost_by_consumer_total"
        found = self.observer.fresh().find(family, queue=self.name)
        return {labels["client"]: value for labels, value in found if value}

    def condition(self, name: str) -> dict[str, Any]:
        path = f"/api/v1/explain?broker={quote(self.observer.broker.name)}&queue={quote(self.name)}"
        status, body = self.observer.agent.request(path)
        assert status == 200, body
        (found,) = [
            one for one in json.loads(body)["conditions"] if one["condition"] == name
        ]
        return dict(found)

    def close(self) -> None:
        self.producer.close()
        self.manage.destroy_queue(self.name)


@pytest.fixture
def ring(main_observer: Observer, unique: Unique) -> Any:
    made: list[Ring] = []

    def make(size: int) -> Ring:
        made.append(Ring(main_observer, unique("ring"), size))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_d_pushes_a_out(ring: Callable[[int], Ring]) -> None:
    one = ring(3)
    one.producer.send(3)
    one.producer.send(1)
    one.polls()
    found = one.sheet()
    assert (found["sums"], found["lost_by"]) == (
        "4 added = 3 ready + 1 evicted",
        {"arrivals": 1},
    )
    assert one.lost() == {}
    with AmqpConsumer(one.observer.broker.endpoint(), one.name) as consumer:
        eventually(lambda: sorted(consumer.counts.numbers), [1, 2, 3])
        one.polls(
            1
        )  # of a consumer that no poll saw, an operator may have moved the messages
    one.polls()
    assert one.sheet()["sums"] == "4 added = 3 acknowledged + 1 evicted"


def test_in_delivery_none_is_pushed_out_and_the_close_loses_one(
    ring: Callable[[int], Ring],
) -> None:
    """3/3, 4/4, and the close."""
    one = ring(3)
    one.producer.send(3)
    holder = one.holder("closing", 3)
    assert one.counts() == (3, 3)
    one.polls(1)
    one.producer.send(1)
    one.polls()
    assert one.sheet()["left"]["evicted"] == 0
    assert one.sheet()["sums"] == "4 added = 1 ready + 3 delivering"
    assert (
        one.observer.fresh().value("mq_queue_ring_at_risk_messages", queue=one.name)
        == 1
    )
    holder.close()
    one.polls()
    assert one.sheet()["sums"] == "4 added = 3 ready + 1 evicted"
    assert one.sheet()["lost_by"] == {"arrivals": 0, "closing": 1}
    assert one.lost() == {"closing": 1}
    found = one.condition("ring_lost_by_consumer")
    assert found["evidence"]["lost"]["value"] == 1
    assert found["causes"][0]["text"].startswith(
        "closing closed, lost the connection or rolled back: 1 messages; an AMQP"
    )
    assert "prefetch" in found["causes"][0]["text"]


def test_a_rollback_of_a_session_that_stays_is_its_clients(
    ring: Callable[[int], Ring],
) -> None:
    one = ring(3)
    one.producer.send(3)
    taker = AmqpTransaction(
        one.observer.broker.endpoint(), one.name, credit=3, client_id="rolling"
    )
    eventually(lambda: int(one.manage.queue(one.name, "DeliveringCount")), 3)
    one.polls(2)
    one.producer.send(2)
    one.polls()
    taker.drop()
    one.polls()
    assert one.sheet()["sums"] == "5 added = 3 ready + 2 evicted"
    assert one.sheet()["lost_by"] == {"arrivals": 0, "rolling": 2}


def test_scheduled_messages_are_counted_and_lost_when_they_fall_due(
    ring: Callable[[int], Ring],
) -> None:
    """1/1, 2/1, 3/1, 4/1 in a ring of one: none is pushed out before it is due."""
    one = ring(1)
    due = time.time() + 14
    for number in range(1, 5):
        one.producer.send(delay_ms=int((due - time.time()) * 1000))
        assert one.counts() == (number, number)
    one.polls()
    assert one.sheet()["sums"] == "4 added = 4 scheduled"
    assert (
        one.observer.fresh().value(
            "mq_queue_ring_scheduled_at_risk_messages", queue=one.name
        )
        == 3
    )
    eventually(lambda: int(one.manage.queue(one.name, "ScheduledCount")), 0)
    one.polls()
    assert one.sheet()["sums"] == "4 added = 1 ready + 3 evicted"
    assert one.sheet()["lost_by"] == {"arrivals": 3}
    assert one.lost() == {}


def test_a_ring_made_smaller_while_it_lives(ring: Callable[[int], Ring]) -> None:
    """It trims nothing; each one that comes pushes one out."""
    one = ring(10)
    one.producer.send(10)
    one.manage.update_queue(one.name, ring_size=4)
    one.polls()
    assert one.sheet()["sums"] == "10 added = 10 ready"
    one.producer.send(3)
    one.polls()
    assert one.sheet()["sums"] == "13 added = 10 ready + 3 evicted"
    assert one.sheet()["lost_by"] == {"arrivals": 3}


# --- polls in between


@pytest.mark.nightly  # half a minute
def test_polls_in_between_make_the_bounds_narrow(
    artemis: Broker, unique: Unique, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that close while a ring of 20 gets 15 messages a second: polled each 5 s, with and without."""
    name = unique("narrow")
    artemis.manage.create_queue(name, ring_size=20)
    monkeypatch.setattr(poller, "SHARE", 10.0)  # of a machine that other tests share
    glance = Poller._glance
    bounds = dict[str, tuple[float, float, float]]()
    glances = dict[str, int]()

    def look(one: Poller) -> None:
        account = one.assessor.state.judgement.account
        for at in [i for i, row in enumerate(account.books.index) if row.name == name]:
            losses = account.ring_losses
            bounds[one.name] = (
                float(losses.least[at]),
                float(losses.most[at]),
                float(account.books.lost[at]),
            )
            glances[one.name] = one.glances

    async def with_or_without(self: Poller, until: float) -> None:
        if self.name == "with":
            await glance(self, until)

    monkeypatch.setattr(Poller, "_glance", with_or_without)

    def watcher(label: str) -> Watcher:
        brokers = [entry(artemis, name=label)]
        return Watcher(
            tmp_path / label, brokers=brokers, on_poll=look, interval="5s", timeout="4s"
        )

    with (
        watcher("with"),
        watcher("without"),
        AmqpProducer(artemis.endpoint(), name) as producer,
    ):
        eventually(lambda: set(bounds), {"with", "without"})
        producer.run(15)
        for number in range(4):
            holder = AmqpHolder(
                artemis.endpoint(), name, credit=20, client_id=f"c{number % 2}"
            )
            time.sleep(6.3)
            holder.close()
        producer._stop_pace()
        time.sleep(11)
    artemis.manage.destroy_queue(name)
    (least, most, lost), (far_least, far_most, far_lost) = (
        bounds["with"],
        bounds["without"],
    )
    assert lost == far_lost > 100
    assert max(least, far_least) <= min(most, far_most), "both hold the truth"
    assert most - least < (far_most - far_least) / 2, bounds
    assert (glances["with"] > 10, glances["without"]) == (True, 0)
