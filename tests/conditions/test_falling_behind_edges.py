"""`falling_behind` at its edges: each number that it reads makes it true and false, and when it began."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed, column, inputs_after, mask, positions
from conditions.world import START, Judged
from penstock.conditions.condition import Raised
from penstock.conditions.falling_behind import (
    FALLING_BEHIND,
    KNOWN,
    notice,
    openmq_rule,
    rule,
)
from penstock.conditions.stalled import openmq_rule as stalled_rule
from penstock.observation.poll import RuleInputs
from penstock.observation.usual import BACKLOG

STEP = 15.0
FLAT_POLLS = 4
BEGAN = START + STEP * (FLAT_POLLS + 1)
"""When the backlog was first seen to grow."""


@cache
def polled() -> RuleInputs:
    """Of two queues with a busy consumer each the backlog of the second grows after a few polls."""
    world = Judged(step=STEP)

    def said(poll: int) -> dict[str, Any]:
        settled = 50.0 * poll
        more = 20.0 * max(0, poll - FLAT_POLLS + 1)
        consumer = {
            "T": 1.0,
            "N": settled,
            "C": settled,
            "L": world.now,
            "Ld": world.now,
        }
        flat = {"A": 100 + settled, "K": settled, "M": 100.0}
        grows = {"A": 100 + settled + more, "K": settled, "M": 100 + more}
        return {
            "queues": {"p": flat, "q": grows},
            "consumers": {
                "c": {**consumer, "queue": "p"},
                "d": {**consumer, "queue": "q"},
            },
        }

    return inputs_after(world, 24, said)


def test_it_began_when_the_backlog_began_to_grow() -> None:
    raised = rule(polled())
    assert raised.mask.tolist() == [False, True]
    np.testing.assert_equal(raised.since, [np.nan, BEGAN])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"found__judged": mask(True, False)}, [False, False]),
        ({"trend__behind": mask(False, False)}, [False, False]),
        ({"found__ring": column(np.nan, 100)}, [False, False]),
        ({"found__ring": column(100, np.nan)}, [False, True]),
        (
            {"trend__behind": mask(True, True), "found__judged": mask(False, True)},
            [False, True],
        ),
    ],
)
def test_each_number_decides(values: dict[str, Any], found: list[bool]) -> None:
    assert rule(changed(polled(), **values)).mask.tolist() == found


# --- OpenMQ


def openmq(
    stalls: tuple[bool, bool], held: tuple[float, float], growth: float = 10.0
) -> list[bool]:
    """Both consumers are of the second queue, whose backlog grew so much."""
    poll = changed(
        polled(),
        found__consumer__held=column(*held),
        found__consumer__queue=positions(1, 1),
        found__consumer__place=positions(2, 2),
        trend__growth=column(0, growth),
    )
    poll = replace(poll, _results={stalled_rule: Raised(mask(*stalls))})
    raised = openmq_rule(poll)
    np.testing.assert_equal(raised.since, rule(poll).since)
    found: list[bool] = raised.mask.tolist()
    return found


@pytest.mark.parametrize(
    ("stalls", "held", "growth", "behind"),
    [
        ((False, False), (50, 50), 10.0, True),
        ((True, False), (9, 50), 10.0, True),
        ((True, False), (10, 0), 10.0, False),
        ((True, True), (5, 5), 10.0, False),
        ((True, False), (1, 0), 1.0, False),
        ((True, False), (0, 50), 0.0, True),
        ((False, False), (0, 0), 0.0, True),
    ],
)
def test_not_where_a_stalled_consumer_is_given_the_backlog(
    stalls: tuple[bool, bool], held: tuple[float, float], growth: float, behind: bool
) -> None:
    assert openmq(stalls, held, growth) == [False, behind]


# --- how bad


@pytest.mark.parametrize(
    ("messages", "usual", "seconds", "weeks", "is_notice"),
    [
        (100, 100, KNOWN, 0, True),
        (100, 99, KNOWN, 0, False),
        (100, 100, KNOWN - 1, 0, False),
        (100, 100, KNOWN - 1, 1, True),
        (100, np.nan, KNOWN, 0, False),
    ],
)
def test_a_backlog_as_on_other_days_is_a_notice(
    messages: float, usual: float, seconds: float, weeks: float, is_notice: bool
) -> None:
    poll = polled()
    highs = poll.usual.expected.highs.copy()
    highs[BACKLOG] = [np.nan, usual]
    poll = changed(
        poll,
        usual__expected__highs=highs,
        usual__expected__weeks=column(0, weeks),
        usual__began=column(np.nan, poll.found.now - seconds),
        found__messages=column(0, messages),
    )
    assert notice(poll, positions(1)).tolist() == [is_notice]
    assert notice(poll, positions(0, 1)).tolist() == [False, is_notice]


def test_the_usual_inflow_is_said_where_what_comes_is_what_is_sent() -> None:
    """Not where scheduled messages fall due."""
    inflow = polled().usual.expected.inflow.copy()
    inflow[1] = 7200.0
    poll = changed(
        polled(),
        usual__expected__inflow=inflow,
        trend__comes=column(1, 3),
        trend__rate_in=column(1, 2),
    )
    said = FALLING_BEHIND.evidence(poll, positions(0, 1))["usual_high"]
    np.testing.assert_equal(said, [2.0, np.nan])
