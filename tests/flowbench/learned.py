"""
Faults of clients whose patience was learned before, from a state file that `python -m flowbench.learned` makes.

Their queues have the same names in every run, for it is by names that patience is kept.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from e2e.agent import entry
from flowbench.core import CoreProcess
from flowbench.observer import Observer
from flowbench.scene import SCENARIOS, Place, Scene, Within, scenario, stage
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.packed import compressed, decompressed, unpack
from penstock_demo.artemis import ArtemisBroker
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, AmqpTransaction

FIXTURE = Path(__file__).with_name("learned.bin")
SECONDS = 260.0
"""Of the learning run: over 700 gaps of each client."""
JOB = 10.0


class Wedging(AmqpConsumer):
    """Settles as it should until `wedged` is set."""

    wedged = False

    def _next(self) -> None:
        if not self.wedged:
            super()._next()


def pool(
    scene: Scene, count: int, work: float, make: Callable[..., Any] = AmqpConsumer
) -> tuple[str, list[Any]]:
    """So many consumers of a queue that has enough for all of them."""
    queue = scene.queue(name=f"learned.{scene.scenario.name}")
    consumers = [scene.open(make, queue, credit=2, work=work) for _ in range(count)]
    scene.open(AmqpProducer, queue, client="producer").run(0.95 * count / work)
    return queue, consumers


def left_by_its_pool(scene: Scene) -> str:
    """A queue whose three consumers worked for a while and are gone."""
    queue, consumers = pool(scene, 3, 0.5)
    scene.wait(scene.dice.uniform(20, 60))
    for consumer in consumers:
        consumer.close()
    return queue


def cold_would_be_late(scene: Scene) -> None:
    """To the end of the run; what was learned is below the cold patience, else this says nothing."""
    scene.attest(
        "patience was learned",
        scene.poller.assessor.view is not None and scene.patience() < scene.cold,
    )


@scenario(Place.LEARNED, also=("falling_behind",), stalled=Within.PATIENCE)
def learned_one_of_six_wedged(scene: Scene) -> None:
    _, consumers = pool(scene, 6, 0.5, Wedging)
    scene.wait(scene.dice.uniform(20, 60))
    consumers[0].wedged = True
    scene.begin(at=consumers[0].counts.last_ack)
    scene.rest()
    cold_would_be_late(scene)
    scene.attest("the others work", consumers[1].counts.last_ack > time.time() - 20)


@scenario(Place.LEARNED, stalled=Within.PATIENCE)
def learned_never_acknowledges(scene: Scene) -> None:
    queue = left_by_its_pool(scene)
    holder = scene.open(AmqpHolder, queue, credit=10)
    scene.until("it holds messages", lambda: holder.counts.received > 0)
    scene.begin()
    scene.rest()
    cold_would_be_late(scene)
    scene.attest("it settled nothing", holder.counts.acknowledged == 0)


@scenario(Place.LEARNED, open_transaction=Within.PATIENCE)
def learned_open_transaction(scene: Scene) -> None:
    queue = left_by_its_pool(scene)
    client = scene.open(AmqpTransaction, queue, credit=10)
    scene.until("it has acknowledged", lambda: client.counts.uncommitted > 0)
    scene.begin()
    scene.rest()
    cold_would_be_late(scene)
    scene.attest("nothing was committed", client.counts.acknowledged == 0)


@scenario(Place.LEARNED)
def learned_jobs(scene: Scene) -> None:
    """Healthy: the jobs take what they always took."""
    _, consumers = pool(scene, 6, JOB)
    scene.rest()
    cold_would_be_late(scene)
    scene.attest(
        "jobs were done", sum(one.counts.acknowledged for one in consumers) > 20
    )


def memory() -> Checkpoint:
    """What the learning run has left; ValueError when the format of checkpoints has changed since: learn anew."""
    return unpack(decompressed(FIXTURE.read_bytes()), Checkpoint)


def main() -> int:
    """Learn, with many consumers of each client and a poll a second, and write the fixture."""
    lessons = {
        "learned-one-of-six-wedged": 0.5,
        "learned-never-acknowledges": 0.5,
        "learned-open-transaction": 0.5,
        "learned-jobs": JOB,
    }
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-learn-"))
        )
        broker = ArtemisBroker.create(
            folder / "broker", name="learned", read_only_user="exporter"
        )
        stack.callback(broker.kill)
        broker.start()
        core = stack.enter_context(CoreProcess(folder / "core"))
        observer = stack.enter_context(
            Observer(folder / "agent", brokers=[entry(broker)], interval="1s")
        )
        ending = threading.Event()
        stack.callback(ending.set)
        for name, work in lessons.items():
            load = stage(broker, core, 0, name, ending)
            stack.enter_context(load.running)
            pool(
                Scene(SCENARIOS[name], load, observer, 1.0, 300.0),
                8 if work < 1 else 40,
                work,
            )
        time.sleep(SECONDS)
        (learned,) = observer.memories()
    # Only what was taught: nothing that is of this one broker.
    FIXTURE.write_bytes(compressed(Checkpoint("learned", 0.0, clients=learned.clients)))
    for client, q98, longest in zip(
        learned.clients.names, learned.clients.q98, learned.clients.longest, strict=True
    ):
        print(f"{client}: 98 % of gaps below {q98:.1f} s, longest {longest:.1f} s")  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main())
