"""What is expected in an hour of the week, and what an hour that ends leaves: of one queue, number by number."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.world import QUEUE
from penstock.core.table import Index
from penstock.learned.byte_tables import WEEKS, packed, unpacked
from penstock.learned.normal import (
    ABSENCES,
    FLOWS,
    INFLOW,
    LEAST_HOURS,
    MARGIN,
    OUTFLOW,
    PAUSE,
    Normal,
    Profile,
)
from penstock.observation.activity import TREND_EXPIRED
from penstock.observation.usual import (
    CLOCK,
    EXPIRED,
    HIGHS,
    KILLED,
    PACE,
    PEAK,
    SERVICE,
)
from penstock.settings.calendar import HOURS

HOUR = 8 * HOURS + 10
"""The tenth hour of a week."""
NAME = ("q", "q")
Q: Index[Any] = Index.of([replace(QUEUE, name="q", address="q")])
UNKNOWN = np.nan


def rounded(number: float) -> float:
    """As a byte has it."""
    return float(unpacked(packed([number]))[0])


LINES = {
    "pause": (PAUSE, 0),
    "inflow": (INFLOW, 0),
    "outflow": (OUTFLOW, 0),
    "before": (PAUSE, -1),
    "after": (PAUSE, 1),
}
"""By name the line of the table, and by how many hours it is later."""


def flows(table: Any = FLOWS, **weeks: list[float]) -> Any:
    """Of the queue: in this hour of the last weeks its `pause`, `inflow` and `outflow`, and the pause `before` it."""
    made = table.with_columns_for([NAME])
    for name, numbers in weeks.items():
        line, hours_later = LINES[name]
        for week, number in enumerate(numbers):
            plus_one = number + 1 if name.endswith("flow") else number
            made.hours[line, week, HOUR % HOURS + hours_later, 0] = packed(plus_one)
    return made


def knowing(**weeks: list[float]) -> Normal:
    made = Normal().reindexed(Q)
    return replace(made, place=np.array([0]), flows=flows(**weeks))


def expected(**weeks: list[float]) -> Any:
    return knowing(**weeks).expect(HOUR)


@pytest.mark.parametrize(
    ("pauses", "longest", "beyond"),
    [
        ([100, 100], 100, 2.0),
        ([100, 100, 100], 100, 0.15),
        ([100, 100, 16], 100, 2.0),
        ([128, 128, 64], 128, 1.5),
        ([128, 128, 128, 64], 128, 1.5),
    ],
)
def test_a_pause_may_be_longer_by_three_times_what_the_weeks_differ(
    pauses: list[float], longest: float, beyond: float
) -> None:
    """By a seventh at least, by twice at most, and of few weeks by twice."""
    one = expected(pause=pauses, before=pauses, after=pauses)
    assert one.pause.tolist() == [rounded(longest)]
    assert one.silence[0] == pytest.approx((1 + beyond) * rounded(longest), rel=1e-6)
    assert one.weeks.tolist() == [len(pauses)]


def test_an_hour_of_which_nothing_is_known_has_no_limit() -> None:
    one = expected(before=[100.0])
    assert one.weeks.tolist() == [0]
    assert np.isnan(one.silence[0])


@pytest.mark.parametrize(
    ("weeks", "regular"),
    [
        ({"pause": [2000] * 3}, True),
        ({"pause": [2000] * 2}, False),
        ({"pause": [1700] * 3}, False),
        ({"pause": [2000, 2000, 1500]}, False),
        ({"pause": [2000] * 3, "before": [500] * 3}, False),
        ({"pause": [2000] * 3, "before": [1600] * 3}, True),
        ({"pause": [8000] * 3, "before": [500] * 3}, True),
    ],
)
def test_a_regular_rhythm_has_alike_pauses_in_all_weeks(
    weeks: dict[str, list[float]], regular: bool
) -> None:
    assert expected(**weeks).regular.tolist() == [regular]


def test_what_is_regular_and_lasts_for_hours_may_be_late() -> None:
    one = expected(pause=[20_000.0] * 3)
    assert one.silence[0] == pytest.approx(rounded(20_000) + MARGIN)
    short = expected(pause=[2000.0] * 3)
    assert short.silence[0] == pytest.approx(1.15 * rounded(2000))


def test_what_goes_on_since_an_hour_is_no_excuse_for_itself() -> None:
    """The hour before is left out of this week, and counts in the others."""
    this_week = HOUR // HOURS % WEEKS
    before = [UNKNOWN] * 4
    before[this_week] = 5000.0
    assert expected(pause=[100] * 4, before=before).pause.tolist() == [rounded(100)]
    before[this_week + 1] = 3000.0
    assert expected(pause=[100] * 4, before=before).pause.tolist() == [rounded(3000)]


def test_rates_are_those_of_the_weeks() -> None:
    one = expected(pause=[1] * 3, inflow=[3600, 7200, 14400], outflow=[10, 20, 40])
    low = rounded(7201) - 1
    high = rounded(14401) - 1
    assert one.inflow[:, 0].tolist() == [low, high]
    assert one.low[0] == pytest.approx(low / 3600)
    assert one.outflow[:, 0].tolist() == [rounded(21) - 1, rounded(41) - 1]
    np.testing.assert_allclose(one.guesses[:, 0], [low, UNKNOWN])
    assert not one.from_history[0]


def test_the_highest_is_of_the_days_before() -> None:
    here = knowing(pause=[1])
    here.flows.days[PEAK, 3, 0] = packed(50)
    assert here.expect(HOUR).highs[PEAK, 0] == rounded(50)
    np.testing.assert_equal(here.expect(HOUR).highs[CLOCK], [UNKNOWN])


def test_absences_of_this_hour_are_known_of_three_weeks() -> None:
    away = ABSENCES.with_columns_for([NAME])
    away.hours[0, :3, HOUR % HOURS - 1 : HOUR % HOURS + 2, 0] = packed(600)
    here = replace(knowing(pause=[1]), absences=away)
    assert here.expect(HOUR).absence[0] == pytest.approx(1.15 * rounded(600))
    assert np.isnan(expected(pause=[1]).absence[0])


# --- history


def with_history(own: Normal, **weeks: list[float]) -> Normal:
    past = Profile(flows(**weeks), ABSENCES, np.array([[0.5], [40.0]]), 4)
    return replace(own, past=past)


def test_while_little_is_learned_history_counts() -> None:
    here = with_history(
        knowing(pause=[100], inflow=[10]), pause=[200] * 4, inflow=[3600] * 4
    )
    one = here.expect(HOUR)
    assert one.weeks.tolist() == [4]
    assert one.pause.tolist() == [rounded(200)]
    assert one.inflow[1, 0] == rounded(3601) - 1
    assert one.from_history.tolist() == [True]
    assert one.service[:, 0].tolist() == [0.5, 40]
    np.testing.assert_allclose(one.guesses[:, 0], [rounded(11) - 1, rounded(3601) - 1])


def test_of_pauses_the_longer_one_counts_until_three_weeks_are_learned() -> None:
    longer = with_history(knowing(pause=[400] * 2), pause=[200] * 4)
    assert longer.expect(HOUR).pause.tolist() == [rounded(400)]
    learned = with_history(knowing(pause=[100] * 3), pause=[200] * 4)
    assert learned.expect(HOUR).pause.tolist() == [rounded(100)]


@pytest.mark.parametrize(
    ("hours", "errors", "from_history"),
    [
        (LEAST_HOURS, (0.79, 1.0), False),
        (LEAST_HOURS, (0.8, 1.0), True),
        (LEAST_HOURS - 1, (0.1, 1.0), True),
        (LEAST_HOURS, (UNKNOWN, 1.0), True),
    ],
)
def test_what_was_learned_replaces_history_when_it_is_better(
    hours: float, errors: tuple[float, float], from_history: bool
) -> None:
    own = knowing(pause=[100] * 3, inflow=[10] * 3)
    own = replace(own, hours=np.array([hours]), errors=np.array(errors)[:, None])
    one = with_history(own, pause=[200] * 4, inflow=[3600] * 4).expect(HOUR)
    assert one.from_history.tolist() == [from_history]
    assert one.inflow[1, 0] == rounded(3601 if from_history else 11) - 1


# --- what comes at a poll


def polled(
    here: Normal, *, now: float = 1000.0, step: float = 15.0, **said: Any
) -> Normal:
    plain = {"known": True, "d_added": 3.0, "d_settled": 2.0} | said
    columns = {
        name: np.array([value]) for name, value in plain.items() if name != "comes"
    }
    address = SimpleNamespace(d_added=np.array([said.get("comes", 3.0)]))
    found: Any = SimpleNamespace(now=now, address=address, **columns)
    return here.with_counts(found, step)


def arriving(**said: float) -> Normal:
    """A queue whose last message came 100 s ago, and of which two messages a second are expected."""
    here = knowing(pause=[1])
    known = replace(here.expect(HOUR), low=np.array([2.0]), weeks=np.array([1.0]))
    plain = {
        "arrival": 900.0,
        "began": 5.0,
        "clock": 40.0,
        "pause": 10.0,
        "longest": 20.0,
    } | said
    columns = {name: np.array([value]) for name, value in plain.items()}
    return replace(here, expected=known, **columns)  # type: ignore[arg-type]


def test_a_message_ends_a_pause() -> None:
    after = polled(arriving())
    assert (after.arrival[0], after.clock[0], after.pause[0], after.longest[0]) == (
        1000,
        0,
        100,
        100,
    )
    assert after.began[0] == 5
    assert after.today[CLOCK, 0] == 40 + 2 * 15 + 1
    assert after.counts[:, 0].tolist() == [3, 2]
    assert after.seconds == 15


def test_while_none_comes_the_pause_goes_on() -> None:
    after = polled(arriving(), comes=0.0, d_added=np.nan, d_settled=np.nan)
    assert (after.arrival[0], after.clock[0], after.pause[0], after.longest[0]) == (
        900,
        70,
        100,
        20,
    )
    assert np.isnan(after.today[CLOCK, 0])
    assert after.counts[:, 0].tolist() == [0, 0]


def test_a_queue_that_is_not_known_or_followed_shows_no_message() -> None:
    assert polled(arriving(), known=False).arrival[0] == 900
    unplaced = replace(arriving(), place=np.array([-1]))
    assert polled(unplaced).arrival[0] == 900
    assert polled(unplaced).clock[0] == 0


def test_what_was_missing_is_learned_of_weeks_that_are_known() -> None:
    unknown = replace(
        arriving(), expected=replace(arriving().expected, weeks=np.array([0.0]))
    )
    assert np.isnan(polled(unknown).today[CLOCK, 0])
    higher = arriving()
    higher.today.flags.writeable = True
    already = replace(higher, today=np.full((HIGHS, 1), 99.0))
    assert polled(already).today[CLOCK, 0] == 99


def test_the_first_message_begins() -> None:
    after = polled(arriving(began=np.nan))
    assert after.began[0] == 1000


# --- the highest of a day


def measured(here: Normal, **said: float) -> Normal:
    messages = np.array([30.0])
    scheduled = np.array([10.0])
    found: Any = SimpleNamespace(
        now=1000.0, interval=15.0, messages=messages, scheduled=scheduled
    )
    timers: Any = SimpleNamespace(
        ready=np.array([said.get("ready", 400.0)]),
        absent=np.array([said.get("absent", 500.0)]),
    )
    sums = np.array([said.get("expired", 4.0)]), np.array([said.get("killed", 2.0)])
    activity: Any = SimpleNamespace(
        trend=SimpleNamespace(sum=lambda variable: sums[variable - TREND_EXPIRED])
    )
    trend: Any = SimpleNamespace(
        rate_out=np.array([0.1]), rate_in=np.array([2.0]), seconds=100.0
    )
    service: Any = SimpleNamespace(now=np.array([0.5]), pace=np.array([3.0]))
    return here.with_highest_numbers(found, timers, activity, trend, service)


def test_the_highest_of_five_minutes() -> None:
    after = measured(arriving())
    lost = 16.0
    assert after.today[EXPIRED, 0] == pytest.approx(1000 * 4 / lost + 1)
    assert after.today[KILLED, 0] == pytest.approx(1000 * 2 / lost + 1)
    assert after.today[PEAK, 0] == 600
    assert after.today[SERVICE, 0] == 500
    assert after.today[PACE, 0] == 10_800
    assert after.today[PACE + 1, 0] == 20
    np.testing.assert_allclose(after.shares[:, 0], [4 / lost, 2 / lost])
    assert after.absent.tolist() == [500]


def test_shares_need_five_minutes_without_a_gap() -> None:
    assert not np.isnan(measured(replace(arriving(), gap=885.0)).shares).any()
    assert np.isnan(measured(replace(arriving(), gap=886.0)).shares).all()


def test_an_absence_with_a_holiday_in_it_teaches_nothing() -> None:
    assert measured(replace(arriving(), holiday_end=500.0)).absent.tolist() == [500]
    assert np.isnan(measured(replace(arriving(), holiday_end=501.0)).absent[0])
    assert measured(arriving(), ready=np.nan).absent.tolist() == [1]


def test_no_more_is_learned_than_what_raises_a_condition() -> None:
    highs = np.full((HIGHS, 1), np.nan)
    highs[EXPIRED], highs[SERVICE] = 1.0, 100.0
    limited = replace(arriving(), expected=replace(arriving().expected, highs=highs))
    after = measured(limited)
    assert after.today[EXPIRED, 0] == pytest.approx(51)
    assert after.today[SERVICE, 0] == 200


# --- the end of an hour


def ended(**said: Any) -> Normal:
    here = replace(
        arriving(),
        counts=np.array([[3600.0], [1800.0]]),
        pause=np.array([50.0]),
        absent=np.array([400.0]),
        seconds=1800.0,
        hour=HOUR,
        told=HOUR - 1,
    )
    return replace(here, **said)


def of_hour(after: Normal, line: int) -> float:
    return float(
        unpacked(after.flows.hours[line, HOUR // HOURS % WEEKS, HOUR % HOURS])[0]
    )


def test_an_hour_leaves_its_rates_and_its_pause() -> None:
    after = ended().with_hour_learned()
    assert of_hour(after, INFLOW) == rounded(7201)
    assert of_hour(after, OUTFLOW) == rounded(3601)
    assert of_hour(after, PAUSE) == rounded(50)
    assert after.told == HOUR


def test_a_pause_is_a_second_at_least() -> None:
    assert of_hour(ended(pause=np.array([np.nan])).with_hour_learned(), PAUSE) == 1
    assert of_hour(ended(pause=np.array([0.1])).with_hour_learned(), PAUSE) == 1


def test_an_absence_is_kept_of_those_that_are_away_for_long() -> None:
    after = ended().with_hour_learned()
    assert dict(after.absences.names) == {NAME: 0}
    assert unpacked(after.absences.hours[0, HOUR // HOURS % WEEKS, HOUR % HOURS])[
        0
    ] == rounded(400)
    assert (
        dict(ended(absent=np.array([300.0])).with_hour_learned().absences.names) == {}
    )


def test_the_day_has_its_highest() -> None:
    today = np.full((HIGHS, 1), np.nan)
    today[PEAK] = 77.0
    after = ended(today=today).with_hour_learned()
    assert unpacked(after.flows.days[PEAK, HOUR // 24 % 28])[0] == rounded(77)


@pytest.mark.parametrize(
    ("hours", "errors", "expected_error"),
    [
        (0.0, np.nan, 1.0),
        (0.0, 0.5, 1.0),
        (1.0, 0.5, 0.75),
        (999.0, 0.5, 0.5 + 0.5 / HOURS),
    ],
)
def test_the_error_is_a_mean_of_many_hours(
    hours: float, errors: float, expected_error: float
) -> None:
    guess = 7201 / np.e - 1
    guesses = np.array([[guess], [np.nan]])
    here = ended(hours=np.array([hours]), errors=np.array([[errors], [0.3]]))
    after = replace(
        here, expected=replace(here.expected, guesses=guesses)
    ).with_hour_learned()
    np.testing.assert_allclose(after.errors[:, 0], [expected_error, 0.3])
    assert after.hours.tolist() == [hours + 1]


def test_without_a_guess_there_is_no_error() -> None:
    here = ended(hours=np.array([5.0]), errors=np.array([[0.5], [0.3]]))
    after = replace(
        here, expected=replace(here.expected, guesses=np.full((2, 1), np.nan))
    ).with_hour_learned()
    assert after.errors[:, 0].tolist() == [0.5, 0.3]
    assert after.hours.tolist() == [5]
