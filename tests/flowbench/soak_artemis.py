"""Mixed healthy load on a real Artemis, by Core, AMQP and STOMP clients."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.agent import entry
from flowbench import loads
from flowbench.core import CoreProcess
from flowbench.loads import Flow, Load
from penstock_demo.artemis import ArtemisBroker

SCENARIOS: dict[str, Callable[[Load, str], None]] = {
    "steady-1": loads.steady,
    "steady-2": loads.steady,
    "quiet": loads.quiet,
    "idle": loads.idle,
    "burst-5s": loads.bursts(5, 20),
    "burst-20s": loads.bursts(20, 40),
    "burst-60s": loads.bursts(60, 120),
    "visit-5s": loads.visits(5, 3),
    "visit-20s": loads.visits(20, 3),
    "visit-60s": loads.visits(60, 3),
    "commit-20s": loads.commits(20, 3),
    "commit-60s": loads.commits(60, 3),
    "fail-rollback": loads.failing_rollback,
    "fail-release": loads.failing_release,
    "jobs-3min": loads.jobs(180, 1),
    "pool-3min": loads.jobs(180, 15),
    "ring": loads.visits(60, 5),
    "pull-20s": loads.pull,
    "standby": loads.standby,
    "replies": loads.replies,
    "per-message": loads.per_message,
    "batch-10min": loads.visits(600, 0.5),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "ring": {"ring_size": 50},
    "standby": {"exclusive": True},
}
"""Of their queues."""


@dataclass(frozen=True, slots=True)
class ArtemisSide:
    load: Load
    addresses: Mapping[str, str]

    @property
    def entry(self) -> dict[str, Any]:
        return entry(self.load.broker)

    def flows(self) -> dict[str, Flow]:
        numbers = self.load.broker.manage
        return {
            name: Flow(
                numbers.queue(queue, "MessagesAdded"),
                numbers.queue(queue, "MessagesAcknowledged"),
                self.load.rounds[queue],
            )
            for name, queue in self.addresses.items()
        }

    def returned(self) -> int:
        return self.load.failed()

    def troubles(self) -> list[str]:
        return self.load.troubles


@contextmanager
def running(folder: Path, seed: int) -> Iterator[ArtemisSide]:
    """A broker with all of the load."""
    dice = random.Random(seed)  # noqa: S311 - the same load for the same seed
    broker = ArtemisBroker.create(
        folder / "broker", name="artemis", read_only_user="exporter"
    )
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        load = Load(
            broker, stack.enter_context(CoreProcess(folder / "core")), dice, stack
        )
        stack.callback(load.ending.set)
        queues = {name: f"soak.{dice.randrange(10_000)}.{name}" for name in SCENARIOS}
        for name, queue in queues.items():
            broker.manage.create_queue(queue, **OPTIONS.get(name, {}))
            SCENARIOS[name](load, queue)
        yield ArtemisSide(load, queues)
