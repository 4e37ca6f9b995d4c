"""`open_transaction`: acknowledged and not committed; commits between two polls are none."""

import pytest

from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls
from conditions.world import START, Judged
from penstock.model import AcknowledgeMode, TransactionState


@pytest.mark.slow  # many polls
def test_a_commit_that_was_not_seen_is_a_settlement() -> None:
    """W falls to 0 and rises again between two polls: the acknowledged rose by more."""
    judged = Judged()
    for n in range(40):
        consumer = {
            "T": 0.0,
            "W": 5.0,
            "N": 5.0 + 20 * n,
            "C": 5.0 + 20 * n,
            "L": judged.now + 14,
        }
        judged.poll(
            {"q": {"A": 900 + 20.0 * n, "K": 20.0 * n, "M": 900, "D": 5}},
            {"c": consumer},
        )
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_acknowledged_and_uncommitted_is_an_open_transaction_and_no_stall() -> None:
    judged = Judged()
    for n in range(24):
        consumer = {
            "T": 0.0,
            "W": 5.0 + n,
            "N": 5.0 + n,
            "C": 5.0 + n,
            "L": judged.now + 14,
        }
        judged.poll({"q": {"A": 100, "M": 100, "D": 5 + n}}, {"c": consumer})
    assert judged.names == {"open_transaction"}
    assert judged.one("open_transaction").evidence["uncommitted"] == 28


@pytest.mark.slow  # many polls
def test_with_something_uncommitted_a_settlement_is_as_late_as_the_poll() -> None:
    """The last acknowledgement may be of the open transaction, or older than the commit."""
    judged = Judged()
    for n in range(40):
        consumer = {
            "T": 0.0,
            "W": 5.0,
            "N": 5.0 + 20 * n,
            "C": 5.0 + 20 * n,
            "L": START,
        }
        judged.poll(
            {"q": {"A": 900 + 20.0 * n, "K": 20.0 * n, "M": 900, "D": 5}},
            {"c": consumer},
        )
    assert not judged.conditions


# --- OpenMQ


def with_transaction(state: TransactionState, count: int) -> OpenmqJudged:
    world = openmq(
        transactions={
            "t": {
                "connection": 7,
                "state": state,
                "acknowledgements": 50,
                "messages": 0,
            }
        }
    )
    return openmq_polls(world, count, lambda _: {
        "queues": {"q": {"A": 100, "K": 0, "M": 100, "D": 100}},
        "consumers": {
            "c": {"N": 100, "T": 100, "acknowledge_mode": AcknowledgeMode.TRANSACTED, "connection": 7},
        },
    })  # fmt: skip


@pytest.mark.slow  # many polls
def test_open_transaction_after_the_patience() -> None:
    assert with_transaction(TransactionState.STARTED, 5).names == set()
    assert with_transaction(TransactionState.STARTED, 7).names == {"open_transaction"}
    assert (
        with_transaction(TransactionState.STARTED, 7)
        .one("open_transaction")
        .evidence["uncommitted"]
        == 50
    )


def test_failed_transaction_is_told_at_once() -> None:
    assert with_transaction(TransactionState.FAILED, 2).names == set()
    assert with_transaction(TransactionState.FAILED, 3).names == {"open_transaction"}


def test_transaction_of_another_connection_is_not_its() -> None:
    world = openmq(
        transactions={
            "t": {
                "connection": 8,
                "state": TransactionState.FAILED,
                "acknowledgements": 50,
            }
        }
    )
    openmq_polls(world, 4, lambda _: {
        "queues": {"q": {"A": 100, "K": 0, "M": 100, "D": 100}},
        "consumers": {"c": {"N": 100, "T": 100, "acknowledge_mode": AcknowledgeMode.TRANSACTED, "connection": 7}},
    })  # fmt: skip
    assert world.names == set()
