"""
Each action of the catalogue on a real Artemis, as it is printed: the call goes to the broker to the letter, and what
it says of messages is held to what happened. `make test-actions`.
"""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import pytest

from flowbench.core import CoreClient, CoreProcess
from penstock.assessment.assess import State, assess
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.conditions.catalogue import on
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.insight import actions, answers
from penstock.insight.actions import Actions
from penstock.settings.policy import Policy
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.errors import DemoError
from penstock_demo.load import StompConsumer
from rig.drivers import AmqpHolder
from rig.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SENT = 40
Numbers = Mapping[str, float]


class Stage:
    """A broker, its clients, and what Penstock says of it."""

    def __init__(self, broker: ArtemisBroker, core: CoreProcess) -> None:
        self.broker = broker
        self.core = core
        self.manage = broker.manage
        self._runner = asyncio.Runner()
        self._state = State()
        account = broker.accounts["exporter"]
        target = JolokiaTarget(
            broker.jolokia_url, account.user, lambda: account.password, broker.origin
        )
        self._transport = JolokiaTransport(target)
        self._reader = ArtemisReader(self._transport)

    def close(self) -> None:
        self._runner.run(self._transport.close())
        self._runner.close()

    def action(
        self,
        name: str,
        condition: str,
        queue: str,
        client: str = "",
        address: str = "",
        says: str = "",
        **evidence: float,
    ) -> answers.Action:
        """What Penstock would print, were the condition active now; settings of new queues are read polls later."""
        one = ActiveCondition(
            condition,
            "b1",
            address or queue,
            queue,
            client,
            Severity.WARNING,
            0.0,
            evidence,
        )
        for _ in range(90):
            snapshot = self._runner.run(self._reader.poll(30))
            self._state, _ = assess(self._state, snapshot, Policy("b1"))
            offered = {
                one.name: one
                for one in Actions(snapshot, self._state).of(
                    one, on("artemis", condition)
                )
            }
            if name in offered and says in offered[name].effect:
                return offered[name]
            time.sleep(1)
        pytest.fail(f"{name} is not offered")

    def until_active(
        self, condition: str, queue: str, polls: int = 90
    ) -> ActiveCondition:
        for _ in range(polls):
            self._state, _ = assess(
                self._state, self._runner.run(self._reader.poll(30)), Policy("b1")
            )
            found = [
                o
                for o in self._state.judgement.conditions
                if (o.name, o.queue) == (condition, queue)
            ]
            if found:
                return found[0]
            time.sleep(1)
        active = [(o.name, o.queue) for o in self._state.judgement.conditions]
        pytest.fail(f"{condition} of {queue} is not active, but {active}")

    def do(self, action: answers.Action, **given: str) -> list[Any]:
        """Each call to the letter, with what an operator has to fill in (in capitals) given."""
        return [
            self.manage.post([json.loads(_filled(str(call), given))])[0]
            for call in action.calls
        ]

    def of(self, queue: str, attribute: str) -> float:
        return float(self.manage.queue(queue, attribute))

    def is_so(
        self, queue: str, attribute: str, value: float, timeout: float = 30
    ) -> None:
        eventually(lambda: self.of(queue, attribute), value, timeout=timeout)

    def send(self, queue: str, messages: int = SENT, **options: Any) -> None:
        before = self.of(queue, "MessagesAdded")
        produces = {
            "mode": "produce",
            "rate": 2000,
            "messages": messages,
            "persistent": 1,
            **options,
        }
        with self.core.open(self.broker.endpoint(), queue, **produces):
            self.is_so(queue, "MessagesAdded", before + messages)

    def consumer(self, queue: str, url: str = "", **options: Any) -> CoreClient:
        return self.core.open(self.broker.endpoint(), queue, url=url, **options)


def until(holds: Callable[[], bool], timeout: float) -> None:
    eventually(holds, True, timeout=timeout)


def _filled(text: str, given: Mapping[str, str]) -> str:
    for name, value in given.items():
        text = text.replace(name, json.dumps(value)[1:-1])
    return text


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    broker = ArtemisBroker.create(
        tmp_path_factory.mktemp("actions") / "broker", read_only_user="exporter"
    )
    broker.start()
    try:
        with (
            CoreProcess(broker.directory / "core") as core,
            contextlib.closing(Stage(broker, core)) as made,
        ):
            yield made
    finally:
        broker.kill()


@pytest.fixture
def queue(stage: Stage, unique: Callable[[str], str]) -> str:
    name = unique("q")
    stage.manage.add_settings(
        name,
        deadLetterAddress=f"{name}.dead",
        maxDeliveryAttempts=10,
        redeliveryDelay=0,
    )
    stage.manage.create_queues([name, f"{name}.dead"])
    return name


# --- a hung consumer


def test_closing_a_hung_core_connection_gives_all_back_in_order(
    stage: Stage, queue: str
) -> None:
    stage.send(queue)
    with stage.consumer(queue, client_id="hung", stuck_after=0) as hung:
        stage.is_so(queue, "DeliveringCount", SENT)
        action = stage.action("close_connection", "stalled", queue, "hung")
        assert f"Its {SENT} messages of {queue} go back" in action.effect
        with stage.consumer(queue, client_id="peer", numbers=1) as peer:
            stage.do(action)
            until(lambda: len(peer.numbers()) == SENT, timeout=20)
            assert peer.numbers() == list(range(SENT))
            stage.is_so(
                queue, "ConsumerCount", 1
            )  # a Core client does not come back by itself
        assert hung.counts()["acknowledged"] == 0


def test_closing_the_consumer_of_a_hung_core_client_does_nothing(
    stage: Stage, queue: str
) -> None:
    """What the action says not to do."""
    stage.send(queue)
    with stage.consumer(queue, client_id="hung", stuck_after=0):
        stage.is_so(queue, "DeliveringCount", SENT)
        (row,) = [
            row for row in stage.manage.rows("listConsumers") if row["queue"] == queue
        ]
        assert stage.manage.call(
            stage.manage.broker, "closeConsumerWithID(java.lang.String,java.lang.String)",
            row["session"], row["id"],
        )  # fmt: skip
        with pytest.raises(AssertionError):
            stage.is_so(queue, "DeliveringCount", 0, timeout=5)
        stage.do(stage.action("close_connection", "stalled", queue, "hung"))
        stage.is_so(queue, "DeliveringCount", 0)


def test_each_closing_costs_every_message_an_attempt(
    stage: Stage, unique: Callable[[str], str]
) -> None:
    queue = unique("two")
    stage.manage.add_settings(
        queue,
        deadLetterAddress=f"{queue}.dead",
        maxDeliveryAttempts=2,
        redeliveryDelay=0,
    )
    stage.manage.create_queues([queue, f"{queue}.dead"])
    stage.send(queue)
    for attempt in (1, 2):
        with stage.consumer(queue, client_id=f"hung-{attempt}", stuck_after=0):
            stage.is_so(queue, "DeliveringCount", SENT)
            says = "one of 2 delivery attempts"
            stage.do(
                stage.action(
                    "close_connection", "stalled", queue, f"hung-{attempt}", says=says
                )
            )
            stage.is_so(queue, "DeliveringCount", 0)
    stage.is_so(f"{queue}.dead", "MessageCount", SENT)
    retry = stage.action("retry_dead_letters", "dead_lettering", queue)
    assert f"All messages of {queue}.dead go to the end" in retry.effect
    assert stage.do(retry) == [SENT]
    stage.is_so(f"{queue}.dead", "MessageCount", 0)
    with stage.consumer(queue, client_id="mended", numbers=1) as mended:
        until(lambda: len(mended.numbers()) == SENT, timeout=20)


def test_a_ring_loses_what_comes_back(
    stage: Stage, unique: Callable[[str], str]
) -> None:
    ring = unique("ring")
    stage.manage.create_queue(ring, ring_size=10)
    stage.send(ring, 10)
    with stage.consumer(ring, client_id="hung", stuck_after=0):
        stage.is_so(ring, "DeliveringCount", 10)
        stage.send(ring, 10)
        action = stage.action(
            "close_connection", "stalled", ring, "hung", held=10.0, at_risk=10.0
        )
        assert "10 of them are evicted from the full ring" in action.effect
        stage.do(action)
        stage.is_so(ring, "DeliveringCount", 0)
        assert stage.of(ring, "MessageCount") == 10
    larger = stage.action("larger_ring", "ring_lost_by_consumer", ring)
    stage.do(larger, NUMBER="25")
    stage.send(ring, 20)
    assert stage.of(ring, "MessageCount") == 25


def test_an_amqp_consumer_is_closed_and_its_connection_stays(
    stage: Stage, queue: str
) -> None:
    stage.send(queue)
    with AmqpHolder(stage.broker.endpoint(), queue, credit=30, client_id="holder"):
        stage.is_so(queue, "DeliveringCount", 30)
        before = len(stage.manage.rows("listConnections"))
        stage.do(stage.action("close_consumer", "stalled", queue, "holder"))
        stage.is_so(queue, "DeliveringCount", 0)
        assert stage.of(queue, "ConsumerCount") == 0
        assert len(stage.manage.rows("listConnections")) == before
        assert stage.of(queue, "MessageCount") == SENT


def test_a_stomp_connection_is_closed(stage: Stage, queue: str) -> None:
    stage.send(queue)
    reader = StompConsumer(
        stage.broker.endpoint(), queue, client_id="reader", acknowledge=False
    )
    until(lambda: stage.of(queue, "DeliveringCount") > 0, timeout=15)
    stage.do(stage.action("close_connection_of_others", "stalled", queue, "reader"))
    stage.is_so(queue, "DeliveringCount", 0)
    with contextlib.suppress(Exception):  # it is cut off
        reader.close()


class MqttReader:
    """Subscribes with QoS 1 and never acknowledges; 3.1.1 by its bytes."""

    def __init__(self, stage: Stage, client: str, topic: str) -> None:
        endpoint = stage.broker.endpoint()
        self._socket = socket.create_connection(
            (endpoint.host, endpoint.port), timeout=10
        )
        account = endpoint.account
        texts = b"".join(
            _mqtt_text(text) for text in (client, account.user, account.password)
        )
        self._say(
            0x10, _mqtt_text("MQTT") + b"\x04\xc0\x00\x3c" + texts
        )  # no clean session: a durable subscription
        assert self._socket.recv(4)[3] == 0
        self._say(0x82, b"\x00\x01" + _mqtt_text(topic) + b"\x01")
        assert self._socket.recv(5)[0] == 0x90

    def _say(self, kind: int, body: bytes) -> None:
        assert len(body) < 16384
        low = len(body) % 128
        high = len(body) // 128
        self._socket.sendall(
            bytes([kind, low | 0x80, high] if high else [kind, low]) + body
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _mqtt_text(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def test_an_mqtt_connection_is_closed_and_its_messages_are_kept(
    stage: Stage, unique: Callable[[str], str]
) -> None:
    topic = unique("topic").replace(".", "-")
    with MqttReader(stage, "meter", topic):
        (name,) = [
            row["name"]
            for row in stage.manage.rows("listQueues")
            if row["address"] == topic
        ]
        where = {"address": topic, "routing_type": "multicast"}
        for number in range(5):
            body = [
                "java.util.Map",
                "int",
                "java.lang.String",
                "boolean",
                "java.lang.String",
                "java.lang.String",
            ]
            account = stage.broker.accounts["admin"]
            stage.manage.call(
                stage.manage.address_mbean(topic), f"sendMessage({','.join(body)})",
                {}, 3, f"{number}", True, account.user, account.password,
            )  # fmt: skip
        until(
            lambda: stage.manage.queue(name, "DeliveringCount", **where) == 5,
            timeout=15,
        )
        stage.do(
            stage.action("close_connection_of_mqtt", "stalled", name, "meter", topic)
        )
        until(
            lambda: stage.manage.queue(name, "ConsumerCount", **where) == 0, timeout=15
        )
        assert stage.manage.queue(name, "MessageCount", **where) == 5
        assert stage.manage.queue(name, "DeliveringCount", **where) == 0


# --- what an operator did


def test_resuming(stage: Stage, queue: str) -> None:
    stage.manage.pause_queue(queue)
    stage.send(queue)
    with stage.consumer(queue, client_id="reader"):
        action = stage.action("resume_queue", "paused", queue, ready=float(SENT))
        assert f"Its consumers get its {SENT} messages" in action.effect
        stage.manage.pause_address(queue)
        stage.do(action)  # under a paused address it does nothing, without an error
        with pytest.raises(AssertionError):
            stage.is_so(queue, "MessageCount", 0, timeout=3)
        stage.manage.pause_queue(queue)
        stage.do(
            stage.action("resume_address", "paused", queue)
        )  # also what was paused by itself
        stage.is_so(queue, "MessageCount", 0)


def test_unblocking(stage: Stage, queue: str) -> None:
    stage.manage.call(stage.manage.address_mbean(queue), "block()")
    with pytest.raises((AssertionError, DemoError)):
        stage.send(queue, 500, size=10_000)
    stage.do(stage.action("unblock_address", "blocked_by_operator", queue))
    stage.send(queue, 5)


# --- messages that fail, dead letters


def test_setting_the_failing_message_aside(stage: Stage, queue: str) -> None:
    """The three calls beside closing, on a queue that is paused: while it is in delivery removing does nothing."""
    account = stage.broker.accounts["admin"]
    body = (
        "java.util.Map,int,java.lang.String,boolean,java.lang.String,java.lang.String"
    )
    for number in range(5):
        headers = {"poison": "yes"} if number == 2 else {}
        stage.manage.call(
            stage.manage.queue_mbean(queue), f"sendMessage({body})", headers, 3, f"{number}", True,
            account.user, account.password,
        )  # fmt: skip
    with stage.consumer(queue, client_id="hung", stuck_after=0):
        stage.is_so(queue, "DeliveringCount", 5)
        gone = "sendMessagesToDeadLetterAddress(java.lang.String)"
        assert (
            stage.manage.call(stage.manage.queue_mbean(queue), gone, "poison = 'yes'")
            == 0
        )
        action = stage.action("set_aside", "redelivery_loop", queue)
        assert f"The one is in {queue}.dead" in action.effect
        assert stage.do(action, FILTER="poison = 'yes'")[2] == 1
    stage.is_so(f"{queue}.dead", "MessageCount", 1)
    with stage.consumer(queue, client_id="peer"):
        stage.is_so(queue, "MessagesAcknowledged", 4)


def test_a_queue_for_dead_letters(stage: Stage, unique: Callable[[str], str]) -> None:
    name = unique("q")
    stage.manage.add_settings(
        name, deadLetterAddress=f"{name}.dead", maxDeliveryAttempts=1, redeliveryDelay=0
    )
    stage.manage.create_queue(name)
    stage.do(stage.action("give_dead_letters_a_queue", "dead_letters_lost", name))
    stage.send(name, 3)
    with stage.consumer(name, client_id="fails", mode="transacted", returns=1):
        stage.is_so(f"{name}.dead", "MessageCount", 3)


# --- transactions


@pytest.mark.parametrize("how", ["commit_prepared", "roll_back_prepared"])
def test_prepared_transactions(
    stage: Stage, queue: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "LASTING", 0.0)
    stage.send(queue, 10)
    one = stage.consumer(queue, client_id="xa", mode="xa", batch=5, hold_ms=-1)
    until(
        lambda: (
            len(stage.manage.call(stage.manage.broker, "listPreparedTransactions()"))
            == 1
        ),
        timeout=15,
    )
    one.close()
    action = stage.action(how, "in_doubt", queue)
    assert stage.do(action) == [True]
    assert stage.manage.call(stage.manage.broker, "listPreparedTransactions()") == []
    stage.is_so(queue, "DeliveringCount", 0)
    assert stage.of(queue, "MessageCount") == (5 if how == "commit_prepared" else 10)


# --- full addresses, groups


def test_making_room(stage: Stage, unique: Callable[[str], str]) -> None:
    name = unique("full")
    other = unique("other")
    full = {
        "maxSizeBytes": 100_000,
        "pageSizeBytes": 50_000,
        "addressFullMessagePolicy": "BLOCK",
    }
    stage.manage.add_settings(name, **full)
    stage.manage.create_queues([name, other])
    with stage.core.open(
        stage.broker.endpoint(),
        name,
        mode="produce",
        rate=2000,
        messages=400,
        size=2000,
        persistent=1,
    ):
        until(
            lambda: (
                stage.manage.read(
                    stage.manage.address_mbean(name), "AddressLimitPercent"
                )
                >= 100
            ),
            timeout=20,
        )
        stuck = stage.of(name, "MessagesAdded")
        assert stuck < 400
        stage.do(
            stage.action("move_messages", "producers_blocked", name),
            FILTER="",
            **{"OTHER QUEUE": other},
        )
        until(
            lambda: (
                stage.of(other, "MessageCount") > 0
                and stage.of(name, "MessagesAdded") > stuck
            ),
            timeout=20,
        )
        moved = stage.of(other, "MessageCount")
        assert stage.of(name, "MessagesAcknowledged") == moved
        action = stage.action("remove_messages", "producers_blocked", name)
        stage.do(action, FILTER="")
        until(lambda: stage.of(name, "MessagesKilled") > 0, timeout=20)
        settings = stage.manage.call(
            stage.manage.broker, "getAddressSettingsAsJSON(java.lang.String)", name
        )
        keys = json.dumps({**json.loads(settings), "maxSizeBytes": 10_000_000})
        stage.do(
            stage.action("raise_limit", "producers_blocked", name),
            **{"{all keys as JSON: getAddressSettingsAsJSON has them}": keys},
        )
        stage.is_so(name, "MessagesAdded", 400)


def test_who_owns_the_groups(stage: Stage, queue: str) -> None:
    action = stage.action("group_owner", "not_dispatching", queue)
    assert json.loads(stage.do(action)[0]) == []


# --- queues that lose, and messages that are stuck


def test_enabling_a_queue_ends_the_loss(stage: Stage, queue: str) -> None:
    manage = stage.manage
    manage.call(manage.queue_mbean(queue), "disable()")
    with stage.core.open(
        stage.broker.endpoint(),
        queue,
        mode="produce",
        rate=2000,
        messages=SENT,
        persistent=1,
    ):
        until(
            lambda: (
                manage.read(manage.address_mbean(queue), "RoutedMessageCount") == SENT
            ),
            timeout=20,
        )
    assert stage.of(queue, "MessagesAdded") == 0  # routed, and lost
    stage.until_active("disabled", queue)
    stage.do(stage.action("enable_queue", "disabled", queue))
    stage.send(queue)


def test_a_full_dead_letter_address_before_and_after_messages_are_stuck(
    stage: Stage, unique: Callable[[str], str]
) -> None:
    """FAIL: what has no room stays in delivery, and only a restart frees it."""
    queue = unique("stuck")
    dead = f"{queue}.dead"
    stage.manage.add_settings(
        queue, deadLetterAddress=dead, maxDeliveryAttempts=1, redeliveryDelay=0
    )
    limits = {
        "addressFullMessagePolicy": "FAIL",
        "maxSizeBytes": 20_000,
        "pageSizeBytes": 10_000,
    }
    stage.manage.add_settings(dead, **limits)
    stage.manage.create_queues([queue, dead])
    with stage.core.open(
        stage.broker.endpoint(),
        dead,
        mode="produce",
        rate=200,
        messages=2000,
        persistent=1,
    ):
        until(
            lambda: (
                stage.manage.read(
                    stage.manage.address_mbean(dead), "AddressLimitPercent"
                )
                >= 100
            ),
            timeout=30,
        )
    full = stage.until_active("dead_letters_full", dead)
    assert full.evidence["limit_percent"] >= 100
    stage.send(queue)
    with stage.consumer(queue, client_id="hung", stuck_after=0):
        stage.is_so(queue, "DeliveringCount", SENT)
        stage.do(stage.action("close_connection", "stalled", queue, "hung"))
    stage.is_so(queue, "ConsumerCount", 0)
    stuck = stage.until_active("unheld", queue)
    assert stuck.evidence["unheld"] == stage.of(queue, "DeliveringCount") > 0
