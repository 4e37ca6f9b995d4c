"""Rings: what they lose, as told and as the drivers know it, and what they are about to lose."""

import numpy as np

from flowbench.scene import Place, Scene, Within, scenario
from penstock.agent import Poller
from penstock_demo.errors import DemoError
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer

_lawful = ("ring_losing",)


def settled(scene: Scene, queue: str) -> None:
    """Quiet for so long that all that is to be told is told: the ledger counts what it saw twice."""
    scene.polls(4)


def ring(scene: Scene, size: int) -> str:
    """A new ring whose ledger the agent tells: what was lost before nobody can know."""
    queue = scene.queue(ring_size=size)
    scene.until(
        "its losses are told", lambda: np.isfinite(evicted(scene, queue)), timeout=150
    )
    return queue


def evicted(scene: Scene, queue: str) -> float:
    return scene.told("eviction", "evicted", queue)


def drained(scene: Scene, queue: str) -> set[int]:
    """The numbers of all messages that are left, taken by a consumer."""
    with AmqpConsumer(
        scene.load.endpoint, queue, credit=500, client_id=f"{queue}.drain"
    ) as consumer:
        scene.until(
            "the ring is empty", lambda: scene.count(queue, "MessageCount") == 0
        )
        return set(consumer.counts.numbers)


def compare(scene: Scene, queue: str, sent: int, taken: set[int]) -> None:
    """The eviction as told against what was sent and never reached a consumer that settled it."""
    told = evicted(scene, queue)
    left = drained(scene, queue)
    scene.figures.append(("evicted", told, sent - len(taken | left)))


@scenario(ring_losing=Within.PROOF)
def ring_overflow(scene: Scene) -> None:
    queue = ring(scene, 20)
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.send(20)
        scene.polls(2)
        scene.begin()
        producer.run(scene.dice.uniform(2, 6))
        scene.wait(30)
        producer._stop_pace()
        settled(scene, queue)
        compare(scene, queue, producer.counts.sent, set())
    scene.attest("more came than fits", producer.counts.sent > 40)


@scenario(ring_lost_by_consumer=Within.PROOF, notices=_lawful)
def ring_loss_by_close(scene: Scene) -> None:
    queue = ring(scene, 10)
    held = scene.dice.randint(15, 30)
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        holder = AmqpHolder(
            scene.load.endpoint, queue, credit=held, client_id=f"{queue}.holder"
        )
        producer.send(held)
        scene.until("it holds them", lambda: holder.counts.received == held)
        producer.send(10)
        settled(scene, queue)
        scene.polls(2)
        before = evicted(scene, queue)
        at_risk = scene.told("queue", "ring_at_risk", queue)
        scene.begin()
        holder.drop()
        settled(scene, queue)
        scene.figures.append(
            ("at risk before, lost after", at_risk, evicted(scene, queue) - before)
        )
        compare(scene, queue, producer.counts.sent, set())


@scenario(ring_lost_by_consumer=Within.PROOF, notices=_lawful)
def ring_loss_by_rollback(scene: Scene) -> None:
    queue = ring(scene, 10)
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        client = scene.jms(queue, mode="transacted", batch=0, numbers=1)
        producer.send(30)
        scene.until("it holds them", lambda: client.counts()["received"] == 30)
        producer.send(8)
        settled(scene, queue)
        scene.begin()
        client.close()
        settled(scene, queue)
        compare(scene, queue, producer.counts.sent, set())
        scene.figures.append(
            ("lost by the consumer", scene.told("queue", "lost_by_consumer", queue), 28)
        )


@scenario(ring_losing=Within.PROOF)
def ring_scheduled_loss(scene: Scene) -> None:
    """Scheduled messages that fall due in a full ring, one after the other."""
    queue = ring(scene, 10)
    due = 8 * scene.interval + 20
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.send(10)
        for number in range(8):
            producer.send(delay_ms=int((due + number * scene.interval / 2) * 1000))
        scene.until(
            "they are seen",
            lambda: np.isfinite(scene.told("queue", "ring_scheduled_at_risk", queue)),
        )
        scene.polls(2)
        scene.figures.append(
            (
                "scheduled at risk",
                scene.told("queue", "ring_scheduled_at_risk", queue),
                8,
            )
        )
        scene.until(
            "the first falls due",
            lambda: scene.count(queue, "ScheduledCount") < 8,
            timeout=due + 60,
        )
        scene.begin()
        scene.until(
            "all are due",
            lambda: scene.count(queue, "ScheduledCount") == 0,
            timeout=6 * scene.interval + 30,
        )
        settled(scene, queue)
        compare(scene, queue, producer.counts.sent, set())


@scenario(ring_losing=Within.PROOF)
def ring_shrunk(scene: Scene) -> None:
    """A smaller size drops nothing at once; each message that comes pushes one out."""
    queue = ring(scene, 40)
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.send(40)
        scene.polls(2)
        scene.broker.manage.update_queue(queue, ring_size=10)
        scene.polls(2)
        scene.figures.append(("evicted by the change itself", evicted(scene, queue), 0))
        scene.figures.append(
            ("messages above the size", scene.count(queue, "MessageCount") - 10, 30)
        )
        scene.begin()
        producer.run(scene.dice.uniform(2, 5))
        scene.wait(20)
        producer._stop_pace()
        settled(scene, queue)
        scene.attest(
            "it is oversize",
            np.isfinite(scene.told("queue", "ring_oversize_since", queue)),
        )
        compare(scene, queue, producer.counts.sent, set())


@scenario(
    notices=(*_lawful, "dead_lettering"),
    also=("ring_lost_by_consumer", "redelivery_loop"),
)
def ring_redelivery(scene: Scene) -> None:
    """Some are rolled back and delivered again, some go to the dead letters; the ring fits them all."""
    queue = ring(scene, 200)
    dead = scene.queue()
    scene.settings(queue, deadLetterAddress=dead, maxDeliveryAttempts=3)
    client = scene.jms(
        queue,
        mode="transacted",
        returns=0.3,
        work=30,
        numbers=1,
        seed=scene.dice.randrange(99),
    )
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.run(scene.dice.uniform(3, 8))
        scene.wait(40)
        producer._stop_pace()
        scene.until(
            "all is worked off", lambda: scene.count(queue, "MessageCount") == 0
        )
        settled(scene, queue)
        compare(
            scene,
            queue,
            producer.counts.sent,
            set(client.numbers()) | drained(scene, dead),
        )
    scene.attest("some came back", client.counts()["returned"] > 10)


@scenario(
    notices=(*_lawful, "ring_lost_by_consumer"),
    also=("ring_lost_by_consumer", "redelivery_loop"),
)
def ring_under_load(scene: Scene) -> None:
    """2,000 messages a second with rollbacks: never above the truth, within one poll's traffic of it."""
    queue = ring(scene, 1000)
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.wait(45)  # the start of all the others is over
    lag = Lag(queue)
    scene.each_poll = lag.look
    scene.until("it is looked at before there is traffic", lambda: lag.looks > 0)
    consumer = scene.jms(
        queue,
        mode="transacted",
        batch=20,
        returns=0.01,
        work=1,
        numbers=1,
        url="consumerWindowSize=100000",
    )
    producer = scene.jms(queue, mode="produce", rate=2000)
    scene.wait(60)
    sent = int(producer.close()["sent"])
    scene.attest("2,000 messages a second", sent > 60 * 1800)
    scene.until("they are worked off", lambda: scene.count(queue, "MessageCount") < 20)
    consumer_counts = consumer.counts()
    settled(scene, queue)
    scene.each_poll = None
    taken = set(consumer.numbers())
    consumer.close()
    compare(scene, queue, sent, taken)
    scene.figures.append(("polls at which it was above the truth", lag.above, 0))
    scene.figures.append(
        ("polls at which it was more than a poll's traffic below", lag.below, 0)
    )
    scene.attest("it was looked at under load", lag.looks > 30 / scene.interval)
    scene.attest("messages were lost", sent - len(taken) > 1000)
    scene.attest("some were rolled back", consumer_counts["returned"] > 100)


class Lag:
    """What is told under load, against what the same poll says was added and is neither settled nor there."""

    def __init__(self, queue: str) -> None:
        self.above = self.below = self.looks = 0
        self._queue = queue
        self._added = np.nan
        self._traffic: list[float] = []

    def look(self, poller: Poller) -> None:
        snapshot = poller.assessor.snapshot
        shown = poller.assessor.tables.get("eviction")
        if snapshot is None or snapshot.queues is None or shown is None:
            return
        at = [
            i for i, row in enumerate(snapshot.queues.index) if row.name == self._queue
        ]
        told = [i for i, row in enumerate(shown.index.rows) if row.queue == self._queue]
        if not at or not told:
            return
        names = ("added", "acknowledged", "expired", "killed", "messages")
        added, *others = (float(snapshot.queues[name][at[0]]) for name in names)
        truth = added - sum(others)
        evicted = float(shown["evicted"][told[0]])
        # What is told lags one poll: when the traffic ends it is that of the polls before.
        self._traffic = [*self._traffic[-2:], added - self._added]
        self._added = added
        self.looks += 1
        self.above += evicted > truth
        self.below += truth - evicted > np.nanmax([*self._traffic, 0.0])


@scenario(
    Place.RESTARTED,
    notices=(*_lawful, "ring_lost_by_consumer"),
    also=("ring_lost_by_consumer",),
)
def ring_restart(scene: Scene) -> None:
    """What does not fit when the broker loads the ring again is dropped, and counted in its new life."""
    scene.wait(
        110
    )  # a shutdown in good order returns what is held, and drops it in the old life: a crash does not
    scene.until("the broker serves again", scene.broker._active)
    queue = ring(scene, 10)
    producer = AmqpProducer(scene.load.endpoint, queue)
    holder = AmqpHolder(
        scene.load.endpoint, queue, credit=6, client_id=f"{queue}.holder"
    )
    producer.send(6)
    scene.until("it holds them", lambda: holder.counts.received == 6)
    producer.send(10)
    sent = producer.counts.sent
    scene.attest("more is there than fits", scene.count(queue, "MessageCount") == 16)
    uptime = scene.broker.manage.read(scene.broker.manage.broker, "UptimeMillis")

    def anew() -> bool:
        try:
            return bool(
                scene.broker.manage.read(scene.broker.manage.broker, "UptimeMillis")
                < uptime
            )
        except DemoError:  # it is on its way
            return False

    scene.until("the broker has started anew", anew, timeout=300)
    scene.polls(6)
    compare(scene, queue, sent, set())
    for client in (producer, holder):
        client.drop()
