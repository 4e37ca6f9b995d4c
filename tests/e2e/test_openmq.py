"""A real OpenMQ by each way of asking it: the same numbers, clear errors, recovery by itself, nothing left behind."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from e2e.agent import Agent
from flowbench.openmq import Clients, Scenario, compiled, consume, produce, roles_of
from penstock.agent.factory import open_reader, open_transport
from penstock.brokers.openmq import requests as ask
from penstock.config import load
from penstock.core.errors import Refused, Unreachable
from penstock.core.table import Table
from penstock.model import BrokerKind, Snapshot
from penstock.transports.jmx import JmxTransport
from penstock.transports.transport import Reader
from penstock_demo.openmq import OpenMQBroker
from penstock_demo.run_stomp import OpenMQScenario
from rig.openmq import TRANSPORTS, Load, configured
from rig.waiting import eventually

pytestmark = pytest.mark.broker

TIMEOUT = 60.0


def reading(folder: Path, entry: dict[str, Any]) -> Reader:
    return open_reader(config := load(written(folder, entry)), config.brokers[0])


def written(folder: Path, entry: dict[str, Any]) -> Path:
    file = folder / "penstock.yaml"
    file.write_text(json.dumps({"brokers": [entry]}))
    return file


async def polled(reader: Reader, times: int = 1) -> Snapshot:
    """The last of some polls; the settings come with the first, their use with the second."""
    for _ in range(times):
        snapshot = await reader.poll(TIMEOUT)
    return snapshot


def row(table: Table[Any] | None, **wanted: object) -> dict[str, float]:
    """The columns of the one row whose texts are these."""
    assert table is not None
    found = [
        i
        for i, one in enumerate(table.index)
        if all(getattr(one, key) == value for key, value in wanted.items())
    ]
    assert len(found) == 1, (wanted, list(table.index))
    return {name: float(column[found[0]]) for name, column in table.columns.items()}


def called(mbean: str, operation: str, *arguments: str) -> dict[str, Any]:
    return {
        "type": "exec",
        "mbean": mbean,
        "operation": operation,
        "arguments": list(arguments),
    }


def children() -> set[int]:
    """Processes that this one has started and that are still there."""
    return {
        int(pid)
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    }


@contextmanager
def nothing_left() -> Iterator[None]:
    before = children()
    yield
    eventually(lambda: children() <= before, expected=True)


async def read_once(folder: Path, entry: dict[str, Any]) -> Snapshot:
    """What the second poll of a broker gives."""
    reader = reading(folder, entry)
    try:
        return await polled(reader, 2)
    finally:
        await reader.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_same_numbers_by_each_transport(
    openmq: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str], transport: str
) -> None:
    queue = unique("q")
    with nothing_left(), Load(openmq, "fill", queue, 30):
        snapshot = await read_once(tmp_path, configured(openmq, transport))
    assert snapshot.broker is not None
    assert snapshot.broker.kind is BrokerKind.OPENMQ
    assert snapshot.broker.version == openmq.version
    found = row(snapshot.queues, name=queue)
    assert (
        found["messages"],
        found["added"],
        found["removed"],
        found["delivering"],
    ) == (30, 30, 0, 0)
    address = row(snapshot.addresses, name=queue, policy="reject_newest")
    assert (address["limit_messages"], address["consumer_flow_limit"]) == (
        100_000,
        1000,
    )
    failed = {
        name for name, collector in snapshot.collectors.items() if collector.error
    }
    assert failed == set()
    assert snapshot.consumers is not None


@pytest.mark.parametrize("transport", ["jolokia", "jmx"])
async def test_subscriptions_are_queues_and_their_members_consumers(
    openmq: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str], transport: str
) -> None:
    topic = unique("t")
    with Load(openmq, "subscribe", topic, 3):
        snapshot = await read_once(tmp_path, configured(openmq, transport))
    assert snapshot.consumers is not None
    assert snapshot.queues is not None
    for name, members in (("load-subscribe.shared", 3), ("load-subscribe.own", 1)):
        found = row(snapshot.queues, address=topic, name=name)
        assert (found["messages"], found["delivering"], found["consumers"]) == (
            3,
            3,
            members,
        )
    mine = [i for i, one in enumerate(snapshot.consumers.index) if one.address == topic]
    assert len(mine) == 4
    assert {snapshot.consumers.index.rows[i].client for i in mine} == {"load-subscribe"}
    assert snapshot.consumers["buffered"][mine].sum() == 6
    at = snapshot.queues.index.positions(snapshot.consumer_queue[mine])
    assert {snapshot.queues.index.rows[i].address for i in at} == {topic}
    assert (snapshot.consumer_connection[mine] > 0).all()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_wrong_password_is_said_and_never_shown(
    openmq: OpenMQBroker, tmp_path: Path, transport: str
) -> None:
    with nothing_left():
        reader = reading(
            tmp_path, configured(openmq, transport, password="wr0ng-secret")
        )
        try:
            with pytest.raises(Refused) as refused:
                await reader.poll(TIMEOUT)
        finally:
            await reader.close()
    said = refused.value
    assert (
        "wr0ng-secret" not in f"{said} {said!r} {said.__cause__!r} {said.__context__!r}"
    )


@pytest.mark.parametrize("transport", ["jolokia", "jmx"])
async def test_a_restart_is_seen_and_survived(tmp_path: Path, transport: str) -> None:
    broker = OpenMQBroker.create(tmp_path / "broker")
    with nothing_left():
        reader = reading(tmp_path, configured(broker, transport))
        try:
            broker.start()
            before = (await polled(reader)).broker
            broker.stop()
            with pytest.raises(Unreachable):
                await reader.poll(TIMEOUT)
            broker.start()
            after = (await polled(reader)).broker
        finally:
            await reader.close()
            broker.kill()
    assert before is not None
    assert after is not None
    assert after.uptime < before.uptime + 60
    assert after.clock - after.uptime > before.clock - before.uptime + 1


async def test_a_killed_helper_is_started_again(
    openmq: OpenMQBroker, tmp_path: Path
) -> None:
    config = load(written(tmp_path, configured(openmq, "jmx")))
    transport = open_transport(config.brokers[0])
    helper = transport._inner  # type: ignore[attr-defined]
    assert isinstance(helper, JmxTransport)
    with nothing_left():
        try:
            pids = set()
            for _ in range(2):
                await transport.ask([ask.ABOUT[0]], TIMEOUT)
                assert helper.pid is not None
                pids.add(helper.pid)
                os.kill(helper.pid, signal.SIGKILL)
            await transport.ask([ask.ABOUT[0]], TIMEOUT)
        finally:
            await transport.close()
    assert len(pids) == 2


async def test_a_helper_that_cannot_run_is_not_started_over_and_over(
    openmq: OpenMQBroker, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    starts = tmp_path / "starts"
    java.write_text(f"#!/bin/sh\necho start >> {starts}\necho 'too old' >&2\nexit 1\n")
    java.chmod(0o700)
    with nothing_left():
        reader = reading(tmp_path, configured(openmq, "jmx", java=str(java)))
        try:
            for _ in range(5):
                with pytest.raises(
                    Unreachable, match=r"too old; it is started again in \d+ s"
                ):
                    await reader.poll(TIMEOUT)
        finally:
            await reader.close()
    assert starts.read_text().count("start") == 1


async def test_what_the_policy_does_not_name_is_denied(openmq: OpenMQBroker) -> None:
    manager = f"{ask.DOMAIN}:type=DestinationManager,subtype=Config"
    text = "java.lang.String"
    broker, consumers = (
        f"{ask.DOMAIN}:type={one},subtype=Config"
        for one in ("Broker", "ConsumerManager")
    )
    denied: list[dict[str, Any]] = [
        called(manager, f"purge({text},{text})", "q", "x"),
        called(manager, f"destroy({text},{text})", "q", "x"),
        called(manager, "pause()"),
        called(broker, "shutdown()"),
        called(consumers, "purge", "1"),
        called("java.lang:type=Memory", "gc"),
        {"type": "write", "mbean": manager, "attribute": "MaxNumMsgs", "value": 1},
        {
            "type": "read",
            "mbean": "java.lang:type=Runtime",
            "attribute": "SystemProperties",
        },
        {"type": "list"},
    ]
    login = {
        "Authorization": aiohttp.encode_basic_auth(
            openmq.reader.user, openmq.reader.password
        )
    }
    async with aiohttp.ClientSession(headers=login) as session:
        for request in denied:
            async with session.post(
                openmq.jolokia_url, data=json.dumps(request)
            ) as answer:
                assert (await answer.json(content_type=None))["status"] == 403, request
        async with session.get(
            openmq.jolokia_url + "read/java.lang:type=Memory"
        ) as answer:  # GET is easier to forge
            assert (await answer.json(content_type=None))["status"] == 403
    async with (
        aiohttp.ClientSession() as session,
        session.post(openmq.jolokia_url, data="[]") as answer,
    ):
        assert answer.status == 401


@pytest.mark.parametrize(
    "request_",
    [
        called(f"{ask.DOMAIN}:type=Broker,subtype=Config", "shutdown"),
        called("java.lang:type=Memory", "gc"),
        {
            "type": "write",
            "mbean": f"{ask.DOMAIN}:type=DestinationManager,subtype=Config",
            "attribute": ["MaxNumMsgs"],
        },
    ],
)
async def test_the_helper_does_nothing_but_read(
    openmq: OpenMQBroker, tmp_path: Path, request_: dict[str, Any]
) -> None:
    transport = open_transport(
        load(written(tmp_path, configured(openmq, "jmx"))).brokers[0]
    )
    try:
        answer = json.loads((await transport.ask([request_], TIMEOUT)).body)
    finally:
        await transport.close()
    assert answer[0]["status"] == 403
    assert openmq.running


async def test_destinations_that_go_while_they_are_read(
    openmq: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    reader = reading(tmp_path, configured(openmq, "jolokia"))
    with Load(openmq, "temporary", unique("churn"), 1):
        try:
            snapshots = [await reader.poll(TIMEOUT) for _ in range(30)]
        finally:
            await reader.close()
    errors = [
        collector.error
        for one in snapshots
        for collector in one.collectors.values()
        if collector.error
    ]
    assert len(errors) <= 3, (
        errors
    )  # a listing that broke twice in a row; the next poll has it again
    assert all(one.queues is not None for one in snapshots)


async def test_100_000_messages_are_not_walked_at_every_poll(tmp_path: Path) -> None:
    broker = OpenMQBroker.create(tmp_path / "broker", heap_mb=512)
    reader = reading(tmp_path, configured(broker, "jolokia"))
    try:
        broker.start()
        with Load(broker, "fill", "big", 99_000):
            first = row((await reader.poll(TIMEOUT)).queues, name="big")
        with Load(broker, "fill", "big", 500):
            snapshots = [await reader.poll(TIMEOUT) for _ in range(8)]
    finally:
        await reader.close()
        broker.kill()
    assert first["messages"] == 99_000
    assert first["exact"] == 1
    found = [row(one.queues, name="big") for one in snapshots]
    assert {one["messages"] for one in found} == {99_500}
    assert {one["bytes"] > 0 for one in found} == {True}
    assert (
        sum(one["exact"] for one in found) < 6
    )  # the budget is saved up for about five of such readings


def test_the_demo_shows_its_faults_and_leaves_nothing(tmp_path: Path) -> None:
    with nothing_left():
        scenario = OpenMQScenario()
        scenario.start()
        try:
            said = json.loads(scenario.config_yaml(interval="1s"))
            said["judgement"] = {"cold": "3s"}
            with Agent(tmp_path, **{**said, "timeout": "900ms"}) as agent:
                agent.until(
                    lambda s: bool(s.find("mq_queue_unhealthy", cause="stalled")),
                    expected=True,
                    timeout=60,
                )
        finally:
            scenario.stop()
    assert scenario.directory is not None
    assert not scenario.directory.exists()


def test_the_same_series_as_of_artemis(
    openmq: OpenMQBroker, artemis: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    queue = unique("both")
    artemis.manage.create_queue(queue)
    exporter = artemis.accounts["exporter"]
    brokers = [
        configured(openmq, "jolokia", name="openmq"),
        {
            "name": "artemis", "kind": "artemis", "url": artemis.jolokia_url, "username": exporter.user,
            "password": exporter.password, "origin": artemis.origin, "include": [{"queue": queue}],
        },
    ]  # fmt: skip
    with (
        Load(openmq, "fill", queue, 5),
        Load(openmq, "consume", queue, 1),
        Agent(tmp_path, brokers=brokers) as agent,
    ):
        agent.next_poll("openmq")
        agent.next_poll("openmq")
        scrape = agent.next_poll("artemis")
    families = {
        name: {"openmq": set[frozenset[str]](), "artemis": set[frozenset[str]]()}
        for name, *_ in scrape.samples
    }
    for name, labels, _ in scrape.samples:
        if (kind := labels.get("broker")) in ("openmq", "artemis"):
            families[name][kind].add(frozenset(labels))
    both = {
        name: labels
        for name, labels in families.items()
        if labels["openmq"] and labels["artemis"]
    }
    assert all(labels["openmq"] == labels["artemis"] for labels in both.values()), both
    wanted = (
        "messages",
        "ready_messages",
        "delivering_messages",
        "scheduled_messages",
        "consumers",
        "paused",
        "bytes",
    )
    assert {f"mq_queue_{name}" for name in wanted} | {
        "mq_queue_messages_added_total",
        "mq_queue_info",
    } <= set(both)
    shown = scrape.numbers(
        "mq_queue_", [*wanted, "messages_added_total"], broker="openmq", queue=queue
    )
    assert (
        shown["messages"],
        shown["ready_messages"],
        shown["messages_added_total"],
    ) == (5, 5, 5)
    # What OpenMQ does not know is absent there.
    assert not scrape.find("mq_queue_messages_acknowledged_total", broker="openmq")
    assert not np.isnan(
        scrape.value("mq_broker_start_timestamp_seconds", broker="openmq")
    )


def test_what_its_clients_settings_lead_to_is_found(
    openmq: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """A threshold of 10 %, and buffers of three consumers that do not fit into what their client may use."""
    queue = unique("q")
    consumer = consume(
        delay=10,
        connection="one",
        imqConsumerFlowLimit=100,
        imqConsumerFlowThreshold=10,
    )
    scenario = Scenario(queue, [produce(rate=500, size=1000), *[consumer] * 3])
    rules = [{"match": {"queue": queue}, "client_memory": 65536}]
    with (
        Clients(
            openmq,
            compiled(openmq, tmp_path / "classes"),
            roles_of(scenario),
            tmp_path / "log",
        ),
        Agent(
            tmp_path,
            brokers=[configured(openmq, "jolokia", name="o")],
            interval="1s",
            rules=rules,
        ) as agent,
    ):
        wanted = {"flow_threshold_extreme", "flow_limit_exceeds_memory"}
        scrape = agent.until(
            lambda s: (
                {have["rule"] for have, _ in s.find("mq_config_finding")} >= wanted
            ),
            expected=True,
            timeout=150,
        )
        told = json.loads(agent.request(f"/api/v1/explain?broker=o&queue={queue}")[1])
    by_rule = {
        one["rule"]: {name: n["value"] for name, n in one["evidence"].items()}
        for one in told["findings"]
    }
    threshold = by_rule["flow_threshold_extreme"]
    memory = by_rule["flow_limit_exceeds_memory"]
    assert (threshold["limit"], threshold["resume"], threshold["batch"]) == (
        100,
        10,
        90,
    )
    assert memory["most_bytes"] == pytest.approx(
        3 * memory["limit"] * memory["mean_bytes"], rel=1e-3
    )
    assert memory["advised"] == 65536 // (3 * memory["mean_bytes"])
    assert scrape.find(
        "mq_config_finding", rule="flow_limit_exceeds_memory", scope="connection"
    )
