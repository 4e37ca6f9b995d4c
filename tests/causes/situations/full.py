"""Limits: of an address, a disk, a ring."""

from causes.situations.register import begins, sends, situation
from flowbench.scene import Place, Scene
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, StompProducer


def full(scene: Scene, policy: str) -> None:
    queue = scene.queue()
    scene.settings(
        queue,
        maxSizeBytes=200_000,
        pageSizeBytes=100_000,
        addressFullMessagePolicy=policy,
    )
    scene.begin()
    if policy == "BLOCK":
        sends(scene, queue, 20, 5000)
    else:
        scene.open(StompProducer, queue, client="producer", size=5000).run(20)


@situation("producers_blocked", "address_full", proves=("address_full",))
def address_blocks(scene: Scene) -> None:
    full(scene, "BLOCK")


@situation("rejecting", "address_full", proves=("address_full",))
def address_drops(scene: Scene) -> None:
    full(scene, "DROP")


@situation("rejecting", "address_full", proves=("address_full",))
def address_fails(scene: Scene) -> None:
    full(scene, "FAIL")


@situation("ring_losing", "ring_too_small")
def a_ring_is_too_small(scene: Scene) -> None:
    queue = scene.queue(ring_size=10)
    scene.open(AmqpConsumer, queue, credit=2, work=0.5)
    begins(scene, queue, 20)


@situation("ring_lost_by_consumer", "returned")
def a_consumer_returns_more_than_its_ring_takes(scene: Scene) -> None:
    queue = scene.queue(ring_size=10)
    holder = AmqpHolder(
        scene.load.endpoint, queue, credit=30, client_id=f"{queue}.holder"
    )
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.send(30)
        scene.until("it holds them", lambda: holder.counts.received == 30)
        producer.send(10)
        scene.polls(3)
    scene.begin()
    holder.drop()


@situation("producers_blocked", "disk_full", proves=("disk_full",), place=Place.DISK)
def the_disk_is_full(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue)
    scene.open(AmqpProducer, queue, client="producer").run(2)
    scene.begin()
