"""What all scrapes of the run showed together, against the catalogue."""

from pathlib import Path

import pytest

from e2e.agent import FAMILIES_SEEN
from penstock.exposition.catalogue import CATALOGUE

pytestmark = pytest.mark.broker

NOT_SEEN = {
    "mq_queue_messages_redistributed_total": "needs a cluster; make test-clusters sees it",
    "mq_queue_expected_messages_per_second_high": "needs a day of history; tests/learned sees it",
    "mq_queue_expected_messages_per_second_low": "the same",
    "mq_connection_unhealthy": "needs a connection that one OpenMQ consumer fills; FlowBench of OpenMQ sees it",
    "mq_forecast_limit_seconds": "needs the trend job; tests/trends sees it",
    "mq_forecast_address_limit_seconds": "the same",
    "mq_forecast_messages": "the same",
    "mq_trend_ring_loss_ratio": "the same",
    "mq_trend_timestamp_seconds": "the same",
    "mq_trend_traffic_growth_ratio": "the same",
    "penstock_history_polls_dropped_total": "needs a history; tests/history sees it",
    "penstock_history_publish_timestamp_seconds": "the same",
    "penstock_history_segments_dropped_total": "the same",
    "penstock_history_segments_damaged_total": "the same",
    "penstock_history_success": "the same",
}
"""Families that these tests do not see, and why; every other one they do."""

BY_CHANCE = {
    "mq_address_in_incident": "seen while an incident has two members; tests/incidents sees it",
    "mq_client_in_incident": "the same",
    "mq_queue_in_incident": "the same",
    "mq_queue_in_doubt_messages": "seen while an XA client is between prepare and commit; tests/account sees it",
    "mq_broker_unhealthy": "seen once what is in doubt has been so for minutes",
    "mq_client_notice": "seen once a client was without progress for the five minutes of a first patience",
    "mq_queue_drain_seconds": "seen while a backlog shrinks",
    "mq_account_uncertain_messages": "seen while messages come between two reads",
    "mq_account_unexplained_messages": "no broker here makes such a sum; tests/account does",
    "mq_client_unhealthy_consumers": "seen when a poll falls into a failed transaction of OpenMQ",
    "mq_consumer_flow_limit_messages": "needs an OpenMQ client at its limit for long; its FlowBench sees it",
    "mq_consumer_flow_resume_messages": "the same",
} | dict.fromkeys(
    (family.name for family in CATALOGUE if family.table == "worker"),
    "needs a broker that is large; tests/agent/test_processes.py sees it",
)


def test_families_seen(request: pytest.FixtureRequest) -> None:
    here = Path(__file__).parent
    chosen = {item.path for item in request.session.items if item.path.parent == here}
    if chosen != set(here.glob("test_*.py")):
        pytest.skip("judges all end-to-end tests together; run the folder")
    ours = {name for name in FAMILIES_SEEN if name.startswith(("mq_", "penstock_"))}
    expected = {family.name for family in CATALOGUE} - NOT_SEEN.keys()
    assert (sorted(ours - expected), sorted(expected - ours - BY_CHANCE.keys())) == (
        [],
        [],
    )
