"""A real ActiveMQ Classic, set up by `penstock init`: its numbers are its clients' own, its rights end at reading, and
beside an Artemis with the same traffic it is shown by the same metrics.
"""

import base64
import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock_demo.broker import Broker
from penstock_demo.classic import ClassicBroker
from penstock_demo.load import StompConsumer, StompProducer
from penstock_demo.management import Account
from rig.classic import Clients
from rig.waiting import eventually
from setup.test_init import contents

pytestmark = pytest.mark.broker

SAMPLE = re.compile(r"(mq_\w+)\{([^}]*)\} (\S+)")
COUNTED_APART = {
    "mq_queue_messages_acknowledged_total",
    "mq_queue_messages_killed_total",
    "mq_queue_scheduled_messages",
    "mq_queue_dead_letter_info",
}
"""What Artemis shows and Classic does not."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def set_up(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ClassicBroker, Path]]:
    """A broker as it is shipped, then `penstock init`, then started; and the configuration. Taken back at the end."""
    folder = tmp_path_factory.mktemp("classic")
    broker = ClassicBroker.create(folder / "c1", read_only=False)
    config = folder / "penstock.yaml"
    before = contents(broker.conf)
    init = ("init", str(broker.directory), "--config.file", str(config), "--yes")
    assert (made := run(*init)).exit_code == 0, made.output
    broker.start()
    yield broker, config
    assert run(*init).output == "nothing to change\n"
    broker.stop()
    assert (
        run(
            "init", str(broker.directory), "--config.file", str(config), "--undo"
        ).exit_code
        == 0
    )
    assert contents(broker.conf) == before


def shown(config: Path) -> dict[tuple[str, str], dict[str, float]]:
    """By broker and queue the metrics of queues and of clients, by name; of clients summed."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, labels, value in SAMPLE.findall(
        run("once", "--config.file", str(config)).output
    ):
        said = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if "queue" in said:
            sums = found.setdefault((said["broker"], said["queue"]), {})
            sums[name] = sums.get(name, 0.0) + float(value)
    return found


def test_numbers_are_those_of_the_clients(set_up: tuple[ClassicBroker, Path]) -> None:
    broker, config = set_up
    assert (
        "FAILED" not in (checked := run("check", "--config.file", str(config))).output
    )
    assert checked.exit_code == 0, checked.output
    assert "Jolokia's proxy" not in checked.output
    assert "Apache ActiveMQ Classic 5.18.3" in checked.output
    first = [
        ("fill", "backlog", 50),
        ("visit", "backlog", 20),
        ("fill", "held", 30),
        ("hold", "held", 10),
    ]
    with Clients(
        broker,
        [*first, ("durable", "news", 0), ("lazy", "kept", 0), ("fill", "kept", 7)],
    ) as clients:

        def received() -> bool:
            return clients.counts.get("visit-backlog") == (0, 20) and clients.counts[
                "hold-held"
            ] == (0, 10)

        eventually(received, True)
        with Clients(broker, [("tell", "news", 12)]):
            found = shown(config)
        counts = clients.counts
    sent = counts["fill-backlog"][0]
    taken = counts["visit-backlog"][1]
    backlog = found["c1", "backlog"]
    held = found["c1", "held"]
    assert backlog["mq_queue_messages_added_total"] == sent == 50
    assert backlog["mq_queue_messages_removed_total"] == taken == 20
    assert (
        backlog["mq_queue_ready_messages"]
        == backlog["mq_queue_messages"]
        == sent - taken
    )
    assert backlog["mq_queue_consumers"] == 0
    assert (
        held["mq_queue_delivering_messages"]
        == held["mq_client_buffered_messages"]
        == 30
    )  # prefetched, too
    assert held["mq_queue_messages_removed_total"] == 0
    assert found["c1", "durable-news.sub"]["mq_queue_messages"] == 12
    assert (
        found["c1", "kept"]["mq_client_buffered_messages"]
        == counts["fill-kept"][0]
        == 7
    )
    assert not COUNTED_APART & set(backlog)


def asked(broker: ClassicBroker, account: Account, **request: object) -> int:
    login = base64.b64encode(f"{account.user}:{account.password}".encode()).decode()
    headers = {
        "Origin": "http://127.0.0.1",
        "Authorization": f"Basic {login}",
        "Content-Type": "application/json",
    }
    mbean = "org.apache.activemq:type=Broker,brokerName=c1,destinationType=Queue,destinationName=backlog"
    data = json.dumps({"mbean": mbean, **request}).encode()
    call = urllib.request.Request(broker.jolokia_url, data, headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(call, timeout=20) as answer:  # noqa: S310 - loopback
        return int(json.load(answer)["status"])


def test_no_user_may_do_more_than_read(set_up: tuple[ClassicBroker, Path]) -> None:
    broker, config = set_up
    with Clients(broker, [("fill", "backlog", 1)]):
        pass
    ours = Account("penstock", config.with_name("c1.password").read_text().strip())
    for account in (broker.admin, ours):
        assert asked(broker, account, type="read", attribute="QueueSize") == 200
        assert asked(broker, account, type="exec", operation="purge()") == 403
        assert asked(broker, account, type="exec", operation="browse()") == 403
        assert (
            asked(broker, account, type="write", attribute="MemoryLimit", value=1)
            == 403
        )
    secrets = {
        "mbean": "java.lang:type=Runtime",
        "type": "read",
        "attribute": "SystemProperties",
    }
    assert asked(broker, ours, **secrets) == 403


def has_some(consumer: StompConsumer) -> bool:
    return consumer.counts.received > 0


def test_beside_an_artemis_the_same_traffic_has_the_same_metrics(
    set_up: tuple[ClassicBroker, Path], artemis: Broker, unique: Callable[[str], str]
) -> None:
    """What the page on moving from one to the other rests on."""
    broker, config = set_up
    queue = unique("moved")
    both = config.with_name("both.yaml")
    said = yaml.safe_load(config.read_text())
    reader = artemis.accounts["exporter"]
    other = {
        "name": "a1",
        "kind": "artemis",
        "url": artemis.jolokia_url,
        "username": reader.user,
    }
    said["brokers"].append(other | {"password": reader.password})
    both.touch(mode=0o600)
    both.write_text(yaml.safe_dump(said))
    for endpoint, to, routing in (
        (broker.stomp(), f"/queue/{queue}", ""),
        (artemis.endpoint(), queue, "ANYCAST"),
    ):
        with (
            StompProducer(
                endpoint, to, client_id="shop", routing_type=routing
            ) as producer,
            StompConsumer(
                endpoint, to, client_id="desk", routing_type=routing, acknowledge=False
            ) as consumer,
        ):
            producer.send(20)
            eventually(partial(has_some, consumer), True)
    found = shown(both)
    classic = found["c1", queue]
    moved = found["a1", queue]
    assert set(moved) - set(classic) <= COUNTED_APART | {
        name for name in moved if name.startswith("mq_account")
    }
    assert set(classic) - set(moved) == {"mq_queue_messages_removed_total"}
    for name in ("messages", "ready_messages", "messages_added_total", "consumers"):
        assert classic[f"mq_queue_{name}"] == moved[f"mq_queue_{name}"], name
