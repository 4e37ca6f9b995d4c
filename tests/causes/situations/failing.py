"""Messages that come back, die or expire."""

from contextlib import suppress
from typing import Any

from proton import Delivery

from causes.situations.register import begins, situation
from flowbench.faults import Releasing
from flowbench.scene import Scene
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, ClientError


@situation("redelivery_loop", "rolls_back")
def openwire_rolls_back(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(
        queue,
        openwire=1,
        mode="transacted",
        returns=1,
        work=100,
        url="jms.redeliveryPolicy.maximumRedeliveries=-1",
    )
    begins(scene, queue, 2)


@situation("redelivery_loop", "releases", proves=("releases",))
def amqp_releases(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(Releasing, queue, credit=10, work=0.2)
    begins(scene, queue, 2)


@situation("redelivery_loop", "rolls_back")
def core_rolls_back(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(queue, mode="transacted", returns=1, work=100)
    begins(scene, queue, 2)


class SettingDown(AmqpConsumer):
    """Answers two of five messages with modified(undeliverable-here): the broker never gives it those again."""

    def _next(self) -> None:
        if self.counts.received % 5 < 3:
            super()._next()
            return
        delivery = self._held[0]
        delivery.local.undeliverable = True
        self._update(1, Delivery.MODIFIED)
        self._link.flow(1)


@situation("redelivery_loop", "undeliverable_here")
def amqp_sets_messages_down(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(SettingDown, queue, credit=10)
    begins(scene, queue, 10)


def restarts(scene: Scene, queue: str, **options: Any) -> None:
    """A consumer that is closed by the broker, or leaves after a while, and comes again."""
    while scene.wait(1):
        with suppress(ClientError):
            client = AmqpConsumer(
                scene.load.endpoint, queue, client_id=f"{queue}.consumer", **options
            )
            scene.wait(5)
            client.close()


@situation("dead_lettering", "purge_on_no_consumers")
def a_queue_purges_itself(scene: Scene) -> None:
    """At each restart of its only consumer."""
    queue = scene.queue(purge_on_no_consumers=True)
    begins(scene, queue, 20)
    restarts(scene, queue, credit=5, work=0.5)


@situation("dead_lettering", "slow_consumer_killed", "attempts_used_up", "reconnects")
def the_broker_closes_slow_consumers(scene: Scene) -> None:
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(
        queue,
        maxDeliveryAttempts=2,
        deadLetterAddress=dead,
        redeliveryDelay=0,
        slowConsumerThreshold=10,
        slowConsumerPolicy="KILL",
        slowConsumerCheckPeriod=2,
    )
    begins(scene, queue, 30)
    restarts(scene, queue, credit=40, work=1.0)


@situation("dead_lettering", "attempts_used_up")
def attempts_are_used_up(scene: Scene) -> None:
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=2, deadLetterAddress=dead)
    scene.jms(queue, mode="transacted", returns=1, work=50)
    begins(scene, queue, 5)


@situation("dead_lettering", "attempts_used_up", "reconnects")
def reconnects_with_messages_in_hand(scene: Scene) -> None:
    """It acknowledges a few each time, and so is no client that makes no progress."""
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(
        queue, maxDeliveryAttempts=3, deadLetterAddress=dead, redeliveryDelay=0
    )
    begins(scene, queue, 20)
    while scene.wait(1):
        holder = AmqpHolder(
            scene.load.endpoint, queue, credit=40, client_id=f"{queue}.consumer"
        )
        scene.wait(4)
        holder.acknowledge(min(5, holder.counts.received))
        scene.wait(1)
        holder.drop()


@situation("dead_lettering", "attempts_used_up", "reconnects")
def core_reconnects_with_messages_in_hand(scene: Scene) -> None:
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(
        queue, maxDeliveryAttempts=3, deadLetterAddress=dead, redeliveryDelay=0
    )
    begins(scene, queue, 20)
    while scene.wait(1):
        scene.jms(queue, mode="individual", settles=5, url="consumerWindowSize=20000")
        scene.wait(5)
        scene.broker.manage.close_connections(queue)


@situation("dead_lettering", "purged", proves=("purged",))
def an_operator_purges(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue, 5)
    while scene.wait(4):
        scene.broker.manage.call(
            scene.broker.manage.queue_mbean(queue), "removeAllMessages()"
        )


@situation("expiring", "time_to_live")
def messages_outlive_their_time(scene: Scene) -> None:
    queue = scene.queue()
    producer = scene.open(AmqpProducer, queue, client="producer")
    scene.begin()
    while scene.wait(1):
        producer.send(5, ttl=1.0)


@situation("expiring", "expiry_delay")
def the_settings_limit_their_life(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, expiryDelay=1000)
    producer = scene.open(AmqpProducer, queue, client="producer")
    scene.begin()
    while scene.wait(1):
        producer.send(5)


@situation("redelivery_loop", "recovers")
def core_recovers(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(queue, mode="client", returns=1, work=100)
    begins(scene, queue, 2)


@situation("redelivery_loop", "listener_fails")
def core_listener_fails(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(queue, fails=1, work=100)
    begins(scene, queue, 2)


@situation("churn_without_progress", "reconnects")
def it_comes_again_and_again(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue, 2)
    while scene.wait(1):
        holder = AmqpHolder(
            scene.load.endpoint, queue, credit=10, client_id=f"{queue}.consumer"
        )
        scene.wait(4)
        holder.drop()


@situation("crash_looping", "crashes")
def one_crashes_beside_one_that_works(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, client="works", credit=5, work=0.05)
    begins(scene, queue, 20)
    while scene.wait(1):
        holder = AmqpHolder(
            scene.load.endpoint, queue, credit=10, client_id=f"{queue}.crashes"
        )
        scene.wait(4)
        holder.drop()


@situation(
    "dead_letters_lost", "no_dead_letter_queue", proves=("no_dead_letter_queue",)
)
def dead_letters_have_no_queue(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=2, deadLetterAddress=f"{queue}.nowhere")
    scene.jms(queue, mode="transacted", returns=1, work=50)
    begins(scene, queue, 5)


@situation(
    "dead_letters_lost",
    "dead_letter_address_full",
    proves=("dead_letter_address_full",),
)
def dead_letters_are_dropped(scene: Scene) -> None:
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(
        dead, maxSizeBytes=30_000, pageSizeBytes=10_000, addressFullMessagePolicy="DROP"
    )
    scene.settings(queue, maxDeliveryAttempts=2, deadLetterAddress=dead)
    scene.jms(queue, mode="transacted", returns=1, work=50)
    begins(scene, queue, 5, 1000)


@situation("unheld", "dead_letter_address_full")
def dead_letters_are_refused(scene: Scene) -> None:
    queue = scene.queue()
    dead = scene.queue()
    scene.settings(
        dead, maxSizeBytes=30_000, pageSizeBytes=10_000, addressFullMessagePolicy="FAIL"
    )
    scene.settings(queue, maxDeliveryAttempts=1, deadLetterAddress=dead)
    with AmqpProducer(scene.load.endpoint, queue, size=1000) as producer:
        producer.send(300)
    client = scene.jms(queue, mode="transacted", returns=1, batch=10)
    scene.begin()
    scene.until("it is full", lambda: scene.count(dead, "MessageCount") > 5)
    scene.wait(10)
    client.close()
