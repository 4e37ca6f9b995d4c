"""Consumers that take messages and do not acknowledge them."""

from causes.situations.register import INTERVAL, PROOF, begins, sends, situation
from flowbench.scene import Scene
from rig.drivers import AmqpHolder, AmqpProducer, StompConsumer
from rig.mqtt import MqttHolder


@situation("stalled", "listener_hangs")
def core_hangs(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stuck_after=50, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "listener_hangs")
def core_hangs_with_a_large_window(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stuck_after=20)
    begins(scene, queue, 20, 2000)


@situation("stalled", "listener_hangs")
def core_hangs_at_its_first_message(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stuck_after=0)
    begins(scene, queue, 20, 2000)


@situation("stalled", "listener_hangs")
def core_hangs_beside_one_that_works(scene: Scene) -> None:
    queue = scene.queue()
    other = scene.queue()
    sends(scene, other)
    scene.jms(queue, stuck_after=20, beside=other, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "long_job")
def core_works_long(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, work=200_000, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "never_receives")
def core_never_receives(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, idle=1)
    begins(scene, queue, 20, 2000)


@situation("stalled", "never_acknowledges")
def core_never_acknowledges(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="client", batch=0)
    begins(scene, queue, 5)


@situation("stalled", "never_acknowledges")
def core_never_acknowledges_one_by_one(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="individual", batch=0)
    begins(scene, queue, 40, 1000)


@situation("stalled", "never_acknowledges")
def core_never_acknowledges_and_is_slow(scene: Scene) -> None:
    """Its window is full although it receives: it asks for more when it has worked through half of it."""
    queue = scene.queue()
    scene.jms(
        queue, mode="individual", batch=0, work=3000, url="consumerWindowSize=20000"
    )
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def core_acknowledges_no_more_and_is_slow(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(
        queue, mode="individual", settles=5, work=3000, url="consumerWindowSize=20000"
    )
    begins(scene, queue)


@situation("stalled", "never_commits")
def core_never_commits(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0)
    begins(scene, queue, 5)


@situation("stalled", "blocked_in_send", proves=("blocked_in_send",))
def core_blocked_in_send(scene: Scene) -> None:
    queue = scene.queue()
    reply = scene.queue()
    scene.settings(
        reply,
        maxSizeBytes=200_000,
        pageSizeBytes=100_000,
        addressFullMessagePolicy="BLOCK",
    )
    scene.jms(
        queue,
        reply=reply,
        size=5000,
        url="consumerWindowSize=10000&producerWindowSize=10000",
    )
    begins(scene, queue)


@situation("stalled", "listener_hangs")
def core_hangs_though_an_address_is_full(scene: Scene) -> None:
    """Filled by another, long before."""
    queue = scene.queue()
    reply = scene.queue()
    scene.settings(
        reply,
        maxSizeBytes=200_000,
        pageSizeBytes=100_000,
        addressFullMessagePolicy="BLOCK",
    )
    sends(scene, reply, 200, 5000)
    scene.wait(15)
    scene.jms(queue, stuck_after=100, work=20, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "frozen")
def core_is_frozen(scene: Scene) -> None:
    queue = scene.queue()
    process = scene.own_process()
    client = scene.jms(
        queue,
        process=process,
        work=20,
        url="consumerWindowSize=10000&connectionTTL=600000",
    )
    begins(scene, queue)
    scene.until("it works", lambda: client.counts()["acknowledged"] > 20)
    process.pause()
    scene.rest()
    process.resume()


@situation("stalled", "listener_hangs")
def openwire_hangs(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, stuck_after=20, url="jms.prefetchPolicy.all=20")
    begins(scene, queue)


@situation("stalled", "never_receives")
def openwire_never_receives(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, idle=1, url="jms.prefetchPolicy.all=20")
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def openwire_never_acknowledges(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, mode="individual", batch=0)
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def openwire_acknowledges_by_client_never(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(
        queue, openwire=1, mode="client", batch=0, url="jms.prefetchPolicy.all=20"
    )
    begins(scene, queue)


@situation("stalled", "never_commits")
def openwire_never_commits(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, mode="transacted", batch=0)
    begins(scene, queue)


@situation("stalled", "never_receives")
def openwire_not_started(scene: Scene) -> None:
    """The broker delivers all the same, up to the prefetch."""
    queue = scene.queue()
    scene.jms(queue, openwire=1, stopped=1, idle=1)
    begins(scene, queue, 3)


@situation("stalled", "never_acknowledges")
def amqp_never_settles(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=30)
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def amqp_settles_no_more(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue)
    holder = scene.open(AmqpHolder, queue, credit=60)
    scene.until("it holds some", lambda: holder.counts.received >= 50)
    holder.acknowledge(50)


@situation("stalled", "never_acknowledges")
def stomp_never_acknowledges(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(StompConsumer, queue, acknowledge=False)
    begins(scene, queue)


@situation("stalled", "puback_missing")
def mqtt_without_puback(scene: Scene) -> None:
    topic = scene.name().replace(".", "")
    client = f"m{topic}"
    scene.load.running.enter_context(
        MqttHolder(scene.load.endpoint, topic, client_id=client)
    )
    scene.queues.append(f"{client}.{topic}")
    scene.load.client(
        topic, AmqpProducer, topic, client_id=f"{topic}.p", topic=True
    ).run(10)
    scene.begin()


@situation("stalled", "outside", "listener_hangs")
def three_wait_for_something_outside(scene: Scene) -> None:
    """One process with three clients, frozen in place of their common database."""
    queues = [scene.queue() for _ in range(3)]
    for number, queue in enumerate(queues):
        scene.jms(
            queue,
            client_id=f"{queue}.{number}",
            stuck_after=100,
            url="consumerWindowSize=10000",
        )
        sends(scene, queue)
    scene.begin()


@situation("stalled", "listener_hangs")
def core_hangs_in_a_pool_of_one_connection(scene: Scene) -> None:
    """Raised after 15 s of evidence, not after patience."""
    queue = scene.queue()
    begins(scene, queue, 50)
    client = scene.jms(
        queue,
        stuck_after=20,
        beside=queue,
        beside_work=50,
        url="consumerWindowSize=5000",
    )
    scene.until("it hangs", lambda: client.counts()["stuck_since"] > 0)
    scene.wait(PROOF + 5 * INTERVAL)
    active = scene.poller.assessor.state.judgement.conditions
    scene.attest(
        "raised before patience is over", any(one.queue == queue for one in active)
    )
