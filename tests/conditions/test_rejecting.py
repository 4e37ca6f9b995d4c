"""`rejecting`: what comes is refused."""

from typing import Any

import pytest

from conditions.openmq_world import openmq, openmq_polls
from conditions.situations import FULL, at_limits
from conditions.things import Numbers
from penstock.account.openmq_books import REASONS
from penstock.model import QueueKind


@pytest.mark.parametrize(
    ("queue", "address", "names"),
    [
        ({}, {**FULL, "paging": 1.0, "pages": 0.0}, {"rejecting"}),
        ({}, {"limit_percent": 99.0, "paging": 1.0, "pages": 0.0}, set()),
    ],
)
def test_an_address_at_its_limit_that_has_no_pages(
    queue: Numbers, address: dict[str, float], names: set[str]
) -> None:
    assert at_limits(queue, address) == names


# --- OpenMQ


def refusing(i: int) -> dict[str, Any]:
    """20 a poll come to a full destination."""
    return {
        "queues": {"q": {"A": 1000 + 20 * i, "K": 0, "M": 1000, "D": 0}},
        "addresses": {
            "q": {"limit_messages": 1000, "dead_letters": 1, "message_limit_bytes": 1e7}
        },
    }


def test_rejected_messages_are_counted_in_and_are_nowhere() -> None:
    world = openmq()
    openmq_polls(world, 8, refusing)
    assert world.names == {"rejecting"}
    assert world.one("rejecting").evidence["rejected"] == 120  # seen twice


@pytest.mark.slow  # many polls
def test_reads_apart_are_no_rejects() -> None:
    """The depth is read a moment after the counters, at changing distance."""
    world = openmq()
    apart = [0, 7, -4, 9, 0, -8, 6, 2, -5, 8, -3, 0]
    openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 1000 + 100 * i, "K": 1000 + 100 * i, "M": 20 + apart[i], "D": 0}},
        "consumers": {"c": {"N": 1000 + 100 * i, "T": 0, "L": world.now + 10}},
    })  # fmt: skip
    assert world.names == set()


def test_rejected_messages_are_a_counter_of_the_address() -> None:
    world = openmq()
    shown = []
    for i in range(5):
        world.poll(**refusing(i))
        shown.append(float(world.tables["address"]["messages_rejected"][0]))
    assert shown == [0, 0, 20, 40, 60]


@pytest.mark.slow  # many polls
def test_what_expired_on_arrival_is_not_refused() -> None:
    """Half of what comes has lived too long already: only the dead message queue shows it."""
    world = openmq()
    shown = []
    for i in range(8):
        world.poll(
            {
                "q": {"A": 1000 + 20 * i, "K": 0, "M": 100 + 10 * i, "D": 0},
                "mq.sys.dmq": {
                    "A": 10 * i,
                    "K": 0,
                    "M": 10 * i,
                    "D": 0,
                    "kind": QueueKind.DEAD_LETTER,
                },
            },
            addresses={
                "q": {
                    "limit_messages": 1000,
                    "dead_letters": 1,
                    "message_limit_bytes": 1e7,
                }
            },
        )
        shown = world.tables["address"]["messages_rejected"].tolist()
    assert world.names == set()
    assert shown[0] == 0
    assert (
        world.state.judgement.openmq_account.queues.low[
            REASONS.index("expired")
        ].tolist()[0]
        == 60
    )


def test_what_is_too_large_is_refused_below_the_limit() -> None:
    world = openmq()
    openmq_polls(world, 8, lambda i: {
        "queues": {"q": {"A": 1000 + 20 * i, "K": 0, "M": 100, "D": 0}},
        "addresses": {"q": {"limit_messages": 1000, "dead_letters": 1, "message_limit_bytes": 1e3}},
    })  # fmt: skip
    assert world.names == {"rejecting"}
    assert world.state.judgement.openmq_account.queues.low[
        REASONS.index("too_large")
    ].tolist() == [120]
