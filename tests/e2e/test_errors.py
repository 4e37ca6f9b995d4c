"""What goes wrong between the agent and a broker, as the operator sees it."""

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pytest

from e2e.agent import Agent, Scrape, entry
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker
from penstock_demo.ports import free_port
from rig.drivers import AmqpHolder, AmqpProducer
from rig.proxy import Fault, Proxy
from rig.waiting import eventually

pytestmark = pytest.mark.broker

CANARY = "canary-pa55-\"wörd'"

SAID = {
    "wrong password": r"HTTP 40[13] for user 'billing': check username and password",
    "wrong path": r"HTTP 404: no Jolokia here; Artemis serves it at /console/jolokia/",
    "no json": r"HTTP 30\d to '.*': give the URL that answers itself|not an answer of Jolokia|expected Jolokia's 200",
    "wrong origin": r"Origin .* is not allowed.*set `origin` to",
    "nobody there": r"cannot connect: .*is the broker's web server up\?",
    "garbage": r"the answer breaks HTTP",
    "cut off": r"the connection was lost|the answer breaks HTTP",
}
"""The misconfigured or broken brokers, and what must be said of each."""


class Counted:
    """Counts the requests that pass a proxy."""

    def __init__(self) -> None:
        self.posts = 0

    def __call__(self, chunk: bytes) -> bytes:
        self.posts += chunk.count(b"POST ")
        return chunk


def up(scrape: Scrape) -> dict[str, float]:
    return {labels["broker"]: value for labels, value in scrape.find("mq_up")}


def polls(scrape: Scrape, broker: str) -> dict[str, float]:
    found = scrape.find("penstock_polls_total", broker=broker)
    return {labels["result"]: value for labels, value in found if value}


def told(agent: Agent, pattern: str) -> list[bool]:
    """Whether page and log say it."""
    page = unescape(agent.request("/")[1])
    log = agent.log.read_text().replace('\\"', '"')
    return [bool(re.search(pattern, text)) for text in (page, log)]


def test_each_error_is_told_and_none_harms_another(
    artemis: Broker, tmp_path: Path
) -> None:
    where = (artemis.host, int(artemis.jolokia_url.split(":")[2].split("/")[0]))
    console = f"http://{artemis.host}:{where[1]}"
    counted = Counted()
    with (
        Proxy(where, alter=counted) as login,
        Proxy(where) as garbling,
        Proxy(where) as cutting,
    ):
        garbling.fault = Fault.GARBLE
        cutting.fault = Fault.RESET
        through = {name: f"http://{proxy.host}:{proxy.port}/console/jolokia/"
                   for name, proxy in (("login", login), ("garbling", garbling), ("cutting", cutting))}  # fmt: skip
        brokers = [
            entry(artemis, name="good"),
            entry(
                artemis,
                name="wrong password",
                user="billing",
                url=through["login"],
                password=CANARY,
            ),
            entry(artemis, name="wrong path", url=f"{console}/nothing/here/"),
            entry(artemis, name="no json", url=f"{console}/console/"),
            entry(artemis, name="wrong origin", origin="http://elsewhere.example"),
            entry(
                artemis,
                name="nobody there",
                url=f"http://{artemis.host}:{free_port()}/console/jolokia/",
            ),
            entry(artemis, name="garbage", url=through["garbling"]),
            entry(artemis, name="cut off", url=through["cutting"]),
        ]
        with Agent(tmp_path / "agent", brokers=brokers) as agent:
            agent.until(up, {"good": 1, **dict.fromkeys(SAID, 0)})
            for name, pattern in SAID.items():
                assert told(agent, pattern) == [True, True], f"{name}: {agent.tail(40)}"

            # A refused login is not tried again before a minute is over: more would lock the account.
            scrape = agent.until(
                lambda scrape: polls(scrape, "nobody there")["failed"] >= 10,
                expected=True,
            )
            assert counted.posts == 1
            assert (
                polls(scrape, "wrong password")["failed"]
                == polls(scrape, "wrong origin")["failed"]
                == 1
            )
            assert polls(scrape, "good")["ok"] >= 8
            # Whoever is not up shows nothing but that, and what the agent says of itself.
            dead = {
                family
                for family, labels, _ in scrape.samples
                if labels.get("broker") in SAID
            }
            assert {
                family for family in dead if not family.startswith("penstock_")
            } == {"mq_up"}

            garbling.fault = cutting.fault = Fault.NONE
            agent.until(
                lambda scrape: [up(scrape)[name] for name in ("garbage", "cut off")],
                [1, 1],
            )
            page = agent.request("/")[1] + agent.request("/config")[1]
            assert CANARY not in unescape(page) + agent.log.read_text()


@pytest.fixture
def without_lists(tmp_path: Path) -> Iterator[ArtemisBroker]:
    """A broker whose exporter may read attributes and call no listing."""
    broker = ArtemisBroker.create(tmp_path / "broker", read_only_user="exporter")
    rights = broker.directory / "etc" / "management.xml"
    rights.write_text(
        rights.read_text().replace(
            '"list*" roles="amq,exporter"', '"list*" roles="amq"'
        )
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def test_missing_rights(without_lists: ArtemisBroker, tmp_path: Path) -> None:
    broker = without_lists
    broker.manage.create_queue("q")
    with (
        AmqpProducer(broker.endpoint(), "q") as producer,
        AmqpHolder(broker.endpoint(), "q", credit=1),
    ):
        producer.send(3)
        with Agent(
            tmp_path / "agent", brokers=[entry(broker, labels={"team": "payments"})]
        ) as agent:
            scrape = agent.until(up, {broker.name: 1})
            assert [
                labels["label_team"] for labels, _ in scrape.find("mq_broker_labels")
            ] == ["payments"]
            success = {
                labels["collector"]: value
                for labels, value in scrape.find("penstock_collector_success")
            }
            assert {name for name, value in success.items() if value} >= {
                "broker",
                "roles",
            }
            assert {name for name, value in success.items() if not value} >= {
                "consumers",
                "queues",
                "sizes",
                "connections",
            }
            assert polls(scrape, broker.name).keys() == {"partial"}
            assert scrape.value("mq_broker_connections") == 2
            # Missing is not 0.
            assert not [
                name
                for name, *_ in scrape.samples
                if name.startswith(("mq_queue", "mq_client", "mq_consumer"))
            ]
            said = r"consumers: .*the role needs list\*, get\* and is\* in etc/management.xml"
            assert told(agent, said) == [True, True]


def test_broker_dies_and_comes_back(
    own_artemis: Callable[..., ArtemisBroker], tmp_path: Path
) -> None:
    broker = own_artemis(read_only_user="exporter")
    broker.manage.create_queue("q")

    def numbers(scrape: Scrape) -> dict[str, float]:
        wanted = [
            "messages",
            "consumers",
            "messages_added_total",
            "messages_acknowledged_total",
        ]
        return scrape.numbers("mq_queue_", wanted, queue="q")

    with AmqpProducer(broker.endpoint(), "q") as producer:
        producer.send(10)
    with Agent(tmp_path / "agent", brokers=[entry(broker)]) as agent:
        with AmqpHolder(broker.endpoint(), "q", credit=4, client_id="reader") as holder:
            eventually(lambda: holder.counts.received, 4)
            holder.acknowledge(4)
            before = agent.until(
                numbers,
                {
                    "messages": 6,
                    "consumers": 1,
                    "messages_added_total": 10,
                    "messages_acknowledged_total": 4,
                },
            )
            # A poll reads consumers before queues, so this one may not have seen the client yet; what none saw is lost.
            agent.until(
                lambda scrape: scrape.numbers(
                    "mq_client_", ["delivered_messages_total"], client="reader"
                ),
                {"delivered_messages_total": 4},
            )
            start = before.value("mq_broker_start_timestamp_seconds")
            broker.kill()
            # Until it is known to be gone for good the last numbers stay, with their time.
            down = agent.until(up, {broker.name: 0})
            assert numbers(down)["messages"] == 6
            stamp = down.value("penstock_poll_timestamp_seconds")
            assert told(
                agent, r"cannot connect: .*is the broker's web server up\?"
            ) == [True, True]
            assert (
                agent.next_poll(broker.name).value("penstock_poll_timestamp_seconds")
                == stamp
            )

        broker.start()
        after = agent.until(up, {broker.name: 1})
        assert after.value("mq_broker_start_timestamp_seconds") > start + 1
        # What it reads from its journal was added before: it is not counted once more.
        agent.until(
            numbers,
            {
                "messages": 6,
                "consumers": 0,
                "messages_added_total": 0,
                "messages_acknowledged_total": 0,
            },
        )
        with AmqpHolder(broker.endpoint(), "q", credit=2, client_id="reader"):
            agent.until(lambda scrape: numbers(scrape)["consumers"], 1)
            again = agent.until(
                lambda scrape: scrape.numbers(
                    "mq_client_", ["buffered_messages"], client="reader"
                ),
                {"buffered_messages": 2},
            )
        # What the client did before its broker died is not forgotten.
        assert (
            again.value("mq_client_delivered_messages_total", client="reader") == 4 + 2
        )
        assert "Traceback" not in agent.log.read_text()
