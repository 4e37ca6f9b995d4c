"""A live broker and its backup, both watched, through a failover and back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.agent import Agent, Scrape, entry
from e2e.test_hang import console, through, up
from penstock_demo.artemis import ArtemisBroker
from rig.drivers import AmqpHolder, AmqpProducer
from rig.proxy import Fault, Proxy
from rig.waiting import eventually
from trust.failovers import events

pytestmark = pytest.mark.broker


def roles(scrape: Scrape) -> dict[str, tuple[float, str]]:
    """Per broker whether it is up, and its role."""
    role = {
        labels["broker"]: labels["role"] for labels, _ in scrape.find("mq_broker_info")
    }
    up = {labels["broker"]: value for labels, value in scrape.find("mq_up")}
    return {broker: (value, role.get(broker, "")) for broker, value in up.items()}


def told(agent: Agent, *changes: str) -> list[tuple[str, str, str]]:
    return [
        (one["change"], one["broker"], one["detail"])
        for one in events(agent)
        if one["change"] in changes
    ]


def uptime(broker: ArtemisBroker) -> float:
    return float(str(broker.manage.read(broker.manage.broker, "UptimeMillis"))) / 1000


def test_failover_and_failback(
    artemis_pair: tuple[ArtemisBroker, ArtemisBroker], tmp_path: Path
) -> None:
    live, backup = artemis_pair
    live.manage.create_queue("q")
    with AmqpProducer(live.endpoint(), "q") as producer:
        producer.send(5)
    with Agent(tmp_path / "agent", brokers=[entry(live), entry(backup)]) as agent:
        before = agent.until(roles, {"live": (1, "active"), "backup": (1, "passive")})
        nodes = {labels["node_id"] for labels, _ in before.find("mq_broker_info")}
        assert len(nodes) == 1
        assert before.value("mq_queue_messages", broker="live", queue="q") == 5
        passive = {
            family
            for family, labels, _ in before.samples
            if labels.get("broker") == "backup"
        }
        assert not [
            family
            for family in passive
            if family.startswith(("mq_queue", "mq_address", "mq_client"))
        ]
        assert "mq_broker_disk_used_ratio" not in passive

        live.kill()
        agent.until(lambda scrape: roles(scrape)["backup"], (1, "active"))
        with AmqpHolder(backup.endpoint(), "q", credit=2, client_id="reader") as holder:
            eventually(lambda: holder.counts.received, 2)
            holder.acknowledge(1)
            after = agent.until(
                lambda scrape: scrape.numbers(
                    "mq_client_",
                    ["buffered_messages"],
                    broker="backup",
                    client="reader",
                ),
                {"buffered_messages": 1},
            )
        assert after.value("mq_queue_messages", broker="backup", queue="q") == 4
        assert roles(after)["live"][0] == 0
        assert (
            after.value("mq_queue_messages_added_total", broker="backup", queue="q")
            == 0
        ), "5 were reloaded"
        assert told(agent, "role") == [("role", "backup", "passive to active")]
        assert {
            labels["node_id"] for labels, _ in after.find("mq_broker_info")
        } == nodes

        live.start()
        live.wait_until_active()
        back = agent.until(
            roles, {"live": (1, "active"), "backup": (1, "passive")}, timeout=40
        )
        assert back.value("mq_queue_messages", broker="live", queue="q") == 4
        assert not back.find("mq_queue_messages", broker="backup")
        assert (
            back.value("mq_queue_messages_added_total", broker="live", queue="q") == 0
        )
        assert {labels["node_id"] for labels, _ in back.find("mq_broker_info")} == nodes
        assert told(agent, "role", "condition_on") == [
            ("role", "backup", "passive to active"), ("role", "backup", "active to passive")
        ]  # fmt: skip


@pytest.mark.nightly  # a pair of its own
def test_a_broker_that_is_killed_young_has_restarted(
    own_artemis: Callable[..., ArtemisBroker], tmp_path: Path
) -> None:
    """At the first poll of the new process it is older than the one before ever was."""
    broker = own_artemis()
    with (
        Proxy(console(broker)) as proxy,
        Agent(tmp_path / "agent", brokers=[entry(broker, url=through(proxy))]) as agent,
    ):
        agent.until(up, {broker.name: 1.0})
        proxy.fault = Fault.RESET
        age = uptime(broker)
        broker.kill()
        broker.start()
        eventually(lambda: uptime(broker) > age + 2, expected=True, timeout=60)
        proxy.fault = Fault.NONE
        agent.until(up, {broker.name: 1.0})
        assert told(agent, "broker_restart") == [("broker_restart", broker.name, "")]
