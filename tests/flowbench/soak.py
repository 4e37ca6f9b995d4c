"""
Two hours of mixed healthy load on a real broker, `make soak-healthy`: any warning or critical condition is a false one.

Rhythms fit the poll interval exactly, consumers live between two polls, one message in a hundred fails.
"""

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from e2e.agent import entry
from flowbench import loads
from flowbench.core import CoreProcess
from flowbench.loads import Load
from flowbench.observer import Observer
from penstock.demo.artemis import ArtemisBroker
from penstock.flow.events import Change, Event
from rig.waiting import rhythm

CYCLES_APART = 2
"""A batch whose pause is longer than the cold patience teaches it by its first cycles: what is told then is apart."""


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
OPTIONS: dict[str, dict[str, Any]] = {"ring": {"ring_size": 50}, "standby": {"exclusive": True}}
"""Of their queues."""
BATCHES = {"batch-10min": 600.0}
"""Queues whose rhythm is longer than the cold patience, and its length in seconds."""


@contextmanager
def running(folder: Path, seed: int) -> Iterator[tuple[Load, dict[str, str]]]:
    """A broker with all of the load; the name of each scenario's queue."""
    dice = random.Random(seed)  # noqa: S311 - the same load for the same seed
    broker = ArtemisBroker.create(folder / "broker", name="soak", read_only_user="exporter")
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        load = Load(broker, stack.enter_context(CoreProcess(folder / "core")), dice, stack)
        stack.callback(load.ending.set)
        queues = {name: f"soak.{dice.randrange(10_000)}.{name}" for name in SCENARIOS}
        for name, queue in queues.items():
            broker.manage.create_queue(queue, **OPTIONS.get(name, {}))
            SCENARIOS[name](load, queue)
        yield load, queues


def alarms(events: list[Event], began: float) -> Iterator[Event]:
    """Warnings and criticals; of a batch only after its first cycles."""
    for event in events:
        if event.change not in (Change.CONDITION_ON, Change.SEVERITY) or event.severity == "info":
            continue
        apart = [seconds for name, seconds in BATCHES.items() if event.queue.endswith(f".{name}")]
        # A cycle goes from visit to visit: the first begins with the first of them.
        if not apart or event.time > began + (CYCLES_APART + 1.1) * apart[0]:
            yield event


def main(duration: float, seed: int, interval: str) -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as scratch:
        folder = Path(scratch)
        with running(folder, seed) as (load, queues):
            began = time.time()
            with Observer(folder / "agent", brokers=[entry(load.broker)], interval=interval) as observer:
                for _ in rhythm(60, load.ending):
                    lasted = time.time() - began
                    found = list(alarms(observer.events, began))
                    _say(f"{lasted:6.0f} s  false alarms {len(found)}  troubles {len(load.troubles)}")
                    if lasted >= duration:
                        break
            result = told(load, queues, observer, began)
    _say(json.dumps(result))
    return int(bool(result["false_alarms"] or result["idle_queues"]))


def told(load: Load, queues: dict[str, str], observer: Observer, began: float) -> dict[str, Any]:
    """A line a queue, and the sums."""
    found = list(alarms(observer.events, began))
    numbers = load.broker.manage
    flowed = {name: numbers.queue(queue, "MessagesAdded") for name, queue in queues.items()}
    settled = {name: numbers.queue(queue, "MessagesAcknowledged") for name, queue in queues.items()}
    for name, queue in queues.items():
        seen = Counter(f"{event.condition} ({event.severity})" for event in observer.told(queue))
        notes = ", ".join(f"{what} x{count}" for what, count in seen.items()) or "nothing"
        _say(f"{name:14} in {flowed[name]:7} settled {settled[name]:7} rounds {load.rounds[queue]:5}  {notes}")
    for event in found:
        _say(f"FALSE {event.time - began:6.0f} s {event.queue} {event.condition} {event.severity} {event.client}")
    for trouble in load.troubles[:10]:
        _say(f"trouble: {trouble}")
    return {
        "seconds": round(time.time() - began),
        "queues": len(queues),
        "messages": sum(flowed.values()),
        "given_back": load.failed(),
        "false_alarms": len(found),
        "idle_queues": [name for name in queues if name != "idle" and not settled[name]],
        "troubles": len(load.troubles),
    }


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
