"""Backlogs that grow though consumers work."""

from causes.situations.register import begins, situation
from flowbench.scene import Scene
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer


@situation("falling_behind", "too_few_consumers")
def a_pool_is_too_small(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("falling_behind", "exclusive", proves=("exclusive",))
def an_exclusive_queue_has_one_worker(scene: Scene) -> None:
    queue = scene.queue(exclusive=True)
    for _ in range(2):
        scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("falling_behind", "groups", proves=("groups",))
def groups_stay_with_the_first(scene: Scene) -> None:
    """20 groups, three further consumers: what has groups goes on to the one that came first."""
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, credit=1000, work=0.2)
    producer = scene.open(AmqpProducer, queue, client="producer")
    for group in range(20):
        producer.send(5, group_id=f"g{group}")
    for _ in range(3):
        scene.open(AmqpConsumer, queue, credit=1000, work=0.2)
    scene.begin()
    while scene.wait(1):
        for group in range(20):
            producer.send(group_id=f"g{group}")


@situation("falling_behind", "selector")
def selectors_leave_the_rest(scene: Scene) -> None:
    queue = scene.queue()
    producer = scene.open(AmqpProducer, queue, client="producer")
    for _ in range(2):
        scene.open(AmqpConsumer, queue, selector="kind = 'one'")
    scene.begin()
    while scene.wait(1):
        producer.send(1, properties={"kind": "one"})
        producer.send(9, properties={"kind": "other"})


@situation("falling_behind", "max_consumers", proves=("max_consumers",))
def no_more_consumers_are_let_in(scene: Scene) -> None:
    queue = scene.queue(max_consumers=1)
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("falling_behind", "holders", proves=("holders",))
def one_of_two_holds(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=20)
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)
