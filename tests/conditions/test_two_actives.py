"""`two_actives` on a judged broker; who rivals whom is in tests/agent/test_takeover.py."""

from dataclasses import replace

import numpy as np

from agent.world import BEGIN, World
from penstock.agent.checkpoint import checkpoint_of
from penstock.conditions.condition import Severity
from penstock.insight.explain import BrokerView, explain
from penstock.insight.lists import ListQuery, condition_list
from penstock.insight.text import explanation
from penstock.model import Snapshot


def with_rivals(snapshot: Snapshot, *rivals: str) -> Snapshot:
    return replace(snapshot, observation=replace(snapshot.observation, rivals=rivals))


def polled(world: World, *rivals: str, polls: int = 1) -> World:
    return world.polled(polls, rivals=rivals)


def test_it_needs_two_polls_and_leaves_after_two() -> None:
    one = polled(World.with_orders(), polls=2)
    assert "two_actives" not in polled(one, "copy").names()
    assert "two_actives" in polled(one, "copy").names()
    found = one.condition("two_actives")
    assert (found.severity, found.since) == (Severity.CRITICAL, BEGIN + 45)
    assert (found.broker, found.address, found.queue, found.client) == (
        "b1",
        "",
        "",
        "",
    )
    assert "two_actives" in polled(one).names()
    assert "two_actives" not in polled(one).names()


def test_it_is_the_brokers_and_told_with_each_of_its_queues() -> None:
    one = polled(World.with_orders(), "copy", "third", polls=2)
    causes = one.tables["broker_cause"]
    assert [(row.broker, row.cause) for row in causes.index] == [("b1", "two_actives")]
    assert causes["unhealthy"].tolist() == [2.0]
    assert not len(one.tables["queue_cause"])
    view = BrokerView(one.state, one.tables, one.snapshot(), one.policy, 15.0)
    told = explain(view, "orders")
    assert not told.healthy
    lines = "\n".join(explanation(told))
    assert "CRITICAL  two_actives" in lines
    assert "also active with its node id: copy, third;" in lines
    assert "Decide which of the two" in lines
    assert condition_list([view], ListQuery(condition="two_actives")).total == 1


def test_it_goes_on_over_a_restart_of_the_agent() -> None:
    one = polled(World.with_orders(), "copy", polls=2)
    again = one.restarted_agent(
        15.0, checkpoint_of(one.state, one.snapshot(), one.policy)
    )
    again.poll(0.0)
    assert again.condition("two_actives").since == one.condition("two_actives").since
    assert "two_actives" in polled(again, "copy").names()


def test_without_queues_it_is_told_all_the_same() -> None:
    assert polled(World(), "copy", polls=2).names() == {"two_actives"}
    assert np.isfinite(
        polled(World(), "copy", polls=2).condition("two_actives").evidence["age"]
    )
