"""Time to a limit, on levels whose truth is known; `make bench-conclusions` scores all kinds of them."""

import numpy as np
import pytest
from bench.truths import (
    LIMIT,
    Fill,
    accelerating,
    daily,
    dips,
    doubling,
    gaps,
    holiday,
    kinked,
    line,
    plateau,
    saturating,
    step,
    teeth,
    wave,
    weekly,
)

from penstock_trends.limits import Outlook, outlook


def drawn(case: Fill, now: float = 0.0, seed: int = 1) -> Outlook:
    return outlook(case.history(np.random.default_rng(seed), now), LIMIT)


@pytest.mark.parametrize(
    "case",
    [
        Fill("steady", line(3), 0.01, meets=True),
        Fill("steady", line(60), 0.01, meets=True),
        Fill("begun three days ago", line(8, 40.0, 3), 0.01, meets=True),
        Fill("ten days of history", line(15, 30.0, 10), 0.01, meets=True, days=10),
        Fill("doubling", doubling(40, 20), 0.02, meets=True),
        Fill("accelerating", accelerating(30), 0.01, meets=True),
        Fill("faster since a while", kinked(20, 15, 0.4), 0.01, meets=True),
        Fill("days and weekends", weekly(daily(line(20))), 0.02, meets=True),
        Fill("half unseen", line(20), 0.01, meets=True, spoil=gaps(0.5, 72)),
        Fill("restarts", line(20), 0.01, meets=True, spoil=dips),
    ],
    ids=lambda case: case.kind,
)
def test_what_fills_up_has_its_date_in_the_range(case: Fill) -> None:
    found = [drawn(case, seed=seed) for seed in range(6)]
    assert [one.state for one in found].count("rising") >= 5
    rising = [one for one in found if one.state == "rising"]
    assert sum(one.low <= case.truth() <= one.high for one in rising) >= len(rising) - 1
    assert all(one.low <= one.days <= one.high for one in rising)


@pytest.mark.slow  # long courses
@pytest.mark.parametrize(
    ("case", "state"),
    [
        (Fill("plateau", plateau(5), 0.01, meets=False), "far"),
        (Fill("saturation", saturating(95.0, 15.0), 0.01, meets=False), "far"),
        (Fill("step", step(0.5), 0.01, meets=False), "far"),
        (Fill("falling", lambda t: 60 - 0.2 * t, 0.02, meets=False), "far"),
        (Fill("flat below it", lambda t: 0 * t + 99.0, 0.001, meets=False), "far"),
        (Fill("holiday", holiday(2, 2, 40.0, 80.0), 0.02, meets=False), "far"),
        (Fill("saw-teeth", teeth(15, 20.0, 90.0), 0.01, meets=False), "falls back"),
        (Fill("wave", wave(14), 0.01, meets=False), "falls back"),
    ],
    ids=lambda one: one.kind if isinstance(one, Fill) else one,
)
def test_what_never_fills_up_has_no_date(case: Fill, state: str) -> None:
    assert {
        drawn(case, now, seed).state for seed in range(3) for now in (0.0, 1.0)
    } <= {state, "far"}
    assert state in {drawn(case, now, 1).state for now in (0.0, 3.0, 6.0)}


def test_a_limit_that_is_met() -> None:
    now = drawn(Fill("", line(-1), 0.001, meets=True))
    assert (now.state, now.days, now.low, now.high) == ("met", 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("hourly", "limit"),
    [
        (np.full(500, np.nan), 100.0),
        (np.arange(20.0), 100.0),
        (np.append(np.arange(200.0), np.full(40, np.nan)), 300.0),
        (np.arange(500.0), np.nan),
        (np.arange(500.0), 0.0),
        (np.arange(500.0), np.inf),
    ],
    ids=[
        "nothing seen",
        "too young",
        "silent of late",
        "no limit",
        "limit 0",
        "unlimited",
    ],
)
def test_what_cannot_be_known(
    hourly: np.ndarray[tuple[int], np.dtype[np.float64]], limit: float
) -> None:
    now = outlook(hourly, limit)
    assert now.state == "unknown"
    assert np.isnan([now.days, now.low, now.high]).all()


def test_units_do_not_matter() -> None:
    levels = Fill("", line(20), 0.01, meets=True).history(np.random.default_rng(2))
    one = outlook(levels, 100.0)
    other = outlook(levels * 1e7, 1e9)
    assert one.state == other.state
    assert one.days == pytest.approx(other.days)


def test_values_that_never_change() -> None:
    for level in (0.0, 50.0):
        assert outlook(np.full(600, level), 100.0).state == "far"
