"""Changes and their dates: jumps of level, the last week beside others, the pace of consumers."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock_trends.pieces import calm, cut, middle, noise_of, spread, weekday_effect

Series = NDArray[np.float64]
HOUR: Final = 3600
PENALTY: Final = 16.0
SLOPE_PENALTY: Final = 5.0
LEAST_DAYS: Final = 3
LEAST_JUMP: Final = 0.1
"""As a share; smaller jumps are not reported."""
WEEKS_COMPARED: Final = 4
"""Weeks before the last one, of which a weekday has its usual total."""
EVIDENCE_WEEKS: Final = 3
"""Earlier weeks, by which it is known how much weeks differ."""
WEEK_SIGMAS: Final = 4.0
SIGMAS: Final = 2.4
WIDER: Final = 1.2
"""As days that follow each other are alike."""
EVIDENCE_DAYS: Final = 8
PACE_DAYS: Final = 30
PACE_HOURS: Final = 8
"""With a backlog throughout, below which it may be a standstill that made the backlog, and no pace."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A lasting change of level.

    Attributes:
        day: Index of the first day at the new level.
        ratio: Of the levels, as a share: -0.3 is three tenths less.
    """

    day: int
    ratio: float


def change_points(daily: Series) -> list[Jump]:
    """The lasting jumps, oldest first.

    daily: (days,) Totals, oldest first; NaN where a day was not seen whole.
    """
    days = np.flatnonzero(np.isfinite(daily))
    if len(days) < 3 * LEAST_DAYS:
        return []
    logs = logs_without_weekdays(daily)[days]
    noise = max(1.1 * noise_of(logs), 0.005)
    logs = calm(logs, 5 * noise)
    begins, levels = cut_into_levels(days.astype(float), logs, noise)
    means = [float(piece.mean()) for piece in np.split(levels, begins[1:])]
    ratios = np.expm1(np.diff(means)).tolist()
    return [
        Jump(int(days[begin]), ratio)
        for begin, ratio in zip(begins[1:], ratios, strict=True)
        if abs(ratio) >= LEAST_JUMP
    ]


def logs_without_weekdays(daily: Series) -> Series:
    """(days,) Logarithms of the totals, without the effect of the weekday where it can be known."""
    logs = np.log1p(np.maximum(daily, 0.0))
    if len(daily) < 21:
        return logs
    weekday = np.arange(len(daily)) % 7
    return logs - weekday_effect(logs)[weekday]


def cut_into_levels(x: Series, y: Series, noise: float) -> tuple[list[int], Series]:
    """The index at which each level begins; and the values, without a common slope where that is the better cut."""
    begins, cost = cut(x, y / noise, PENALTY, LEAST_DAYS, lines=False)
    sloped_begins = [0]
    sloped_cost = cost
    straight = y
    # The first slope still has the jumps in it, the later ones have not.
    for _ in range(3):
        straight = y - slope_within(x, y, sloped_begins) * x
        sloped_begins, sloped_cost = cut(
            x,
            straight / noise,
            PENALTY,
            LEAST_DAYS,
            lines=False,
        )
    if sloped_cost + SLOPE_PENALTY < cost:
        return sloped_begins, straight
    return begins, y


def slope_within(x: Series, y: Series, begins: list[int]) -> float:
    """The slope that all pieces have in common, each with a level of its own."""
    pieces = np.split(x, begins[1:])
    x = np.concatenate([piece - piece.mean() for piece in pieces])
    return float(x @ y / (x @ x))


# --- weeks


def week_over_week(daily: Series) -> tuple[float, bool]:
    """The last seven days against the same weekdays of the weeks before, as a share more or less; NaN where not known.

    And whether it is clear: more than weeks usually differ.

    daily: (days,) Totals, oldest first; NaN where a day was not seen whole.
    """
    weeks = daily[len(daily) % 7 :].reshape(-1, 7)
    if len(weeks) <= WEEKS_COMPARED:
        return np.nan, False
    ratios = [
        ratio_of_weeks(weeks[number], weeks[number - WEEKS_COMPARED : number])
        for number in range(WEEKS_COMPARED, len(weeks))
    ]
    ratio = ratios[-1]
    if not ratio >= 0:
        return np.nan, False
    return ratio - 1, is_unusual(ratios)


def ratio_of_weeks(week: Series, before: Series) -> float:
    """The total of a week over the usual total of the same weekdays; NaN where fewer than four can be compared.

    Args:
        week: (7,) Totals by day.
        before: (weeks, 7) Totals by day of the weeks before it.
    """
    usual = np.array([middle(weekday) for weekday in before.T])
    is_comparable = np.isfinite(usual) & np.isfinite(week)
    usual_total = float(usual[is_comparable].sum())
    if is_comparable.sum() < 4 or usual_total <= 0:
        return np.nan
    return float(week[is_comparable].sum()) / usual_total


def is_unusual(ratios: list[float]) -> bool:
    """Whether the last ratio differs from the usual one by more than the earlier ones did."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(ratios, 0.0))
    earlier = logs[:-1][np.isfinite(logs[:-1])]
    if len(earlier) < EVIDENCE_WEEKS:
        return False
    usual = float(np.median(earlier))
    deviation = float(np.sqrt(np.mean((earlier - usual) ** 2)))
    least = max(WEEK_SIGMAS * deviation, np.log1p(LEAST_JUMP))
    return bool(abs(logs[-1] - usual) > least)


# --- pace


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a consumer works; NaN: not known.

    Attributes:
        rate: Messages a second that one consumer acknowledges now, while it has enough
            to do.
        change: Of the rate over 30 days, as a share.
        low: The change is not less.
        high: The change is not more.
        hours: In which it was seen.
    """

    rate: float = np.nan
    change: float = np.nan
    low: float = np.nan
    high: float = np.nan
    hours: int = 0


def pace(acknowledged: Series, consumers: Series, backlog: Series) -> Pace:
    """How fast a consumer works. Only hours with a backlog throughout show it.

    Args:
        acknowledged: (hours,) Messages; NaN where too little was seen.
        consumers: (hours,) How many.
        backlog: (hours,) Share of the polls with ready messages.
    """
    is_busy = (backlog >= 1.0) & (consumers > 0) & np.isfinite(acknowledged)
    hours = int(is_busy.sum())
    rates = np.where(
        is_busy,
        acknowledged / HOUR / np.where(is_busy, consumers, 1.0),
        np.nan,
    )
    daily = daily_medians(rates[-2 * PACE_DAYS * 24 :])
    days = np.flatnonzero(daily > 0)
    if not len(days) or hours < PACE_HOURS:
        return Pace(hours=hours)
    rate = middle(daily[days[-7:]])
    recent = days[days >= len(daily) - PACE_DAYS]
    if len(recent) < EVIDENCE_DAYS:
        return Pace(rate, hours=hours)
    change_and_limits = change_over_time(
        recent / PACE_DAYS,
        daily[recent],
    )
    return Pace(rate, *change_and_limits, hours)


def daily_medians(hourly: Series) -> Series:
    """(days,) The median of each whole day, counted back from the last hour."""
    days = hourly[len(hourly) % 24 :].reshape(-1, 24)
    return np.array([middle(day) for day in days])


def change_over_time(time: Series, values: Series) -> tuple[float, float, float]:
    """By what share values grow in one unit of time; and the limits of that with 95 % confidence."""
    logs = np.log(values)
    slope, level = np.polyfit(time, logs, 1).tolist()
    residuals = logs - level - slope * time
    power = max(float(((time - time.mean()) ** 2).sum()), 1e-9)
    error = SIGMAS * spread(residuals) / np.sqrt(power) * WIDER
    slopes = [slope, slope - error, slope + error]
    change, low, high = np.expm1(slopes).tolist()
    return change, low, high
