"""Forecasts of series with a rhythm: how near they come, and whether the intervals hold what comes."""

import numpy as np
import pytest

from penstock_trends.forecast import WEEK, forecast, inflation, pooled_quantile, theta

Series = np.ndarray[tuple[int], np.dtype[np.float64]]


def rhythm(seed: int, weeks: int = 9, growth: float = 0.0) -> Series:
    random = np.random.default_rng(seed)
    at = np.arange(weeks * WEEK)
    day = 1 + 0.7 * np.sin(2 * np.pi * (at % 24 + random.integers(0, 24)) / 24)
    level = (
        1000
        * day
        * np.where((at // 24) % 7 >= 5, 0.5, 1.0)
        * (1 + growth) ** (at / WEEK)
    )
    return np.asarray(level * random.lognormal(0, 0.15, len(at)))


@pytest.mark.slow  # forecasts many courses
def test_intervals_of_hours_and_of_days_hold_what_comes_and_are_not_wider_than_need_be() -> (
    None
):
    made = []
    for seed in range(12):
        y = rhythm(seed)
        made.append((forecast(y[:-WEEK], WEEK, season=WEEK), y[-WEEK:]))
    width = pooled_quantile([one.scores for one, _ in made])
    hours = np.mean(
        [np.abs(actual - one.values) <= width * one.scale for one, actual in made]
    )
    sums = [
        ((actual - one.values).reshape(7, 24).sum(axis=1), one.daily)
        for one, actual in made
    ]
    days = np.mean([np.abs(off) <= daily for off, daily in sums])
    assert hours >= 0.93
    assert days >= 0.93
    stacked = np.mean(
        [(width * one.scale).reshape(7, 24).sum(axis=1) / one.daily for one, _ in made]
    )
    assert stacked > 2, "the hours of a day do not all err the same way"
    assert all(one.worth_showing for one, _ in made)


def test_theta_goes_on_with_part_of_the_slope() -> None:
    steady = 100 + np.arange(6 * WEEK) / 10.0
    gained = theta(steady, WEEK).mean() - steady[-WEEK:].mean()
    assert 0.4 * WEEK / 10 < gained < WEEK / 10


def test_series_that_have_no_factor_of_an_hour() -> None:
    idle_nights = np.tile(np.where(np.arange(24) < 8, 0.0, 50.0), 6 * 7)
    for y in (
        idle_nights,
        np.zeros(5 * WEEK),
        np.full(5 * WEEK, -3.0),
        rhythm(1)[:200],
    ):
        assert np.isfinite(theta(y, 48)).all()
    assert np.abs(theta(idle_nights, 48) - np.tile(idle_nights[:24], 2)).max() < 1e-9


def test_too_short_a_series_has_no_interval() -> None:
    made = forecast(rhythm(2)[:300], WEEK)
    assert len(made.daily) == 7
    assert np.isnan(made.daily).all()
    assert not made.worth_showing


def test_intervals_grow_with_the_horizon() -> None:
    factors = inflation(np.array([1, 48, 100, WEEK, 400]))
    assert (np.diff(factors) >= 0).all()
    assert factors[0] == factors[1] < factors[2] < factors[3] == factors[4]
