import re

import pytest

from penstock.exposition.catalogue import CATALOGUE, TABLES, Family
from penstock.exposition.syntax import openmetrics_name
from rig.each import of_each

CONTRACT = """
mq_up gauge broker
mq_broker_info info broker kind version product_version node_id role
mq_broker_start_timestamp_seconds gauge broker
mq_broker_clock_skew_seconds gauge broker
mq_broker_connections gauge broker
mq_broker_memory_used_bytes gauge broker
mq_broker_memory_limit_bytes gauge broker
mq_broker_disk_used_ratio gauge broker
mq_broker_disk_limit_ratio gauge broker
mq_broker_authentication_failures_total counter broker
mq_address_info info broker address policy
mq_address_memory_bytes gauge broker address
mq_address_memory_used_ratio gauge broker address
mq_address_limit_bytes gauge broker address
mq_address_limit_messages gauge broker address
mq_address_messages gauge broker address
mq_address_messages_added_total counter broker address
mq_address_messages_unrouted_total counter broker address
mq_address_paging gauge broker address
mq_address_paused gauge broker address
mq_address_producers_paused gauge broker address
mq_address_pages gauge broker address
mq_address_producers gauge broker address
mq_queue_info info broker address queue routing_type durable kind ring_source owner team
mq_queue_dead_letter_info info broker address queue dead_letter_address expiry_address
mq_queue_messages gauge broker address queue
mq_queue_ready_messages gauge broker address queue
mq_queue_delivering_messages gauge broker address queue
mq_queue_scheduled_messages gauge broker address queue
mq_queue_bytes gauge broker address queue
mq_queue_consumers gauge broker address queue
mq_queue_paused gauge broker address queue
mq_queue_messages_added_total counter broker address queue
mq_queue_messages_acknowledged_total counter broker address queue
mq_queue_messages_expired_total counter broker address queue
mq_queue_messages_killed_total counter broker address queue
mq_queue_ring_limit_messages gauge broker address queue
mq_queue_ring_used_ratio gauge broker address queue
mq_client_consumers gauge broker address queue client
mq_client_buffered_messages gauge broker address queue client
mq_client_buffered_bytes gauge broker address queue client
mq_client_uncommitted_messages gauge broker address queue client
mq_client_delivered_messages_total counter broker address queue client
mq_client_acknowledged_messages_total counter broker address queue client
mq_client_produced_messages_total counter broker address client
mq_consumer_buffered_messages gauge broker address queue client consumer
mq_consumer_buffered_bytes gauge broker address queue client consumer
mq_consumer_last_delivery_timestamp_seconds gauge broker address queue client consumer
mq_consumer_last_acknowledgement_timestamp_seconds gauge broker address queue client consumer
mq_connection_info info broker connection client protocol user remote_host
mq_connection_buffered_messages gauge broker connection client
mq_connection_buffered_bytes gauge broker connection client
mq_connection_consumers gauge broker connection client
mq_connection_producers gauge broker connection client
mq_connection_sessions gauge broker connection client
mq_link_up gauge broker link kind
mq_link_pending_messages gauge broker link kind
penstock_build_info info version revision pythonversion
penstock_poll_duration_seconds gauge broker
penstock_poll_timestamp_seconds gauge broker
penstock_polls_total counter broker result
penstock_collector_success gauge broker collector
penstock_collector_duration_seconds gauge broker collector
penstock_series gauge broker
penstock_series_dropped gauge broker
penstock_config_last_reload_successful gauge
"""

FORBIDDEN_LABELS = {
    "job", "instance", "env", "cluster", "region", "zone", "type", "service", "stage", "le", "quantile"
}  # fmt: skip
# Told apart by words of a name: what a unit or a type in it would look like.
FORBIDDEN_WORDS = {
    "ms", "millis", "milliseconds", "microseconds", "minutes", "hours", "days", "percent", "percentage", "kilobytes",
    "megabytes", "age", "gauge", "counter", "summary", "histogram", "rate", "average", "avg", "min", "max",
}  # fmt: skip


def test_names_types_and_labels_that_others_rely_on() -> None:
    shown = {family.name: (family.type, *family.label_names) for family in CATALOGUE}
    for line in CONTRACT.strip().splitlines():
        name, *rest = line.split(" ")
        assert shown.get(name) == tuple(rest), name


FAMILIES = {family.name: family for family in CATALOGUE}


@of_each(FAMILIES)
def test_each_family_follows_the_conventions(family: Family) -> None:
    words = family.name.split("_")
    assert re.fullmatch(r"(mq|penstock)(_[a-z][a-z0-9]*)+", family.name)
    assert (family.type == "counter") == family.name.endswith("_total")
    assert (family.type == "info") == family.name.endswith("_info")
    assert words[-1] not in {"count", "sum", "bucket", "created"}
    assert not FORBIDDEN_WORDS.intersection(words)
    assert words[-1] != "timestamp"
    if "timestamp" in words:
        assert words[-2:] == ["timestamp", "seconds"]
    assert family.help.endswith(".")
    assert not family.source.endswith(".")
    assert family.source
    assert "\n" not in family.documentation


@pytest.mark.parametrize(
    ("unit", "word"),
    [("seconds", "in seconds"), ("bytes", "in bytes")],
    ids=["seconds", "bytes"],
)
def test_help_names_the_unit(unit: str, word: str) -> None:
    for family in CATALOGUE:
        if family.name.removesuffix("_total").endswith(f"_{unit}"):
            assert word in family.help, family.name


@of_each(FAMILIES)
def test_labels_are_few_and_their_own(family: Family) -> None:
    names = family.label_names
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z_]*", name) for name in names)
    assert not FORBIDDEN_LABELS.intersection(names)
    if family.type != "info":
        assert "owner" not in names  # only to be joined from an info metric


def test_nothing_stands_twice() -> None:
    names = [family.name for family in CATALOGUE]
    assert len(set(names)) == len(names)
    openmetrics = [openmetrics_name(family) for family in CATALOGUE]
    assert len(set(openmetrics)) == len(openmetrics)
    places = [(family.table, family.column, family.labels) for family in CATALOGUE]
    assert len(set(places)) == len(places)


def test_every_table_is_known_and_used() -> None:
    assert {family.table for family in CATALOGUE} == set(TABLES)
