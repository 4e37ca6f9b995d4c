"""`in_doubt`: a prepared transaction keeps messages out of reach."""

from typing import Any

import pytest

from conditions.openmq_world import OpenmqJudged, openmq
from penstock.model import TransactionState


def transaction(state: TransactionState, **said: float) -> dict[str, float]:
    return {
        "state": float(state),
        "messages": 5.0,
        "acknowledgements": 4.0,
        "created": 1_700_000_000.0,
        **said,
    }


def seen(
    world: OpenmqJudged, transactions: dict[str, dict[str, float]], polls: int = 1
) -> set[str]:
    world.transactions = {
        name: {"connection": -1, **said} for name, said in transactions.items()
    }
    for _ in range(polls):
        world.poll({"q": {"A": 9, "K": 0, "M": 4, "D": 4, "uncommitted": 5.0}})
    return {one.name for one in world.conditions}


@pytest.mark.slow  # many polls
def test_a_transaction_that_stays_prepared() -> None:
    world = openmq()
    names = seen(world, {"7": transaction(TransactionState.PREPARED)}, polls=15)
    assert "in_doubt" in names
    (told,) = [one for one in world.conditions if one.name == "in_doubt"]
    assert "app has sent 5 and received 4 in transaction 7" in told.why
    assert "in_doubt" not in seen(world, {}, polls=3)


def test_each_poll_another_that_commits_a_moment_later() -> None:
    world = openmq()
    for number in range(10):
        assert "in_doubt" not in seen(
            world, {str(number): transaction(TransactionState.PREPARED)}
        )


@pytest.mark.slow  # many polls
def test_one_that_is_open_is_not_in_doubt() -> None:
    assert "in_doubt" not in seen(
        openmq(), {"7": transaction(TransactionState.STARTED)}, polls=20
    )


@pytest.mark.slow  # many polls
def test_of_many_the_oldest_are_named() -> None:
    world = openmq()
    listed = dict[str, Any]()
    for number in range(6):
        listed[str(number)] = transaction(
            TransactionState.PREPARED, created=1_700_000_000.0 - number
        )
    seen(world, listed, polls=15)
    (told,) = [one for one in world.conditions if one.name == "in_doubt"]
    assert "transaction 5," in told.why
    assert told.why.endswith(", 3 more")
