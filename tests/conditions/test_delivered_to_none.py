"""`delivered_to_none`: messages are with a consumer that is not there."""

from typing import Any

import pytest

from conditions.openmq_world import OpenmqJudged, openmq
from penstock.model import TransactionState


def whys(world: OpenmqJudged) -> list[str]:
    return [one.why for one in world.conditions if one.name == "delivered_to_none"]


def queue(delivering: float, consumers: float = 0.0) -> dict[str, Any]:
    return {
        "A": 9,
        "K": 0,
        "M": 9,
        "D": delivering,
        "uncommitted": 0.0,
        "consumers": consumers,
    }


def test_delivered_to_no_consumer() -> None:
    world = openmq()
    for _ in range(7):
        world.poll({"q": queue(5)})
    assert whys(world) == ["5 messages of q"]


@pytest.mark.parametrize(("delivering", "consumers"), [(5, 1.0), (1, 0.0), (0, 0.0)])
def test_what_looks_like_it(delivering: float, consumers: float) -> None:
    """A consumer that is about to be listed; a message between two counters."""
    world = openmq()
    for _ in range(7):
        world.poll({"q": queue(delivering, consumers)})
    assert not whys(world)


def test_what_comes_and_goes_is_with_some() -> None:
    world = openmq()
    for i in range(12):
        world.poll({"q": queue(5 if i % 3 else 0)})
    assert not whys(world)


@pytest.mark.slow  # many polls
def test_it_is_said_when_transactions_can_be_read_again() -> None:
    """One that has received nothing has none of them."""
    world = openmq()
    world.transactions = {
        "7": {
            "state": 1.0,
            "messages": 3.0,
            "acknowledgements": float("nan"),
            "connection": 1,
        }
    }
    for _ in range(9):
        world.poll({"q": queue(5)})
    assert not whys(world)
    world.transactions["7"] = {**world.transactions["7"], "acknowledgements": 0.0}
    for _ in range(3):
        world.poll({"q": queue(5)})
    assert whys(world) == ["5 messages of q"]


@pytest.mark.slow  # many polls
def test_what_a_prepared_transaction_received_is_in_doubt() -> None:
    world = openmq()
    prepared = {
        "state": float(TransactionState.PREPARED),
        "messages": 0.0,
        "acknowledgements": 5.0,
        "connection": -1,
    }
    world.transactions = {"7": prepared}
    for _ in range(15):
        world.poll({"q": queue(5)})
    assert not whys(world)
    assert [one.name for one in world.conditions if one.name == "in_doubt"]
