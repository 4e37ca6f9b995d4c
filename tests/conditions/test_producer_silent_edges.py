"""`producer_silent` at its edges: its threshold, what must be missing, and when it is a notice."""

from typing import Any

import numpy as np
import pytest

from conditions.pairs import NEVER, NOW, lines, plain, two_queues, with_values
from conditions.pairs_of_waiting import SILENT
from penstock.conditions.producer_silent import (
    FAST,
    FIRST,
    FLOOR,
    SOON,
    notice,
    rule,
    threshold,
)
from penstock.observation.usual import CLOCK, HIGHS

INTERVAL = 15.0
LONG = {"usual.arrival": NOW - 10_000, "usual.began": NEVER}


@pytest.mark.parametrize(
    ("weeks", "silence", "longest", "pause", "seconds"),
    [
        (2, 400, 1000, 100, 400 + 2 * INTERVAL),
        (1, 400, 1000, 100, 5000 + 2 * INTERVAL),
        (1, 400, 50, 100, 400 + 2 * INTERVAL),
        (1, NEVER, 100, 100, 500 + 2 * INTERVAL),
        (2, 100, NEVER, FAST, FLOOR),
        (2, 10, NEVER, FAST - 1, SOON),
        (2, 10, NEVER, NEVER, FLOOR),
    ],
)
def test_its_threshold(
    weeks: float, silence: float, longest: float, pause: float, seconds: float
) -> None:
    """Two polls may lie between two messages; in the first two weeks the longest pause of all counts five times."""
    poll = with_values(plain(), {
        "usual.expected.weeks": weeks,
        "usual.expected.silence": silence,
        "usual.longest": longest,
        "usual.expected.pause": pause,
    })  # fmt: skip
    assert threshold(poll).tolist() == [seconds]


def silent(**values: Any) -> bool:
    """Of a queue to which nothing has come for hours."""
    paths = {
        f"usual.{name}".replace("__", "."): value for name, value in values.items()
    }
    result: bool = rule(with_values(plain(), SILENT | LONG | paths)).mask[0]
    return result


@pytest.mark.parametrize(
    ("most", "missing", "expected"),
    [
        (10, 23.0, False),
        (10, 23.1, True),
        (0, 3.0, False),
        (0, 3.1, True),
        (-1, 3.1, True),
    ],
)
def test_twice_as_many_as_ever_and_three_more_are_missing(
    most: float, missing: float, expected: bool
) -> None:
    assert (
        silent(clock=missing, expected__highs=lines(HIGHS, {CLOCK: most + 1}))
        == expected
    )


@pytest.mark.parametrize(
    ("after", "expected"), [(1.0, True), (0.0, False), (-1.0, False)]
)
def test_a_regular_one_is_missed_by_the_pause_alone_unless_a_holiday_is_in_it(
    after: float, expected: bool
) -> None:
    holiday_end = NOW - 10_000 - after
    assert silent(clock=0, expected__regular=True, holiday_end=holiday_end) == expected


@pytest.mark.parametrize(
    ("weeks", "clock", "known_for", "expected"),
    [
        (0, 0, FIRST, True),
        (0, 0, FIRST - 1, False),
        (1, 0, FIRST, False),
        (1, 10, FIRST, True),
        (1, 10, FIRST - 1, False),
        (2, 10, 0, True),
    ],
)
def test_in_the_first_weeks_a_queue_must_be_known_for_two_days(
    weeks: float, clock: float, known_for: float, expected: bool
) -> None:
    began = NOW - 10_000 - known_for
    assert (
        silent(expected__weeks=weeks, clock=clock, began=began, longest=10) == expected
    )


def test_it_began_with_the_last_message_and_lasts_for_its_threshold() -> None:
    raised = rule(with_values(plain(), SILENT | LONG))
    assert raised.since is not None
    assert raised.lasting is not None
    assert raised.since.tolist() == [NOW - 10_000]
    assert raised.lasting.tolist() == [FLOOR]


# --- a notice


BEGAN_ELSEWHERE = {
    "usual.began": [NEVER, NOW - FLOOR],
    "trend.rate_in": [0, 1],
    "usual.expected.low": 1,
    "usual.expected.inflow": 3600,
}
"""The second queue gets as much since."""


@pytest.mark.parametrize(
    ("arrival", "elsewhere", "expected"),
    [
        (NOW - FLOOR, {}, False),
        (NOW - FLOOR + 1, {}, True),
        (NOW - FLOOR, BEGAN_ELSEWHERE, True),
    ],
)
def test_it_is_a_notice_for_minutes_and_where_the_messages_go_elsewhere(
    arrival: float, elsewhere: dict[str, Any], expected: bool
) -> None:
    poll = with_values(
        two_queues(), {"usual.arrival": [arrival, NOW - 5000]} | elsewhere
    )
    first = notice(poll, np.array([0]))
    assert first.tolist() == [expected]
    assert first.dtype == np.bool_
    assert notice(poll, np.array([1, 0])).tolist() == [False, expected]
    assert notice(poll, np.array([], np.intp)).dtype == np.bool_
