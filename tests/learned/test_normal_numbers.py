"""What some weeks of an hour say of the next one: of bytes, week by week."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.world import QUEUE
from penstock.learned import normal
from penstock.learned.byte_tables import packed, unpacked
from penstock.learned.normal import LONG, LONG_ABSENCE, MARGIN, Normal
from penstock.model import QueueKind
from penstock.observation.activity import TREND_EXPIRED, TREND_KILLED

NOT_KNOWN = np.nan


def weeks(*seconds: float) -> Any:
    """Of one queue, one hour: a byte a week."""
    return packed(np.array(seconds)[:, None])


def hours(*of_weeks: list[float]) -> Any:
    """Of one queue: weeks, and the hours before, now and after."""
    return packed(np.array(of_weeks)[..., None])


def rounded(seconds: float) -> float:
    """As a byte has it."""
    return float(unpacked(packed([seconds]))[0])


# --- limits


@pytest.mark.parametrize(
    ("value", "limit", "expected"),
    [(5, 7, 5), (7, 7, 7), (9, 7, 7), (9, np.nan, 9), (np.nan, 7, np.nan)],
)
def test_no_more_than_the_limit_where_both_are_known(
    value: float, limit: float, expected: float
) -> None:
    np.testing.assert_equal(
        normal.limited(np.array([value]), np.array([limit])), [expected]
    )


@pytest.mark.parametrize(("known", "wanted"), [(2, 9), (3, 7), (4, 7)])
def test_in_the_first_weeks_nothing_is_too_much(known: float, wanted: float) -> None:
    expected: Any = SimpleNamespace(weeks=np.array([known]))
    one = replace(Normal(), expected=expected)
    assert one.learnable(np.array([9.0]), np.array([7.0])).tolist() == [wanted]


# --- rates


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([5, 0, 0, 0], 5),
        ([5, 3, 0, 0], 3),
        ([5, 3, 7, 0], 5),
        ([5, 3, 7, 4], 4),
        ([0, 0, 0, 0], 0),
        ([255, 0, 0, 0], 255),
    ],
)
def test_the_lowest_week_or_of_many_the_second_lowest(
    rates: list[int], expected: int
) -> None:
    table = np.array(rates, np.uint8)[None, :, None]
    both = (
        np.concatenate([table, table + (table > 0)], axis=0)
        if max(rates) < 255
        else table
    )
    low = normal.lowest(both)
    assert low[0].tolist() == [expected]
    assert low.dtype == np.uint8


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([1, 0, 0, 0], 1),
        ([1, 4, 0, 0], 1),
        ([1, 4, 16, 0], 4),
        ([64, 4, 16, 1], 4),
        ([0, 0, 0, 0], np.nan),
    ],
)
def test_the_week_in_the_middle(messages: list[float], expected: float) -> None:
    """Of two the lower one; what is stored is one more than the messages."""
    table = np.array(messages, np.float64)
    bytes_ = packed(np.where(table > 0, table, np.nan))[:, None]
    np.testing.assert_allclose(normal.middle(bytes_), [expected - 1])


# --- pauses and absences


@pytest.mark.parametrize(
    ("table", "longest", "spread"),
    [
        (hours([4, 4, 4], [8, 8, 8]), 8, 4),
        (hours([4, 4, 4], [2, 8, 2]), 8, 4),
        (hours([4, 4, 4], [np.nan, 8, 8]), 8, 4),
        (hours([16, 4, 4], [np.nan, 8, 8]), 16, 0),
        (hours([np.nan, 4, 4], [np.nan, 8, 8]), 8, 4),
        (hours([8, 8, 8], [np.nan, np.nan, np.nan]), 8, 0),
        (hours([np.nan, 4, 4], [np.nan, np.nan, np.nan]), 4, 0),
    ],
)
def test_the_longest_and_by_how_much_the_weeks_differ(
    table: Any, longest: float, spread: float
) -> None:
    """Of a week in part the longest may not be known."""
    result = normal.longest_and_spread(table)
    np.testing.assert_allclose(np.concatenate(result), [longest, spread])


def away(*of_weeks: float) -> Any:
    """At all three hours alike."""
    return hours(*[[seconds] * 3 for seconds in of_weeks])


def limit(table: Any, fewest: int = 3) -> float:
    (result,) = normal.absence_limit(table, np.array([fewest])).tolist()
    return float(result)


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        ([600] * 3, 1.15),
        ([512, 512, 600], None),
        ([1000, 1000, 1300], 1.5),
        ([16, 16, 300], 1.5),
    ],
)
def test_an_absence_may_last_longer_by_three_times_the_spread(
    seconds: list[float], times: float | None
) -> None:
    """By a seventh at least, and by half at most."""
    longest = rounded(max(seconds))
    spread = longest - rounded(min(seconds))
    expected = longest * times if times else longest + 3 * spread
    assert limit(away(*seconds)) == pytest.approx(min(expected, 1.5 * longest))


def test_what_lasts_for_hours_may_last_an_hour_and_a_half_longer() -> None:
    longest = rounded(2 * LONG)
    assert limit(away(*[2 * LONG] * 3)) == pytest.approx(longest + MARGIN)


def test_only_of_enough_weeks() -> None:
    two = away(600, 600, np.nan)
    assert np.isnan(limit(two))
    assert limit(two, fewest=2) == pytest.approx(1.15 * rounded(600))


@pytest.mark.parametrize(
    ("longest", "known"), [(LONG_ABSENCE, True), (LONG_ABSENCE + 30, False)]
)
def test_absences_that_differ_by_minutes_say_nothing(
    longest: float, known: bool
) -> None:
    assert (not np.isnan(limit(away(10, 10, longest)))) is known


@pytest.mark.parametrize(("shortest", "known"), [(8900, True), (8000, False)])
def test_nor_those_that_differ_by_a_seventh(shortest: float, known: bool) -> None:
    assert (not np.isnan(limit(away(shortest, 10_000, 10_000)))) is known


# --- shares


def shares(
    expired: float, killed: float, rate_out: float = 0.0, seconds: float = 100.0
) -> list[float]:
    totals = {TREND_EXPIRED: np.array([expired]), TREND_KILLED: np.array([killed])}
    activity: Any = SimpleNamespace(trend=SimpleNamespace(sum=totals.__getitem__))
    trend: Any = SimpleNamespace(rate_out=np.array([rate_out]), seconds=seconds)
    result: list[float] = normal.shares_of_five_minutes(activity, trend)[:, 0].tolist()
    return result


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (shares(4.0, 1.0, 0.05), [0.4, 0.1]),
        (shares(4.0, 1.0, 0.04), [np.nan, np.nan]),
        (shares(10.0, 0.0, np.nan), [1.0, 0.0]),
        (shares(0.0, 0.0), [np.nan, np.nan]),
    ],
)
def test_of_ten_messages_that_left_so_many_were_lost(
    wanted: list[float], expected: list[float]
) -> None:
    np.testing.assert_allclose(wanted, expected)


# --- whose normal is learned


@pytest.mark.parametrize("kind", QueueKind)
@pytest.mark.parametrize("durable", [True, False])
def test_queues_that_end_with_their_client_are_not_followed(
    kind: QueueKind, durable: bool
) -> None:
    followed = kind is QueueKind.USER or (kind is QueueKind.SUBSCRIPTION and durable)
    assert normal.is_followed(replace(QUEUE, kind=kind, durable=durable)) is followed
