"""A broker is the same whichever way it is asked: Artemis over JMX, an agent attached to an OpenMQ, recordings."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from flowbench.openmq import PACKAGE, entry, manage
from penstock.agent.factory import open_reader, open_transport
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.cli import main
from penstock.config import Broker, load
from penstock.core.errors import Refused
from penstock.model import Snapshot
from penstock.transports.recording import RecordingFile
from penstock.transports.transport import Answer, Request, Transport
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.cache import require_java
from penstock_demo.openmq import OpenMQBroker, fetch_jolokia
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from rig.openmq import Load, configured
from rig.waiting import eventually

pytestmark = pytest.mark.broker

TIMEOUT = 60.0
COUNTED = ("messages", "delivering", "scheduled", "consumers", "added", "acknowledged")


def broker_of(folder: Path, said: dict[str, Any]) -> Broker:
    file = folder / "penstock.yaml"
    file.write_text(json.dumps({"brokers": [said]}))
    return load(file).brokers[0]


async def read(broker: Broker, folder: Path) -> Snapshot:
    reader = open_reader(load(folder / "penstock.yaml"), broker)
    try:
        return await reader.poll(TIMEOUT)
    finally:
        await reader.close()


def queue_numbers(
    snapshot: Snapshot, queue: str, names: Sequence[str]
) -> dict[str, float]:
    assert snapshot.queues is not None
    (at,) = [i for i, row in enumerate(snapshot.queues.index) if row.name == queue]
    return {
        name: float(snapshot.queues[name][at])
        for name in names
        if name in snapshot.queues
    }


# --- Artemis over JMX


async def test_artemis_by_each_transport(
    own_artemis: Callable[..., ArtemisBroker],
    tmp_path: Path,
    unique: Callable[[str], str],
) -> None:
    broker = own_artemis(read_only_user="exporter", jmx=True)
    queue = unique("q")
    account = broker.accounts["exporter"]
    common = {
        "name": "a",
        "kind": "artemis",
        "username": account.user,
        "password": account.password,
    }
    ways: dict[str, dict[str, Any]] = {
        "jolokia": {"url": broker.jolokia_url, "origin": broker.origin},
        "jmx": {"url": broker.jmx_url},
    }
    broker.manage.create_queue(queue)
    snapshots: dict[str, Snapshot] = {}
    with AmqpProducer(broker.endpoint(), queue) as producer:
        producer.send(7)
        with AmqpConsumer(
            broker.endpoint(), queue, credit=4, client_id="worker"
        ) as consumer:
            eventually(lambda: consumer.counts.acknowledged, 7)
        producer.send(5)
        with AmqpHolder(broker.endpoint(), queue, credit=2, client_id="holder"):
            for name, way in ways.items():
                said = broker_of(tmp_path, {**common, "transport": name, **way})
                snapshots[name] = await read(said, tmp_path)
    wanted = {
        "messages": 5,
        "delivering": 2,
        "scheduled": 0,
        "consumers": 1,
        "added": 12,
        "acknowledged": 7,
    }
    for name in ways:
        assert queue_numbers(snapshots[name], queue, COUNTED) == wanted, name
    for name in ways:
        consumers = snapshots[name].consumers
        assert consumers is not None
        (at,) = [i for i, row in enumerate(consumers.index) if row.queue == queue]
        assert (consumers.index.rows[at].client, consumers["buffered"][at]) == (
            "holder",
            2,
        )
    same = [
        (one.broker.node_id, one.broker.version)
        for one in snapshots.values()
        if one.broker
    ]
    assert len(set(same)) == 1
    wrong = broker_of(
        tmp_path,
        {**common, "transport": "jmx", **ways["jmx"], "password": "wr0ng-secret"},
    )
    with pytest.raises(Refused) as refused:
        await read(wrong, tmp_path)
    assert "wr0ng-secret" not in str(refused.value)


# --- OpenMQ


async def test_an_agent_attached_to_a_broker_that_runs(tmp_path: Path) -> None:
    """As docs/openmq.md says; the account and the policy come with it."""
    broker = OpenMQBroker.create(tmp_path / "broker", attached=False)
    try:
        broker.start()
        jar = str(fetch_jolokia())
        options = [f"--config={broker.agent_options}"]
        attach = [require_java(), "-jar", jar, *options, "start", str(broker.pid)]
        done = await asyncio.to_thread(
            subprocess.run, attach, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with Load(broker, "fill", "q", 3):
            snapshot = await read(
                broker_of(tmp_path, configured(broker, "jolokia")), tmp_path
            )
        assert queue_numbers(snapshot, "q", ("messages", "added")) == {
            "messages": 3,
            "added": 3,
        }
        with pytest.raises(Refused):
            await read(
                broker_of(tmp_path, configured(broker, "jolokia", password="wr0ng")),
                tmp_path,
            )
    finally:
        broker.kill()


class Meanwhile:
    """A transport beside which `act` happens before the first call that asks for `what`."""

    def __init__(self, inner: Transport, what: str, act: Callable[[], None]) -> None:
        self._inner = inner
        self._what = what
        self._act = act
        self.acted = False

    async def begin_poll(self) -> None:
        await self._inner.begin_poll()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        if not self.acted and self._what in json.dumps(requests):
            self.acted = True
            await asyncio.to_thread(self._act)
        return await self._inner.ask(requests, timeout)

    async def close(self) -> None:
        await self._inner.close()


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An OpenMQ whose Jolokia lets everybody do everything."""
    broker = OpenMQBroker.create(
        tmp_path_factory.mktemp("openmq") / "open", read_only=False, hostname=False
    )
    broker.start()
    yield broker
    broker.kill()


def managed(broker: OpenMQBroker, operation: str, *arguments: str) -> None:
    texts = ",".join(["java.lang.String"] * len(arguments))
    mbean = f"{PACKAGE}:type=DestinationManager,subtype=Config"
    manage(
        broker,
        type="exec",
        mbean=mbean,
        operation=f"{operation}({texts})",
        arguments=list(arguments),
    )


@pytest.mark.parametrize("moment", ["NumMsgsIn", "ConsumerFlowLimit"])
async def test_a_destination_that_an_administrator_destroys_in_the_middle_of_a_poll(
    open_broker: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str], moment: str
) -> None:
    """Before its numbers are read, and between these and its settings."""
    doomed = unique("doomed")
    other = unique("other")
    for name in (doomed, other):
        managed(open_broker, "create", "q", name)
    said = broker_of(tmp_path, entry(open_broker))
    transport = Meanwhile(
        open_transport(said),
        moment,
        lambda: managed(open_broker, "destroy", "q", doomed),
    )
    reader = KINDS[said.kind].reader(transport, ReaderOptions(name=said.name), None)
    try:
        snapshots = [await reader.poll(TIMEOUT) for _ in range(3)]
    finally:
        await reader.close()
    assert transport.acted
    assert not [
        one.error
        for snapshot in snapshots
        for one in snapshot.collectors.values()
        if one.error
    ]
    for snapshot in snapshots:
        assert queue_numbers(snapshot, other, ("messages",)) == {"messages": 0}
    assert snapshots[-1].queues is not None
    assert doomed not in {row.name for row in snapshots[-1].queues.index}


async def test_one_login_for_all_polls_over_jmx(
    openmq: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """The broker logs each of them."""
    said = broker_of(tmp_path, configured(openmq, "jmx"))
    before = openmq.log.read_text().count("JMX Connection Open: jmxrmi")
    reader = open_reader(load(tmp_path / "penstock.yaml"), said)
    try:
        for _ in range(3):
            await reader.poll(TIMEOUT)
        logins = openmq.log.read_text().count("JMX Connection Open: jmxrmi") - before
    finally:
        await reader.close()
    assert logins == 1


async def test_a_recording_of_openmq_comes_back_and_is_judged(
    openmq: OpenMQBroker, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    queue = unique("q")
    file = tmp_path / "o.jsonl.gz"
    said = broker_of(tmp_path, configured(openmq, "jolokia"))
    config = load(tmp_path / "penstock.yaml")
    with Load(openmq, "fill", queue, 4), Load(openmq, "consume", queue, 1):
        live = open_reader(config, said, record=RecordingFile(file))
        try:
            polled = [await live.poll(TIMEOUT) for _ in range(3)]
        finally:
            await live.close()
    assert openmq.reader.password.encode() not in file.read_bytes()
    again = open_reader(
        config,
        broker_of(
            tmp_path,
            {
                "name": "o",
                "kind": "openmq",
                "transport": "recording",
                "url": f"recording:{file}",
            },
        ),
    )
    try:
        replayed = [await again.poll(TIMEOUT) for _ in range(3)]
    finally:
        await again.close()
    for before, after in zip(polled, replayed, strict=True):
        for name in (
            "queues",
            "addresses",
            "consumers",
            "connections",
            "producers",
            "transactions",
        ):
            one = getattr(before, name)
            other = getattr(after, name)
            assert list(one.index) == list(other.index), name
            assert one.columns.keys() == other.columns.keys(), name
            for column in one.columns:
                np.testing.assert_array_equal(
                    one[column], other[column], err_msg=f"{name}.{column}"
                )
    told = await asyncio.to_thread(CliRunner().invoke, main, ["replay", str(file)])
    assert told.exit_code == 0
    assert "3 polls" in told.output
