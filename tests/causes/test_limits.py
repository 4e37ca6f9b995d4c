"""Causes of `producers_blocked` and `rejecting`: whose limit it is, and who suffers."""

from collections.abc import Mapping
from typing import Any

import pytest

from causes.world import POLLS, possible, proven, states, verdicts
from conditions.openmq_world import openmq
from penstock.causes.verdict import Verdict

MEMORY = {"memory_used_bytes": 100.0, "memory_limit_bytes": 100.0}
DISK = {"disk_used_ratio": 0.95, "disk_limit_ratio": 0.9}


def blocked(address: dict[str, Any], **options: Any) -> Mapping[str, Verdict]:
    said = {"queues": {"q": {"A": 100.0, "M": 100.0}}, "addresses": {"q": {"policy": "block", **address}}}
    return verdicts("producers_blocked", lambda _, __: said, polls=POLLS, **options)


@pytest.mark.parametrize(
    ("address", "about", "cause"),
    [
        ({"limit_percent": 117.0, "memory_used_ratio": 1.17, "producers_paused": 0.0}, {}, "address_full"),
        ({"limit_percent": 100.0, "producers_paused": 0.0}, MEMORY, "memory_full"),
        ({"limit_percent": 5.0, "memory_used_ratio": 0.05, "producers_paused": 0.0}, DISK, "disk_full"),
    ],
)
def test_whose_limit_is_reached(address: dict[str, float], about: dict[str, float], cause: str) -> None:
    found = states(blocked(address, about=about))
    assert (found[proven], found[possible]) == ({cause}, set())


@pytest.mark.parametrize(("producers", "who"), [
    ({"p": {"address": "q", "session": "s", "produced": 4}, "o": {"address": "r", "session": "s", "produced": 4}},
     "1 producers send there"),
    ({}, "0 producers send there"),
    (None, "its producers were not read"),
])  # fmt: skip
def test_the_fact_says_who_suffers(producers: Any, who: str) -> None:
    found = blocked({"limit_percent": 117.0, "memory_used_ratio": 1.17}, producers=producers)
    assert found["address_full"].fact == f"it uses 117% of its limit; {who}"


@pytest.mark.parametrize(("policy", "state"), [("drop", proven), ("fail", proven), ("", possible)])
def test_the_policy_says_what_becomes_of_refused_messages(policy: str, state: Any) -> None:
    address = {"q": {"limit_percent": 117.0, "paging": 1.0, "pages": 0.0, "policy": policy}}
    found = verdicts("rejecting", lambda _, __: {"queues": {"q": {"A": 9.0, "M": 9.0}}, "addresses": address})
    assert found["address_full"].state is state


def test_what_decides_on_artemis_decides_nothing_on_openmq() -> None:
    """There a destination is full by count, too."""
    world = openmq()
    for _ in range(POLLS):
        full = {"q": {"limit_messages": 50, "producers": 1, "policy": "flow_control", "memory_used_ratio": 0.1}}
        world.poll({"q": {"A": 100, "K": 50, "M": 50}}, {}, full)
    assert world.one("producers_blocked").verdicts == {}
