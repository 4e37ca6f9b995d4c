"""`slowed.held_up`: a backlog that some consumers cause, which settle nothing, is no slowness of the others."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed, column, inputs_after, mask, positions
from conditions.world import Judged
from penstock.causes.backlog import STUCK
from penstock.conditions import stalled
from penstock.conditions.condition import Raised
from penstock.conditions.slowed import TIMES, held_up
from penstock.learned.service import DEEP
from penstock.observation.buffers import RISES, START
from penstock.observation.poll import RuleInputs

ASKED = mask(True, True, False)
"""Of the three queues."""
NOBODY = mask(False, False, False, False, False)


@cache
def polled() -> RuleInputs:
    """Of three queues the first has three consumers, the others one each; nobody is stuck."""
    queues = {name: {"A": 100.0, "M": 100.0} for name in ("p", "q", "r")}
    consumers = {
        str(number): {"queue": queue, "T": 5.0, "N": 5.0}
        for number, queue in enumerate("pppqr")
    }
    return inputs_after(
        Judged(), 2, lambda _: {"queues": queues, "consumers": consumers}
    )


def backlog(
    stalls: np.ndarray[Any, np.dtype[np.bool_]] = NOBODY, **values: Any
) -> RuleInputs:
    """All consumers settled just now. stalls: those that are stalled."""
    now = polled().found.now
    plain = {
        "unacked__unacked_since": column(now, now, now, now, now),
        "usual__service": column(1, 1, 1),
        "found__consumer__held": column(5, 5, 5, 5, 5),
        "found__messages": column(20, 20, 20),
        "found__consumers": column(3, 1, 1),
        "buffers__at": positions(),
        "buffers__rows": np.empty((len(START), 0), np.float32),
    }
    poll = changed(polled(), **(plain | values))
    results: dict[Any, Raised] = {stalled.rule: Raised(stalls)}
    return replace(poll, _results=results)


def ago(*seconds: float) -> Any:
    return polled().found.now - np.array(seconds)


def held(poll: RuleInputs) -> list[bool]:
    found: list[bool] = held_up(poll, ASKED).tolist()
    return found


def test_nobody_holds_up_who_settles() -> None:
    assert held(backlog()) == [False, False, False]


@pytest.mark.parametrize(
    ("stalls", "found"),
    [
        (0, [True, False, False]),
        (2, [True, False, False]),
        (3, [False, True, False]),
        (4, [False, False, False]),
    ],
)
def test_a_stalled_consumer_holds_up_its_queue(stalls: int, found: list[bool]) -> None:
    """Of the queues that are asked for: the last one is not."""
    assert held(backlog(np.arange(5) == stalls)) == found


@pytest.mark.parametrize("read", [True, False])
def test_on_openmq_its_own_rule_says_who_is_stalled(read: bool) -> None:
    """As soon as something of it was read."""
    openmq = SimpleNamespace(said=SimpleNamespace() if read else None)
    poll = backlog(openmq=openmq)
    results: dict[Any, Raised] = {
        stalled.rule: Raised(np.arange(5) == 3),
        stalled.openmq_rule: Raised(np.arange(5) == 0),
    }
    found = held(replace(poll, _results=results))
    assert found == ([True, False, False] if read else [False, True, False])


def test_a_leaking_consumer_holds_up_its_queue() -> None:
    """Of those that are followed, the second rises."""
    rows = np.zeros((len(START), 2), np.float32)
    rows[RISES] = [0, 1]
    assert held(backlog(buffers__at=positions(0, 3), buffers__rows=rows)) == [
        False,
        True,
        False,
    ]


STUCK_FIRST = STUCK + 100
"""Seconds: longer than any job here."""


def one_stuck(
    seconds: float = STUCK_FIRST, holding: float = 18.0, **values: Any
) -> RuleInputs:
    """The second of three consumers has settled nothing for so long, and holds so many of 20 messages."""
    return backlog(
        unacked__unacked_since=ago(0, seconds, 0, 0, 0),
        found__consumer__held=column(1, holding, 1, 5, 5),
        **values,
    )


def test_some_that_settle_nothing_hold_up_the_others() -> None:
    assert held(one_stuck()) == [True, False, False]


@pytest.mark.parametrize(("seconds", "found"), [(STUCK, True), (STUCK - 0.1, False)])
def test_nothing_is_settled_for_so_long(seconds: float, found: bool) -> None:
    assert held(one_stuck(seconds))[0] is found


@pytest.mark.parametrize(
    ("seconds", "found"), [(TIMES * 1000.0, True), (TIMES * 1000.0 - 0.1, False)]
)
def test_a_long_job_is_none(seconds: float, found: bool) -> None:
    """2.5 times what the consumers of its own queue need."""
    assert held(one_stuck(seconds, usual__service=column(1000, 1, 1)))[0] is found


def test_what_they_need_may_be_unknown() -> None:
    assert held(one_stuck(usual__service=column(np.nan, np.nan, np.nan)))[0]


@pytest.mark.parametrize(
    ("holding", "messages", "found"), [(0.0, 3.0, False), (1.0, 3.0, True)]
)
def test_it_holds_something(holding: float, messages: float, found: bool) -> None:
    assert (
        held(one_stuck(holding=holding, found__messages=column(messages, 20, 20)))[0]
        is found
    )


@pytest.mark.parametrize(("consumers", "found"), [(1.0, False), (2.0, True)])
def test_not_all_of_them_are_stuck(consumers: float, found: bool) -> None:
    """Where all are, they are slow: few messages are left beside what it holds."""
    assert (
        held(one_stuck(holding=20.0, found__consumers=column(consumers, 1, 1)))[0]
        is found
    )


@pytest.mark.parametrize(("left", "found"), [(3 * DEEP - 1, True), (3 * DEEP, False)])
def test_the_backlog_is_what_it_holds(left: float, found: bool) -> None:
    """Two messages for each consumer are a backlog of the others' own."""
    assert held(one_stuck(found__messages=column(18 + left, 20, 20)))[0] is found
