"""`producers_blocked`: full addresses and brokers; addresses that merely slow their producers are not."""

from typing import Any

import numpy as np
import pytest

from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls
from conditions.situations import FULL, HOLDER, WAIT, at_limits, polls
from conditions.things import Numbers
from conditions.world import Judged


@pytest.mark.parametrize(
    ("queue", "address", "names"),
    [
        ({}, FULL, {"producers_blocked"}),
        ({}, {**FULL, "limit_percent": 99.0}, set()),
        ({}, {**FULL, "paging": 1.0, "pages": 3.0}, set()),
        ({}, {"producers_paused": 1.0}, {"blocked_by_operator"}),
    ],
)
def test_the_limit_of_an_address(
    queue: Numbers, address: dict[str, float], names: set[str]
) -> None:
    assert at_limits(queue, address) == names


@pytest.mark.parametrize(
    ("about", "blocked"),
    [
        ({"disk_used_ratio": 0.9, "disk_limit_ratio": 0.9}, True),
        ({"disk_used_ratio": 0.89, "disk_limit_ratio": 0.9}, False),
        ({"memory_used_bytes": 100.0, "memory_limit_bytes": 100.0}, True),
        ({"memory_used_bytes": 99.0, "memory_limit_bytes": 100.0}, False),
        ({"disk_used_ratio": 0.9}, False),
    ],
)
def test_a_full_broker_blocks_all_producers(
    about: dict[str, float], blocked: bool
) -> None:
    judged = polls(Judged(about=about), 8, {**WAIT, "D": 10}, {"c": HOLDER})
    assert judged.names == ({"producers_blocked"} if blocked else set())


@pytest.mark.parametrize(("step", "polls_needed"), [(5.0, 4), (15.0, 3)])
def test_nothing_comes_in_for_15_s_and_two_polls(
    step: float, polls_needed: int
) -> None:
    """The second poll knows that nothing came since the first: 15 s from there on, one poll before it may agree."""
    judged = polls(Judged(step=step), polls_needed - 1, WAIT, {"c": HOLDER}, **FULL)
    assert not judged.names
    polls(judged, 1, WAIT, {"c": HOLDER}, **FULL)
    assert judged.names == {"producers_blocked"}


# --- OpenMQ


def full(policy: str, count: int, **said: Any) -> OpenmqJudged:
    numbers = {
        "limit_messages": 1000,
        "producers": 2,
        "max_producers": 100,
        "policy": policy,
        **said,
    }
    return openmq_polls(openmq(), count, lambda _: {
        "queues": {"q": {"A": 1000, "K": 0, "M": 1000, "D": 0}},
        "addresses": {"q": numbers},
    })  # fmt: skip


@pytest.mark.slow  # many polls
def test_producers_blocked_by_flow_control() -> None:
    assert full("flow_control", 3).names == {"producers_blocked"}
    assert full("flow_control", 2).names == set()
    for said in (
        {"producers": 0},
        {"limit_messages": 2000},
        {"limit_messages": np.nan},
    ):
        assert full("flow_control", 4, **said).names == set()
    assert full("reject_newest", 4).names == set()


@pytest.mark.slow  # many polls
def test_close_to_the_limit_is_blocked_only_after_the_patience() -> None:
    """Two producers may send ten each before they are told to wait."""
    assert full("flow_control", 4, limit_messages=1015).names == set()
    assert "producers_blocked" in full("flow_control", 8, limit_messages=1015).names
    assert "producers_blocked" not in full("flow_control", 8, limit_messages=1030).names


@pytest.mark.slow  # many polls
def test_throttled_producers_are_not_blocked() -> None:
    world = openmq()
    openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 2000 + 10 * i, "K": 1000 + 10 * i, "M": 1000, "D": 500}},
        "consumers": {"c": {"N": 1500 + 10 * i, "T": 500, "L": world.now + 10, "flow_paused": 1}},
        "addresses": {"q": {"limit_messages": 1000, "producers": 2, "max_producers": 100, "policy": "flow_control"}},
    })  # fmt: skip
    assert world.names == set()
