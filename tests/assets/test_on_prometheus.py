"""Every query of dashboards, rules and runbooks on a real Prometheus that scraped real brokers with faults."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser as promql
import pytest

from assets import scenes
from assets.boards import asked, substituted
from assets.promql import children, operator, selectors
from assets.scenes import Scene
from assets.test_runbooks import queries as runbook_queries
from penstock.assets.rule_files import all_alerts, recordings
from rig.day_and_night import by_day_and_night

pytestmark = [pytest.mark.broker, pytest.mark.prometheus]

SECONDS = 90.0
"""Until all is to be seen; less is usual."""

_WITHOUT_JOBS = {
    "mq_queue_expected_messages_per_second_low": "needs a day of history",
    "mq_queue_expected_messages_per_second_high": "needs a day of history",
    "mq_trend_timestamp_seconds": "needs a trend job",
    "mq_trend_traffic_growth_ratio": "needs a trend job",
    "mq_trend_ring_loss_ratio": "needs a trend job",
    "mq_forecast_messages": "needs a trend job",
    "mq_forecast_limit_seconds": "needs a trend job",
    "mq_forecast_address_limit_seconds": "the same",
    "penstock_history_success": "needs a history",
    "penstock_history_publish_timestamp_seconds": "needs a history",
    "penstock_history_polls_dropped_total": "needs a history",
    "penstock_history_segments_dropped_total": "needs a history",
    "penstock_history_segments_damaged_total": "needs a history",
}

NOT_APPLICABLE: Mapping[str, Mapping[str, str]] = {
    "artemis": _WITHOUT_JOBS
    | {
        "mq_broker_unhealthy": "needs a broker over its budget, or two with one node id",
        "mq_broker_heap_used_bytes": "OpenMQ's",
        "mq_broker_heap_limit_bytes": "OpenMQ's",
        "mq_broker_resource_state": "OpenMQ's",
        "mq_queue_uncommitted_messages": "OpenMQ's",
        "mq_queue_messages_removed_total": "OpenMQ's: Artemis says why messages went",
        "mq_consumer_flow_paused": "OpenMQ's",
        "mq_consumer_flow_limit_messages": "OpenMQ's",
        "mq_consumer_flow_resume_messages": "OpenMQ's",
        "mq_connection_unhealthy": "OpenMQ's",
        "mq_address_messages_dropped_total": "needs a full address with policy DROP",
        "mq_address_messages_rejected_total": "needs a full address with policy FAIL",
        "mq_client_notice": "the one there is takes half a minute of holding",
        "mq_account_unexplained_messages": "nothing here is unexplained",
    },
    "openmq": _WITHOUT_JOBS
    | {
        "mq_broker_unhealthy": "needs a broker over its budget, or two with one node id",
        "mq_broker_memory_limit_bytes": "unlimited here",
        "mq_broker_disk_used_ratio": "Artemis'",
        "mq_broker_disk_limit_ratio": "Artemis'",
        "mq_broker_authentication_failures_total": "Artemis'",
        "mq_address_messages_unrouted_total": "Artemis'",
        "mq_address_messages_dropped_total": "OpenMQ refuses or removes, and counts it there",
        "mq_address_paging": "Artemis'",
        "mq_address_pages": "Artemis'",
        "mq_link_up": "Artemis'",
        "mq_link_pending_messages": "Artemis'",
        "mq_queue_messages_acknowledged_total": "Artemis': OpenMQ says only that messages went",
        "mq_queue_messages_expired_total": "the same",
        "mq_queue_messages_killed_total": "the same",
        "mq_queue_messages_lost_by_consumer_total": "of rings, which Artemis has",
        "mq_queue_ring_limit_messages": "the same",
        "mq_queue_ring_used_ratio": "the same",
        "mq_queue_ring_oversize_since_timestamp_seconds": "the same",
        "mq_queue_ring_at_risk_messages": "the same",
        "mq_queue_ring_scheduled_at_risk_messages": "the same",
        "mq_queue_ring_retention_seconds": "the same",
        "mq_queue_ring_retention_target_seconds": "the same",
        "mq_queue_ring_overflow_seconds": "the same",
        "mq_client_buffered_bytes": "OpenMQ counts what consumers hold, not its bytes",
        "mq_consumer_buffered_bytes": "the same",
        "mq_connection_buffered_bytes": "the same",
        "mq_client_uncommitted_messages": "OpenMQ counts acknowledgements by transaction, of all queues together",
        "mq_consumer_last_delivery_timestamp_seconds": "OpenMQ tells the last acknowledgement only",
        "mq_connection_sessions": "OpenMQ shows no sessions",
        "mq_client_notice": "the one there is takes half a minute of holding",
        "mq_connection_unhealthy": "takes three quarters of a minute",
        "mq_account_unexplained_messages": "nothing here is unexplained",
    },
}
"""Kind of broker → family → why this scene has none; a query of nothing else must have data."""

_OF_INCIDENTS = {
    "mq_queue_in_incident": "needs an incident of several members",
    "mq_client_in_incident": "needs an incident of several members",
    "mq_address_in_incident": "needs an incident of several members",
}

LATE: Mapping[str, Mapping[str, str]] = {
    "artemis": _OF_INCIDENTS
    | {
        "mq_queue_in_doubt_messages": "needs a prepared transaction; tests/account/test_live_losses.py has one",
        "mq_address_producers_paused": "read every minute at most; the end to end tests wait for it",
        "mq_account_uncertain_messages": "comes and goes with what is under way",
        "mq_queue_drain_seconds": "while a backlog shrinks; tests/observation/test_drain.py",
    },
    "openmq": _OF_INCIDENTS
    | {
        "mq_queue_in_doubt_messages": "transactions show how many, and not of which queue",
        "mq_address_producers_paused": "read every minute at most",
        "mq_account_uncertain_messages": "comes and goes with what is under way",
        "mq_queue_drain_seconds": "while a backlog shrinks; tests/observation/test_drain.py",
        "mq_config_finding": "rests on minutes of use; tests/findings have them",
    },
}
"""Kind of broker → family → why it is not waited for."""


@pytest.fixture(
    scope="module",
    params=by_day_and_night([scenes.artemis, scenes.openmq]),
    ids=["artemis", "openmq"],
)
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A broker of each kind."""
    with request.param(tmp_path_factory.mktemp("scene") / "it") as made:
        yield made


def can_have_data(node: Any, kind: str) -> bool:
    """Whether a query has a result on a broker of this kind."""
    if isinstance(node, promql.VectorSelector):
        of_rings = any(
            (one.name, one.value) == ("fate", "evicted")
            for one in node.matchers.matchers
        )
        none = NOT_APPLICABLE[kind].keys() | LATE[kind].keys()
        return node.name not in none and not (
            of_rings and "mq_queue_ring_limit_messages" in none
        )
    parts = (can_have_data(child, kind) for child in children(node))
    if isinstance(node, promql.BinaryExpr) and operator(node) in {"or", "unless"}:
        return next(parts) or (operator(node) == "or" and next(parts))
    return all(parts)


def everything() -> dict[str, str]:
    """All that must have data: by where it stands, the query."""
    panels = {
        f"{query.name}: {query.expr}": substituted(query.expr) for query in asked()
    }
    recorded = {
        rule["record"]: rule["expr"]
        for group in recordings().values()
        for rule in group
    }
    return panels | recorded


def measured() -> dict[str, str]:
    """The families that alerts and runbooks go by; most of their conditions hold of no broker at a time."""
    queries = [*(alert.expr for alert in all_alerts()), *runbook_queries()]
    names = {
        str(selector.name) for query in queries for selector, _ in selectors(query)
    }
    return {name: name for name in sorted(names)}


def test_every_query_has_data(scene: Scene) -> None:
    queries = everything() | measured()
    wanted = {
        name: query
        for name, query in queries.items()
        if can_have_data(promql.parse(query), scene.kind)
    }
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
    assert len(rules) == len(list(all_alerts())) + sum(map(len, recordings().values()))
    assert {
        rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")
    } == {}
