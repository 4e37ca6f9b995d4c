"""The clients of a situation on Artemis, by what they speak; what is wrong with one it is opened with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowbench.core import CoreProcess
from flowbench.generated.grammar import JMS, Situation
from flowbench.scene import Scene
from penstock_demo.broker import Endpoint
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpTransaction, StompConsumer
from rig.mqtt import MqttConsumer

SUBSCRIPTION = "sub"
FEW_BYTES = 6000
"""A window in which a pool shares."""
MANY_BYTES = 1 << 20
"""A window that a leak does not use up: with STOMP's own of 10 KiB it stalls after some 22 messages."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with a consumer; nothing by default. work: seconds a message. skips: of so many it leaves one."""

    work: float = 0.0
    hangs_after: float = math.inf
    settles: bool = True
    skips: int = 0
    returns: bool = False
    selector: str = ""
    started: bool = True
    receives: bool = True
    reply: str = ""


def counted(client: Any, name: str) -> float:
    """Of its own counts: received, acknowledged, returned, last_ack."""
    counts = client.counts
    return float(counts()[name]) if callable(counts) else float(getattr(counts, name))


def queue_of(one: Situation) -> str:
    """The name of the queue that its consumers read."""
    if one.client == "mqtt":
        return f"{client_id(one, 0)}.{one.name}"
    return (
        f"{client_id(one, 0)}.{SUBSCRIPTION}"
        if one.queue == "subscription"
        else one.name
    )


def client_id(one: Situation, number: int) -> str:
    return f"{one.name}-{number}"


def opened(
    scene: Scene,
    one: Situation,
    number: int,
    faults: Faults,
    endpoint: Endpoint,
    process: CoreProcess | None = None,
) -> Any:
    """A consumer of the situation; it ends with the scene unless it is closed before."""
    if one.client in JMS:
        client = _jms(scene, one, number, faults, endpoint, process)
    else:
        client = {"amqp": _amqp, "stomp": _stomp, "mqtt": _mqtt}[one.client](
            one, number, faults, endpoint
        )
    return scene.load.running.enter_context(client)


def _jms(
    scene: Scene,
    one: Situation,
    number: int,
    faults: Faults,
    endpoint: Endpoint,
    process: CoreProcess | None,
) -> Any:
    said: dict[str, Any] = {
        "client_id": client_id(one, number),
        "mode": one.mode,
        "work": int(1000 * faults.work),
    }
    urls = []
    if one.client == "openwire":
        said["openwire"] = 1
        urls = [f"jms.prefetchPolicy.all={20 if one.neighbours == 'pool' else 500}"]
        urls += (
            ["jms.redeliveryPolicy.maximumRedeliveries=-1"] if faults.returns else []
        )
    elif one.neighbours == "pool":
        urls = [f"consumerWindowSize={FEW_BYTES}"]
    if faults.reply:
        urls.append("producerWindowSize=10000")
        said |= {"reply": faults.reply, "size": 5000}
    said |= (
        {"stuck_after": int(faults.hangs_after)}
        if faults.hangs_after < math.inf
        else {}
    )
    if one.mode == "dups":  # by default one of 1 MiB: after minutes of so few messages
        urls.append("dupsOKBatchSize=3000")
    said |= {} if faults.settles else {"batch": 0}
    said |= {"skips": faults.skips} if faults.skips else {}
    said |= {"returns": 1} if faults.returns else {}
    said |= {"selector": _selector(one, faults)} if _selector(one, faults) else {}
    said |= {} if faults.started else {"stopped": 1, "idle": 1}
    said |= {} if faults.receives else {"idle": 1}
    said |= {"durable": SUBSCRIPTION} if one.queue == "subscription" else {}
    return (process or scene.load.core).open(
        endpoint, one.name, url="&".join(urls), **said
    )


def _selector(one: Situation, faults: Faults) -> str:
    return faults.selector or ("kind = 'a'" if one.queue == "selector" else "")


class AmqpWorker(AmqpConsumer):
    """Works until it has acknowledged so many; of so many it leaves one, or gives all back."""

    def __init__(
        self, *arguments: Any, hangs_after: float, skips: int, **options: Any
    ) -> None:
        self._hangs_after = hangs_after
        self._skips = skips
        self.left = 0
        super().__init__(*arguments, **options)

    def _next(self) -> None:
        if self.counts.acknowledged >= self._hangs_after:
            return
        if self._skips and (self.counts.acknowledged + 1) // self._skips > self.left:
            self._held.popleft()
            self.left += 1
            return
        super()._next()


def _amqp(one: Situation, number: int, faults: Faults, endpoint: Endpoint) -> Any:
    from flowbench.faults import Releasing  # noqa: PLC0415 - it registers scenarios

    credit = 10 if one.neighbours == "pool" else 100
    said: dict[str, Any] = {
        "client_id": client_id(one, number),
        "selector": _selector(one, faults),
    }
    said |= (
        {"topic": True, "durable": SUBSCRIPTION} if one.queue == "subscription" else {}
    )
    if not faults.started:
        return AmqpHolder(endpoint, one.name, credit=0, **said)
    if not faults.settles:
        holds = AmqpTransaction if one.mode == "transacted" else AmqpHolder
        return holds(endpoint, one.name, credit=credit, **said)
    if faults.returns:
        return Releasing(
            endpoint, one.name, credit=credit, work=max(faults.work, 0.1), **said
        )
    return AmqpWorker(
        endpoint,
        one.name,
        credit=credit,
        work=faults.work,
        hangs_after=faults.hangs_after,
        skips=faults.skips,
        **said,
    )


class StompWorker(StompConsumer):
    """Works until it has acknowledged so many; of so many it leaves one."""

    def __init__(
        self, *arguments: Any, hangs_after: float, skips: int, **options: Any
    ) -> None:
        self._hangs_after = hangs_after
        self._skips = skips
        super().__init__(*arguments, **options)

    def _subscribe(
        self, destination: str, headers: Mapping[str, str], *, receipt: str
    ) -> None:
        window = {"consumer-window-size": str(MANY_BYTES)} if self._skips else {}
        super()._subscribe(destination, {**headers, **window}, receipt=receipt)

    def on_message(self, frame: Any) -> None:
        # What hangs is a worker: a reader that hangs sees no heart-beats, and ends its connection.
        if self.counts.acknowledged >= self._hangs_after or (
            self._skips and (self.counts.received + 1) % self._skips == 0
        ):
            self.counts.received += 1
        else:
            super().on_message(frame)


def _stomp(one: Situation, number: int, faults: Faults, endpoint: Endpoint) -> Any:
    said: dict[str, Any] = {
        "client_id": client_id(one, number),
        "selector": _selector(one, faults),
    }
    if one.queue == "subscription":
        said |= {"routing_type": "MULTICAST", "durable": SUBSCRIPTION}
    if not faults.settles:
        return StompConsumer(endpoint, one.name, acknowledge=False, **said)
    return StompWorker(
        endpoint,
        one.name,
        work=faults.work,
        hangs_after=faults.hangs_after,
        skips=faults.skips,
        **said,
    )


def _mqtt(one: Situation, number: int, faults: Faults, endpoint: Endpoint) -> Any:
    return MqttConsumer(
        endpoint,
        one.name,
        client_id=client_id(one, number),
        work=faults.work,
        hangs_after=faults.hangs_after,
    )
