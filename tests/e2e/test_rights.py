"""The exporter's own role: enough for everything that is read, for nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from e2e.agent import Agent, entry
from penstock.cli import main
from penstock_demo.broker import Broker
from penstock_demo.errors import DemoError
from penstock_demo.management import Management
from rig.day_and_night import versions
from rig.drivers import AmqpProducer

pytestmark = pytest.mark.broker


@pytest.fixture(params=versions("artemis", "artemis_2_28", "artemis_2_21"))
def broker(request: pytest.FixtureRequest) -> Broker:
    broker: Broker = request.getfixturevalue(request.param)
    return broker


def check(folder: Path, broker: dict[str, Any]) -> Result:
    """`penstock check` of one broker, which has as long for its answers as it has by default."""
    file = Agent(folder, interval="10s", timeout="9.5s", brokers=[broker]).file
    return CliRunner().invoke(main, ["check", "--config.file", str(file)])


def test_what_would_harm_is_denied(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    name = unique("q")
    broker.manage.create_queue(name)
    with AmqpProducer(broker.endpoint(), name) as producer:
        producer.send(3)
    exporter = Management(
        broker.jolokia_url,
        broker.name,
        broker.accounts["exporter"],
        origin=broker.origin,
    )
    text = "java.lang.String"
    queue = exporter.queue_mbean(name)
    address = exporter.address_mbean(name)
    denied: list[tuple[str, str, list[Any]]] = [
        (queue, "removeAllMessages()", []),
        (queue, f"removeMessages({text})", [""]),
        (queue, "browse()", []),
        (queue, f"browse({text})", [""]),
        (queue, "countMessages()", []),
        (queue, f"listMessages({text})", [""]),
        (queue, "listDeliveringMessages()", []),
        (queue, "listScheduledMessages()", []),
        (queue, f"moveMessages({text},{text})", ["", "DLQ"]),
        (queue, "pause()", []),
        (queue, "resetMessagesAdded()", []),
        (
            queue,
            f"sendMessage(java.util.Map,int,{text},boolean,{text},{text})",
            [{}, 3, "x", True, "", ""],
        ),
        (address, "pause()", []),
        (exporter.broker, f"destroyQueue({text})", [name]),
        (exporter.broker, f"closeConnectionsForUser({text})", ["admin"]),
        (exporter.broker, f"listUser({text})", [""]),
        (exporter.broker, "listPreparedTransactionDetailsAsJSON()", []),
        (exporter.broker, "listPreparedTransactionDetailsAsHTML()", []),
        (exporter.broker, "forceFailover()", []),
    ]
    for mbean, operation, arguments in denied:
        with pytest.raises(DemoError, match=r"not authorized|No operation"):
            exporter.call(mbean, operation, *arguments)
    for attribute in ("FirstMessageAge", "FirstMessageAsJSON", "FirstMessageTimestamp"):
        with pytest.raises(DemoError, match="not authorized"):
            exporter.read(queue, attribute)
    assert broker.manage.queue(name, "MessageCount") == 3
    assert broker.manage.queue(name, "Paused") is False


def test_check(broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> None:
    broker.manage.create_queue(unique("q"))
    done = check(tmp_path / "exporter", entry(broker))
    assert done.exit_code == 0, done.output
    assert f"ok        Apache Artemis {broker.version}, active" in done.output
    assert "management_guard_off" not in done.output
    assert ("no numbers per consumer" in done.output) == (broker.version == "2.21.0")

    done = check(tmp_path / "admin", entry(broker, user="admin"))
    assert done.exit_code == 0, done.output
    assert f"finding   management_guard_off, broker {broker.name}" in done.output


@pytest.mark.nightly  # a broker of its own version
def test_check_of_a_broker_without_a_guard(
    artemis_newest: Broker, tmp_path: Path
) -> None:
    """A JVM agent of Jolokia switches etc/management.xml off."""
    artemis_newest.manage.create_queue("guard")
    done = check(tmp_path / "agent", entry(artemis_newest))
    assert (
        "-javaagent in the broker's JVM has switched etc/management.xml off"
        in done.output
    )


def test_check_of_a_wrong_password(artemis: Broker, tmp_path: Path) -> None:
    wrong = entry(artemis, user="orders", password="canary-wrong")
    done = check(tmp_path / "agent", wrong)
    assert done.exit_code == 1
    assert "check username and password" in done.output
    assert "canary" not in done.output
