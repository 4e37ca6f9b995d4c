"""Chains of roots and victims on a real Artemis: clients that stop when they are told to, and the incidents told."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from proton import Delivery, Link, Message, Sender

from e2e.agent import entry
from flowbench.observer import Observer
from penstock.incidents.incident import Incident
from penstock.insight.explain import incidents_in_full
from penstock.insight.text import incident_lines
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker, Endpoint
from rig.drivers import AmqpHolder, AmqpProducer
from rig.waiting import eventually

INTERVAL = 2.0
LASTS = 4 * INTERVAL


def few_credits(text: str) -> str:
    """broker.xml with so few credits for AMQP producers that they wait soon after their address is full."""
    return re.sub(
        r"amqpCredits=\d+;amqpLowCredits=\d+", "amqpCredits=10;amqpLowCredits=5", text
    )


class Reader(AmqpHolder):
    """Consumes several queues on one session, acknowledges each message at once, and answers each to `reply`, if given,
    before that. `frozen`: it takes what comes and does nothing more.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        queues: Sequence[str],
        *,
        reply: str = "",
        **options: Any,
    ) -> None:
        self.frozen = False
        self._queues = queues
        self._reply = reply
        self._sender = cast("Sender | None", None)
        super().__init__(endpoint, queues[0], credit=100, **options)

    def attach(self) -> Link:
        first = super().attach()
        for name in self._queues[1:]:
            self._container.create_receiver(
                self._connection, name, options=self._options
            ).flow(100)
        if self._reply:
            self._sender = self._container.create_sender(self._connection, self._reply)
        return first

    def arrived(self) -> None:
        while (
            self._held
            and not self.frozen
            and (self._sender is None or self._sender.credit > 0)
        ):
            if self._sender is not None:
                self._sender.send(Message("r" * 2000, durable=True))
            self._held[0].link.flow(1)
            self._update(1, Delivery.ACCEPTED)

    def on_sendable(self, _event: Any) -> None:
        self.arrived()


@contextmanager
def watched(broker: Broker, folder: Path) -> Iterator["Watch"]:
    """An agent beside the broker that needs 10 s to see that a client stalls."""
    judgement = {"cold": "10s", "floor": "10s", "trend": "60s"}
    with Observer(
        folder, brokers=[entry(broker)], interval=f"{INTERVAL:g}s", judgement=judgement
    ) as observer:
        yield Watch(observer, broker.name)


class Watch:
    def __init__(self, observer: Observer, broker: str) -> None:
        self.observer = observer
        self._broker = broker

    def incidents(self, part: str) -> list[Incident]:
        """Those in which this part of a name appears."""
        judgement = self.observer.pollers[self._broker].assessor.state.judgement
        return [
            one
            for one in judgement.incidents.told
            if part in repr((one.object, one.members, one.title))
        ]

    def one(
        self, part: str, fits: Callable[[Incident], object], within: float
    ) -> Incident:
        """The only incident that has to do with `part`, once it fits, and still some polls later; fails with what is
        told instead.
        """
        deadline = time.monotonic() + within
        found = list[Incident]()
        since = np.inf
        while time.monotonic() < deadline + LASTS:
            found = self.incidents(part)
            since = (
                min(since, time.monotonic())
                if len(found) == 1 and fits(found[0])
                else np.inf
            )
            if time.monotonic() - since >= LASTS:
                self.show(found)
                return found[0]
            time.sleep(0.2)
        raise AssertionError(
            "\n".join(["told instead:", *incident_lines(found, time.time())])
        )

    def show(self, found: Sequence[Incident]) -> None:
        """For whoever reads the run."""
        view = self.observer.pollers[self._broker].assessor.view
        shown = found if view is None else incidents_in_full(view, found)
        print("\n" + "\n".join(incident_lines(shown, time.time())))  # noqa: T201

    def gone(self, part: str, within: float = 30.0) -> None:
        deadline = time.monotonic() + within
        while self.incidents(part) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not self.incidents(part)


def memory_broker(create: Callable[..., ArtemisBroker]) -> ArtemisBroker:
    """12 MiB of message memory."""

    def edit(text: str) -> str:
        text = re.sub(r"<global-max-size>.*?</global-max-size>", "", few_credits(text))
        return text.replace(
            "<address-settings>",
            "<global-max-size>12M</global-max-size><address-settings>",
            1,
        )

    return create(edit=edit)


def full_memory(broker: ArtemisBroker, clients: ExitStack) -> None:
    """40 addresses, of which one fills the memory, three have clients, and one has a producer that sends nothing."""
    broker.manage.add_settings("m.#", addressFullMessagePolicy="BLOCK", maxSizeBytes=-1)
    broker.manage.create_queues(
        [*(f"m.{n}" for n in range(36)), "m.a", "m.b", "m.c", "m.hog"]
    )
    for name in "abc":
        clients.enter_context(
            Reader(broker.endpoint(), [f"m.{name}"], client_id=f"reader-{name}")
        )
        sender = AmqpProducer(broker.endpoint(), f"m.{name}", client_id=f"app-{name}")
        clients.enter_context(sender).run(20)
    clients.enter_context(AmqpProducer(broker.endpoint(), "m.1", client_id="idle"))
    hog = clients.enter_context(
        AmqpProducer(
            broker.endpoint(), "m.hog", client_id="nightly-import", size=50_000
        )
    )
    time.sleep(6)
    hog.send(400, wait=False)
    eventually(
        lambda: (
            broker.manage.read(broker.manage.broker, "AddressMemoryUsagePercentage")
            >= 100
        ),
        expected=True,
        timeout=30,
    )
