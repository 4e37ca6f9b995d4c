"""The demo's scenario: a broker with four healthy flows and three faults worth finding."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock_demo.artemis import VERSION, ArtemisBroker
from penstock_demo.load import OpenTransaction, StompConsumer, StompProducer

EXPORTER = "exporter"
"""The broker's account that may read and nothing else."""
_RING = 100


@dataclass(frozen=True, slots=True)
class Flow:
    """A queue with one producer (messages a second) and its consumers, each needing `work` seconds a message."""

    queue: str
    producer: str
    rate: float
    consumer: str
    consumers: int
    work: float


_HEALTHY = (
    Flow("orders", "web-shop", 20, "order-service", 2, 0.02),
    Flow("payments", "order-service", 10, "billing-service", 1, 0.02),
    Flow("shipments", "billing-service", 5, "warehouse-service", 1, 0.05),
    Flow("emails", "order-service", 8, "mail-service", 1, 0.01),
)
_USERS = (
    "web-shop",
    "order-service",
    "billing-service",
    "warehouse-service",
    "mail-service",
    "stock-service",
    "audit-service",
    "ledger-service",
)


@dataclass(frozen=True, slots=True)
class Highlight:
    """One thing to look at: what was set up, the queue and client it shows on, and what is to be seen."""

    what: str
    queue: str
    client: str
    expect: str


class Scenario:
    """
    A real Artemis under `directory` (a temporary one unless given) with clients; `start`, then `stop`, or `with`.

    What is healthy flows at once; the faults show as soon as a poll has seen them twice.
    """

    product = "Apache Artemis"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        keep: bool = False,
        version: str = VERSION,
    ) -> None:
        self.broker: ArtemisBroker
        self.directory = directory
        self._keep = keep or directory is not None
        self._version = version
        self._running = ExitStack()

    def start(self) -> None:
        """Start broker, healthy clients and faults; a DemoError says what is missing, and nothing is left running."""
        with ExitStack() as starting:
            folder = self.directory = self.directory or Path(
                tempfile.mkdtemp(prefix="penstock-demo-")
            )
            if not self._keep:
                starting.callback(shutil.rmtree, folder, ignore_errors=True)
            self.broker = ArtemisBroker.create(
                folder / "broker",
                version=self._version,
                name="demo",
                users=_USERS,
                read_only_user=EXPORTER,
            )
            starting.callback(self.broker.stop)
            self.broker.start()
            for flow in _HEALTHY:
                self._healthy(flow, starting)
            self._faults(starting)
            self._running = starting.pop_all()

    def stop(self) -> None:
        """End clients and broker; the folder goes too unless it was given or is to be kept."""
        self._running.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

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
                f"a ring queue of {_RING} messages without a consumer",
                "audit.ring",
                "",
                "ring_losing, at once; mq_queue_messages_evicted_total counts what no broker counts",
            ),
            Highlight(
                "a transaction that is never committed",
                "invoices",
                "ledger-service",
                "open_transaction, after about 1 min",
            ),
        ]

    def config_yaml(self, *, interval: str = "5s") -> str:
        """The agent's configuration; it holds the exporter's password, so write it to a file only you can read."""
        broker = {
            "name": self.broker.name,
            "kind": "artemis",
            "url": self.broker.jolokia_url,
            "username": EXPORTER,
            "password": self.broker.accounts[EXPORTER].password,
            "origin": self.broker.origin,
        }
        rows = [f"    {key}: {json.dumps(value)}" for key, value in broker.items()]
        top = [f"interval: {interval}", "judgement: {cold: 45s}"]
        return "\n".join([*top, "brokers:", "  -" + rows[0][3:], *rows[1:], ""])

    def _faults(self, starting: ExitStack) -> None:
        """Three, from the start on."""
        assert self.directory is not None  # noqa: S101 - it has started
        self._holder(starting)
        self._ring(starting)
        self._open_transaction(self.directory, starting)

    def _healthy(self, flow: Flow, starting: ExitStack) -> None:
        self.broker.manage.create_queue(flow.queue)
        for _ in range(flow.consumers):
            endpoint = self.broker.endpoint(flow.consumer)
            starting.enter_context(
                StompConsumer(
                    endpoint, flow.queue, client_id=flow.consumer, work=flow.work
                )
            )
        self._produce(flow.queue, flow.producer, flow.rate, starting)

    def _holder(self, starting: ExitStack) -> None:
        self.broker.manage.create_queue("stock.updates")
        endpoint = self.broker.endpoint("stock-service")
        starting.enter_context(
            StompConsumer(
                endpoint, "stock.updates", client_id="stock-service", acknowledge=False
            )
        )
        self._produce("stock.updates", "warehouse-service", 5, starting)

    def _ring(self, starting: ExitStack) -> None:
        self.broker.manage.create_queue("audit.ring", ring_size=_RING)
        self._produce("audit.ring", "web-shop", 20, starting)

    def _open_transaction(self, folder: Path, starting: ExitStack) -> None:
        self.broker.manage.create_queue("invoices")
        endpoint = self.broker.endpoint("ledger-service")
        starting.enter_context(
            OpenTransaction(endpoint, "invoices", folder, client_id="ledger-service")
        )
        self._produce("invoices", "billing-service", 3, starting)

    def _produce(
        self, queue: str, client: str, rate: float, starting: ExitStack
    ) -> None:
        endpoint = self.broker.endpoint(client)
        starting.enter_context(StompProducer(endpoint, queue, client_id=client)).run(
            rate
        )
