"""The demo of each kind of broker with further faults, an agent that watches it, and a Prometheus that scrapes it."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.agent import Agent
from flowbench.openmq import (
    LIMITED,
    Clients,
    Options,
    compiled,
    create_queue,
    entry,
    pause,
)
from penstock_demo.load import StompConsumer, StompProducer
from penstock_demo.management import Management
from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.run import EXPORTER, Scenario
from penstock_demo.run_stomp import OpenMQScenario
from rig.prometheus import Prometheus

ALERTS = Path(__file__).parents[2] / "alerts"
RULES = [
    {"match": {"queue": "audit.ring"}, "ring_retention": "1h"},
    {"match": {"queue": "emails"}, "expected_consumers": 3, "drain_target": "1s"},
    {"match": {"queue": "*"}, "patience": "3s"},
]


@dataclass(frozen=True, slots=True)
class Scene:
    kind: str
    prometheus: Prometheus

    def empty(self, queries: Mapping[str, str]) -> dict[str, str]:
        """Those without data, by name."""
        return {
            name: query
            for name, query in queries.items()
            if not self.prometheus.query(query)
        }


@contextmanager
def watched(folder: Path, broker: Mapping[str, Any]) -> Iterator[Scene]:
    """`broker`: as in the agent's configuration."""
    with Agent(folder / "agent", brokers=[broker], rules=RULES) as agent:
        rules = [ALERTS / "recording.yaml", ALERTS / "alerts.yaml"]
        with Prometheus(
            folder / "prometheus", f"{LOOPBACK}:{agent.port}", rules=rules
        ) as prometheus:
            yield Scene(broker["kind"], prometheus)


# --- Artemis


@contextmanager
def artemis(folder: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        broker = stack.enter_context(Scenario(folder / "demo")).broker
        _faults(broker.manage, (broker.admin.user, broker.admin.password))
        until_full = stack.enter_context(ExitStack())
        for queue, size in {
            "full.orders": 2_000,
            "paged.orders": 2_000,
            "held": 100,
            "shrunk": 100,
        }.items():
            lasts = until_full if queue == "full.orders" else stack
            producer = lasts.enter_context(
                StompProducer(broker.endpoint(), queue, client_id="filler", size=size)
            )
            producer.run(10)
        for number in (1, 2):
            stack.enter_context(
                StompConsumer(broker.endpoint(), "twofold", client_id=f"twin-{number}")
            )
        said = {
            "name": broker.name,
            "kind": "artemis",
            "url": broker.jolokia_url,
            "username": EXPORTER,
            "password": broker.accounts[EXPORTER].password,
            "origin": broker.origin,
        }
        scene = stack.enter_context(watched(folder, said))
        time.sleep(6)
        until_full.close()  # else STOMP goes on to send, and nobody is blocked
        broker.manage.update_queue("shrunk", ring_size=20)
        yield scene


def _faults(manage: Management, account: tuple[str, str]) -> None:
    """What the demo's broker has not: full, paging, held and shrunk things, and a bridge to nowhere."""
    manage.add_settings(
        "full.#",
        maxSizeBytes=50_000,
        pageSizeBytes=20_000,
        addressFullMessagePolicy="BLOCK",
    )
    manage.add_settings(
        "paged.#",
        maxSizeBytes=50_000,
        pageSizeBytes=20_000,
        addressFullMessagePolicy="PAGE",
    )
    manage.create_queues(
        ["full.orders", "paged.orders", "held", "shut", "shrunk", "bridged", "twofold"]
    )
    manage.pause_queue("held")
    manage.pause_address("held")
    manage.call(manage.address_mbean("shut"), "block()")
    manage.call(
        manage.broker,
        "addConnector(java.lang.String,java.lang.String)",
        "nowhere",
        f"tcp://{LOOPBACK}:{free_port()}",
    )
    bridge = {
        "name": "bridged",
        "queue-name": "bridged",
        "forwarding-address": "bridged",
        "static-connectors": ["nowhere"],
        "user": account[0],
        "password": account[1],
        "reconnect-attempts": -1,
        "initial-connect-attempts": -1,
    }
    manage.call(manage.broker, "createBridge(java.lang.String)", json.dumps(bridge))


# --- OpenMQ

_LIMITS: Mapping[str, Options] = {
    "removing": {"LimitBehavior": "REMOVE_OLDEST", "MaxNumMsgs": 50},
    "refusing": {"LimitBehavior": "REJECT_NEWEST", "MaxNumMsgs": 50},
    "full": {
        "LimitBehavior": "FLOW_CONTROL",
        "MaxNumMsgs": 50,
        "MaxTotalMsgBytes": 1_000_000,
    },
    "held": {},
}
_ROLES: Sequence[tuple[str, Options]] = (
    ("consume", {"queue": "slow", "delay": 100, "imqConsumerFlowLimit": 10}),
    ("consume", {"queue": "slow", "delay": 100, "imqConsumerFlowLimit": 50}),
    ("consume", {"queue": "transacted", "ack": "transacted", "commit": 0}),
    ("consume", {"queue": "limited", "connection": "limited", "hang": 10, **LIMITED}),
    ("consume", {"queue": "fed", "connection": "limited", **LIMITED}),
    (
        "consume",
        {"topic": "news", "shared": "readers", "durable": "readers", "delay": 50},
    ),
    ("produce", {"queue": "slow", "rate": 30}),
    ("produce", {"queue": "transacted", "rate": 1}),
    ("produce", {"queue": "limited", "count": 2000}),
    ("produce", {"queue": "fed", "rate": 5}),
    ("produce", {"topic": "news", "rate": 5}),
    ("produce", {"queue": "uncommitted", "count": 100, "commit": 0}),
    ("produce", {"queue": "removing", "rate": 20}),
    ("produce", {"queue": "refusing", "rate": 20}),
    ("produce", {"queue": "full", "rate": 20}),
    ("produce", {"queue": "held", "rate": 5}),
)


@contextmanager
def openmq(folder: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        scenario = OpenMQScenario(read_only=False)
        stack.callback(scenario.stop)
        scenario.start()
        broker = scenario.broker
        for name, limits in _LIMITS.items():
            create_queue(broker, name, limits)
        pause(broker, "held", "ALL")
        folder.mkdir(exist_ok=True)
        roles = [
            (kind, {"name": f"client-{i}", **options})
            for i, (kind, options) in enumerate(_ROLES)
        ]
        stack.enter_context(
            Clients(
                broker,
                compiled(broker, folder / "classes"),
                roles,
                folder / "clients.log",
            )
        )
        yield stack.enter_context(watched(folder, entry(broker)))
