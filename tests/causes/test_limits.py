"""Causes of `producers_blocked` and `rejecting`: whose limit it is, and who suffers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from causes.world import POLLS, excluded, possible, proven, states, verdicts
from conditions.openmq_world import openmq, openmq_polls
from penstock.causes.verdict import Verdict
from penstock.model import ResourceState

MEMORY = {"memory_used_bytes": 100.0, "memory_limit_bytes": 100.0}
DISK = {"disk_used_ratio": 0.95, "disk_limit_ratio": 0.9}


def blocked(address: dict[str, Any], **options: Any) -> Mapping[str, Verdict]:
    said = {
        "queues": {"q": {"A": 100.0, "M": 100.0}},
        "addresses": {"q": {"policy": "block", **address}},
    }
    return verdicts("producers_blocked", lambda _, __: said, polls=POLLS, **options)


@pytest.mark.parametrize(
    ("address", "about", "cause"),
    [
        (
            {
                "limit_percent": 117.0,
                "memory_used_ratio": 1.17,
                "producers_paused": 0.0,
            },
            {},
            "address_full",
        ),
        ({"limit_percent": 100.0, "producers_paused": 0.0}, MEMORY, "memory_full"),
        (
            {"limit_percent": 5.0, "memory_used_ratio": 0.05, "producers_paused": 0.0},
            DISK,
            "disk_full",
        ),
    ],
)
def test_whose_limit_is_reached(
    address: dict[str, float], about: dict[str, float], cause: str
) -> None:
    found = states(blocked(address, about=about))
    assert (found[proven], found[possible]) == ({cause}, set())


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("producers", "who"), [
    ({"p": {"address": "q", "session": "s", "produced": 4}, "o": {"address": "r", "session": "s", "produced": 4}},
     "1 producers send there"),
    ({}, "0 producers send there"),
    (None, "its producers were not read"),
])  # fmt: skip
def test_the_fact_says_who_suffers(producers: Any, who: str) -> None:
    found = blocked(
        {"limit_percent": 117.0, "memory_used_ratio": 1.17}, producers=producers
    )
    assert found["address_full"].fact == f"it uses 117% of its limit; {who}"


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("policy", "state"), [("drop", proven), ("fail", proven), ("", possible)]
)
def test_the_policy_says_what_becomes_of_refused_messages(
    policy: str, state: Any
) -> None:
    address = {
        "q": {"limit_percent": 117.0, "paging": 1.0, "pages": 0.0, "policy": policy}
    }
    found = verdicts(
        "rejecting",
        lambda _, __: {"queues": {"q": {"A": 9.0, "M": 9.0}}, "addresses": address},
    )
    assert found["address_full"].state is state


@pytest.mark.parametrize(
    ("messages", "address", "closed", "full"),
    [
        (50, {}, excluded, proven),
        # Its producer may still send what is left of its last batch; many polls
        pytest.param(49, {}, excluded, possible, marks=pytest.mark.slow),
        pytest.param(
            9, {"producers_paused": 1.0}, proven, excluded, marks=pytest.mark.slow
        ),
    ],
)
def test_openmq_says_whether_a_destination_is_full_or_closed(
    messages: int, address: dict[str, float], closed: Any, full: Any
) -> None:
    """There it may be full by count, too."""
    world = openmq()
    said = {
        "limit_messages": 50,
        "max_producers": 50,
        "producers": 1,
        "producers_paused": 0.0,
        **address,
    }
    for _ in range(POLLS):
        world.poll(
            {"q": {"A": messages, "M": messages}},
            {},
            {"q": {"policy": "flow_control", **said}},
        )
    found = world.one("producers_blocked").verdicts
    assert (found["operator"].state, found["address_full"].state) == (closed, full)


@pytest.mark.parametrize(
    ("messages", "limit", "state", "full", "large"),
    [
        (200, 200, ResourceState.GREEN, proven, possible),
        (10, 200, ResourceState.GREEN, excluded, proven),
        (10, np.inf, ResourceState.GREEN, excluded, proven),
        (
            10,
            200,
            ResourceState.RED,
            excluded,
            possible,
        ),  # without memory it refuses anything
    ],
)
def test_openmq_refuses_large_messages_one_by_one(
    messages: int, limit: float, state: ResourceState, full: Any, large: Any
) -> None:
    world = openmq(about={"resource_state": float(state)})
    address = {
        "limit_messages": limit,
        "message_limit_bytes": 1000.0,
        "dead_letters": 1,
    }
    openmq_polls(world, 8, lambda i: {
        "queues": {
            "q": {"A": 1000 + 20 * i, "K": 500, "M": messages, "bytes": 10.0},
            "takes": {"A": 20 * i, "K": 20 * i, "M": 0},
        },
        "addresses": {"q": address},
    })  # fmt: skip
    found = world.one("rejecting").verdicts
    assert (found["address_full"].state, found["too_large"].state) == (full, large)


def refused_by_two() -> Mapping[str, Verdict]:
    world = openmq(about={"resource_state": float(ResourceState.GREEN)})
    address = {
        "limit_messages": 100_000,
        "message_limit_bytes": 10_485_760.0,
        "dead_letters": 1,
    }
    refuses = {"K": 500, "M": 10, "bytes": 10.0}
    openmq_polls(world, 8, lambda i: {
        "queues": {name: {"A": 1000 + 20 * i, **refuses} for name in ("q", "r")},
        "addresses": {"q": address, "r": address},
    })  # fmt: skip
    return next(
        one.verdicts
        for one in world.conditions
        if one.name == "rejecting" and one.queue == "q"
    )


def test_a_broker_at_its_own_limit_refuses_as_if_messages_were_too_large() -> None:
    """imq.system.max_count, which is not read, refuses what is sent to all destinations alike."""
    found = refused_by_two()
    assert found["too_large"].state is possible
    assert "the limit of the whole broker is reached" in found["too_large"].fact
    assert (found["broker_full"].state, found["broker_full"].likely) == (possible, True)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "unread", [{"memory_used_bytes": np.nan}, {"disk_used_ratio": np.nan}]
)
def test_a_broker_of_which_memory_or_disk_was_not_read_may_be_full(
    unread: dict[str, float],
) -> None:
    found = blocked({"limit_percent": 117.0, "memory_used_ratio": 1.17}, about=unread)
    cause = "memory_full" if "memory_used_bytes" in unread else "disk_full"
    assert found[cause].state is possible


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("age", [None, 600.0])
def test_an_address_whose_limit_was_not_read_since_is_not_without_one(
    age: float | None,
) -> None:
    """The whole broker is full, and shows the same percentage."""
    found = blocked({"limit_percent": 100.0}, about=MEMORY, settings_age=age)
    assert (found["address_full"].state, found["memory_full"].state) == (
        possible,
        proven,
    )
