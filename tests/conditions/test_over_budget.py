"""`over_budget` on a judged broker; what is left out, and which rows, is in tests/brokers/test_budgets.py."""

from dataclasses import replace

import pytest

from agent.world import World
from penstock.conditions.condition import Severity
from penstock.insight.explain import BrokerView, NotFound, explain
from penstock.insight.text import explanation
from penstock.model import LeftOut

QUEUES = LeftOut("queues", 850_000, 1_000_000)


def polled(world: World, *left_out: LeftOut, polls: int = 1) -> World:
    return world.polled(polls, left_out=left_out)


def test_it_is_a_warning_of_the_broker_that_names_the_budget() -> None:
    one = polled(World.with_orders(), QUEUES, LeftOut("series", 5, 10), polls=2)
    found = one.condition("over_budget")
    assert (found.severity, found.broker, found.queue) == (Severity.WARNING, "b1", "")
    assert (
        found.why
        == "left out: 850,000 of 1,000,000 queues (budgets.queues), 5 of 10 series (budgets.series)"
    )
    causes = one.tables["broker_cause"]
    assert [
        (row.cause, how)
        for row, how in zip(causes.index, causes["unhealthy"], strict=True)
    ] == [("over_budget", 1)]
    lines = "\n".join(
        explanation(
            explain(
                BrokerView(one.state, one.tables, one.snapshot(), one.policy, 15.0),
                "orders",
            )
        )
    )
    assert "WARNING  over_budget" in lines
    assert "850,000 of 1,000,000 queues" in lines
    assert "raise these budgets" in lines


def test_its_queues_stay_as_they_are_and_one_that_is_not_there_may_be_left_out() -> (
    None
):
    one = polled(World.with_orders(), QUEUES, polls=3)
    snapshot = one.snapshot()
    snapshot = replace(
        snapshot, observation=replace(snapshot.observation, left_out=(QUEUES,))
    )
    view = BrokerView(one.state, one.tables, snapshot, one.policy, 15.0)
    assert explain(view, "orders").knowledge.state == "watching", (
        "the agent is young; the warning is of the broker alone"
    )
    with pytest.raises(NotFound) as found:
        explain(view, "elsewhere")
    assert (str(found.value), found.value.hint) == (
        "queue 'elsewhere' of broker b1 is not known",
        "not read: 850,000 of 1,000,000 queues (budgets.queues)",
    )


def test_it_goes_when_all_is_read_again() -> None:
    one = polled(World.with_orders(), QUEUES, polls=3)
    assert "over_budget" in polled(one).names()
    assert polled(one).names() == set()


def test_a_broker_within_its_budgets_has_none() -> None:
    assert polled(World.with_orders(), polls=3).names() == set()
