"""How long consumers need for a message while there is a backlog."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.learned.service import (
    DEEP,
    LOW,
    SECONDS,
    STEP,
    ServiceTime,
    working_consumers,
)

POLL = 15.0
BEGIN = 1000.0
"""When the first poll was."""
QUEUES: Index[Any] = Index.of(["q"])


class Consumers:
    """So many, of which some have something to do."""

    def __init__(self, holds: list[bool], d_left: list[float]) -> None:
        self.holds = np.array(holds)
        self.d_left = np.array(d_left)


def found(
    number: int, *, counted: bool = True, settled: float = 3.0, **said: Any
) -> Any:
    """A poll with a backlog and a consumer that settles."""
    queue = {
        "messages": 10.0,
        "scheduled": 0.0,
        "consumers": 1.0,
        "single": False,
        "known": True,
    }
    columns = queue | {"d_settled": settled} | said
    return SimpleNamespace(
        now=BEGIN + POLL * number,
        queues=QUEUES,
        counted=counted,
        consumer=Consumers([True], [0.0]),
        of_queue=lambda values: np.array([np.sum(values, dtype=float)]),
        **{name: np.array([value]) for name, value in columns.items()},
    )


def after(*polls: Any, before: ServiceTime | None = None) -> ServiceTime:
    now = before or ServiceTime()
    for number, poll in enumerate(polls):
        now = now.advance(poll, POLL if number or before else np.nan)
    return now


def many(count: int, **said: Any) -> list[Any]:
    return [found(number, **said) for number in range(count)]


def test_seconds_for_a_message_are_those_of_the_polls_with_a_backlog() -> None:
    assert after(*many(12)).now.tolist() == [POLL / 3]


def test_with_more_consumers_each_has_its_share_of_the_time() -> None:
    polls = many(12)
    for poll in polls:
        poll.consumer = Consumers([True, False, False], [0.0, 0.5, 0.0])
    assert after(*polls).now.tolist() == [2 * POLL / 3]


@pytest.mark.parametrize(
    ("polls", "known"),
    [
        (many(7), True),
        (many(6), False),  # of two minutes the backlog was seen for too short a time
        (many(12, messages=DEEP), True),
        (many(12, messages=DEEP - 1), False),
        (many(12, messages=9.0, scheduled=8.0), False),
        (many(12, settled=0.2), False),
        (many(12, settled=np.nan), False),
        (many(12, known=False), False),
    ],
)
def test_only_with_a_backlog_and_enough_that_is_settled(
    polls: list[Any], known: bool
) -> None:
    assert (not np.isnan(after(*polls).now[0])) is known


def test_a_poll_at_which_a_consumer_came_or_went_says_nothing() -> None:
    changing = [found(number, consumers=1.0 + number % 2) for number in range(12)]
    assert np.isnan(after(*changing).now[0])


def test_nothing_is_settled_by_consumers_without_work() -> None:
    polls = many(12)
    for poll in polls:
        poll.consumer = Consumers([False], [0.0])
    assert np.isnan(after(*polls).now[0])


@pytest.mark.parametrize(
    ("settled", "count", "pace"),
    [(3.0, 12, 3 / POLL), (2.0, 12, np.nan), (20.0, 4, np.nan)],
)
def test_the_pace_needs_twenty_messages_and_most_of_the_window(
    settled: float, count: int, pace: float
) -> None:
    """Also where there is no backlog."""
    without_backlog = many(count, messages=0.0, settled=settled)
    np.testing.assert_allclose(after(*without_backlog).pace, [pace])


# --- the usual


def taught(usual: float, now: float, windows: float = 0.0) -> ServiceTime:
    made = ServiceTime(
        QUEUES, np.array([usual]), np.array([windows]), now=np.array([now])
    )
    return made.with_window_learned(77.0)


def test_the_first_window_is_the_usual() -> None:
    one = taught(np.nan, 5.0)
    assert (one.usual.tolist(), one.windows.tolist(), one.learned) == ([5], [1], 77)


def test_a_window_without_a_backlog_teaches_nothing() -> None:
    one = taught(5.0, np.nan, 3)
    assert (one.usual.tolist(), one.windows.tolist()) == ([5], [3])


@pytest.mark.parametrize(
    ("now", "windows", "power"),
    [
        (9.0, 1, LOW / 2),
        (4.0, 1, (LOW - 1) / 2),
        (5.0, 1, (LOW - 1) / 2),
        (9.0, 99, LOW * STEP),
        (9.0, 9, LOW / 10),
    ],
)
def test_the_usual_moves_to_the_low_windows(
    now: float, windows: float, power: float
) -> None:
    """By less and less, until much is known."""
    one = taught(5.0, now, windows)
    assert one.usual[0] == pytest.approx(5 * np.exp(power))
    assert one.windows[0] == windows + 1


def test_it_learns_once_in_the_length_of_a_window() -> None:
    first = after(*many(1))
    assert (first.learned, first.windows.tolist()) == (BEGIN, [0])
    steps = round(SECONDS / POLL)
    before = after(*many(steps))
    assert (before.learned, before.windows.tolist()) == (BEGIN, [0])
    then = after(*many(steps + 1))
    assert (then.learned, then.windows.tolist(), then.usual.tolist()) == (
        BEGIN + SECONDS,
        [1],
        [POLL / 3],
    )


# --- who works


@pytest.mark.parametrize(
    ("consumers", "single", "works"),
    [
        (3.0, False, 3),
        (3.0, True, 1),
        (0.5, True, 0.5),
        (np.nan, False, 0),
        (np.nan, True, 0),
    ],
)
def test_where_consumers_have_no_numbers_all_may_work(
    consumers: float, single: bool, works: float
) -> None:
    assert working_consumers(
        found(0, consumers=consumers, single=single, counted=False)
    ).tolist() == [works]
