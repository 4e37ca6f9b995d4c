"""The rule engine at its edges, with a condition that a test makes: who stays, for how long, and what silences it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conditions.pairs import (
    LONG_AGO,
    NEVER,
    NOW,
    one_connection,
    openmq,
    plain,
    two_queues,
    with_values,
)
from conditions.pairs_of_waiting import STARVES
from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import Condition, Raised
from penstock.conditions.paused import PAUSED
from penstock.core.table import Index
from penstock.observation.poll import RuleInputs
from penstock.rule_engine.engine import (
    COLUMNS,
    Debounce,
    advance_conditions,
    advance_one,
    blockers,
    looks_back_too_far,
    unsilenced,
)
from penstock.settings.constants import POLLS, Constants

NONE = [False, False]
FIRST = [True, False]
SECOND = [False, True]
BOTH = [True, True]
"""Of two queues."""
STEP = 15.0


def raising(queues: list[bool], **result: Any) -> Callable[[RuleInputs], Raised]:
    return lambda _: Raised(np.array(queues), **result)


def condition(queues: list[bool] = NONE, **fields: Any) -> Condition:
    """One whose rule is true for these queues."""
    made: dict[str, Any] = {"rule": raising(queues), "silenced_by": ()}
    return replace(PAUSED, **(made | fields))


def active(index: Index[Any], *queues: int) -> Debounce:
    """It has held at these queues at two polls."""
    debounce = Debounce().advance(index)
    at = np.array(queues)
    for ago in (2 * STEP, STEP):
        debounce = debounce.judge(at, np.full(len(at), np.nan), NOW - ago, Constants())
    return debounce


def polls_in_a_row(one: Condition, *, resumed_at: float = np.nan) -> list[int]:
    """At which the condition holds, negative for those at which it does not; it is active at the first queue."""
    poll = two_queues()
    assert one.rule is not None
    after = advance_one(active(poll.found.queues, 0), one, one.rule, poll, resumed_at)
    result: list[int] = after.run.tolist()
    return result


GOES_ON = POLLS + 1
ENDS = -1
BEGINS = 1
WINDOW = 60.0
"""Seconds that the made condition looks back. With two polls of 15 s that is a minute and a half."""
KNOWN_FOR_LESS = NOW - WINDOW
KNOWN_FOR_LONG = NOW - 1000


def looks_back(constants: Constants, interval: float) -> float:
    return constants.window + interval - STEP


@pytest.mark.parametrize(
    ("one", "resumed_at", "expected"),
    [
        (condition(SECOND), np.nan, [ENDS, BEGINS]),
        (condition(SECOND, stays=lambda _: np.array(FIRST)), np.nan, [GOES_ON, BEGINS]),
        (condition(SECOND, stays=lambda _: np.array(SECOND)), np.nan, [ENDS, BEGINS]),
        (condition(FIRST, stays=lambda _: np.array(BOTH)), np.nan, [GOES_ON]),
        (condition(FIRST, stays=lambda _: np.array(NONE)), np.nan, [GOES_ON]),
        (condition(SECOND, window=looks_back), KNOWN_FOR_LESS, [GOES_ON, BEGINS]),
        (condition(SECOND, window=looks_back), KNOWN_FOR_LONG, [ENDS, BEGINS]),
        (
            condition(SECOND, window=looks_back, stays=lambda _: np.array(NONE)),
            KNOWN_FOR_LESS,
            [ENDS, BEGINS],
        ),
    ],
)
def test_what_is_active_stays_where_the_condition_says_so_or_too_little_was_seen(
    one: Condition, resumed_at: float, expected: list[int]
) -> None:
    assert polls_in_a_row(one, resumed_at=resumed_at) == expected


@pytest.mark.parametrize(
    ("window", "seconds", "expected"),
    [
        (looks_back, WINDOW + 2 * STEP - 0.1, True),
        (looks_back, WINDOW + 2 * STEP, False),
        (looks_back, np.nan, False),
        (None, 0.0, False),
    ],
)
def test_a_window_and_two_polls_must_have_been_seen(
    window: Any, seconds: float, expected: bool
) -> None:
    assert (
        looks_back_too_far(condition(window=window), plain(), NOW - seconds) is expected
    )


@pytest.mark.parametrize(
    ("lasting", "expected"), [(None, True), (20.0, True), (20.1, False)]
)
def test_it_is_raised_when_it_has_lasted_for_so_long(
    lasting: float | None, expected: bool
) -> None:
    """It begins at one queue alone, and held at the poll before."""
    poll = plain()
    seconds = None if lasting is None else np.array([lasting])
    one = condition(rule=raising([True], since=np.array([NOW - 20.0]), lasting=seconds))
    assert one.rule is not None
    held_once = (
        Debounce()
        .advance(poll.found.queues)
        .judge(np.array([0]), np.array([np.nan]), NOW - STEP, Constants())
    )
    after = advance_one(held_once, one, one.rule, poll, np.nan)
    assert after.on.tolist() == [expected]


def test_an_event_is_raised_at_once() -> None:
    one = condition(FIRST, event=True)
    poll = two_queues()
    assert one.rule is not None
    after = advance_one(Debounce(), one, one.rule, poll, np.nan)
    assert after.on.tolist() == [True]
    assert after.last.tolist() == [NOW]


def test_of_what_is_no_event_it_is_not_kept_when_it_happened_last() -> None:
    assert active(two_queues().found.queues, 0).last.tolist() == [-np.inf]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((), BOTH),
        ((condition(FIRST),), SECOND),
        ((condition(FIRST), condition(SECOND)), NONE),
        ((condition(rule=None), condition(FIRST)), SECOND),
    ],
)
def test_it_is_silent_where_another_one_is_raised(
    others: tuple[Condition, ...], expected: list[bool]
) -> None:
    one = condition(silenced_by=others)
    raised = Raised(np.array(BOTH))
    assert unsilenced(raised, one, two_queues()).tolist() == expected


def test_of_nothing_nothing_is_known() -> None:
    nothing = Debounce()
    columns = {name: getattr(nothing, name) for name in ("at", *COLUMNS)}
    assert {name: len(column) for name, column in columns.items()} == dict.fromkeys(
        columns, 0
    )
    kinds = {name: column.dtype.kind for name, column in columns.items()}
    assert kinds == {
        "at": "i",
        "run": "i",
        "on": "b",
        "since": "f",
        "left_since": "f",
        "left_at": "f",
        "last": "f",
    }


# --- all conditions of a broker


def test_conditions_of_consumers_need_numbers_of_each_consumer() -> None:
    conditions = for_kind("artemis").values()
    with_rules = {one.name for one in conditions if one.rule is not None}
    of_consumers = {
        one.name for one in conditions if one.rule is not None and one.by_consumer
    }
    counted = with_values(plain(), {"found.counted": True})
    not_counted = with_values(plain(), {"found.counted": False})
    assert of_consumers
    assert advance_conditions({}, counted, np.nan).keys() == with_rules
    assert (
        advance_conditions({}, not_counted, np.nan).keys() == with_rules - of_consumers
    )


def test_each_kind_of_broker_has_its_own() -> None:
    names = advance_conditions({}, openmq(), np.nan).keys()
    assert "connection_paused" in names
    assert "ring_losing" not in names


@pytest.mark.parametrize(
    ("resumed_at", "expected"), [(NOW - 10, [GOES_ON]), (NOW - 1000, [ENDS])]
)
def test_after_a_restart_of_the_agent_what_looks_back_stays(
    resumed_at: float, expected: list[int]
) -> None:
    poll = plain()
    before = {"dead_lettering": active(poll.found.queues, 0)}
    after = advance_conditions(before, poll, resumed_at)["dead_lettering"]
    assert after.run.tolist() == expected


def test_who_uses_up_a_connection_is_known_while_another_one_starves_for_it() -> None:
    poll = with_values(
        one_connection(), STARVES | {"openmq.consumers.still_since": LONG_AGO}
    )
    connection = int(poll.snapshot.consumer_connection[0])
    starves = active(poll.found.queues, 0)
    assert blockers({"connection_paused": starves}, poll) == ((connection, "app"),)
    assert blockers({"paused": starves}, poll) == ()
    nobody_idle = with_values(poll, {"unacked.hold_since": NOW})
    assert blockers({"connection_paused": starves}, nobody_idle) == ()
    assert (
        blockers(
            {"connection_paused": Debounce()},
            with_values(poll, {"timers.ready": NEVER}),
        )
        == ()
    )
