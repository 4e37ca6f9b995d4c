"""Queues that nobody reads, or nobody may."""

from contextlib import suppress
from dataclasses import replace

from causes.situations.register import COLD, begins, sends, situation
from flowbench.scene import Scene
from penstock_demo.management import Account
from rig.drivers import AmqpConsumer, AmqpHolder, ClientError


def reads(scene: Scene, queue: str) -> AmqpConsumer:
    consumer: AmqpConsumer = scene.open(AmqpConsumer, queue)
    sends(scene, queue, 10)
    scene.until("it reads", lambda: consumer.counts.acknowledged > 20)
    return consumer


@situation("no_consumer", "application_down")
def the_application_is_down(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue).close()
    scene.begin()


@situation("no_consumer", "other_queue")
def it_reads_another_queue(scene: Scene) -> None:
    queue = scene.queue()
    other = scene.queue()
    reads(scene, queue).close()
    scene.load.client(other, AmqpConsumer, other, client_id=f"{queue}.consumer")
    scene.begin()


@situation("no_consumer", "login_refused")
def its_login_is_refused(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue).close()
    scene.begin()
    wrong_password = replace(
        scene.load.endpoint, account=Account("billing", "no longer")
    )
    while scene.wait(5):
        with suppress(ClientError):
            AmqpConsumer(wrong_password, queue).close()


@situation("no_consumer", "meant_for_nobody")
def nobody_was_meant_to_read_it(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue, 5)


@situation("holder_gone", "connection_died")
def the_connection_of_a_holder_dies(scene: Scene) -> None:
    queue = scene.queue()
    holder = AmqpHolder(
        scene.load.endpoint, queue, credit=30, client_id=f"{queue}.holder"
    )
    begins(scene, queue, 5)
    scene.wait(COLD)
    holder.drop()


@situation("holder_gone", "consumer_closed")
def a_holder_closes_its_consumer(scene: Scene) -> None:
    queue = scene.queue()
    holder = scene.open(AmqpHolder, queue, credit=30)
    begins(scene, queue, 5)
    scene.wait(COLD)
    holder.unsubscribe()


@situation("paused", "paused", proves=("paused",))
def an_operator_pauses_the_queue(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue)
    scene.broker.manage.pause_queue(queue)
    scene.begin()


@situation("paused", "paused", proves=("paused",))
def an_operator_pauses_the_address(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue)
    scene.broker.manage.pause_address(queue)
    scene.begin()


@situation("disabled", "operator")
def an_operator_disables_the_queue(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue)
    scene.broker.manage.call(scene.broker.manage.queue_mbean(queue), "disable()")
    scene.begin()
