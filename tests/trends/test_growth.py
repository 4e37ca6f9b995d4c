"""Growth, steps and times to limits on series whose truth is known."""

import numpy as np
import pytest

from penstock.trends.forecast import Growth, days_to, growth, last_step
from penstock_demo.history import Fleet, _World

HOURS = 84 * 24


def imagined(
    seed: int, per_week: float, *, bursts: int = 0, step: float = 0.0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    random = np.random.default_rng(seed)
    at = np.arange(HOURS)
    day = 1 + 0.6 * np.sin(2 * np.pi * (at % 24) / 24)
    week = np.where((at // 24) % 7 >= 5, 0.4, 1.0)
    y = 1000 * day * week * random.lognormal(0, 0.15, HOURS) + per_week * at / 168
    for begin in random.integers(0, HOURS - 12, bursts):
        y[begin : begin + 12] += 20_000
    y[HOURS // 2 :] += step
    return y


def test_slopes_are_found_through_rhythm_noise_and_bursts() -> None:
    errors = [abs(growth(imagined(seed, 20.0, bursts=6)).slope / 20.0 - 1) for seed in range(20)]
    assert np.median(errors) <= 0.10
    assert all(growth(imagined(seed, 20.0, bursts=6)).slope > 0 for seed in range(20)), "the wrong sign"


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_grow_has_no_clear_trend(seed: int) -> None:
    now = growth(imagined(seed, 0.0))
    assert now.low <= 0 <= now.high
    assert np.isnan(days_to(10_000, now)).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_found_and_only_the_time_since_counts(seed: int) -> None:
    y = imagined(seed, 20.0, step=1500.0)
    assert abs(last_step(y) - HOURS // 2) <= 7 * 24, "the week of the step"
    assert growth(y).slope == pytest.approx(20.0, rel=0.6)


@pytest.mark.parametrize("seed", range(5))
def test_without_a_step_none_is_found(seed: int) -> None:
    assert last_step(imagined(seed, 0.0)) == -1


def test_times_to_a_limit() -> None:
    rising = Growth(10.0, 5.0, 20.0, 100.0, -1, 12.0)
    assert days_to(200.0, rising) == (35.0, 140.0)
    assert days_to(100.0, rising) == (0.0, 0.0)
    assert days_to(200.0, Growth(-10.0, -20.0, -5.0, 100.0, -1, 12.0)) == (np.inf, np.inf)
    assert np.isnan(days_to(np.nan, rising)).all()


def test_too_little_to_tell() -> None:
    assert np.isnan(growth(np.ones(300)).slope)
    assert not growth(np.full(2000, np.nan)).clear


def test_growth_of_the_imagined_fleet_is_found() -> None:
    """Twelve weeks of hours with rhythm, noise, stalls and restarts; traffic grows by 3 % a week."""
    fleet = Fleet(brokers=1, queues=40, days=84, interval=3600, active=1.0, growth=0.03, stalls=0.5, gaps=0.0, seed=6)
    world = _World(fleet, np.random.default_rng(fleet.seed))
    days = [world.day(number) for number in range(fleet.days)]
    added, inc = (np.concatenate([day[name] for day in days]) for name in ("added", "inc"))
    came = np.where(np.diff(inc, axis=0) == 0, np.diff(added, axis=0), np.nan)
    growing = np.flatnonzero(world.truth.growth)
    assert len(growing) == 10
    errors = []
    for queue in growing.tolist():
        true = world.rate[queue] * 3600 * (1.03**12 - 1) / 12  # messages an hour more, each week
        found = growth(came[:, queue])
        errors.append(abs(found.slope / true - 1))
        assert found.slope > 0, "the wrong sign"
    assert np.median(errors) <= 0.10
