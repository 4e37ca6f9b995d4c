"""Every query of dashboards, rules and runbooks on a real Prometheus that scraped a real broker with faults."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from assets.boards import asked, substituted
from assets.promql import selectors
from assets.test_runbooks import queries as runbook_queries
from e2e.agent import Agent
from penstock.assets.recording import recordings
from penstock.assets.rule_files import all_alerts
from penstock.demo.load import StompConsumer, StompProducer
from penstock.demo.management import Management
from penstock.demo.ports import LOOPBACK, free_port
from penstock.demo.run import EXPORTER, Scenario
from rig.prometheus import Prometheus

pytestmark = [pytest.mark.broker, pytest.mark.prometheus]

ALERTS = Path(__file__).parents[2] / "alerts"
SECONDS = 90.0
"""Until all is to be seen; less is usual."""
RULES = [
    {"match": {"queue": "audit.ring"}, "ring_retention": "1h"},
    {"match": {"queue": "emails"}, "expected_consumers": 3, "drain_target": "1s"},
    {"match": {"queue": "*"}, "patience": "3s"},
]

NOT_APPLICABLE: Mapping[str, Mapping[str, str]] = {
    "artemis": {
        "mq_broker_heap_used_bytes": "OpenMQ's",
        "mq_broker_heap_limit_bytes": "OpenMQ's",
        "mq_broker_resource_state": "OpenMQ's",
        "mq_queue_uncommitted_messages": "OpenMQ's",
        "mq_queue_messages_removed_total": "OpenMQ's: Artemis says why messages went",
        "mq_consumer_flow_paused": "OpenMQ's",
        "mq_consumer_flow_limit_messages": "OpenMQ's",
        "mq_consumer_flow_resume_messages": "OpenMQ's",
        "mq_connection_unhealthy": "OpenMQ's",
        "mq_address_messages_rejected_total": "OpenMQ's",
        "mq_client_notice": "the one there is takes half a minute of holding",
        "mq_trend_timestamp_seconds": "needs a trend job",
        "mq_trend_traffic_growth_ratio": "needs a trend job",
        "mq_trend_ring_loss_ratio": "needs a trend job",
        "mq_forecast_messages": "needs a trend job",
        "mq_forecast_limit_seconds": "needs a trend job",
        "penstock_history_success": "needs a history",
        "penstock_history_publish_timestamp_seconds": "needs a history",
        "penstock_history_polls_dropped_total": "needs a history",
        "penstock_history_segments_dropped_total": "needs a history",
    },
}
"""Kind of broker → family → why this scene has none; a query of nothing else must have data."""

LATE = {"mq_address_producers_paused": "read every minute at most; the end to end tests wait for it"}
"""Family → why it is not waited for."""


@dataclass(frozen=True, slots=True)
class Scene:
    kind: str
    prometheus: Prometheus

    def missing(self, query: str) -> set[str]:
        """Families of a query that this scene cannot have."""
        return {str(selector.name) for selector, _ in selectors(query)} & (
            NOT_APPLICABLE[self.kind].keys() | LATE.keys()
        )

    def empty(self, queries: Mapping[str, str]) -> dict[str, str]:
        return {name: query for name, query in queries.items() if not self.prometheus.query(query)}


def faults(manage: Management, account: tuple[str, str]) -> None:
    """What the demo's broker has not: full, paging, held and shrunk things, and a bridge to nowhere."""
    manage.add_settings("full.#", maxSizeBytes=50_000, pageSizeBytes=20_000, addressFullMessagePolicy="BLOCK")
    manage.add_settings("paged.#", maxSizeBytes=50_000, pageSizeBytes=20_000, addressFullMessagePolicy="PAGE")
    manage.create_queues(["full.orders", "paged.orders", "held", "shut", "shrunk", "bridged", "twofold"])
    manage.pause_queue("held")
    manage.pause_address("held")
    manage.call(manage.address_mbean("shut"), "block()")
    manage.call(
        manage.broker, "addConnector(java.lang.String,java.lang.String)", "nowhere", f"tcp://{LOOPBACK}:{free_port()}"
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


@pytest.fixture(scope="module")
def artemis_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    with ExitStack() as stack:
        scenario = stack.enter_context(Scenario(folder / "demo"))
        broker = scenario.broker
        faults(broker.manage, (broker.admin.user, broker.admin.password))
        for queue, size in {"full.orders": 2_000, "paged.orders": 2_000, "held": 100, "shrunk": 100}.items():
            producer = stack.enter_context(StompProducer(broker.endpoint(), queue, client_id="filler", size=size))
            producer.run(10)
        for number in (1, 2):
            stack.enter_context(StompConsumer(broker.endpoint(), "twofold", client_id=f"twin-{number}"))
        watched = {
            "name": broker.name,
            "kind": "artemis",
            "url": broker.jolokia_url,
            "username": EXPORTER,
            "password": broker.accounts[EXPORTER].password,
            "origin": broker.origin,
        }
        agent = stack.enter_context(Agent(folder / "agent", brokers=[watched], rules=RULES))
        prometheus = Prometheus(
            folder / "prometheus", f"{LOOPBACK}:{agent.port}", rules=[ALERTS / "recording.yaml", ALERTS / "alerts.yaml"]
        )
        stack.enter_context(prometheus)
        time.sleep(6)
        broker.manage.update_queue("shrunk", ring_size=20)
        yield Scene("artemis", prometheus)


@pytest.fixture(params=["artemis"])
def scene(request: pytest.FixtureRequest) -> Scene:
    """A broker of each kind."""
    found: Scene = request.getfixturevalue(f"{request.param}_scene")
    return found


def everything() -> dict[str, str]:
    """All that must have data: by where it stands, the query."""
    panels = {f"{query.name}: {query.expr}": substituted(query.expr) for query in asked()}
    recorded = {rule.record: rule.expr for rule in recordings()}
    return panels | recorded


def measured() -> dict[str, str]:
    """The families that alerts and runbooks go by; most of their conditions hold of no broker at a time."""
    queries = [*(alert.expr for alert in all_alerts()), *runbook_queries()]
    names = {str(selector.name) for query in queries for selector, _ in selectors(query)}
    return {name: name for name in sorted(names)}


def test_every_query_has_data(scene: Scene) -> None:
    wanted = {name: query for name, query in (everything() | measured()).items() if not scene.missing(query)}
    assert len(wanted) > 100
    deadline = time.monotonic() + SECONDS
    empty = scene.empty(wanted)
    while empty and time.monotonic() < deadline:
        time.sleep(1)
        empty = scene.empty(empty)
    assert empty == {}


def test_what_is_not_applicable_has_no_data(scene: Scene) -> None:
    names = {name: name for name in NOT_APPLICABLE[scene.kind]}
    assert scene.empty(names) == names, "strike it from NOT_APPLICABLE"


@pytest.mark.parametrize("query", runbook_queries())
def test_queries_of_runbooks_run(scene: Scene, query: str) -> None:
    scene.prometheus.query(query)


def test_rules_are_evaluated_without_error(scene: Scene) -> None:
    groups = scene.prometheus.api("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(list(all_alerts())) + len(list(recordings()))
    assert {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")} == {}
