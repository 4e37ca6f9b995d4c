"""The chains of roots and victims on a real Artemis, and a scene in which several faults are there at once."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowbench.core import CoreProcess
from incidents.live import (
    INTERVAL,
    Reader,
    Watch,
    few_credits,
    full_memory,
    memory_broker,
    watched,
)
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker
from penstock_demo.management import Account, quoted
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer, ClientError
from rig.waiting import eventually

pytestmark = pytest.mark.broker
RATE = 20.0
TOLD = 60.0
"""Seconds within which an incident must be told: 10 s of patience, and what a busy machine takes."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisBroker]:
    made = ArtemisBroker.create(
        tmp_path_factory.mktemp("incidents") / "broker", edit=few_credits, heap_mb=384
    )
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def watch(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with watched(broker, tmp_path_factory.mktemp("incidents") / "agent") as made:
        yield made


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Stage:
    """Clients on one broker, under names that only one test has."""

    def __init__(self, broker: Broker, clients: ExitStack, name: str) -> None:
        self.broker = broker
        self._clients = clients
        self.name = name

    def reads(self, *queues: str, client: str, reply: str = "") -> Reader:
        names = [f"{self.name}.{one}" for one in queues]
        reply = reply and f"{self.name}.{reply}"
        return self._clients.enter_context(
            Reader(
                self.broker.endpoint(),
                names,
                client_id=f"{self.name}.{client}",
                reply=reply,
            )
        )

    def sends(self, *queues: str, rate: float = RATE) -> None:
        for one in queues:
            self.open(AmqpProducer, one, client=f"to-{one}").run(rate)

    def open(
        self, make: Callable[..., Any], queue: str, *, client: str, **options: Any
    ) -> Any:
        name = f"{self.name}.{queue}"
        opened = make(
            self.broker.endpoint(), name, client_id=f"{self.name}.{client}", **options
        )
        return self._clients.enter_context(opened)

    def queues(self, *names: str) -> None:
        self.broker.manage.create_queues([f"{self.name}.{one}" for one in names])


@pytest.fixture
def stage(broker: Broker, clients: ExitStack, request: pytest.FixtureRequest) -> Stage:
    return Stage(
        broker, clients, request.node.name.removeprefix("test_").replace("_", "-")
    )


def blocked_in_send(stage: Stage) -> Reader:
    stage.broker.manage.add_settings(
        f"{stage.name}.reply",
        maxSizeBytes=200_000,
        addressFullMessagePolicy="BLOCK",
        pageSizeBytes=50_000,
    )
    stage.queues("req", "reply")
    stage.sends("req")
    return stage.reads("req", client="orders", reply="reply")


def test_full_reply(stage: Stage, watch: Watch) -> None:
    blocked_in_send(stage)
    found = watch.one(
        stage.name, lambda one: any(key[0] == "stalled" for key in one.members), TOLD
    )
    assert (found.kind, found.object) == ("address_full", f"{stage.name}.reply")
    assert found.victims == [f"{stage.name}.orders"]
    assert "is blocked sending to" in found.title
    assert found.title.endswith(f"nothing is acknowledged on queue {stage.name}.req")
    stage.broker.manage.purge(f"{stage.name}.reply")
    stage.reads("reply", client="asker")
    watch.gone(stage.name)


def test_frozen(stage: Stage, watch: Watch, tmp_path: Path) -> None:
    names = [f"q{n}" for n in range(4)]
    stage.queues(*names, "well")
    frozen = stage.reads(*names, client="frozen")
    stage.reads("well", client="sound")
    stage.sends(*names, "well")
    time.sleep(6)
    frozen.frozen = True
    found = watch.one(stage.name, lambda one: len(one.members) >= 4, TOLD)
    assert (found.kind, found.object) == ("stalled", f"{stage.name}.frozen")
    assert [who["protocol"] for who in found.who] == ["AMQP"]
    frozen.frozen = False
    frozen._do(frozen.arrived)
    watch.gone(stage.name)


def common_cause(stage: Stage, names: list[str]) -> list[Reader]:
    stage.queues(*names, "other")
    readers = [stage.reads(name, client=f"svc-{name}") for name in names]
    stage.reads("other", client="svc-other")
    stage.sends(*names, "other")
    return readers


def test_common_cause(stage: Stage, watch: Watch) -> None:
    readers = common_cause(stage, [f"q{n}" for n in range(4)])
    time.sleep(6)
    for reader in readers:
        reader.frozen = True
    found = watch.one(stage.name, lambda one: one.victim_count == 4, TOLD)
    assert found.kind == "common_cause"
    assert {cause.name: cause.state for cause in found.causes}["broker"] == "excluded"


def paused_address(stage: Stage) -> None:
    for n in range(5):
        stage.broker.manage.create_queue(
            f"{stage.name}.sub{n}",
            address=f"{stage.name}.topic",
            routing_type="multicast",
        )
    sender = AmqpProducer(
        stage.broker.endpoint(),
        f"{stage.name}.topic",
        client_id=f"{stage.name}.publisher",
        topic=True,
    )
    stage._clients.enter_context(sender).run(RATE)
    time.sleep(4)
    stage.broker.manage.pause_address(f"{stage.name}.topic")


def test_paused_address(stage: Stage, watch: Watch) -> None:
    paused_address(stage)
    found = watch.one(stage.name, lambda one: len(one.members) >= 5, TOLD)
    assert (found.kind, found.object) == ("address_paused", f"{stage.name}.topic")


def dead_letters_refused(stage: Stage) -> None:
    stage.broker.manage.add_settings(
        f"{stage.name}.dla",
        maxSizeBytes=30_000,
        addressFullMessagePolicy="FAIL",
        pageSizeBytes=10_000,
    )
    stage.broker.manage.add_settings(
        f"{stage.name}.src",
        deadLetterAddress=f"{stage.name}.dla",
        maxDeliveryAttempts=1,
        redeliveryDelay=0,
    )
    stage.queues("src", "dla")
    with AmqpProducer(
        stage.broker.endpoint(), f"{stage.name}.src", size=1_000
    ) as sender:
        sender.send(300)


def test_dead_letters_refused(stage: Stage, watch: Watch, tmp_path: Path) -> None:
    dead_letters_refused(stage)
    with (
        CoreProcess(tmp_path / "core") as core,
        core.open(
            stage.broker.endpoint(),
            f"{stage.name}.src",
            mode="transacted",
            returns=1.0,
            batch=10,
        ),
    ):
        time.sleep(8)
    found = watch.one(
        stage.name, lambda one: one.kind == "dead_letter_address_full", TOLD
    )
    assert found.object == f"{stage.name}.dla"
    assert found.victims == [f"{stage.name}.src"]
    source = f"{stage.name}.src"
    stuck = stage.broker.manage.queue(source, "DeliveringCount")
    assert stage.broker.manage.queue(source, "DurableDeliveringCount") == stuck > 0, (
        "as the text says: all are durable"
    )


def test_exclusive_owner(stage: Stage, watch: Watch) -> None:
    stage.broker.manage.create_queue(f"{stage.name}.q", exclusive=True)
    owner = stage.reads("q", client="owner")
    time.sleep(1)
    stage.reads("q", client="standby")
    stage.sends("q")
    time.sleep(6)
    owner.frozen = True
    found = watch.one(stage.name, lambda one: one.messages > 200, TOLD)
    assert (found.kind, found.object) == ("stalled", f"{stage.name}.owner")


def test_group_owner(stage: Stage, watch: Watch) -> None:
    """One group, of which all messages go to the consumer that came first."""
    stage.queues("q")
    owner = stage.reads("q", client="owner")
    time.sleep(1)
    stage.reads("q", client="peer")
    sender = stage.open(AmqpProducer, "q", client="to-q")
    for _ in range(60):
        sender.send(4, group_id="one")
        time.sleep(0.1)
    owner.frozen = True
    sender.send(400, group_id="one")
    found = watch.one(stage.name, lambda one: one.messages > 200, TOLD)
    assert (found.kind, found.object) == ("stalled", f"{stage.name}.owner")


def test_pages_that_are_not_read(stage: Stage, watch: Watch) -> None:
    """So many bytes are unacknowledged that the queue reads no more pages: its other consumer gets nothing."""
    small = {
        "maxSizeBytes": 200_000,
        "pageSizeBytes": 100_000,
        "maxReadPageBytes": 400_000,
    }
    stage.broker.manage.add_settings(
        f"{stage.name}.q", addressFullMessagePolicy="PAGE", **small
    )
    stage.queues("q")
    stage.open(AmqpHolder, "q", client="hoarder", credit=5000)
    sender = stage.open(AmqpProducer, "q", client="to-q", size=1000)
    for _ in range(30):
        sender.send(100)
    stage.open(AmqpConsumer, "q", client="peer")
    found = watch.one(
        stage.name,
        lambda one: any(key[0] == "depaging_frozen" for key in one.members),
        TOLD,
    )
    assert (found.kind, found.object) == ("stalled", f"{stage.name}.hoarder")
    assert found.victims == [
        f"{stage.name}.q (page files are no longer read because one consumer buffers too much)"
    ]


def test_refused_logins(stage: Stage, watch: Watch) -> None:
    """A consumer whose password has changed: that the refused logins are its own is possible, and no more."""
    stage.queues("q")
    reader = stage.reads("q", client="billing")
    stage.sends("q")
    time.sleep(6)
    reader.close()
    wrong = replace(stage.broker.endpoint(), account=Account("billing", "no longer"))
    for _ in range(5):
        with pytest.raises(ClientError):
            AmqpHolder(wrong, f"{stage.name}.q", credit=10)
    found = watch.one(stage.name, lambda one: one.kind == "no_consumer", 2 * TOLD)
    assert found.object == f"{stage.name}.billing"
    assert (found.causes[0].name, found.causes[0].state) == (
        "login_refused",
        "possible",
    )
    assert found.causes[0].fact == "refused logins since it left: 5"
    assert f"{stage.name}.billing left queue {stage.name}.q" in [
        text for _, text in found.changed
    ]


def test_full_target_of_a_bridge(
    stage: Stage, watch: Watch, own_artemis: Callable[..., ArtemisBroker]
) -> None:
    other = own_artemis(edit=few_credits, heap_mb=256)
    source = f"{stage.name}.out"
    target = f"{stage.name}.in"
    limits = {"maxSizeBytes": 200_000, "pageSizeBytes": 100_000}
    other.manage.add_settings(target, addressFullMessagePolicy="BLOCK", **limits)
    other.manage.create_queue(target)
    stage.queues("out")
    url = f"tcp://{other.host}:{other.port}?producerWindowSize=10000"
    stage.broker.manage.create_bridge(
        f"{stage.name}.to-2", source, url, other.admin, target=target
    )
    stage.open(AmqpProducer, "out", client="to-out", size=2000).run(RATE)
    found = watch.one(stage.name, lambda one: one.kind == "bridge_stopped", TOLD)
    assert found.object == f"{stage.name}.to-2"
    assert [(one.name, one.state) for one in found.causes] == [
        ("target_full", "possible")
    ]
    stage.broker.manage.call(
        f"{stage.broker.manage.broker},component=bridges,name={quoted(f'{stage.name}.to-2')}",
        "stop()",
    )


def test_crash_loop(stage: Stage, watch: Watch, tmp_path: Path) -> None:
    """Each connection that ends takes an attempt of each message sent ahead: healthy ones become dead letters."""
    source = f"{stage.name}.q"
    dead = f"{stage.name}.dead"
    stage.queues("q", "dead")
    stage.broker.manage.add_settings(
        source, deadLetterAddress=dead, maxDeliveryAttempts=4, redeliveryDelay=0
    )
    stage.open(AmqpProducer, "q", client="to-q").send(200)
    with CoreProcess(tmp_path / "core") as core:

        def crash() -> int:
            core.open(
                stage.broker.endpoint(),
                source,
                client_id=f"{stage.name}.crashing",
                stuck_after=0,
            )
            time.sleep(INTERVAL)
            stage.broker.manage.close_connections(source)
            stage.open(AmqpProducer, "q", client="to-q").send(20)
            return len(watch.incidents(stage.name))

        eventually(crash, expected=1, timeout=TOLD)
        found = watch.one(
            stage.name,
            lambda one: one.kind in ("churn_without_progress", "crash_looping"),
            1.0,
        )
        assert found.object == f"{stage.name}.crashing"

        def grown() -> bool:
            crash()
            return any(
                key[0] == "dead_lettering"
                for one in watch.incidents(stage.name)
                for key in one.members
            )

        eventually(grown, expected=True, timeout=TOLD)
        watch.one(
            stage.name,
            lambda one: one.victims == [f"{source} (messages go to the dead letters)"],
            1.0,
        )


def test_full_target_of_a_divert(stage: Stage, watch: Watch) -> None:
    """It refuses: whoever sends to the source gets its error."""
    stage.broker.manage.add_settings(
        f"{stage.name}.audit",
        maxSizeBytes=100_000,
        addressFullMessagePolicy="FAIL",
        pageSizeBytes=50_000,
    )
    stage.queues("orders", "audit")
    stage.broker.manage.create_divert(
        f"{stage.name}.copy", f"{stage.name}.orders", f"{stage.name}.audit"
    )
    stage.reads("orders", client="billing")
    stage.open(AmqpProducer, "orders", client="shop", size=2000).run(RATE)
    found = watch.one(stage.name, lambda one: one.kind == "divert_target_full", TOLD)
    assert found.object == f"{stage.name}.audit"
    assert found.victims == [f"{stage.name}.shop"]


def test_restart_of_the_agent(stage: Stage, watch: Watch) -> None:
    stage.queues("q", "later")
    reader = stage.reads("q", "later", client="frozen")
    stage.sends("q")
    time.sleep(6)
    reader.frozen = True
    found = watch.one(stage.name, lambda one: one.id, TOLD)
    watch.observer.restart(stage.broker.name, pause=3.0)
    again = watch.one(stage.name, lambda one: one.id, TOLD)
    assert (again.id, again.begin) == (found.id, found.begin)
    stage.sends("later")
    grown = watch.one(stage.name, lambda one: len(one.members) == 2, TOLD)
    assert (grown.id, grown.begin) == (found.id, found.begin)


def test_mixed_scene(stage: Stage, watch: Watch) -> None:
    """Five faults at once, with the symptoms of each on several queues."""
    names = [f"svc{n}" for n in range(4)]
    blocked_in_send(stage)
    readers = common_cause(stage, names)
    frozen_queues = [f"frozen{n}" for n in range(4)]
    stage.queues(*frozen_queues, "unread")
    frozen = stage.reads(*frozen_queues, client="frozen")
    unread = stage.reads("unread", client="billing")
    stage.sends(*frozen_queues, "unread")
    paused_address(stage)
    time.sleep(6)
    for reader in readers:
        reader.frozen = True
    unread.close()
    time.sleep(5)
    frozen.frozen = True
    wanted = {
        "address_full",
        "address_paused",
        "common_cause",
        "stalled",
        "no_consumer",
    }
    deadline = time.monotonic() + 120
    found = watch.incidents(stage.name)
    most = 0
    while {one.kind for one in found} != wanted and time.monotonic() < deadline:
        time.sleep(1)
        found = watch.incidents(stage.name)
        most = max(most, len(found))
    symptoms = {key for one in found for key in one.members}
    print(  # noqa: T201
        f"{len(symptoms)} symptoms, {len(found)} incidents:",
        *(one.title for one in found),
        sep="\n  ",
    )
    assert {one.kind for one in found} == wanted
    assert len(found) <= 6
    assert len(symptoms) >= 15


def test_memory(
    own_artemis: Callable[..., ArtemisBroker], clients: ExitStack, tmp_path: Path
) -> None:
    """Also once the idle addresses have the condition `producers_blocked`, and until it is over."""
    broker = memory_broker(own_artemis)
    with watched(broker, tmp_path / "agent") as watch:
        full_memory(broker, clients)
        found = watch.one("", lambda one: one.victim_count == 3, TOLD)
        later = watch.one("", lambda one: len(one.members) > 30, TOLD)
        assert (later.id, later.victims) == (found.id, found.victims)
        broker.manage.purge("m.hog")
        watch.gone("")
        events = [
            event
            for event in watch.observer.events
            if event.change.startswith("incident")
        ]
        assert [event.change for event in events] == ["incident_begin", "incident_end"]
