"""By what share traffic grows a week, with limits: slopes of the logarithms between equal weekdays."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock_trends.changes import change_points
from penstock_trends.pieces import middle, spread

Series = NDArray[np.float64]
WEEKS: Final = 12
"""Weeks at the end of the history, whose growth is measured."""
LEAST_WEEKS: Final = 3
"""Weeks, below which growth is not known."""
SIGMAS: Final = 2.4
"""Standard errors in half an interval of 95 %."""
WIDER: Final = 1.4
"""Factor of an interval, as days that follow each other are alike: they say less than as many independent days."""
MOST_MEMORY: Final = 0.8
"""Correlation of a week with the one before it, beyond which it is not believed."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth a week as a share: 0.03 is three percent more each week; NaN: not known.

    Attributes:
        per_week: Most likely.
        low: With 95 % confidence it is not less.
        high: With 95 % confidence it is not more.
        weeks: Since the last jump of level.
    """

    per_week: float = np.nan
    low: float = np.nan
    high: float = np.nan
    weeks: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether the limits agree on the direction."""
        return self.low > 0 or self.high < 0


def growth(daily: Series) -> Growth:
    """The growth a week since the last jump of level, with its interval; not known for fewer than LEAST_WEEKS weeks.

    daily: (days,) Totals, oldest first; NaN where a day was not seen whole.
    """
    daily = since_last_jump(daily[-7 * WEEKS :])
    weeks = len(daily) / 7
    logs = logs_by_week(daily)
    slope = slope_between_weeks(logs)
    if weeks < LEAST_WEEKS or not np.isfinite(slope):
        return Growth(weeks=weeks)
    residuals = without_slope(logs, slope)
    week_means = means_by_week(residuals)
    if len(week_means) < LEAST_WEEKS:
        return Growth(weeks=weeks)
    error = error_of_slope(residuals, week_means)
    slopes = [slope - error, slope, slope + error]
    low, per_week, high = np.expm1(slopes).tolist()
    return Growth(per_week, low, high, weeks)


def since_last_jump(daily: Series) -> Series:
    """The days since the last jump: those at the present level."""
    jumps = change_points(daily)
    if not jumps:
        return daily
    return daily[jumps[-1].day :]


def logs_by_week(daily: Series) -> Series:
    """(weeks, 7) Logarithms of the totals; NaN where a day had no traffic or is not known.

    A week ends with the last day, so the first one may begin before the first day.
    """
    before_first = np.full(-len(daily) % 7, np.nan)
    by_week = np.concatenate([before_first, daily]).reshape(-1, 7)
    return np.log(np.where(by_week > 0, by_week, np.nan))


def slope_between_weeks(logs: Series) -> float:
    """The median slope, a week, between all pairs of equal weekdays; NaN without any pair.

    A median is not moved by single days, and equal weekdays need no rhythm.

    logs: (weeks, 7).
    """
    earlier, later = np.triu_indices(len(logs), 1)  # each pair of weeks once
    weeks_between = (later - earlier)[:, None]
    slopes = (logs[later] - logs[earlier]) / weeks_between
    return middle(slopes.ravel())


def without_slope(logs: Series, slope: float) -> Series:
    """(weeks, 7) The logarithms without growth and without the usual level of each weekday."""
    week = np.arange(len(logs))[:, None]
    flat = logs - slope * week
    levels = np.array([middle(weekday) for weekday in flat.T])
    residuals: Series = flat - levels
    return residuals


def means_by_week(residuals: Series) -> Series:
    """(known weeks,) The mean of each week of which a day is known."""
    is_seen = np.isfinite(residuals).any(axis=1)
    return np.array([np.nanmean(week) for week in residuals[is_seen]])


def error_of_slope(residuals: Series, week_means: Series) -> float:
    """How far the growth a week may be off with 95 % confidence, as a logarithm.

    The error of a slope through `count` points a week apart is their deviation times
    the root of 12 / (count³ - count). It is larger where a week is like the one before
    it: then the weeks are not independent.

    Args:
        residuals: (weeks, 7) Logarithms without growth.
        week_means: (known weeks,) The mean of each.
    """
    count = len(week_means)
    memory = memory_of(week_means)
    error = (
        SIGMAS
        * deviation_of_weeks(residuals)
        * np.sqrt(12 / (count**3 - count))
        * np.sqrt((1 + memory) / (1 - memory))
        * WIDER
    )
    return float(error)


def deviation_of_weeks(residuals: Series) -> float:
    """The standard deviation of the mean of a week, from that of its days.

    residuals: (weeks, 7) Logarithms without growth; NaN is unknown.
    """
    is_seen = np.isfinite(residuals)
    of_days = max(
        spread(residuals),
        0.5 * float(residuals[is_seen].std()),
    )
    days_a_week = 7 * is_seen.mean()
    return float(of_days / np.sqrt(days_a_week))


def memory_of(week_means: Series) -> float:
    """The correlation of a week with the one before it, from 0 to MOST_MEMORY."""
    distances = week_means - week_means.mean()
    power = max(float(distances @ distances), 1e-12)  # never 0
    correlation = distances[1:] @ distances[:-1] / power
    return float(np.clip(correlation, 0.0, MOST_MEMORY))
