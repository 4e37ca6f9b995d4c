"""Growth of traffic, its jumps, the last week and the pace of consumers, on series whose truth is known."""

import numpy as np
import pytest
from bench.truths import Paced, Traffic

from penstock_demo.history import Fleet, _World
from penstock_trends.changes import change_points, pace, week_over_week
from penstock_trends.growth import growth

Series = np.ndarray[tuple[int], np.dtype[np.float64]]


def drawn(seed: int, case: Traffic) -> Series:
    return case.daily(np.random.default_rng(seed))


@pytest.mark.slow  # long courses
@pytest.mark.parametrize("per_week", [-0.1, 0.0, 0.05, 0.2])
def test_the_limits_hold_what_it_grows(per_week: float) -> None:
    found = [growth(drawn(seed, Traffic("", per_week))) for seed in range(20)]
    assert sum(one.low <= per_week <= one.high for one in found) >= 18
    assert np.median([abs(one.per_week - per_week) for one in found]) < 0.01
    assert (
        sum(one.clear for one in found) <= 2
        if per_week == 0
        else all(one.clear for one in found)
    )


def test_after_a_jump_only_the_time_since_counts() -> None:
    found = [
        growth(drawn(seed, Traffic("", 0.03, jump=0.8, ago=42))) for seed in range(10)
    ]
    assert np.median([abs(one.per_week - 0.03) for one in found]) < 0.02
    young = growth(drawn(1, Traffic("", jump=2.0, ago=10)))
    assert np.isnan(young.per_week)
    assert not young.clear


def test_too_little_is_unknown_and_no_zero() -> None:
    for daily in (np.full(84, np.nan), np.full(10, 5.0), np.zeros(84)):
        assert np.isnan(growth(daily).per_week)
    assert np.isnan(week_over_week(np.full(84, np.nan))[0])
    unseen = np.append(np.full(77, 100.0), np.full(7, np.nan))
    assert np.isnan(week_over_week(unseen)[0])
    assert change_points(unseen) == []


@pytest.mark.slow  # long courses
def test_growth_of_the_imagined_fleet_is_found() -> None:
    """Twelve weeks of hours with rhythm, noise, stalls and restarts; traffic grows by 3 % a week."""
    fleet = Fleet(
        brokers=1,
        queues=40,
        days=84,
        interval=3600,
        active=1.0,
        growth=0.03,
        stalls=0.5,
        gaps=0.0,
        seed=6,
    )
    world = _World(fleet, np.random.default_rng(fleet.seed))
    days = [world.day(number) for number in range(fleet.days)]
    added, inc = (
        np.concatenate([day[name] for day in days]) for name in ("added", "inc")
    )
    came = np.where(np.diff(inc, axis=0) == 0, np.diff(added, axis=0), np.nan)
    growing = np.flatnonzero(world.truth.growth)
    assert len(growing) == 10
    found = [
        growth(np.nansum(came[: 83 * 24, queue].reshape(-1, 24), axis=1))
        for queue in growing.tolist()
    ]
    assert np.median([abs(one.per_week / 0.03 - 1) for one in found]) <= 0.10
    assert all(one.per_week > 0 for one in found), "the wrong sign"


@pytest.mark.parametrize(("jump", "ago"), [(0.5, 4), (0.8, 10), (-0.5, 3), (-0.3, 30)])
def test_a_jump_has_its_day_and_its_size(jump: float, ago: int) -> None:
    found = [
        change_points(drawn(seed, Traffic("", jump=jump, ago=ago)))
        for seed in range(10)
    ]
    near = [
        one for changes in found for one in changes if abs(one.day - (84 - ago)) <= 1
    ]
    assert len(near) >= 9
    assert np.median([one.ratio for one in near]) == pytest.approx(jump, abs=0.12)


@pytest.mark.parametrize(
    "case",
    [
        Traffic(""),
        Traffic("", 0.03),
        pytest.param(
            Traffic("", holiday=5), marks=pytest.mark.slow
        ),  # ten series, as the next
        pytest.param(Traffic("", noise=0.3), marks=pytest.mark.slow),
    ],
)
def test_without_a_jump_none_is_found(case: Traffic) -> None:
    assert sum(bool(change_points(drawn(seed, case))) for seed in range(20)) <= 2


def test_the_last_week_beside_those_before() -> None:
    assert sum(week_over_week(drawn(seed, Traffic("")))[1] for seed in range(40)) <= 2
    jumped = [
        week_over_week(drawn(seed, Traffic("", jump=0.6, ago=7))) for seed in range(20)
    ]
    assert sum(clear for _, clear in jumped) >= 18
    assert np.median([ratio for ratio, _ in jumped]) == pytest.approx(0.6, abs=0.05)


def test_a_pace_is_that_of_hours_with_a_backlog_throughout() -> None:
    case = Paced("", 2.0, -0.2, gaps=0.2)
    hours = case.hours(np.random.default_rng(3))
    found = pace(**hours)
    assert found.rate == pytest.approx(case.truth, rel=0.1)
    assert found.low <= 0.8 / 0.9 - 1 <= found.high
    idle = pace(**(hours | {"backlog": np.zeros(len(hours["backlog"]))}))
    assert np.isnan(idle.rate)
    assert idle.hours == 0
    still = np.where(np.arange(len(hours["backlog"])) % 500 == 400, 1.0, 0.0)
    assert np.isnan(pace(**(hours | {"backlog": still})).rate), (
        "an hour in which they stood still is no pace"
    )
