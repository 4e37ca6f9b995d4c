"""Healthy load: what runs on a queue, and what its clients know of it. Each kind of load is one small function."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proton import Delivery

from flowbench.core import CoreClient, CoreProcess
from penstock_demo.broker import Broker, Endpoint
from penstock_demo.errors import DemoError
from rig.drivers import (
    AmqpConsumer,
    AmqpHolder,
    AmqpProducer,
    ClientError,
    Counts,
    StompConsumer,
    StompProducer,
)
from rig.waiting import rhythm


class Flow(NamedTuple):
    """Of a queue: messages that came, messages that left, how often its rhythm came round."""

    came: int
    settled: int
    rounds: int


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

    def client(
        self, queue: str, make: Callable[..., Any], *arguments: Any, **options: Any
    ) -> Any:
        client = self.running.enter_context(make(self.endpoint, *arguments, **options))
        self.done.setdefault(queue, []).append(client.counts)
        return client

    def jms(self, queue: str, **options: Any) -> None:
        client = self.core.open(self.endpoint, queue, client_id=queue, **options)
        self.core_clients.append(self.running.enter_context(client))

    def failed(self) -> int:
        """Messages that were given back."""
        python = sum(
            counts.returned for all_of in self.done.values() for counts in all_of
        )
        return python + sum(
            int(client.counts()["returned"]) for client in self.core_clients
        )

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
    """An even flow, one to three consumers."""
    load.produce(queue, load.dice.uniform(1, 10))
    for _ in range(load.dice.randint(1, 3)):
        load.client(
            queue,
            AmqpConsumer,
            queue,
            credit=10,
            work=0.02,
            client_id=f"{queue}.consumer",
        )


def quiet(load: Load, queue: str) -> None:
    """A message a minute."""
    load.produce(queue, 0.02)
    load.client(queue, StompConsumer, queue, client_id=f"{queue}.consumer")


def bursts(seconds: float, count: int) -> Callable[[Load, str], None]:
    """`count` messages come at once every so often, and are worked off at leisure."""

    def scenario(load: Load, queue: str) -> None:
        producer = load.client(
            queue, AmqpProducer, queue, client_id=f"{queue}.producer"
        )
        load.client(
            queue,
            AmqpConsumer,
            queue,
            credit=20,
            work=seconds / count / 3,
            client_id=f"{queue}.consumer",
        )
        load.every(queue, seconds, lambda: producer.send(count))

    return scenario


def visits(seconds: float, rate: float) -> Callable[[Load, str], None]:
    """A consumer that comes at a rhythm, takes what is there and goes after a fifth of a second."""

    def scenario(load: Load, queue: str) -> None:
        load.produce(queue, rate)
        done = load.done.setdefault(queue, [])

        def visit() -> None:
            with AmqpConsumer(
                load.endpoint, queue, credit=1000, client_id=f"{queue}.visitor"
            ) as consumer:
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
    load.client(
        queue,
        Failing,
        queue,
        credit=5,
        share=0.01,
        dice=load.dice,
        client_id=f"{queue}.consumer",
    )


class Failing(AmqpConsumer):
    """Gives a share of the messages back."""

    def __init__(
        self, *arguments: Any, share: float, dice: random.Random, **options: Any
    ) -> None:
        self._share = share
        self._dice = dice
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
            load.client(
                queue,
                AmqpConsumer,
                queue,
                credit=1,
                work=seconds,
                client_id=f"{queue}.worker",
            )

    return scenario


def pull(load: Load, queue: str) -> None:
    """A client that asks now and then, and takes what is there."""
    load.produce(queue, 1)
    load.jms(queue, pull_ms=20_000)


def standby(load: Load, queue: str) -> None:
    """Several consumers of an exclusive queue: all but one have nothing."""
    load.produce(queue, 4)
    for _ in range(3):
        load.client(
            queue,
            AmqpConsumer,
            queue,
            credit=10,
            work=0.05,
            client_id=f"{queue}.consumer",
        )


def replies(load: Load, queue: str) -> None:
    """Many clients with selectors on one queue of replies."""
    producer = load.client(queue, AmqpProducer, queue, client_id=f"{queue}.server")
    names = [f"c{number}" for number in range(4)]
    for name in names:
        load.client(
            queue,
            AmqpConsumer,
            queue,
            credit=5,
            selector=f"who = '{name}'",
            client_id=f"{queue}.{name}",
        )
    load.every(
        queue, 1.0, lambda: producer.send(properties={"who": load.dice.choice(names)})
    )


def per_message(load: Load, queue: str) -> None:
    """A consumer for each message."""
    load.produce(queue, 2)
    done = load.done.setdefault(queue, [])

    def one() -> None:
        with AmqpHolder(
            load.endpoint, queue, credit=1, client_id=f"{queue}.consumer"
        ) as consumer:
            deadline = time.monotonic() + 2
            while not consumer.counts.received and time.monotonic() < deadline:
                time.sleep(0.01)
            consumer.acknowledge(consumer.counts.received)
        done.append(consumer.counts)

    load.every(queue, 0.4, one)


def idle(load: Load, queue: str) -> None:
    """A consumer that nothing comes for."""
    load.client(queue, AmqpConsumer, queue, credit=10, client_id=f"{queue}.consumer")
