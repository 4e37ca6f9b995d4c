"""Mixed healthy load on a real OpenMQ, by JMS clients and a STOMP one."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowbench.loads import Flow
from flowbench.openmq import (
    PACKAGE,
    Clients,
    Scenario,
    compiled,
    consume,
    create_queue,
    entry,
    manage,
    produce,
    roles_of,
    stomp_reader,
)
from penstock_demo.openmq import OpenMQBroker

ONE_ACTIVE = {"MaxNumActiveConsumers": 1, "MaxNumBackupConsumers": -1}


def full(size: int) -> dict[str, Any]:
    """A destination that makes its producers wait: its consumers always have a backlog."""
    return {"LimitBehavior": "FLOW_CONTROL", "MaxNumMsgs": size}


def scenarios(dice: random.Random) -> tuple[Scenario, ...]:
    """Healthy ones; rhythms in ms."""

    def steady() -> list[Any]:
        return [
            produce(rate=dice.randint(2, 10)),
            *[consume(delay=20)] * dice.randint(1, 3),
        ]

    def burst(ms: int, count: int) -> list[Any]:
        return [produce(burst=count, every=ms), consume(delay=ms // count // 3)]

    def visit(ms: int, **options: Any) -> list[Any]:
        return [produce(rate=3), consume(visit=ms, **options)]

    def commit(ms: int, rate: int) -> list[Any]:
        return [produce(rate=rate), consume(ack="transacted", commitms=ms)]

    def member(**options: Any) -> Any:
        return consume(shared="sub", durable="sub", delay=100, **options)

    replies = [consume(selector=f"who='c{number}'") for number in range(4)]
    return (
        Scenario("steady_1", steady()),
        Scenario("steady_2", steady()),
        Scenario("quiet", [produce(every=50_000), consume()]),
        Scenario("idle", [consume()]),
        Scenario("burst_5s", burst(5000, 20)),
        Scenario("burst_20s", burst(20_000, 40)),
        Scenario("burst_60s", burst(60_000, 120)),
        Scenario("visit_5s", visit(5000)),
        Scenario("visit_20s", visit(20_000)),
        Scenario("visit_60s", visit(60_000)),
        Scenario("commit_20s", commit(20_000, 3)),
        Scenario("commit_60s", commit(60_000, 1)),
        Scenario("producer_commit", [produce(rate=5, commit=100), consume()]),
        Scenario("acknowledge_20s", [produce(rate=5), consume(ack="client", acknowledge=100)]),
        Scenario("dups_ok", [produce(rate=10), consume(ack="dups", delay=10)]),
        Scenario("fail_rollback", [produce(rate=8), consume(ack="transacted", returns=10)]),
        Scenario("fail_recover", [produce(rate=8), consume(ack="client", returns=10)]),
        Scenario("jobs_3min", [produce(every=200_000), consume(delay=180_000, listener="true")]),
        Scenario("pool_3min", [
            produce(every=13_500), *[consume(delay=180_000, listener="true", imqConsumerFlowLimit=1)] * 15]),
        Scenario("paused_1000", [produce(rate=0), consume(delay=50)], settings=full(3000)),
        Scenario("paused_10", [produce(rate=0), consume(delay=50, imqConsumerFlowLimit=10)], settings=full(100)),
        Scenario("paused_three", [produce(rate=0), *[consume(delay=100, imqConsumerFlowLimit=50)] * 3],
                 settings=full(1000)),
        Scenario("backlog", [produce(rate=500, count=15_000), consume(delay=200)]),
        Scenario("one_connection", [
            produce(rate=5), consume(connection="one", delay=20), consume(connection="one", delay=20)]),
        Scenario("pull_20s", [produce(rate=1), consume(pull=20_000)]),
        Scenario("prefetch_off", [produce(rate=1), consume(pull=20_000, imqConsumerFlowLimitPrefetch="false")]),
        Scenario("standby", [produce(rate=4), *[consume(delay=50)] * 3], settings=ONE_ACTIVE),
        Scenario("replies", [produce(rate=4, groups=4), *replies]),
        Scenario("per_message", [produce(rate=2), consume(visit=400, take=1)]),
        Scenario("reconnects", [produce(rate=10), consume(cycle=4000)]),
        Scenario("delayed", [produce(rate=2, later=30_000), consume()]),
        Scenario("expiry", [produce(rate=5, ttl=2000), consume(delay=300)]),
        Scenario("topic", [produce(rate=5), *[consume(delay=10)] * 3], topic=True),
        Scenario("shared_durable", [produce(rate=10), *[member()] * 3], topic=True),
        Scenario("shared", [produce(rate=5), *[consume(shared="sub", delay=50)] * 2], topic=True),
        Scenario("durable", [produce(rate=5), consume(durable="d", clientid="soak", delay=50)], topic=True),
        Scenario("durable_visit_20s", visit(20_000, durable="d", clientid="visitor"), topic=True),
        Scenario("durable_visit_60s", visit(60_000, durable="d", clientid="rare"), topic=True),
        Scenario("stomp", [produce(rate=3)], stomp=True),
        Scenario("batch_10min", [produce(every=2000), consume(visit=600_000)]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenMQSide:
    broker: OpenMQBroker
    clients: Clients
    played: Mapping[str, Scenario]
    """By their plain names; each has the name of its destination."""
    log: Path

    @property
    def addresses(self) -> dict[str, str]:
        return {name: one.name for name, one in self.played.items()}

    @property
    def entry(self) -> dict[str, Any]:
        return entry(self.broker)

    def flows(self) -> dict[str, Flow]:
        counts = self.clients.counts()
        return {name: self._flow(one, counts) for name, one in self.played.items()}

    def returned(self) -> int:
        return sum(
            count
            for name, count in self.clients.counts().items()
            if name.endswith(".returned")
        )

    def troubles(self) -> list[str]:
        """What the clients complained about."""
        return self.log.read_text().splitlines()

    def _flow(self, one: Scenario, counts: Mapping[str, int]) -> Flow:
        kind = "t" if one.topic else "q"
        mbean = f'{PACKAGE}:type=Destination,subtype=Monitor,desttype={kind},name="{one.name}"'
        said = manage(
            self.broker, type="read", mbean=mbean, attribute=["NumMsgsIn", "NumMsgsOut"]
        )
        rounds = [
            counts.get(f"{one.name}-{number}.rounds", 0)
            for number in range(len(one.roles))
        ]
        return Flow(said["NumMsgsIn"], said["NumMsgsOut"], sum(rounds))


@contextmanager
def running(folder: Path, seed: int) -> Iterator[OpenMQSide]:
    """A broker with all of the load."""
    dice = random.Random(seed)  # noqa: S311 - the same load for the same seed
    broker = OpenMQBroker.create(
        folder / "broker", name="openmq", read_only=False, heap_mb=384
    )
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        played = {
            one.name: replace(one, name=f"soak{dice.randrange(10_000)}.{one.name}")
            for one in scenarios(dice)
        }
        for one in played.values():
            if one.settings:
                create_queue(broker, one.name, one.settings)
        log = folder / "clients.log"
        roles = [_forgetful(role) for one in played.values() for role in roles_of(one)]
        clients = stack.enter_context(
            Clients(broker, compiled(broker, folder / "classes"), roles, log)
        )
        for one in played.values():
            if one.stomp:
                stack.enter_context(stomp_reader(broker, one.name, "auto"))
        yield OpenMQSide(broker, clients, played, log)


def _forgetful(role: tuple[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
    """Hours of message ids are not kept."""
    kind, options = role
    return kind, {"forget": "true", **options}
