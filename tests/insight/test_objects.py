"""What is known of a broker, an address, a connection; and of an address over the brokers of a cluster."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from account.world import Broker, queue
from penstock.assessment.assess import assess
from penstock.core.table import Index, Table
from penstock.insight.answers import ObjectView
from penstock.insight.explain import BrokerView, NotFound, explain
from penstock.insight.objects import explain_address, explain_broker, explain_connection, sum_of_address
from penstock.insight.text import object_lines
from penstock.model import ConnectionRow, QueueKind

if TYPE_CHECKING:
    from penstock.series.labels import QueueSeries


def view(broker: Broker) -> BrokerView:
    assert broker.last is not None
    return BrokerView(broker.state, broker.tables, broker.last, broker.policy, broker.step)


@pytest.fixture
def broker() -> Broker:
    queues = {
        "orders": queue(90, 40, K=50, X=7, dead_letter_address="dead"),
        "billing": queue(90, 2, K=88, X=1, dead_letter_address="dead"),
        "dead": queue(8, 8),
    }
    senders = {"p1": ("orders", 60.0), "p2": ("orders", 30.0)}
    return Broker().see(queues, {"orders": {"policy": "BLOCK", "limit_percent": 20.0}}, senders=senders, polls=5)


def told(found: ObjectView) -> dict[tuple[str, str, str], str]:
    return {(one.role, one.kind, one.name): one.told for one in found.related}


def test_an_address_with_its_queues_producers_and_settings(broker: Broker) -> None:
    found = explain_address(view(broker), "orders", None)
    facts = {one.name: one.value for one in found.facts}
    assert (facts["policy when full"], facts["limit percent"], facts["messages added"]) == ("BLOCK", 20, 90)
    assert told(found)["has", "queue", "orders"] == "messages 40, consumers 0"
    assert told(found)["is sent to by", "client", "app"] == "90 messages"
    assert any(line.startswith("  limit percent") and line.endswith("20 percent") for line in object_lines(found))
    with pytest.raises(NotFound) as error:
        explain_address(view(broker), "order", None)
    assert error.value.hint == "did you mean orders?"


def test_dead_letters_both_ways(broker: Broker) -> None:
    found = told(explain_address(view(broker), "dead", None))
    sources = [name for role, _, name in found if role == "gets dead letters of"]
    assert sources == ["orders", "billing"]  # the most first
    assert found["gets dead letters of", "queue", "orders"] == "killed 7"
    related = {(one.role, one.name): one.told for one in explain(view(broker), "orders").related}
    assert related == {("sends dead letters to", "dead"): ""}


def test_dead_letters_without_a_queue_are_said_to_be_lost() -> None:
    broker = Broker().see({"orders": queue(9, 1, K=1, X=7, dead_letter_address="nowhere")}, polls=5)
    (one,) = explain(view(broker), "orders").related
    assert one.told == "it has no queue: dead letters are lost"


def test_a_broker(broker: Broker) -> None:
    found = explain_broker(view(broker), None)
    facts = {one.name: one.value for one in found.facts}
    assert (facts["role"], facts["critical conditions"]) == ("active", 0)
    assert found.knowledge.state == "watching"


def test_a_connection_with_what_its_consumers_hold() -> None:
    broker = Broker().see(
        {"q": queue(9, 9, D=5)}, consumers={"c1": {"queue": "q", "client": "app", "T": 5.0, "N": 5.0}}
    )
    assert broker.last is not None
    assert broker.last.consumers is not None
    row = ConnectionRow("abc123", "app", "CORE", "u", "10.0.0.7:5")
    connections = Table(Index.of([row]), {"sessions": np.array([2.0])})
    keys = np.full(len(broker.last.consumers), connections.index.keys[0])
    broker.last = replace(broker.last, connections=connections, consumer_connection=keys)
    found = explain_connection(view(broker), "abc123", None)
    assert {one.name: one.value for one in found.facts}["from"] == "10.0.0.7:5"
    assert told(found)["is of", "client", "app"] == ""
    assert told(found)["consumes from", "queue", "q"].startswith("buffered 5, ")
    with pytest.raises(NotFound):
        explain_connection(view(broker), "zzz", None)


def as_link(broker: Broker, name: str) -> BrokerView:
    """Its queue of this name stores messages for another broker."""
    found = view(broker)
    table: Table[QueueSeries] = found.tables["queue"]
    rows = [replace(row, kind=QueueKind.LINK) if row.queue == name else row for row in table.index]
    return replace(found, tables={**found.tables, "queue": Table(Index.of(rows), table.columns)})


def test_an_address_over_a_cluster_counts_nothing_twice() -> None:
    one = Broker().see({"orders": queue(90, 40, K=50), "sf.two": queue(10, 3, K=7)}, polls=4)
    two = Broker().see({"orders": queue(7, 2, K=5)}, polls=4)
    found = sum_of_address([as_link(one, "sf.two"), view(two)], "orders")
    facts = {one.name: one.value for one in found.facts}
    assert (facts["messages"], facts["added"]) == (42, 97)
    assert facts["on its way between the brokers, of all addresses"] == 3
    assert len(found.related) == 2
    with pytest.raises(NotFound):
        sum_of_address([view(two)], "nothing")


def test_conditions_of_the_address_make_it_unhealthy(broker: Broker) -> None:
    assert broker.last is not None
    for _ in range(60):
        stamp = broker.last.stamp + 15
        about = broker.last.broker
        assert about is not None
        broker.last = replace(broker.last, stamp=stamp, broker=replace(about, clock=stamp, uptime=about.uptime + 15))
        broker.state, broker.tables = assess(broker.state, broker.last, broker.policy)
    found = explain_address(view(broker), "orders", None)
    assert [one.condition for one in found.conditions] == ["no_consumer"]
