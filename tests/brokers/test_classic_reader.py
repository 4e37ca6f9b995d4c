"""What is read of an ActiveMQ Classic, answer by answer: the situations that a healthy recording does not have."""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

from penstock.brokers.classic.reader import NOTES
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.core.errors import BadAnswer, Refused
from penstock.model import QueueKind, Role, Snapshot
from penstock.transports.transport import Answer, Reader, Request

BROKER = "org.apache.activemq:brokerName=c1"
ABOUT = {
    "BrokerId": "ID:h-1-2-0:1", "BrokerVersion": "5.18.3", "Slave": False, "UptimeMillis": 60_000,
    "CurrentConnectionsCount": 2, "MemoryLimit": 1000, "MemoryPercentUsage": 50, "StorePercentUsage": 10,
}  # fmt: skip
NONE = {"status": 404, "error": "InstanceNotFoundException"}


def queue(**numbers: Any) -> dict[str, Any]:
    zero = dict.fromkeys(
        (
            "QueueSize",
            "InFlightCount",
            "EnqueueCount",
            "DequeueCount",
            "ExpiredCount",
            "ConsumerCount",
        ),
        0,
    )
    return {**zero, "Paused": False, **numbers}


def consumer(**said: Any) -> dict[str, Any]:
    numbers = {"DispatchedQueueSize": 2, "DispatchedCounter": 5, "DequeueCounter": 3}
    return {"ConnectionId": "ID:x", "Selector": None, **numbers, **said}


def subscriber(**said: Any) -> dict[str, Any]:
    return consumer(
        Active=True, SubscriptionName=None, PendingQueueSize=4, EnqueueCounter=9, **said
    )


class Classic:
    """Answers as its MBeans say. beans: by the rest of their names, keys in their order. refused: words of names."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {f"{BROKER},type=Broker": dict(ABOUT)}
        self.beans: dict[str, dict[str, Any]] = {}
        self.runtime: dict[str, Any] = {
            "status": 200,
            "value": {"StartTime": 1e12, "Uptime": 60_000},
        }
        self.refused = "nothing"
        self.asked: list[Request] = []
        self.now = 1e9 + 60

    def queue(self, name: str, kind: str = "Queue", **numbers: Any) -> None:
        said = numbers.pop("said", {})
        settings = {
            "Name": name,
            "StoreMessageSize": 7,
            "MemoryLimit": 100,
            "MemoryPercentUsage": 3,
        }
        self.beans[f"destinationName={name},destinationType={kind}"] = (
            queue(**numbers) | settings | said
        )

    def connection(self, client: str, **said: Any) -> None:
        view = "connectionViewType=clientId,connector=clientConnectors,connectorName=openwire"
        said = {
            "ClientId": client,
            "RemoteAddress": "tcp://10.0.0.7:1",
            "UserName": "shop",
            **said,
        }
        none = {"ActiveTransactionCount": 0, "OldestActiveTransactionDuration": None}
        self.beans[f"connectionName={client},{view}"] = none | said

    def endpoint(
        self,
        what: str,
        destination: str,
        client: str,
        said: dict[str, Any],
        kind: str = "Queue",
    ) -> None:
        of = f"destinationName={destination},destinationType={kind},endpoint={what}"
        self.beans[f"clientId={client},{what.lower()}Id=ID_{client}_1_1,{of}"] = said

    async def begin_poll(self) -> None:
        self.now += 5
        for said in self.about.values():
            said["UptimeMillis"] += 5000

    async def close(self) -> None:
        pass

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        assert timeout > 0
        self.asked += requests
        said = [{"timestamp": int(self.now), **self.respond(one)} for one in requests]
        return Answer(json.dumps(said).encode(), self.now, 0.01)

    def respond(self, request: Request) -> dict[str, Any]:
        name = request["mbean"]
        wanted = request["attribute"]
        if self.refused in name:
            return {
                "status": 403,
                "error": "Origin null is not allowed to call this agent",
            }
        if name == "java.lang:type=Runtime":
            return self.runtime
        keys = dict(
            part.split("=", 1) for part in name.split(":")[1].split(",") if "=" in part
        )
        of = {k: v for k, v in keys.items() if k not in ("type", "brokerName")}
        whole = name.endswith(",*")
        if not of:
            return {"status": 200, "value": self.about} if self.about else NONE
        found = {}
        for rest, said in self.beans.items():
            has = dict(part.split("=", 1) for part in rest.split(","))
            fits = all(
                key in has and fnmatchcase(has[key], value) for key, value in of.items()
            )
            if fits and (whole or has.keys() == of.keys()):
                found[f"{BROKER},{rest},type=Broker"] = {
                    key: said[key] for key in wanted if key in said
                }
        if "*" in name:
            return {"status": 200, "value": found} if found else NONE
        return {"status": 200, "value": next(iter(found.values()))} if found else NONE


@pytest.fixture
def broker() -> Classic:
    return Classic()


@pytest.fixture
def reader(broker: Classic) -> Reader:
    return KINDS["classic"].reader(broker, ReaderOptions(name="b1"), None)


def row(snapshot: Snapshot, table: str, name: str) -> dict[str, float]:
    found = getattr(snapshot, table)
    (i,) = (
        i
        for i, one in enumerate(found.index)
        if name in (getattr(one, "name", ""), getattr(one, "id", ""))
    )
    return {key: float(column[i]) for key, column in found.columns.items()}


async def test_what_classic_does_not_count_is_no_column(
    broker: Classic, reader: Reader
) -> None:
    broker.queue(
        "orders",
        QueueSize=5,
        InFlightCount=2,
        EnqueueCount=20,
        DequeueCount=15,
        ExpiredCount=1,
    )
    found = await reader.poll(10)
    assert found.queues is not None
    assert not {"acknowledged", "killed", "scheduled"} & found.queues.columns.keys()
    said = row(found, "queues", "orders")
    assert (said["messages"], said["delivering"], said["removed"], said["expired"]) == (
        5,
        2,
        15,
        1,
    )
    assert found.notes == NOTES
    assert "redeliveries: whether messages come back is unknown" in NOTES[0]


async def test_advisory_topics_and_their_consumers_are_the_brokers_own(
    broker: Classic, reader: Reader
) -> None:
    both = "ActiveMQ.Advisory.TempQueue_ActiveMQ.Advisory.TempTopic"
    broker.queue("orders")
    broker.queue("ActiveMQ.Advisory.Connection", kind="Topic", EnqueueCount=7)
    broker.connection("shop")
    broker.endpoint("Consumer", "orders", "shop", consumer())
    broker.endpoint("Consumer", both, "shop", subscriber(), kind="Topic")
    found = await reader.poll(10)
    assert found.addresses is not None
    assert [one.name for one in found.addresses.index] == ["orders"]
    assert found.consumers is not None
    assert [(one.queue, one.client, one.user) for one in found.consumers.index] == [
        ("orders", "shop", "shop")
    ]
    assert not any("Advisory" in str(one) for one in broker.asked)


async def test_a_durable_subscription_without_a_consumer_is_a_queue(
    broker: Classic, reader: Reader
) -> None:
    broker.queue("news", kind="Topic", EnqueueCount=9)
    gone = subscriber() | {
        "Active": False,
        "SubscriptionName": "sub",
        "DispatchedQueueSize": 0,
    }
    broker.endpoint("Consumer", "news", "desk", gone, kind="Topic")
    broker.endpoint("Consumer", "news", "live", subscriber(), kind="Topic")
    found = await reader.poll(10)
    left = row(found, "queues", "desk.sub")
    live = row(found, "queues", "ID_live_1_1")
    assert (left["messages"], left["consumers"], left["added"]) == (4, 0, 9)
    assert (
        live["messages"],
        live["delivering"],
        live["consumers"],
        live["removed"],
    ) == (6, 2, 1, 3)
    assert found.consumers is not None
    assert [one.queue for one in found.consumers.index] == ["ID_live_1_1"]
    assert found.queues is not None
    durable = {one.name: (one.durable, one.kind) for one in found.queues.index}
    assert durable["desk.sub"] == (True, QueueKind.SUBSCRIPTION)


async def test_the_age_of_a_transaction_is_that_of_its_connection(
    broker: Classic, reader: Reader
) -> None:
    broker.queue("orders")
    for client, said in (
        ("a", {}),
        ("b", {"ActiveTransactionCount": 1, "OldestActiveTransactionDuration": 17_000}),
    ):
        broker.connection(client, **said)
        broker.endpoint("Consumer", "orders", client, consumer())
    found = await reader.poll(10)
    assert found.broker is not None
    assert found.collectors["connections"].error == ""
    begun = {
        name: row(found, "consumers", f"ID_{name}_1_1")["transaction_begun"]
        for name in "ab"
    }
    assert np.isnan(begun["a"])
    assert begun["b"] == found.broker.clock - 17


async def test_producers_that_wait_are_counted_by_where_they_send(
    broker: Classic, reader: Reader
) -> None:
    broker.queue("full")
    broker.queue("roomy")
    for client, to, waits in (
        ("a", "full", True),
        ("b", "full", False),
        ("c", "roomy", False),
        ("d", "NOTSET", False),
    ):
        said = {"DestinationName": to, "SentCount": 1, "ProducerBlocked": waits}
        broker.endpoint("Producer", to, client, said)
    found = await reader.poll(10)
    assert [
        row(found, "addresses", name)["blocked_producers"] for name in ("full", "roomy")
    ] == [1, 0]
    assert found.producers is not None
    assert len(found.producers) == 3
    broker.refused = "roducer"
    anew = KINDS["classic"].reader(broker, ReaderOptions(name="b1"), None)
    refused = await anew.poll(10)
    assert refused.addresses is not None
    assert "blocked_producers" not in refused.addresses.columns  # unknown, not none


async def test_settings_are_read_once_a_minute(broker: Classic, reader: Reader) -> None:
    broker.queue("orders")
    await reader.poll(10)
    broker.queue("ActiveMQ.DLQ", said={"DLQ": True})
    broker.queue("failed", said={"DLQ": True})
    broker.asked.clear()
    found = await reader.poll(10)
    assert found.queues is not None
    kinds = {one.name: one.kind for one in found.queues.index}
    assert (
        kinds["ActiveMQ.DLQ"] is QueueKind.DEAD_LETTER
    )  # by its name, until its settings are read
    assert kinds["failed"] is QueueKind.USER
    assert not [one for one in broker.asked if "StoreMessageSize" in one["attribute"]]
    assert all(
        len(one["attribute"]) <= 8
        for one in broker.asked
        if "destinationType=*Queue" in one["mbean"]
    )
    for _ in range(12):
        found = await reader.poll(10)
    assert found.queues is not None
    assert {one.name: one.kind for one in found.queues.index}[
        "failed"
    ] is QueueKind.DEAD_LETTER


async def test_a_name_that_jmx_cannot_hold_is_shown_as_clients_write_it(
    broker: Classic, reader: Reader
) -> None:
    broker.queue("a_b", said={"Name": "a:b"})
    broker.endpoint("Consumer", "a_b", "x", consumer())
    found = await reader.poll(10)
    assert found.queues is not None
    assert found.consumers is not None
    assert (
        [one.name for one in found.queues.index]
        == [one.queue for one in found.consumers.index]
        == ["a:b"]
    )
    assert (found.queues.index.positions(found.consumer_queue) >= 0).all()


async def test_a_topic_beside_a_queue_of_its_name_is_another_address(
    broker: Classic, reader: Reader
) -> None:
    broker.queue("orders", EnqueueCount=1)
    broker.queue("orders", kind="Topic", EnqueueCount=2)
    found = await reader.poll(10)
    added = [
        row(found, "addresses", name)["messages_added"]
        for name in ("orders", "orders (topic)")
    ]
    assert added == [1, 2]


async def test_a_generated_client_id_is_never_a_name(
    broker: Classic, reader: Reader
) -> None:
    broker.queue("orders")
    broker.endpoint("Consumer", "orders", "ID_h-1-2-3_1", consumer())
    broker.refused = "clientConnectors"
    found = await reader.poll(10)
    assert found.consumers is not None
    assert [one.client for one in found.consumers.index] == ["unknown"]
    broker.refused = "nothing"
    broker.connection("ID_h-1-2-3_1", ClientId="ID:h-1-2-3:1")
    found = await reader.poll(10)
    assert found.consumers is not None
    assert [one.client for one in found.consumers.index] == ["shop@10.0.0.7"]


async def test_one_that_waits_for_the_lock_of_the_store_is_passive(
    broker: Classic, reader: Reader
) -> None:
    broker.about[f"{BROKER},type=Broker"]["Slave"] = True
    found = await reader.poll(10)
    assert found.broker is not None
    assert found.broker.role is Role.PASSIVE
    assert found.queues is None


async def test_a_restart_is_another_process_though_its_name_stays(
    broker: Classic, reader: Reader
) -> None:
    first = await reader.poll(10)
    broker.about[f"{BROKER},type=Broker"] |= {
        "BrokerId": "ID:h-9-9-0:1",
        "UptimeMillis": 1000,
    }
    second = await reader.poll(10)
    assert first.broker is not None
    assert second.broker is not None
    assert first.broker.node_id == second.broker.node_id == "c1"
    assert second.observation.process.replaces(first.observation.process)


async def test_errors_say_what_to_do(broker: Classic, reader: Reader) -> None:
    broker.refused = "brokerName=*"
    with pytest.raises(Refused, match="give origin"):
        await reader.poll(10)
    broker.refused = "nothing"
    broker.about = {}
    with pytest.raises(
        BadAnswer, match="shows no ActiveMQ broker: it is starting or stopping"
    ):
        await reader.poll(10)


async def test_without_the_runtime_the_clock_is_that_of_the_answer(
    broker: Classic, reader: Reader
) -> None:
    broker.runtime = {"status": 403, "error": "not for you"}
    found = await reader.poll(10)
    assert found.broker is not None
    assert abs(found.broker.clock - broker.now) <= 1
