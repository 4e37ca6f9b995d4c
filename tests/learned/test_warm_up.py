"""Which polls were judged, and what was seen at too few of them."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.learned.warm_up import (
    POLLS,
    RECENT,
    SECONDS,
    SeenBefore,
    SeenPolls,
    WarmUp,
    name_of,
)
from penstock.series.labels import HIDDEN, Grouping

STEP = 10.0


def series(queue: str, **client: str) -> Any:
    return SimpleNamespace(address="a", queue=queue, **client)


def index_of(keys: Iterable[int], before: Index[Any] | None = None) -> Index[Any]:
    """Series q0, q1, ... by their keys."""
    numbers = np.array([*keys], np.int64)
    made, _ = (before or Index.empty()).advance(
        numbers, lambda new: [series(f"q{numbers[at]}") for at in new]
    )
    return made


def groups(index: Index[Any], member: list[int] | None = None) -> Grouping[Any]:
    """Rows 10, 11, ... of which each is the series at this place; HIDDEN: of none."""
    members = [*range(len(index))] if member is None else member
    rows = (
        Index[Any]
        .empty()
        .advance(np.arange(10, 10 + len(members)), lambda new: [None] * len(new))[0]
    )
    return Grouping(source=rows, index=index, member=np.array(members, np.intp))


def seen(*polls: Iterable[int], before: SeenBefore | None = None) -> SeenPolls:
    """After polls at which these keys were there, STEP seconds apart from 0 on."""
    result = SeenPolls(before=before)
    index = Index[Any].empty()
    for number, keys in enumerate(polls):
        index = index_of(keys, index)
        result = result.advance(groups(index), STEP * number)
    return result


# --- at how many polls something was seen


@pytest.mark.parametrize("polls", [1, 2, 3, 4])
def test_polls_are_counted_until_there_are_enough(polls: int) -> None:
    result = seen(*[[1]] * polls)
    assert result.polls_of(1) == min(polls, POLLS)
    assert result.keys.tolist() == ([1] if polls < POLLS else [])


def test_each_is_counted_from_its_first_poll() -> None:
    result = seen([1], [1, 2], [1, 2], [1, 2, 3])
    assert [result.polls_of(key) for key in (1, 2, 3)] == [3, 3, 1]
    assert [result.since_of(key) for key in (1, 2, 3)] == [0, STEP, 3 * STEP]


def test_what_went_and_came_again_is_new() -> None:
    result = seen([1, 2], [1], [1, 2])
    assert result.polls_of(2) == 1
    assert result.since_of(2) == 2 * STEP
    assert seen([1, 2], [1]).polls_by_name() == {("a", "q1"): 2}


def test_of_what_is_not_there_it_is_not_known_since_when() -> None:
    result = seen([1])
    assert np.isnan(result.since_of(None))
    assert np.isnan(result.since_of(7))
    assert result.polls_of(7) == POLLS


def test_those_that_were_seen_at_few_polls_are_known_by_name() -> None:
    assert seen([1], [1], [1, 2]).polls_by_name() == {("a", "q2"): 1}


def test_a_client_has_a_name_of_three() -> None:
    assert name_of(series("q")) == ("a", "q")
    assert name_of(series("q", client="app")) == ("a", "q", "app")


# --- what an earlier process had seen


def test_what_was_there_before_needs_no_more_polls() -> None:
    before = SeenBefore(np.array([10]), {})
    assert seen([1, 2], before=before).polls_by_name() == {("a", "q2"): 1}


@pytest.mark.parametrize(("polls", "now"), [(1, 2), (2, POLLS)])
def test_what_was_seen_at_few_polls_goes_on_from_there(polls: int, now: int) -> None:
    before = SeenBefore(np.array([10, 11]), {("a", "q1"): polls})
    result = seen([1, 2], before=before)
    assert result.polls_of(1) == now
    assert result.polls_of(2) == POLLS


def test_only_rows_that_were_there_count() -> None:
    before = SeenBefore(np.array([10, 12]), {("a", "q2"): 1})
    index = index_of([1, 2])
    assert before.polls_by_series(groups(index, [0, 1, HIDDEN])).tolist() == [POLLS, 0]
    assert before.polls_by_series(groups(index, [1, 0, 0])).tolist() == [POLLS, 1]


def test_what_an_earlier_process_had_seen_counts_at_the_first_poll_only() -> None:
    before = SeenBefore(np.array([10, 11]), {})
    result = seen([1], [1, 2], before=before)
    assert result.polls_of(2) == 1
    assert result.before is None


# --- polls


def warm_up(*stamps: float) -> WarmUp:
    result = WarmUp()
    none = groups(Index.empty())
    for stamp in stamps:
        result = result.advance(stamp, none, none)
    return result


def test_the_polls_of_the_last_minutes_are_known() -> None:
    assert warm_up(0.0, 100.0, SECONDS).stamps == (0.0, 100.0, SECONDS)
    assert warm_up(0.0, 100.0, SECONDS + 1).stamps == (100.0, SECONDS + 1)


def test_a_clock_that_was_set_back_forgets_the_polls_after_it() -> None:
    assert warm_up(0.0, 100.0, 100.0).stamps == (0.0, 100.0)
    assert warm_up(0.0, 100.0, 50.0).stamps == (0.0, 50.0)


@pytest.mark.parametrize(
    ("stamps", "since", "judged"),
    [
        ((), 0.0, (0, 0)),
        ((0.0, 10.0, 20.0), 0.0, (3, 3)),
        ((0.0, 10.0, 20.0), 10.0, (2, 2)),
        ((0.0, 10.0, 20.0), 15.0, (2, 2)),
        ((0.0, 10.0, 20.0), 15.1, (1, 1)),
        ((0.0, 30.0), 0.0, (2, 4)),
        ((0.0, 10.0, 40.0), 0.0, (3, 5)),
        ((0.0, 300.0), -1000.0, (2, 31)),
        ((0.0, 4.0, 8.0, 12.0), 0.0, (4, 4)),
    ],
)
def test_how_many_polls_were_judged_and_due(
    stamps: tuple[float, ...], since: float, judged: tuple[int, int]
) -> None:
    assert warm_up(*stamps).judged(since, STEP) == judged


def test_polls_may_come_each_second() -> None:
    assert warm_up(0.0, 5.0).judged(0.0, 1.0) == (2, 6)


def test_without_an_interval_no_more_polls_were_due_than_made() -> None:
    assert warm_up(0.0, 30.0).judged(0.0, 0.0) == (2, 2)


@pytest.mark.parametrize(
    ("stamps", "now", "polls"),
    [
        ((0.0,), RECENT, POLLS),
        ((0.0,), RECENT + 1, 1),
        ((0.0, 100.0, 130.0), 130.0 + 3 * 30.0, POLLS),
        ((0.0, 100.0, 130.0), 130.0 + 3 * 30.0 + 1, 1),
        ((0.0, 10.0), 10.0 + RECENT, POLLS),
        ((), 0.0, 1),
    ],
)
def test_what_an_earlier_process_had_seen_counts_for_a_minute_or_three_polls(
    stamps: tuple[float, ...], now: float, polls: int
) -> None:
    """Of queues and of clients."""
    before = SeenPolls(before=SeenBefore(np.array([10]), {}))
    shown = groups(index_of([1]))
    after = WarmUp(stamps, before, before).advance(now, shown, shown)
    assert after.queues.polls_of(1) == polls
    assert after.clients.polls_of(1) == polls
    assert after.stamps[-1] == now
    assert after.queues.since_of(1) == after.clients.since_of(1) == now
