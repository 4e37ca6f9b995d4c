"""Causes of `no_consumer` and `paused`."""

from collections.abc import Mapping
from typing import Any

import pytest

from causes.world import excluded, possible, proven, verdicts
from penstock.causes.verdict import Verdict


def unread(*, read: bool = True, **about: float) -> Mapping[str, Verdict]:
    """A consumer is there at the first polls, where somebody `read`; messages come."""

    def said(i: int, now: float) -> dict[str, Any]:
        there = (
            {"c": {"T": 0.0, "N": 5.0, "C": 5.0, "L": now}} if read and i < 3 else {}
        )
        done = 5.0 if read else 0.0
        return {
            "queues": {"q": {"A": 10.0 + i + done, "K": done, "M": 10.0 + i}},
            "consumers": there,
        }

    return verdicts("no_consumer", said, polls=40, about=about)


@pytest.mark.slow  # many polls
def test_one_that_was_read_is_meant_for_somebody() -> None:
    assert unread()["meant_for_nobody"][:2] == (excluded, "consumers read it before")
    assert unread(read=False)["meant_for_nobody"].state is possible


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("refused", "state", "fact"), [
    (0.0, excluded, "no login was refused since the broker's start"),
    (5.0, possible, "5 logins were refused since the broker's start"),
    (float("nan"), possible, "the number of refused logins was not read"),
])  # fmt: skip
def test_a_refused_login_needs_one_that_was(
    refused: float, state: Any, fact: str
) -> None:
    assert unread(authentication_failures=refused)["login_refused"][:2] == (state, fact)


@pytest.mark.parametrize(("queue", "address", "fact"), [
    ({"paused": 1.0}, {}, "the queue itself"),
    ({}, {"paused": 1.0}, "its address, which stops 2 queues"),
    ({"paused": 1.0}, {"paused": 1.0}, "the queue itself and its address, which stops 2 queues"),
])  # fmt: skip
def test_what_is_paused_is_said(
    queue: dict[str, float], address: dict[str, float], fact: str
) -> None:
    rows = {name: {"A": 9.0, "M": 9.0, "address": "a", **queue} for name in ("q", "r")}
    found = verdicts(
        "paused", lambda _, __: {"queues": rows, "addresses": {"a": address}}
    )
    assert found["paused"][:2] == (proven, fact)
