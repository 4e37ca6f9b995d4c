"""`producer_transaction_open`: what a producer sent stays uncommitted."""

from collections.abc import Callable

import pytest

from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls
from penstock.model import TransactionState


def uncommitted(
    world: OpenmqJudged, count: int, held: Callable[[int], float]
) -> OpenmqJudged:
    return openmq_polls(
        world,
        count,
        lambda i: {"queues": {"q": {"A": 500, "K": 0, "M": 0, "uncommitted": held(i)}}},
    )


def test_producers_transaction_that_stays_open() -> None:
    assert uncommitted(openmq(), 7, lambda _: 500).names == {
        "producer_transaction_open"
    }
    assert uncommitted(openmq(), 5, lambda _: 500).names == set()


@pytest.mark.slow  # many polls
def test_commits_between_polls_are_no_open_transaction() -> None:
    assert uncommitted(openmq(), 20, lambda i: 500 * (i % 2)).names == set()


def test_old_transaction_of_a_connection_that_produces_here() -> None:
    world = openmq(producers={"p": {"address": "q", "connection": 3}})
    world.transactions["t"] = {
        "connection": 3,
        "state": TransactionState.STARTED,
        "messages": 5,
        "created": world.now,
    }
    held = uncommitted(world, 8, lambda i: 5 * (i % 2))
    assert held.names == {"producer_transaction_open"}
    assert held.one("producer_transaction_open").evidence["age"] == pytest.approx(
        8 * 15
    )
