"""The demo's scenario on an OpenMQ or an ActiveMQ Classic: healthy flows, a consumer that acknowledges nothing, a queue
without a consumer.
"""

import json
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock_demo.broker import Broker, Endpoint
from penstock_demo.classic import ClassicBroker
from penstock_demo.load import StompConsumer, StompProducer
from penstock_demo.management import Account
from penstock_demo.openmq import GUEST, OpenMQBroker
from penstock_demo.run import Flow, Highlight

# One consumer each: one connection at a time may have a client id.
_HEALTHY = (
    Flow("orders", "web-shop", 20, "order-service", 1, 0.02),
    Flow("payments", "order-service", 10, "billing-service", 1, 0.02),
    Flow("emails", "order-service", 8, "mail-service", 1, 0.01),
)


class StompScenario(ABC):
    """A real broker with clients that speak STOMP; `start`, then `stop`. As `Scenario` is for Artemis."""

    product: str
    kind: str

    def __init__(self, *, keep: bool = False, read_only: bool = True) -> None:
        """`read_only`: Jolokia lets Penstock read and no one do more; else anyone do all."""
        self.broker: Any
        self.directory: Path | None = None
        self._keep = keep
        self._read_only = read_only
        self._running = ExitStack()

    @abstractmethod
    def create(self, directory: Path, *, read_only: bool) -> Broker: ...

    @abstractmethod
    def endpoint(self) -> Endpoint: ...

    def reader(self) -> Account:
        account: Account = self.broker.reader
        return account

    def start(self) -> None:
        """Start broker, healthy clients and faults; a DemoError says what is missing, and nothing is left running."""
        with ExitStack() as starting:
            folder = self.directory = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
            if not self._keep:
                starting.callback(shutil.rmtree, folder, ignore_errors=True)
            self.broker = self.create(folder / "broker", read_only=self._read_only)
            starting.callback(self.broker.stop)
            self.broker.start()
            for flow in _HEALTHY:
                self._consume(flow.queue, flow.consumer, starting, work=flow.work)
                self._produce(flow.queue, flow.producer, flow.rate, starting)
            self._consume("stock.updates", "stock-service", starting, acknowledge=False)
            self._produce("stock.updates", "warehouse-service", 5, starting)
            self._produce("invoices", "billing-service", 3, starting)
            self._running = starting.pop_all()

    def stop(self) -> None:
        """End clients and broker; the folder goes too unless it is to be kept."""
        self._running.close()

    def describe(self) -> Sequence[Highlight]:
        """Return the injected faults and what Penstock should say about them; the healthy part first."""
        healthy = [
            Highlight(
                f"{flow.rate:g} messages a second, all consumed",
                flow.queue,
                flow.consumer,
                "no condition",
            )
            for flow in _HEALTHY
        ]
        return [
            *healthy,
            Highlight(
                "a consumer that buffers messages and never acknowledges one",
                "stock.updates",
                "stock-service",
                "stalled, after about 1 min",
            ),
            Highlight(
                "messages come, and there is no consumer",
                "invoices",
                "",
                "no_consumer, after about 1 min",
            ),
        ]

    def config_yaml(self, *, interval: str = "5s") -> str:
        """The agent's configuration; it holds the account's password, so write it to a file only you can read."""
        reader = self.reader()
        broker = {
            "name": "demo",
            "kind": self.kind,
            "url": self.broker.jolokia_url,
            "username": reader.user,
            "password": reader.password,
        }
        return json.dumps(
            {"interval": interval, "judgement": {"cold": "45s"}, "brokers": [broker]}
        )  # JSON is YAML

    def _consume(
        self,
        queue: str,
        client: str,
        starting: ExitStack,
        *,
        work: float = 0.0,
        acknowledge: bool = True,
    ) -> None:
        starting.enter_context(
            StompConsumer(
                self.endpoint(),
                f"/queue/{queue}",
                client_id=client,
                routing_type="",
                work=work,
                acknowledge=acknowledge,
            )
        )

    def _produce(
        self, queue: str, client: str, rate: float, starting: ExitStack
    ) -> None:
        name = f"{client}-{queue.replace('.', '-')}"
        producer = StompProducer(
            self.endpoint(), f"/queue/{queue}", client_id=name, routing_type=""
        )
        starting.enter_context(producer).run(rate)


class OpenMQScenario(StompScenario):
    """On the STOMP bridge of an OpenMQ."""

    product = "Eclipse OpenMQ"
    kind = "openmq"

    def create(self, directory: Path, *, read_only: bool) -> Broker:
        return OpenMQBroker.create(directory, name="demo", read_only=read_only)

    def endpoint(self) -> Endpoint:
        return Endpoint(self.broker.host, self.broker.stomp_port, GUEST)


class ClassicScenario(StompScenario):
    product = "Apache ActiveMQ Classic"
    kind = "classic"

    def create(self, directory: Path, *, read_only: bool) -> Broker:
        return ClassicBroker.create(directory, name="demo", read_only=read_only)

    def endpoint(self) -> Endpoint:
        endpoint: Endpoint = self.broker.stomp()
        return endpoint
