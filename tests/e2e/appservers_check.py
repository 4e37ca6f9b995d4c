"""GlassFish and Payara with an application: numbers against its own, a bean that hangs, a healthy one beside it.

`make test-appservers`; 12 min.
"""

import json
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e.agent import PENSTOCK, Agent, Scrape
from penstock_demo.openmq import OpenMQBroker
from rig.appservers import AppServer
from rig.waiting import eventually

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(1800),
]  # on a busy machine a server starts for minutes

CLIENT = "guest@127.0.0.1"
OK = 50
HANGS = 6
POOL = 4


def configuration(server: AppServer, transport: str, **more: Any) -> dict[str, Any]:
    account = {
        "username": "admin",
        "password": "admin",
        "url": f"mq://127.0.0.1:{server.jms_port}",
    }
    if transport == "jolokia":
        account = {
            "username": "penstock",
            "password": server.reader.password,
            "url": server.jolokia_url,
        }
    broker = {"name": "o1", "kind": "openmq", "transport": transport, **account, **more}
    patient = {"match": {"queue": "*"}, "patience": "10s"}
    return {
        "interval": "5s",
        "timeout": "4500ms",
        "brokers": [broker],
        "rules": [patient],
    }


def said_by(command: list[str]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def numbers(scrape: Scrape, queue: str) -> tuple[float, ...]:
    families = (
        "mq_queue_messages",
        "mq_queue_messages_added_total",
        "mq_queue_messages_removed_total",
    )
    return tuple(
        value for family in families for _, value in scrape.find(family, queue=queue)
    )


def judged_as_the_application_is(server: AppServer, agent: Agent, holds: int) -> None:
    """Of the server in traffic: `orders` hangs and is named, `healthy` is quiet. holds: messages the bean buffers."""
    server.traffic("orders", OK)
    server.traffic("healthy", OK)
    eventually(lambda: server.traffic("healthy", 0), (OK, OK), timeout=120)
    server.traffic("orders", HANGS, "hang")
    agent.until(
        lambda scrape: numbers(scrape, "orders"), (HANGS, OK + HANGS, OK), timeout=120
    )
    server.traffic("orders", OK)
    for _ in range(3):
        server.traffic("healthy", OK)
        time.sleep(1)
    found = agent.until(
        lambda scrape: numbers(scrape, "orders"),
        (HANGS + OK, OK + HANGS + OK, OK),
        timeout=120,
    )
    agent.until(
        lambda scrape: numbers(scrape, "healthy"), (0, 4 * OK, 4 * OK), timeout=120
    )
    agent.until(
        lambda scrape: [
            labels["cause"]
            for labels, _ in scrape.find(
                "mq_client_unhealthy_consumers", queue="orders"
            )
        ],
        ["stalled"],
        timeout=120,
    )
    held = found.find("mq_client_buffered_messages", queue="orders")
    assert [value for _, value in held] == [holds]
    assert not agent.scrape().find("mq_queue_unhealthy", queue="healthy")
    assert server.traffic("orders", 0) == (OK, 4 * OK)


@pytest.mark.parametrize("product", ["glassfish", "payara"])
def test_embedded(product: str, tmp_path: Path) -> None:
    """The steps of docs/getting-started.md: start, attach, and the broker begins at the first use of JMS."""
    with ExitStack() as stack:
        server = stack.enter_context(
            AppServer(product, tmp_path / "server", "EMBEDDED")
        )
        server.attach_jolokia()
        agent = stack.enter_context(
            Agent(tmp_path / "agent", **configuration(server, "jolokia"))
        )
        check = [str(PENSTOCK), "check", "--config.file", str(agent.file)]
        told = "in GlassFish and Payara it starts at first use"
        eventually(lambda: told in said_by(check), expected=True, timeout=120)
        server.jms_ping()
        agent.until(
            lambda scrape: [value for _, value in scrape.find("mq_up")],
            [1],
            timeout=120,
        )
        server.deploy()
        judged_as_the_application_is(server, agent, holds=POOL + 1)
        scrape = agent.scrape()
        assert {
            labels["client"] for labels, _ in scrape.find("mq_client_consumers")
        } == {CLIENT}
        assert not scrape.find("mq_broker_resource_state"), "unknown there, and no 0"
        found = json.loads(agent.request("/api/v1/explain?broker=o1&queue=orders")[1])
        notes = [one["why"] for one in found["unknown"]]
        assert any("message-driven bean" in one for one in notes)
        assert any("clientId" in one for one in notes)
        log = (server.domains / "d1" / "logs" / "server.log").read_text()
        assert "was successfully deployed" in log, (
            "attaching leaves the server's log as it is"
        )


@pytest.mark.parametrize("product", ["glassfish", "payara"])
def test_local(product: str, tmp_path: Path) -> None:
    """A broker in a process of its own: JMX needs nothing. The bean buffers all that there is, up to its prefetch."""
    with ExitStack() as stack:
        server = stack.enter_context(AppServer(product, tmp_path / "server", "LOCAL"))
        server.deploy()
        agent = stack.enter_context(
            Agent(tmp_path / "agent", **configuration(server, "jmx"))
        )
        judged_as_the_application_is(server, agent, holds=HANGS + OK)


def test_remote(tmp_path: Path) -> None:
    """The broker is elsewhere, and read there."""
    broker = OpenMQBroker.create(tmp_path / "broker", hostname=False)
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        server = AppServer(
            "glassfish", tmp_path / "server", "REMOTE", jms_port=broker.port
        )
        stack.enter_context(server)
        server.deploy()
        agent = stack.enter_context(
            Agent(tmp_path / "agent", **configuration(server, "jmx"))
        )
        judged_as_the_application_is(server, agent, holds=HANGS + OK)
