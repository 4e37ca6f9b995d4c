"""Consumers that get nothing, or more than they work on."""

from causes.situations.register import begins, sends, situation
from flowbench.scene import Scene
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, StompConsumer


@situation("not_dispatching", "selector")
def openwire_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "never_receives")
def openwire_asks_for_none(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, idle=1, url="jms.prefetchPolicy.all=0")
    begins(scene, queue, 3)


@situation("not_dispatching", "selector")
def amqp_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "selector", proves=("selector",))
def stomp_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(StompConsumer, queue, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "selector")
def core_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "no_credit", proves=("no_credit",))
def amqp_without_credit(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=0)
    begins(scene, queue, 3)


@situation("not_dispatching", "not_started")
def core_not_started(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stopped=1, idle=1)
    begins(scene, queue, 3)


@situation("not_dispatching", "never_receives")
def core_asks_for_none(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, idle=1, url="consumerWindowSize=0")
    begins(scene, queue, 3)


@situation("not_dispatching", "never_receives", proves=("never_receives",))
def core_asks_for_none_beside_one_that_works(scene: Scene) -> None:
    queue = scene.queue()
    other = scene.queue()
    sends(scene, other)
    scene.jms(queue, idle=1, beside=other, url="consumerWindowSize=0")
    begins(scene, queue, 3)


@situation(
    "not_dispatching",
    "consumers_before_dispatch",
    proves=("consumers_before_dispatch",),
)
def waits_for_more_consumers(scene: Scene) -> None:
    queue = scene.queue(consumers_before_dispatch=3)
    scene.open(AmqpConsumer, queue)
    begins(scene, queue, 3)


@situation("hoarding", "prefetch")
def one_prefetched_all(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, work=600)
    with AmqpProducer(scene.load.endpoint, queue, size=500) as producer:
        producer.send(400)
    scene.polls(3)
    for _ in range(2):
        scene.open(AmqpConsumer, queue, client="peer")
    scene.begin()


@situation("depaging_frozen", "page_limit")
def pages_are_read_no_more(scene: Scene) -> None:
    queue = scene.queue()
    small = {
        "maxSizeBytes": 200_000,
        "pageSizeBytes": 100_000,
        "maxReadPageBytes": 400_000,
    }
    scene.settings(queue, addressFullMessagePolicy="PAGE", **small)
    scene.open(AmqpHolder, queue, credit=5000, client="holder")
    with AmqpProducer(scene.load.endpoint, queue, size=1000) as producer:
        for _ in range(30):
            producer.send(100)
    scene.open(AmqpConsumer, queue, client="peer")
    scene.begin()


@situation("not_dispatching", "exclusive", "no_credit")
def an_exclusive_consumer_asks_for_none(scene: Scene) -> None:
    queue = scene.queue(exclusive=True)
    scene.open(AmqpHolder, queue, credit=0)
    scene.wait(1)
    scene.open(AmqpHolder, queue, credit=0, client="standby")
    begins(scene, queue, 3)
