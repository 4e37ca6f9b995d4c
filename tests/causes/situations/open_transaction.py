"""Acknowledgements and sends that wait for a commit."""

from causes.situations.register import begins, situation
from flowbench.scene import Scene
from rig.drivers import AmqpTransaction


@situation(
    "open_transaction",
    "never_commits",
    "acknowledges_one_by_one",
    proves=("acknowledges_one_by_one",),
)
def core_transaction_with_a_batch_of_none(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0, url="transactionBatchSize=0")
    begins(scene, queue, 5)


@situation("open_transaction", "never_commits")
def core_transaction_beyond_a_batch(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0)
    begins(scene, queue, 50, 1000)


@situation("open_transaction", "never_acknowledges")
def core_client_acknowledge_beyond_a_batch(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="client", batch=0)
    begins(scene, queue, 50, 1000)


@situation("open_transaction", "listener_hangs", "acknowledges_one_by_one")
def core_hangs_within_a_transaction(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(
        queue, mode="transacted", batch=0, stuck_after=50, url="transactionBatchSize=0"
    )
    begins(scene, queue)


@situation("open_transaction", "never_commits", proves=())
def amqp_never_commits(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpTransaction, queue, credit=30)
    begins(scene, queue)
