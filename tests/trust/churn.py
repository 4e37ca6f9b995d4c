"""Queues and clients that come and go on real brokers, under names that never come again."""

import contextlib
import itertools
import random
import threading
from collections import deque
from typing import Self

from penstock_demo.broker import Broker, Endpoint
from penstock_demo.errors import DemoError
from penstock_demo.load import StompConsumer, StompProducer
from penstock_demo.openmq import GUEST, OpenMQBroker
from rig.drivers import AmqpHolder, ClientError
from rig.waiting import rhythm

QUEUES = 40
CONSUMERS = 12
NAMES = 20
TROUBLE = (DemoError, ClientError, OSError)
SENTINEL = "sentinel"
HELD = 7
"""A queue that nobody reads, and its messages: what is shown of it is this or nothing."""


class Churn:
    """On one broker, in a thread of its own; a context manager. A broker that does not answer costs a turn."""

    def __init__(self, broker: Broker, seed: int, *, pause: float = 0.5) -> None:
        self.made = 0
        self._broker = broker
        self._dice = random.Random(seed)  # noqa: S311 - the same load for the same seed
        self._numbers = itertools.count()
        self._queues: deque[str] = deque()
        self._consumers: deque[StompConsumer | AmqpHolder] = deque()
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(pause,), name=f"churn {broker.name}", daemon=True
        )

    def __enter__(self) -> Self:
        with StompProducer(
            self.endpoint, self.destination(SENTINEL), routing_type=self.routing
        ) as producer:
            producer.send(HELD)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)
        while self._consumers:
            self._drop()

    @property
    def endpoint(self) -> Endpoint:
        return self._broker.endpoint()

    routing = "ANYCAST"

    def destination(self, queue: str) -> str:
        return queue

    def _run(self, pause: float) -> None:
        steps = [self._create, self._create, self._delete, self._consume, self._produce]
        for _ in rhythm(pause, self._ending):
            with contextlib.suppress(*TROUBLE):
                self._dice.choice(steps)()
            if len(self._consumers) > CONSUMERS:
                self._drop()

    def _create(self) -> None:
        name = f"churn.{next(self._numbers)}"
        self.create(name)
        self._queues.append(name)
        self.made += 1
        if len(self._queues) > QUEUES:
            self._delete()

    def _delete(self) -> None:
        if self._queues:
            self.delete(self._queues.popleft())

    def _consume(self) -> None:
        if self._queues:
            self._consumers.append(
                self.consume(
                    self._dice.choice(self._queues), self._dice.randrange(NAMES)
                )
            )

    def _produce(self) -> None:
        if self._queues:
            destination = self.destination(self._dice.choice(self._queues))
            with StompProducer(
                self.endpoint, destination, routing_type=self.routing
            ) as producer:
                producer.send(self._dice.randint(1, 20))

    def _drop(self) -> None:
        with contextlib.suppress(*TROUBLE):
            self._consumers.popleft().drop()

    def create(self, name: str) -> None:
        self._broker.manage.create_queue(name, max_consumers=-1)

    def delete(self, name: str) -> None:
        self._broker.manage.destroy_queue(name)

    def consume(self, queue: str, number: int) -> StompConsumer | AmqpHolder:
        if number % 4 == 0:
            return AmqpHolder(
                self.endpoint, credit=5, client_id=f"temporary-{number}", temporary=True
            )
        return StompConsumer(
            self.endpoint,
            queue,
            client_id=f"client-{number}",
            acknowledge=number % 2 == 0,
            work=0.05,
        )


class OpenMQChurn(Churn):
    """OpenMQ makes a queue when it is used, and removes it when it was not used for two minutes."""

    routing = ""

    def __init__(self, broker: OpenMQBroker, seed: int, *, pause: float = 2.0) -> None:
        super().__init__(broker, seed, pause=pause)
        self._at = Endpoint(broker.host, broker.stomp_port, GUEST)

    @property
    def endpoint(self) -> Endpoint:
        return self._at

    def destination(self, queue: str) -> str:
        return f"/queue/{queue.replace('.', '_')}"

    def create(self, name: str) -> None:
        with StompProducer(
            self._at, self.destination(name), routing_type=""
        ) as producer:
            producer.send(1)

    def delete(self, name: str) -> None:
        """Read empty: the broker keeps what has messages, and would have ever more queues."""
        at = self.destination(name)
        self._consumers.append(
            StompConsumer(self._at, at, routing_type="", acknowledge=True, work=0.0)
        )

    def consume(self, queue: str, number: int) -> StompConsumer:
        acknowledge = number % 2 == 0
        return StompConsumer(
            self._at,
            self.destination(queue),
            routing_type="",
            acknowledge=acknowledge,
            work=0.05,
        )
