"""Growth: robust slopes, step changes, and when a limit will be met. Numpy only."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
WEEK: Final = 168
DAY: Final = 24
STEP_DAYS: Final = 14
STEP_SHARE: Final = 0.2
STEP_MADS: Final = 2.3
LEAST_WEEKS: Final = 3
CONFIDENCE: Final = 1.96


@dataclass(frozen=True, slots=True)
class Growth:
    """
    slope: units per week, with Sen's limits low and high; level: of the last week; step: hour of the last step change,
    -1 without one; the slope is that of the time after it. weeks: how long that is.
    """

    slope: float
    low: float
    high: float
    level: float
    step: int
    weeks: float

    @property
    def clear(self) -> bool:
        """Whether the limits say which way it goes."""
        return bool(np.isfinite(self.low) and (self.low > 0 or self.high < 0))


def growth(hourly: Series) -> Growth:
    """Of an hourly series, NaN where nothing is known; oldest first."""
    step = last_step(hourly)
    part = hourly[step:] if step > 0 else hourly
    level = float(np.nanmean(hourly[-WEEK:])) if np.isfinite(hourly[-WEEK:]).any() else np.nan
    weeks = len(part) / WEEK
    if weeks < LEAST_WEEKS:
        return Growth(np.nan, np.nan, np.nan, level, step, weeks)
    slope = slope_by_hour_of_week(part)
    low, high = sen_limits(part)
    return Growth(slope, low, high, level, step, weeks)


def slope_by_hour_of_week(hourly: Series) -> float:
    """Per week: Theil-Sen of each hour of the week on its own, which no rhythm can mislead; the mean of these."""
    weeks = hourly[len(hourly) % WEEK :].reshape(-1, WEEK)
    i, j = np.triu_indices(len(weeks), 1)
    slopes = (weeks[j] - weeks[i]) / (j - i)[:, None]
    known = np.isfinite(slopes).any(axis=0)
    return float(np.mean(np.nanmedian(slopes[:, known], axis=0))) if known.any() else np.nan


def sen_limits(hourly: Series) -> tuple[float, float]:
    """Limits of the slope per week by Sen, from the medians of each week: what lies in a week is not independent."""
    weeks = hourly[len(hourly) % WEEK :].reshape(-1, WEEK)
    keep = np.isfinite(weeks).sum(axis=1) >= WEEK // 2
    at, values = np.flatnonzero(keep), np.array([np.nanmean(week) for week in weeks[keep]])
    n = len(values)
    if n < LEAST_WEEKS:
        return np.nan, np.nan
    i, j = np.triu_indices(n, 1)
    slopes = np.sort((values[j] - values[i]) / (at[j] - at[i]))
    spread = CONFIDENCE * np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    first = int(np.floor((len(slopes) - spread) / 2))
    last = int(np.ceil((len(slopes) + spread) / 2))
    if first < 0 or last >= len(slopes):
        return float(slopes[0]) - abs(float(np.ptp(slopes))), float(slopes[-1]) + abs(float(np.ptp(slopes)))
    return float(slopes[first]), float(slopes[last])


def last_step(hourly: Series) -> int:
    """The hour of the greatest lasting change of level, -1 without one: two weeks either side, without weekdays."""
    days = hourly[len(hourly) % DAY :].reshape(-1, DAY)
    daily = np.array([np.nanmedian(day) if np.isfinite(day).any() else np.nan for day in days])
    known = np.isfinite(daily)
    if known.sum() < 2 * STEP_DAYS + 1:
        return -1
    daily = np.interp(np.arange(len(daily)), np.flatnonzero(known), daily[known])
    # What a weekday differs from the week around it: unlike its own median, that knows no level.
    around = np.array([np.nanmean(daily[max(at - 3, 0) : at + 4]) for at in range(len(daily))])
    apart = daily - around
    weekday = np.array([np.nanmedian(apart[k::7]) if np.isfinite(apart[k::7]).any() else 0.0 for k in range(7)])
    flat = daily - weekday[np.arange(len(daily)) % 7]
    centre = float(np.nanmedian(daily))
    best, found = 0.0, -1
    for at in range(STEP_DAYS, len(daily) - STEP_DAYS + 1):
        before, after = flat[at - STEP_DAYS : at], flat[at : at + STEP_DAYS]
        jump = abs(float(np.nanmedian(after) - np.nanmedian(before)))
        spread = float(
            np.nanmedian(np.abs(np.concatenate([before - np.nanmedian(before), after - np.nanmedian(after)])))
        )
        base = max(abs(float(np.nanmedian(daily[at - STEP_DAYS : at]))), abs(centre) * 0.1, 1e-9)
        if jump > STEP_SHARE * base and jump > STEP_MADS * 1.4826 * max(spread, 1e-9) * 1.5 and jump > best:
            best, found = jump, at
    return -1 if found < 0 else found * DAY + (len(hourly) - days.size)


def days_to(limit: float, now: Growth) -> tuple[float, float]:
    """Days until the level meets `limit`: earliest and latest by Sen's limits; inf = never, NaN = no clear trend."""
    if not now.clear or not np.isfinite(limit):
        return np.nan, np.nan
    if now.level >= limit:
        return 0.0, 0.0
    room = limit - now.level
    if now.high <= 0:
        return np.inf, np.inf
    return 7 * room / now.high, 7 * room / now.low if now.low > 0 else np.inf
