"""
Two hours of mixed healthy load on a real broker, `make soak-healthy`: any warning or critical condition is a false one.

Rhythms fit the poll interval exactly, consumers live between two polls, one message in a hundred fails.
"""

import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proton import Delivery

from flowbench.core import CoreClient, CoreProcess
from flowbench.observer import Observer
from penstock.demo.artemis import ArtemisBroker
from penstock.demo.broker import Broker, Endpoint
from penstock.demo.errors import DemoError
from penstock.flow.events import Change, Event
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, ClientError, Counts, StompConsumer, StompProducer
from rig.waiting import rhythm

CYCLES_APART = 2
"""A batch whose pause is longer than the cold patience teaches it by its first cycles: what is told then is apart."""


@dataclass(slots=True)
class Load:
    """What runs, and what its clients know of it."""

    broker: Broker
    core: CoreProcess
    dice: random.Random
    running: ExitStack
    ending: threading.Event = field(default_factory=threading.Event)
    done: dict[str, list[Counts]] = field(default_factory=dict)
    """Counts of the Python clients, by queue."""
    rounds: Counter[str] = field(default_factory=Counter)
    """How often a rhythm has come round, by queue."""
    troubles: list[str] = field(default_factory=list)
    core_clients: list[CoreClient] = field(default_factory=list)

    @property
    def endpoint(self) -> Endpoint:
        return self.broker.endpoint()

    def client(self, queue: str, make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        client = self.running.enter_context(make(self.endpoint, *arguments, **options))
        self.done.setdefault(queue, []).append(client.counts)
        return client

    def jms(self, queue: str, **options: Any) -> None:
        client = self.core.open(self.endpoint, queue, client_id=queue, **options)
        self.core_clients.append(self.running.enter_context(client))

    def failed(self) -> int:
        """Messages that were given back."""
        python = sum(counts.returned for all_of in self.done.values() for counts in all_of)
        return python + sum(int(client.counts()["returned"]) for client in self.core_clients)

    def produce(self, queue: str, rate: float) -> None:
        maker = self.dice.choice([AmqpProducer, StompProducer])
        self.client(queue, maker, queue, client_id=f"{queue}.producer").run(rate)

    def every(self, queue: str, seconds: float, work: Callable[[], None]) -> None:
        """Do `work` at this rhythm until the end, in a thread of its own."""

        def run() -> None:
            for _ in rhythm(seconds, self.ending):
                try:
                    work()
                except (DemoError, ClientError, OSError) as error:
                    self.troubles.append(f"{queue}: {error}")
                else:
                    self.rounds[queue] += 1

        thread = threading.Thread(target=run, name=f"soak {queue}", daemon=True)
        thread.start()
        self.running.callback(thread.join, 30)


def steady(load: Load, queue: str) -> None:
    load.produce(queue, load.dice.uniform(1, 10))
    for _ in range(load.dice.randint(1, 3)):
        load.client(queue, AmqpConsumer, queue, credit=10, work=0.02, client_id=f"{queue}.consumer")


def quiet(load: Load, queue: str) -> None:
    load.produce(queue, 0.02)
    load.client(queue, StompConsumer, queue, client_id=f"{queue}.consumer")


def bursts(seconds: float, count: int) -> Callable[[Load, str], None]:
    """`count` messages come at once every so often, and are worked off at leisure."""

    def scenario(load: Load, queue: str) -> None:
        producer = load.client(queue, AmqpProducer, queue, client_id=f"{queue}.producer")
        load.client(queue, AmqpConsumer, queue, credit=20, work=seconds / count / 3, client_id=f"{queue}.consumer")
        load.every(queue, seconds, lambda: producer.send(count))

    return scenario


def visits(seconds: float, rate: float) -> Callable[[Load, str], None]:
    """A consumer that comes at a rhythm, takes what is there and goes after a fifth of a second."""

    def scenario(load: Load, queue: str) -> None:
        load.produce(queue, rate)
        done = load.done.setdefault(queue, [])

        def visit() -> None:
            with AmqpConsumer(load.endpoint, queue, credit=1000, client_id=f"{queue}.visitor") as consumer:
                time.sleep(0.2)
            done.append(consumer.counts)

        load.every(queue, seconds, visit)

    return scenario


def commits(seconds: float, rate: float) -> Callable[[Load, str], None]:
    """A JMS client that commits what has come at a rhythm."""

    def scenario(load: Load, queue: str) -> None:
        load.produce(queue, rate)
        load.jms(queue, mode="transacted", commit_ms=int(seconds * 1000))

    return scenario


def failing_rollback(load: Load, queue: str) -> None:
    """One message in a hundred is rolled back and succeeds later."""
    load.broker.manage.add_settings(queue, redeliveryDelay=200, maxDeliveryAttempts=10)
    load.produce(queue, 8)
    load.jms(queue, mode="transacted", returns=0.01, url="consumerWindowSize=0")


def failing_release(load: Load, queue: str) -> None:
    """The same of an AMQP client, which releases."""
    load.produce(queue, 8)
    load.client(queue, Failing, queue, credit=5, share=0.01, dice=load.dice, client_id=f"{queue}.consumer")


class Failing(AmqpConsumer):
    """Gives a share of the messages back."""

    def __init__(self, *arguments: Any, share: float, dice: random.Random, **options: Any) -> None:
        self._share, self._dice = share, dice
        super().__init__(*arguments, **options)

    def arrived(self) -> None:
        if self._dice.random() >= self._share:
            return super().arrived()
        self._update(1, Delivery.RELEASED)
        self._link.flow(1)
        return None


def jobs(seconds: float, consumers: int) -> Callable[[Load, str], None]:
    """A pool of clients that need minutes for a message."""

    def scenario(load: Load, queue: str) -> None:
        load.produce(queue, 0.9 * consumers / seconds)
        for _ in range(consumers):
            load.client(queue, AmqpConsumer, queue, credit=1, work=seconds, client_id=f"{queue}.worker")

    return scenario


def ring(load: Load, queue: str) -> None:
    """A ring that is full by design, read now and then."""
    load.broker.manage.create_queue(queue, ring_size=50)
    visits(60, 5)(load, queue)


def pull(load: Load, queue: str) -> None:
    load.produce(queue, 1)
    load.jms(queue, pull_ms=20_000)


def standby(load: Load, queue: str) -> None:
    load.broker.manage.create_queue(queue, exclusive=True)
    load.produce(queue, 4)
    for _ in range(3):
        load.client(queue, AmqpConsumer, queue, credit=10, work=0.05, client_id=f"{queue}.consumer")


def replies(load: Load, queue: str) -> None:
    """Many clients with selectors on one queue of replies."""
    producer = load.client(queue, AmqpProducer, queue, client_id=f"{queue}.server")
    names = [f"c{number}" for number in range(4)]
    for name in names:
        load.client(queue, AmqpConsumer, queue, credit=5, selector=f"who = '{name}'", client_id=f"{queue}.{name}")
    load.every(queue, 1.0, lambda: producer.send(properties={"who": load.dice.choice(names)}))


def per_message(load: Load, queue: str) -> None:
    """A consumer for each message."""
    load.produce(queue, 2)
    done = load.done.setdefault(queue, [])

    def one() -> None:
        with AmqpHolder(load.endpoint, queue, credit=1, client_id=f"{queue}.consumer") as consumer:
            deadline = time.monotonic() + 2
            while not consumer.counts.received and time.monotonic() < deadline:
                time.sleep(0.01)
            consumer.acknowledge(consumer.counts.received)
        done.append(consumer.counts)

    load.every(queue, 0.4, one)


def idle(load: Load, queue: str) -> None:
    load.client(queue, AmqpConsumer, queue, credit=10, client_id=f"{queue}.consumer")


SCENARIOS: dict[str, Callable[[Load, str], None]] = {
    "steady-1": steady,
    "steady-2": steady,
    "quiet": quiet,
    "idle": idle,
    "burst-5s": bursts(5, 20),
    "burst-20s": bursts(20, 40),
    "burst-60s": bursts(60, 120),
    "visit-5s": visits(5, 3),
    "visit-20s": visits(20, 3),
    "visit-60s": visits(60, 3),
    "commit-20s": commits(20, 3),
    "commit-60s": commits(60, 3),
    "fail-rollback": failing_rollback,
    "fail-release": failing_release,
    "jobs-3min": jobs(180, 1),
    "pool-3min": jobs(180, 15),
    "ring": ring,
    "pull-20s": pull,
    "standby": standby,
    "replies": replies,
    "per-message": per_message,
    "batch-10min": visits(600, 0.5),
}
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
            if name not in ("ring", "standby"):
                broker.manage.create_queue(queue)
            SCENARIOS[name](load, queue)
        yield load, queues


def alarms(events: list[Event], began: float) -> Iterator[Event]:
    """Warnings and criticals; of a batch only after its first cycles."""
    for event in events:
        if event.change not in (Change.CONDITION_ON, Change.SEVERITY) or event.severity == "info":
            continue
        apart = [seconds for name, seconds in BATCHES.items() if event.queue.endswith(f".{name}")]
        if not apart or event.time > began + CYCLES_APART * apart[0]:
            yield event


def main(duration: float, seed: int, interval: str) -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as scratch:
        folder = Path(scratch)
        with running(folder, seed) as (load, queues):
            began = time.time()
            entry = _entry(load.broker)
            with Observer(folder / "agent", brokers=[entry], interval=interval) as observer:
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


def _entry(broker: Broker) -> dict[str, Any]:
    account = broker.accounts["exporter"]
    return {
        "name": broker.name,
        "kind": "artemis",
        "url": broker.jolokia_url,
        "username": account.user,
        "password": account.password,
        "origin": broker.origin,
    }


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
