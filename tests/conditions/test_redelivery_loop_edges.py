"""`redelivery_loop` at its edges: each number that it reads makes it true and false, and when it began."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed, column, inputs_after, mask, positions
from conditions.openmq_world import OpenmqJudged
from conditions.world import START, Judged
from penstock.conditions import redelivery_loop
from penstock.conditions.redelivery_loop import (
    DEFAULT_ATTEMPTS,
    evidence,
    notice,
    only_few_fail,
    openmq_rule,
    rule,
)
from penstock.observation.activity import Returns
from penstock.observation.poll import RuleInputs

STEP = 15.0
QUIET_POLLS = 7
BEGAN = START + STEP * (QUIET_POLLS + 1)
"""When messages came back for the first time."""


@cache
def polled() -> RuleInputs:
    """Of two queues the second gets back what it delivers, after some polls at which both are quiet."""
    world = Judged(step=STEP)
    queue = {"A": 100.0, "K": 1.0, "M": 99.0, "D": 10.0}
    quiet = {"queue": "p", "T": 10.0, "N": 11.0, "C": 1.0, "L": START, "Ld": START}

    def said(poll: int) -> dict[str, Any]:
        back = 40.0 * max(0, poll - QUIET_POLLS + 1)
        loops = {
            "queue": "q",
            "T": 10.0,
            "N": 11.0 + back,
            "C": 1.0 + back,
            "L": START,
            "Ld": world.now + STEP,
        }
        return {
            "queues": {"p": queue, "q": queue},
            "consumers": {"c": quiet, "d": loops},
        }

    return inputs_after(world, 12, said)


def both(value: Any, other: Any) -> Any:
    return np.array([value, other])


def test_it_began_when_messages_first_came_back() -> None:
    raised = rule(polled())
    assert raised.mask.tolist() == [False, True]
    assert raised.since is not None
    np.testing.assert_equal(raised.since, [np.nan, BEGAN])
    assert raised.lasting is None


@pytest.mark.parametrize(
    ("values", "loops"),
    [
        ({"found__settling": True}, False),
        ({"found__judged": mask(True, False)}, False),
        ({"found__judged": mask(False, True)}, True),
        ({"returns__persistent": mask(False, False)}, False),
        ({"returns__delivered": column(0, 0)}, False),
        ({"returns__delivered": column(0, 1)}, True),
    ],
)
def test_each_number_decides(values: dict[str, Any], loops: bool) -> None:
    assert rule(changed(polled(), **values)).mask.tolist() == [False, loops]


def test_a_queue_that_is_not_judged_is_none() -> None:
    poll = changed(
        polled(), found__judged=mask(False, True), returns__persistent=mask(True, True)
    )
    assert rule(poll).mask.tolist() == [False, True]


def test_of_a_queue_that_keeps_its_messages_nothing_comes_back() -> None:
    """It settles nothing, attempts nothing, and delivers no more than was ever added."""
    nothing = {"found__settled": column(1, 0), "found__attempts": column(0, 0)}
    few = {
        "found__consumer__delivered": column(0, 100),
        "found__added": column(100, 100),
    }
    assert rule(changed(polled(), **nothing, **few)).mask.tolist() == [False, False]
    many = few | {"found__consumer__delivered": column(0, 101)}
    assert rule(changed(polled(), **nothing, **many)).mask.tolist() == [False, True]


# --- OpenMQ


def openmq(**values: Any) -> RuleInputs:
    """The second queue gives back; `balanced` and `returning_since` are as OpenMQ's are."""
    said = SimpleNamespace(balanced=values.pop("balanced", mask(True, True)))
    since = values.pop("returning_since", column(np.nan, np.nan))
    state = SimpleNamespace(said=said, consumers=SimpleNamespace(returning_since=since))
    return changed(polled(), openmq=state, client_patience=column(300, 300), **values)


def test_of_a_queue_the_balance_says_it() -> None:
    raised = openmq_rule(openmq())
    assert raised.mask.tolist() == [False, True]
    np.testing.assert_equal(raised.since, [np.nan, BEGAN])


def test_a_subscription_has_no_balance() -> None:
    raised = openmq_rule(openmq(balanced=mask(True, False)))
    assert raised.mask.tolist() == [False, False]


@pytest.mark.parametrize(
    ("seconds", "loops"), [(300.0, True), (299.9, False), (np.nan, False)]
)
def test_a_consumer_of_a_subscription_gives_back_for_longer_than_its_threshold(
    seconds: float, loops: bool
) -> None:
    began = polled().found.now - seconds
    raised = openmq_rule(
        openmq(balanced=mask(False, True), returning_since=column(began, np.nan))
    )
    assert raised.mask.tolist() == [loops, True]
    np.testing.assert_equal(raised.since, [began if loops else np.nan, BEGAN])


@pytest.mark.parametrize(
    "values",
    [
        {"balanced": mask(True, False)},  # it is a queue, which has a balance
        {"balanced": mask(False, False), "found__judged": mask(False, True)},
    ],
)
def test_not_of_a_queue_nor_of_what_is_not_judged(values: dict[str, Any]) -> None:
    began = polled().found.now - 400
    raised = openmq_rule(openmq(returning_since=column(began, np.nan), **values))
    assert raised.mask.tolist() == [False, False]


def test_the_time_of_the_queue_goes_before_that_of_its_consumers() -> None:
    began = polled().found.now - 400
    raised = openmq_rule(openmq(returning_since=column(np.nan, began)))
    np.testing.assert_equal(raised.since, [np.nan, BEGAN])


@pytest.mark.parametrize(
    ("queue", "times", "earliest"),
    [
        ((0, 0), (7.0, 5.0), [5.0, np.nan]),
        ((0, 0), (5.0, 7.0), [5.0, np.nan]),
        ((0, 1), (7.0, 5.0), [7.0, 5.0]),
        ((0, -1), (7.0, 5.0), [7.0, np.nan]),
        ((1, 0), (7.0, np.nan), [np.nan, 7.0]),
    ],
)
def test_the_earliest_of_a_queues_consumers(
    queue: tuple[int, ...], times: tuple[float, ...], earliest: list[float]
) -> None:
    poll = changed(polled(), found__consumer__queue=positions(*queue))
    found = redelivery_loop.earliest_of_queue(poll, column(*times))
    np.testing.assert_equal(found, earliest)
    assert found.dtype == np.float64


def test_a_real_openmq_poll_has_all_that_is_read() -> None:
    said = {"queues": {"q": {"A": 10, "M": 10}}, "consumers": {"c": {"N": 1, "T": 1}}}
    poll = inputs_after(OpenmqJudged(), 3, lambda _: said)
    assert openmq_rule(poll).mask.tolist() == [False]


# --- how bad


def returns(
    returned: float,
    *,
    settled: float = 100.0,
    killed: float = 0.0,
    delivered: float = 5_000.0,
) -> Returns:
    return Returns(
        column(returned), column(delivered), column(settled), column(killed), mask(True)
    )


SHARE = 100.0
SPREAD = 30.0
"""Of 5,000 deliveries two in a hundred, and three standard deviations of that."""


@pytest.mark.parametrize(
    ("found", "attempts", "few"),
    [
        (returns(SHARE + SPREAD - 0.1), 10, True),
        (returns(SHARE + SPREAD), 10, False),
        (returns(100.0, settled=0.0), 10, False),
        (returns(100.0, settled=1.0), 10, True),
        (returns(1000.0, killed=100.0), 10, True),  # each of those came back nine times
        (returns(900.0 + SHARE + SPREAD, killed=100.0), 10, False),
        (returns(900.0 + SHARE + SPREAD - 0.1, killed=100.0), 10, True),
        (returns(SHARE + SPREAD, killed=100.0), 1, False),
        (returns(SHARE + SPREAD, killed=100.0), -1, False),
        (returns(SHARE + SPREAD, killed=100.0), 1.5, True),
        (returns(0.9, delivered=1.0), 10, False),
        (returns(0.4, delivered=1.0), 10, True),
    ],
)
def test_a_small_share_that_ends_in_the_dead_letters_is_a_notice(
    found: Returns, attempts: float, few: bool
) -> None:
    assert only_few_fail(found, column(attempts)).tolist() == [few]


@pytest.mark.parametrize(
    ("attempts", "few"), [(np.nan, True), (DEFAULT_ATTEMPTS, True), (2.0, False)]
)
def test_the_settings_say_how_often_a_message_comes_back(
    attempts: float, few: bool
) -> None:
    """Ten times where they do not; the queues are given by their positions."""
    numbers = {
        "returned": 1000.0,
        "killed": 100.0,
        "settled": 100.0,
        "delivered": 10_000.0,
    }
    of_both = {f"returns__{name}": column(0, value) for name, value in numbers.items()}
    poll = changed(
        polled(),
        found__address__max_delivery_attempts=column(np.nan, attempts),
        **of_both,
    )
    assert notice(poll, positions(1)).tolist() == [few]
    assert notice(poll, positions(0, 1, 0)).tolist() == [False, few, False]


@pytest.mark.parametrize("returned", [1.0, 7.0])
def test_its_numbers_are_those_of_the_window(returned: float) -> None:
    numbers = {"returned": returned, "delivered": 8.0, "settled": 3.0, "killed": 2.0}
    of_both = {f"returns__{name}": column(0, value) for name, value in numbers.items()}
    poll = changed(
        polled(), found__address__max_delivery_attempts=column(np.nan, 10), **of_both
    )
    said = {
        name: values.tolist() for name, values in evidence(poll, positions(1)).items()
    }
    assert said == {name: [value] for name, value in numbers.items()} | {
        "max_delivery_attempts": [10]
    }


def test_where_nothing_is_counted_it_has_no_numbers() -> None:
    poll = changed(
        polled(), returns__returned=column(0, 0), returns__delivered=column(9, 9)
    )
    said = evidence(poll, positions(0))
    assert all(
        np.isnan(said[name][0])
        for name in ("returned", "delivered", "settled", "killed")
    )
