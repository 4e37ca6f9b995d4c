"""Healthy look-alikes: each resembles a fault, none may raise an alarm."""

import time
from collections.abc import Callable
from typing import Any

from flowbench import loads
from flowbench.faults import bridge, link_up, listeners
from flowbench.loads import Load
from flowbench.scene import Place, Scene, scenario
from rig.drivers import AmqpConsumer, AmqpProducer, ClientError, StompConsumer

_healthy = scenario(Place.HEALTHY)
_loses = scenario(Place.HEALTHY, notices=("ring_losing",))


def plays(
    scene: Scene, load: Callable[[Load, str], None], *, least: int = 1, **options: Any
) -> str:
    """A load of `loads` to the end of the run, which must have settled something."""
    queue = scene.queue(**options)
    load(scene.load, queue)
    scene.rest()
    scene.attest(
        "messages were settled", scene.count(queue, "MessagesAcknowledged") >= least
    )
    scene.attest("no client failed", not scene.load.troubles)
    return queue


@_healthy
def idle(scene: Scene) -> None:
    plays(scene, loads.idle, least=0)


@_healthy
def low_traffic(scene: Scene) -> None:
    plays(scene, loads.quiet)


@_healthy
def bursty(scene: Scene) -> None:
    plays(scene, loads.bursts(scene.dice.choice([20, 45, 60]), 100), least=50)


@_healthy
def batch_transactions(scene: Scene) -> None:
    plays(scene, loads.commits(25, scene.dice.uniform(2, 6)), least=50)


@_healthy
def three_minute_jobs(scene: Scene) -> None:
    plays(scene, loads.jobs(180, 1))


@_healthy
def pool_of_fifteen(scene: Scene) -> None:
    plays(scene, loads.jobs(180, 15))


@_healthy
def exclusive_standby(scene: Scene) -> None:
    plays(scene, loads.standby, least=50, exclusive=True)


@_healthy
def consumer_per_message(scene: Scene) -> None:
    plays(scene, loads.per_message, least=50)


@_healthy
def reply_queue(scene: Scene) -> None:
    plays(scene, loads.replies, least=50)


@_healthy
def pull_receive(scene: Scene) -> None:
    plays(scene, loads.pull, least=50)


@scenario(Place.HEALTHY, notices=("redelivery_loop",))
def few_fail(scene: Scene) -> None:
    plays(
        scene,
        scene.dice.choice([loads.failing_release, loads.failing_rollback]),
        least=50,
    )


@_loses
def full_ring_by_design(scene: Scene) -> None:
    plays(scene, loads.visits(60, 5), ring_size=40)


@_healthy
def message_groups(scene: Scene) -> None:
    """Two groups for three consumers: one has nothing."""
    queue = scene.queue()
    consumers = [
        scene.open(AmqpConsumer, queue, credit=20, work=0.05) for _ in range(3)
    ]
    producers = [
        scene.open(AmqpProducer, queue, client=f"producer{i}") for i in range(2)
    ]
    while scene.wait(0.5):
        for group, producer in enumerate(producers):
            producer.send(group_id=f"g{group}")
    scene.attest(
        "one has nothing",
        sum(not consumer.counts.received for consumer in consumers) == 1,
    )
    scene.attest(
        "the others work",
        sum(consumer.counts.acknowledged for consumer in consumers) > 100,
    )


@_healthy
def browser(scene: Scene) -> None:
    """A browser that looks again and again at a queue that is worked off slowly."""
    queue = scene.queue()
    browsing = scene.jms(queue, mode="browse", pull_ms=3000)
    loads.bursts(30, 60)(scene.load, queue)
    scene.rest()
    scene.attest("it browsed", browsing.counts()["received"] > 20)


@_healthy
def bridge_target(scene: Scene) -> None:
    """Messages cross a bridge, are consumed behind it."""
    source = scene.queue()
    target = scene.queue()
    bridge(scene, source, f"tcp://{scene.broker.host}:{scene.broker.port}", target)
    consumer = scene.open(AmqpConsumer, target)
    scene.open(AmqpProducer, source, client="producer").run(3)
    scene.rest()
    scene.attest("messages crossed", consumer.counts.acknowledged > 50)
    scene.attest("the link is told as up", link_up(scene.poller, source) == 1)


@scenario(Place.HEALTHY, notices=("ring_losing",))
def last_value(scene: Scene) -> None:
    """Newer values replace older ones; read in bulk now and then."""
    queue = scene.queue(last_value=True)
    producer = scene.open(AmqpProducer, queue, client="producer")
    consumer = scene.open(AmqpConsumer, queue, credit=1, work=1.0)
    while scene.wait(0.25):
        producer.send(properties={"_AMQ_LVQ_NAME": f"k{scene.dice.randrange(6)}"})
    scene.attest(
        "values were replaced", consumer.counts.received < producer.counts.sent - 20
    )
    scene.attest("values were read", consumer.counts.acknowledged > 20)


@_healthy
def non_destructive(scene: Scene) -> None:
    """Readers leave the messages where they are."""
    queue = scene.queue(non_destructive=True)
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.send(20)
    consumer = scene.open(AmqpConsumer, queue, credit=50)
    sender = scene.open(AmqpProducer, queue, client="producer")
    while scene.wait(5):
        sender.send()
    scene.attest(
        "all was read", consumer.counts.received >= 20 + sender.counts.sent - 1
    )
    scene.attest("all is there still", scene.count(queue, "MessageCount") >= 20)


@scenario(Place.HEALTHY, notices=("redelivery_loop",))
def redelivery_delay(scene: Scene) -> None:
    """One message in a hundred fails and comes back five seconds later."""
    queue = scene.queue()
    scene.settings(queue, redeliveryDelay=5000, maxDeliveryAttempts=10)
    url = "consumerWindowSize=0"
    client = scene.jms(
        queue, mode="transacted", returns=0.01, seed=scene.dice.randrange(1000), url=url
    )
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(5, 9))
    scene.rest()
    scene.attest("some failed", client.counts()["returned"] > 3)
    scene.attest("the others did not", client.counts()["acknowledged"] > 100)


@scenario(Place.HEALTHY, notices=("redelivery_loop", "dead_lettering"))
def dead_letter_queue(scene: Scene) -> None:
    """A few messages fail for good and stay with the dead letters, which nobody reads."""
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(queue, deadLetterAddress=dead, maxDeliveryAttempts=2)
    client = scene.jms(queue, mode="transacted", poisoned=1, url="consumerWindowSize=0")
    scene.open(AmqpProducer, queue, client="producer").run(5)
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        while scene.wait(20):
            producer.send(properties={"poison": True})
    scene.attest("dead letters are there", scene.count(dead, "MessageCount") > 3)
    scene.attest("the others were settled", client.counts()["acknowledged"] > 100)


@_healthy
def offline_durable(scene: Scene) -> None:
    """A durable subscriber that is away for minutes while messages come, again and again."""
    topic = scene.name()
    name = "sub"
    client = f"{topic}.subscriber"
    scene.queues.append(f"{client}.{name}")

    def subscribed() -> StompConsumer:
        return StompConsumer(
            scene.load.endpoint,
            topic,
            client_id=client,
            routing_type="MULTICAST",
            durable=name,
            work=0.01,
        )

    with AmqpProducer(scene.load.endpoint, topic, topic=True) as producer:
        producer.run(1)
        received = 0
        goes_on = True
        while goes_on:
            with subscribed() as consumer:
                scene.wait(20)
                received += consumer.counts.acknowledged
            goes_on = scene.wait(150)
    scene.attest("it read", received > 10)


@_healthy
def frozen_and_resumed(scene: Scene) -> None:
    """A client that stands still for most of a minute, as in a long garbage collection, and goes on."""
    queue = scene.queue()
    process = scene.own_process()
    client = scene.jms(queue, process=process, work=20, url="consumerWindowSize=5000")
    scene.open(AmqpProducer, queue, client="producer").run(3)
    scene.until("it works", lambda: client.counts()["acknowledged"] > 5)
    for _ in range(2):
        scene.wait(20)
        process.pause()
        before = scene.count(queue, "MessagesAcknowledged")
        scene.wait(40)
        scene.attest(
            "it stood still", scene.count(queue, "MessagesAcknowledged") - before < 20
        )
        process.resume()
    scene.wait(20)
    scene.attest("it goes on", client.counts()["last_ack"] > time.time() - 15)


@_healthy
def full_page(scene: Scene) -> None:
    """A full address that pages, and consumers that work it off."""
    queue = scene.queue()
    scene.settings(
        queue,
        maxSizeBytes=200_000,
        pageSizeBytes=100_000,
        addressFullMessagePolicy="PAGE",
    )
    consumers = [scene.open(AmqpConsumer, queue, credit=5, work=0.05) for _ in range(2)]
    producer = scene.open(AmqpProducer, queue, client="producer", size=2_000)
    paged = False
    address = scene.broker.manage.address_mbean(queue)
    while scene.wait(2):
        if scene.count(queue, "MessageCount") < 50:
            producer.send(400)
        paged = paged or bool(scene.broker.manage.read(address, "Paging"))
    scene.attest("it paged", paged)
    scene.attest(
        "it was worked off", sum(one.counts.acknowledged for one in consumers) > 400
    )


@_healthy
def agent_restart(scene: Scene) -> None:
    """The agent ends and starts again, twice, once with a long pause; all on its broker go on."""
    queue = scene.queue()
    clients = listeners(scene, queue, 2)
    scene.open(AmqpProducer, queue, client="producer").run(4)
    for after, pause in ((60, 1.0), (60, 40.0)):
        if scene.wait(after * scene.dice.uniform(0.8, 1.2)):
            scene.observer.restart(scene.broker.name, pause=pause)
    scene.polls(4)
    scene.attest(
        "the clients work on",
        all(one.counts()["last_ack"] > time.time() - 10 for one in clients),
    )


@_healthy
def clock_step(scene: Scene) -> None:
    """The agent's clock jumps an hour ahead, and back again."""
    queue = scene.queue()
    listeners(scene, queue, 2)
    scene.open(AmqpProducer, queue, client="producer").run(4)
    scene.wait(250)
    for step in (3600.0, 0.0, -600.0, 0.0):
        scene.observer.clocks[scene.broker.name].step = step
        scene.polls(6)
    scene.attest("the clock was set", True)


class Persistent:
    """A producer and a consumer that connect again whenever their broker was away."""

    def __init__(self, scene: Scene, queue: str) -> None:
        self._scene = scene
        self._queue = queue
        self.acknowledged = 0
        self._consumer: AmqpConsumer | None = None
        self._producer: AmqpProducer | None = None

    def work(self, seconds: float) -> None:
        """Go on for so long, or to the end of the run."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and self._scene.wait(1):
            if self._consumer is None or self._consumer.trouble:
                self._connect()

    def _connect(self) -> None:
        self.leave()
        endpoint = self._scene.load.endpoint
        try:
            self._consumer = AmqpConsumer(
                endpoint, self._queue, credit=20, client_id=f"{self._queue}.consumer"
            )
            self._producer = AmqpProducer(
                endpoint, self._queue, client_id=f"{self._queue}.producer"
            ).run(3)
        except ClientError:
            self._scene.wait(2)

    def leave(self) -> None:
        if self._consumer is not None:
            self.acknowledged += self._consumer.counts.acknowledged
        for client in (self._consumer, self._producer):
            if client is not None:
                client.drop()
        self._consumer = self._producer = None


def survives(scene: Scene, hurt: Callable[[], None], after: float) -> None:
    """Clients work, the broker is hurt, the clients come back and work on."""
    queue = scene.queue()
    clients = Persistent(scene, queue)
    try:
        clients.work(after)
        hurt()
        clients.work(10_000)
    finally:
        clients.leave()
    scene.attest("they worked", clients.acknowledged > 100)


@scenario(Place.RESTARTED)
def broker_restart(scene: Scene) -> None:
    survives(scene, scene.broker.restart, scene.dice.uniform(50, 80))


@scenario(Place.RESTARTED)
def broker_killed(scene: Scene) -> None:
    def hurt() -> None:
        scene.broker.kill()
        scene.wait(scene.dice.uniform(2, 15))
        scene.broker.start()

    survives(scene, hurt, scene.dice.uniform(180, 220))
