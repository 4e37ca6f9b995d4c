"""Faults: each a few clients that make it, and what they attest. Rings are in `rings`."""

import time
from typing import Any

from proton import Delivery

from flowbench.core import CoreClient
from flowbench.scene import SHORT, Place, Scene, Within, scenario
from penstock.agent import Poller
from penstock_demo.ports import LOOPBACK, free_port
from rig.drivers import (
    AmqpConsumer,
    AmqpHolder,
    AmqpProducer,
    AmqpTransaction,
    StompConsumer,
    StompProducer,
)


def listeners(scene: Scene, queue: str, count: int, **options: Any) -> list[CoreClient]:
    """JMS listeners that work; small windows, so that each gets its share."""
    return [
        scene.jms(queue, work=20, url="consumerWindowSize=2000", **options)
        for _ in range(count)
    ]


def stuck(scene: Scene, queue: str) -> CoreClient:
    """A JMS listener that blocks for ever at one of its first messages."""
    after = scene.dice.randint(2, 8)
    return scene.jms(queue, stuck_after=after, work=20, url="consumerWindowSize=2000")


def got_stuck(scene: Scene, clients: list[CoreClient]) -> None:
    """Wait until each is blocked; the fault begins with the first that is."""
    scene.until(
        "the listeners block",
        lambda: all(client.counts()["stuck_since"] for client in clients),
    )
    scene.begin(at=min(client.counts()["stuck_since"] for client in clients))


def works_still(scene: Scene, client: CoreClient) -> None:
    """To the end of the run: this one has settled messages in its last minute."""
    scene.rest()
    scene.attest(
        "a good consumer works to the end",
        client.counts()["last_ack"] > time.time() - 60,
    )


@scenario(stalled=Within.PATIENCE)
def one_of_four_wedged(scene: Scene) -> None:
    queue = scene.queue()
    good = listeners(scene, queue, 3)
    bad = stuck(scene, queue)
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(3, 6))
    got_stuck(scene, [bad])
    works_still(scene, good[0])
    scene.attest(
        "one settles nothing any more", bad.counts()["last_ack"] < scene.begins[""] + 1
    )


@scenario(stalled=Within.PATIENCE)
def all_wedged(scene: Scene) -> None:
    queue = scene.queue()
    bad = [stuck(scene, queue) for _ in range(3)]
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(3, 6))
    got_stuck(scene, bad)
    settled = scene.count(queue, "MessagesAcknowledged")
    scene.rest()
    scene.attest(
        "nothing is settled any more",
        scene.count(queue, "MessagesAcknowledged") == settled,
    )


@scenario(stalled=Within.BATCH)
def never_acknowledges_core(scene: Scene) -> None:
    queue = scene.queue(name=f"{SHORT}{scene.name()}")
    client = scene.jms(queue, mode=scene.dice.choice(["client", "individual"]), batch=0)
    never_settles(scene, queue, lambda: client.counts()["received"] > 0)


@scenario(stalled=Within.PATIENCE)
def never_acknowledges_amqp(scene: Scene) -> None:
    queue = scene.queue()
    holder = scene.open(AmqpHolder, queue, credit=scene.dice.randint(5, 30))
    never_settles(scene, queue, lambda: holder.counts.received > 0)


@scenario(stalled=Within.PATIENCE)
def never_acknowledges_stomp(scene: Scene) -> None:
    queue = scene.queue()
    holder = scene.open(StompConsumer, queue, acknowledge=False)
    never_settles(scene, queue, lambda: holder.counts.received > 0)


def never_settles(scene: Scene, queue: str, holds: Any) -> None:
    scene.open(StompProducer, queue, client="producer").run(scene.dice.uniform(1, 4))
    scene.until("the first message is held", holds)
    scene.begin()
    scene.rest()
    scene.attest(
        "nothing was ever settled", scene.count(queue, "MessagesAcknowledged") == 0
    )
    scene.attest("messages come", scene.count(queue, "MessagesAdded") > 50)


@scenario(open_transaction=Within.PATIENCE)
def open_transaction_core(scene: Scene) -> None:
    """Each acknowledgement is sent at once, the commit never comes."""
    queue = scene.queue()
    client = scene.jms(queue, mode="transacted", batch=0, url="transactionBatchSize=0")
    never_settles(scene, queue, lambda: client.counts()["received"] > 0)


@scenario(open_transaction=Within.PATIENCE)
def open_transaction_amqp(scene: Scene) -> None:
    queue = scene.queue()
    client = scene.open(AmqpTransaction, queue, credit=scene.dice.randint(5, 30))
    never_settles(scene, queue, lambda: client.counts.uncommitted > 0)


@scenario(stalled=Within.BATCH)
def open_transaction_hidden(scene: Scene) -> None:
    """A Core client keeps its acknowledgements back: the broker sees messages held and nothing else."""
    queue = scene.queue(name=f"{SHORT}{scene.name()}")
    client = scene.jms(queue, mode="transacted", batch=0)
    never_settles(scene, queue, lambda: client.counts()["received"] > 0)


@scenario(redelivery_loop=Within.WINDOW)
def rollback_loop(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    client = scene.jms(queue, mode="transacted", returns=1, work=100)
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(1, 3))
    rolls_back(scene, client)
    scene.rest()
    scene.attest("rolled back again and again", client.counts()["returned"] > 100)
    scene.attest(
        "nothing was ever settled", scene.count(queue, "MessagesAcknowledged") == 0
    )


def rolls_back(scene: Scene, client: CoreClient) -> None:
    scene.until("the first rollback", lambda: client.counts()["returned"] > 0)
    scene.begin()


class Releasing(AmqpConsumer):
    """Gives each message back after its work."""

    def _next(self) -> None:
        self._update(1, Delivery.RELEASED)
        self._link.flow(1)


@scenario(redelivery_loop=Within.WINDOW)
def release_loop(scene: Scene) -> None:
    queue = scene.queue()
    client = scene.open(Releasing, queue, credit=10, work=0.2)
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(1, 3))
    scene.until("the first release", lambda: client.counts.returned > 0)
    scene.begin()
    scene.rest()
    scene.attest("released again and again", client.counts.returned > 100)


@scenario(redelivery_loop=Within.WINDOW)
def poison_message(scene: Scene) -> None:
    """One message fails for ever, the others flow."""
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1, redeliveryDelay=1000)
    client = scene.jms(
        queue, mode="transacted", poisoned=1, work=20, url="consumerWindowSize=0"
    )
    producer = scene.open(AmqpProducer, queue, client="producer")
    producer.run(scene.dice.uniform(2, 5))
    scene.wait(scene.dice.uniform(5, 15))
    with AmqpProducer(scene.load.endpoint, queue) as other:
        other.send(properties={"poison": True})
    rolls_back(scene, client)
    works_still(scene, client)
    scene.attest(
        "one fails again and again", client.counts()["last_return"] > time.time() - 60
    )


@scenario(redelivery_loop=Within.WINDOW)
def one_of_four_rolls_back(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    good = listeners(scene, queue, 3)
    bad = scene.jms(
        queue, mode="transacted", returns=1, work=200, url="consumerWindowSize=2000"
    )
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(6, 10))
    rolls_back(scene, bad)
    works_still(scene, good[0])
    scene.attest(
        "one rolls back to the end", bad.counts()["last_return"] > time.time() - 60
    )


@scenario(no_consumer=Within.PATIENCE)
def no_consumer(scene: Scene) -> None:
    queue = scene.queue()
    consumer = scene.open(AmqpConsumer, queue)
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(1, 4))
    scene.until("the consumer works", lambda: consumer.counts.acknowledged > 0)
    scene.polls(2)
    consumer.close()
    scene.begin()
    scene.rest()
    scene.attest("nobody is there", scene.count(queue, "ConsumerCount") == 0)


@scenario(not_dispatching=Within.PATIENCE)
def selector_matches_nothing(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(
        scene.dice.choice([AmqpConsumer, StompConsumer]),
        queue,
        selector="kind = 'nothing'",
    )
    nothing_delivered(scene, queue)


@scenario(not_dispatching=Within.PATIENCE)
def no_credit(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=0)
    nothing_delivered(scene, queue)


@scenario(not_dispatching=Within.PATIENCE)
def not_started(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stopped=1, idle=1, url="consumerWindowSize=0")
    nothing_delivered(scene, queue)


def nothing_delivered(scene: Scene, queue: str) -> None:
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(1, 4))
    scene.until("a message waits", lambda: scene.count(queue, "MessageCount") > 0)
    scene.begin()
    scene.rest()
    scene.attest("a consumer is there", scene.count(queue, "ConsumerCount") == 1)
    scene.attest("nothing is delivered", scene.count(queue, "DeliveringCount") == 0)


@scenario(hoarding=Within.PROOF)
def prefetch_hoarding(scene: Scene) -> None:
    queue = scene.queue()
    greedy = scene.jms(queue, work=600)
    with AmqpProducer(scene.load.endpoint, queue, size=500) as producer:
        producer.send(400)
    scene.until(
        "one has it all",
        lambda: (
            scene.count(queue, "DeliveringCount") == scene.count(queue, "MessageCount")
        ),
    )
    scene.polls(3)
    peers = [scene.open(AmqpConsumer, queue, client="peer") for _ in range(2)]
    scene.begin()
    scene.wait(60 + 2 * scene.interval)
    scene.attest("one works", greedy.counts()["last_ack"] > time.time() - 10)
    scene.attest(
        "the others have nothing", sum(peer.counts.received for peer in peers) == 0
    )


@scenario(paused=Within.PROOF)
def paused_queue(scene: Scene) -> None:
    queue = flows(scene)
    scene.broker.manage.pause_queue(queue)
    paused(scene, queue)


@scenario(paused=Within.PROOF)
def paused_address(scene: Scene) -> None:
    queue = flows(scene)
    scene.broker.manage.pause_address(queue)
    paused(scene, queue)


def flows(scene: Scene) -> str:
    queue = scene.queue()
    consumer = scene.open(AmqpConsumer, queue)
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(2, 5))
    scene.until("messages flow", lambda: consumer.counts.acknowledged > 5)
    scene.wait(scene.dice.uniform(5, 20))
    return queue


def paused(scene: Scene, queue: str) -> None:
    scene.begin()
    settled = scene.count(queue, "MessagesAcknowledged")
    scene.rest()
    scene.attest(
        "nothing flows", scene.count(queue, "MessagesAcknowledged") - settled <= 100
    )
    scene.attest("messages wait", scene.count(queue, "MessageCount") > 50)


@scenario(falling_behind=Within.TREND)
def undersized(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    producer = scene.open(AmqpProducer, queue, client="producer")
    scene.begin()
    producer.run(scene.dice.uniform(6, 9))
    scene.rest()
    left = scene.count(queue, "MessageCount")
    scene.attest("the backlog grows", left > 200)
    scene.attest("the consumer works", scene.count(queue, "MessagesAcknowledged") > 200)


@scenario(depaging_frozen=Within.PROOF, also=("stalled",))
def depaging_frozen(scene: Scene) -> None:
    queue = scene.queue()
    small = {
        "maxSizeBytes": 200_000,
        "pageSizeBytes": 100_000,
        "maxReadPageBytes": 400_000,
    }
    scene.settings(queue, addressFullMessagePolicy="PAGE", **small)
    holder = scene.open(AmqpHolder, queue, credit=5000, client="holder")
    with AmqpProducer(scene.load.endpoint, queue, size=1000) as producer:
        for _ in range(30):
            producer.send(100)
    peer = scene.open(AmqpConsumer, queue, client="peer")
    scene.until(
        "the holder has all it may",
        lambda: scene.count(queue, "DeliveringSize") >= 400_000,
    )
    scene.wait(2)
    scene.begin()
    got = holder.counts.received
    scene.rest()
    scene.attest(
        "messages wait in pages",
        scene.count(queue, "MessageCount") > scene.count(queue, "DeliveringCount"),
    )
    scene.attest("nothing is read", holder.counts.received - got <= 10)
    scene.attest("the peer starves", peer.counts.received == 0)


def full_address(scene: Scene, policy: str) -> None:
    """A stuck consumer, and an address that its messages fill."""
    queue = scene.queue()
    scene.settings(
        queue,
        maxSizeBytes=200_000,
        pageSizeBytes=100_000,
        addressFullMessagePolicy=policy,
    )
    scene.open(AmqpHolder, queue, credit=5)
    if (
        policy == "BLOCK"
    ):  # AMQP spends its credit of 1,000 messages before it is stopped, STOMP is never
        scene.jms(queue, mode="produce", rate=scene.dice.randint(10, 20), size=5_000)
    else:
        producer = scene.open(StompProducer, queue, client="producer", size=5_000).run(
            scene.dice.uniform(10, 20)
        )
    address = scene.broker.manage.address_mbean(queue)
    read = scene.broker.manage.read
    scene.until(
        "the address is full",
        lambda: float(read(address, "AddressLimitPercent")) >= 100,
    )
    scene.begin()
    scene.polls(1)
    added = scene.count(queue, "MessagesAdded")
    scene.rest()
    scene.attest("nothing gets in", scene.count(queue, "MessagesAdded") - added <= 1)
    if policy == "DROP":
        scene.attest("more is sent", producer.counts.sent > 1.2 * added)


@scenario(producers_blocked=Within.PROOF, also=("stalled",))
def full_block(scene: Scene) -> None:
    full_address(scene, "BLOCK")


@scenario(rejecting=Within.PROOF, also=("stalled",))
def full_drop(scene: Scene) -> None:
    full_address(scene, "DROP")


@scenario(rejecting=Within.PROOF, also=("stalled",))
def full_fail(scene: Scene) -> None:
    full_address(scene, "FAIL")


@scenario(Place.DISK, producers_blocked=Within.PROOF)
def disk_full(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue)
    producer = scene.open(AmqpProducer, queue, client="producer").run(2)
    scene.begin()
    scene.rest()
    scene.attest("no message got in", producer.counts.sent == 0)


@scenario(stalled=Within.PATIENCE, holder_gone=Within.PROOF)
def half_open_connection(scene: Scene) -> None:
    """A client that is frozen: its connection stays until the broker gives it up."""
    queue = scene.queue()
    gives_up = scene.cold + 4 * scene.interval + 10
    process = scene.own_process()
    url = f"consumerWindowSize=5000&connectionTTL={gives_up * 1000:.0f}"
    client = scene.jms(queue, process=process, work=20, url=url)
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(2, 4))
    scene.until("it works", lambda: client.counts()["acknowledged"] > 5)
    process.pause()
    scene.begin()
    scene.until(
        "the broker gives it up",
        lambda: scene.count(queue, "ConsumerCount") == 0,
        timeout=gives_up + 60,
    )
    scene.begin("holder_gone")
    scene.attest("its messages are back", scene.count(queue, "DeliveringCount") == 0)
    process.kill()


@scenario(churn_without_progress=Within.PATIENCE, notices=("holder_gone",))
def reconnects_without_progress(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpProducer, queue, client="producer").run(scene.dice.uniform(1, 3))
    scene.until("messages wait", lambda: scene.count(queue, "MessageCount") > 3)
    scene.begin()
    rounds = 0
    while True:
        with AmqpHolder(
            scene.load.endpoint, queue, credit=10, client_id=f"{queue}.consumer"
        ):
            rounds += 1
            if not scene.wait(50):
                break
    scene.attest("it came back again and again", rounds > 5)
    scene.attest("nothing was settled", scene.count(queue, "MessagesAcknowledged") == 0)


@scenario(also=("no_consumer",), link_down=Within.PROOF)
def dead_bridge(scene: Scene) -> None:
    """The link is told as down (`mq_link_up` 0); that is no condition of a queue."""
    queue = scene.queue()
    bridge(scene, queue, f"tcp://{LOOPBACK}:{free_port()}")
    scene.shows["link_down"] = lambda poller: link_up(poller, queue) == 0
    scene.open(AmqpProducer, queue, client="producer").run(2)
    scene.begin()
    scene.rest()
    scene.attest("nothing crosses", scene.count(queue, "MessagesAcknowledged") == 0)


def bridge(scene: Scene, queue: str, url: str, target: str = "") -> None:
    """A bridge named as its queue, to the broker at `url`."""
    scene.broker.manage.create_bridge(
        queue, queue, url, scene.load.endpoint.account, target=target
    )


def link_up(poller: Poller, name: str) -> float | None:
    links = poller.assessor.tables.get("link")
    found = (
        [i for i, row in enumerate(links.index.rows) if row.link == name]
        if links is not None
        else []
    )
    return float(links["up"][found[0]]) if links is not None and found else None
