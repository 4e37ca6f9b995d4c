"""Changes and their dates: jumps of level, the last week beside others, the pace of consumers.

Totals are compared as logarithms, so that a change is a share of the level and not a number of messages.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock_trends.pieces import (
    calm,
    cut,
    finite,
    middle,
    noise_of,
    spread,
    weekday_effect,
)

Series = NDArray[np.float64]
Mask = NDArray[np.bool_]
HOUR: Final = 3600
PENALTY: Final = 16.0
"""Cost of one more level, in squared noise: a jump must explain more than that (see `pieces.cut`)."""
SLOPE_PENALTY: Final = 5.0
"""Cost of a slope that all levels have in common, in squared noise."""
LEAST_DAYS: Final = 3
"""Days of one level."""
WEEKDAYS_FROM: Final = 21
"""Days, from which the effect of the weekday is taken out."""
NOISE_MARGIN: Final = 1.1
"""Times the estimated noise that is taken."""
LEAST_NOISE: Final = 0.005
"""Of logarithms: half a percent, so that an almost even series has no jumps."""
OUTLYING: Final = 5.0
"""Times the noise, from which a single day is an outlier and no jump."""
LEAST_JUMP: Final = 0.1
"""As a share; smaller jumps are not reported."""
WEEKS_COMPARED: Final = 4
"""Weeks before the last one, of which a weekday has its usual total."""
EVIDENCE_WEEKS: Final = 3
"""Earlier weeks, by which it is known how much weeks differ."""
LEAST_WEEKDAYS: Final = 4
"""Days of a week, below which it is not compared."""
WEEK_SIGMAS: Final = 4.0
"""Usual deviations of a week, from which the last one is unusual."""
SIGMAS: Final = 2.4
"""Standard errors in half an interval of 95 %."""
WIDER: Final = 1.2
"""Factor of an interval, as days that follow each other are alike: they say less than as many independent days."""
EVIDENCE_DAYS: Final = 8
"""Days with a pace, below which its change is not known."""
PACE_DAYS: Final = 30
"""Days over which the change of the pace is measured."""
PACE_HOURS: Final = 8
"""Hours with a backlog throughout, below which it may be a standstill that made the backlog, and no pace."""


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
    """The lasting jumps of at least LEAST_JUMP, oldest first; none of fewer than three times LEAST_DAYS days.

    The series is cut into levels; where one level follows another there is a jump.

    daily: (days,) Totals, oldest first; NaN where a day was not seen whole.
    """
    days = np.flatnonzero(np.isfinite(daily))
    if len(days) < 3 * LEAST_DAYS:
        return []
    logs = logs_without_weekdays(daily)[days]
    noise = max(NOISE_MARGIN * noise_of(logs), LEAST_NOISE)
    logs = calm(logs, OUTLYING * noise)
    begins, levels = cut_into_levels(days.astype(float), logs, noise)
    means = [float(piece.mean()) for piece in np.split(levels, begins[1:])]
    # A difference of logarithms is a ratio of totals.
    ratios = np.expm1(np.diff(means)).tolist()
    return [
        Jump(int(days[begin]), ratio)
        for begin, ratio in zip(begins[1:], ratios, strict=True)
        if abs(ratio) >= LEAST_JUMP
    ]


def logs_without_weekdays(daily: Series) -> Series:
    """(days,) Logarithms of the totals, without the effect of the weekday if there are at least WEEKDAYS_FROM."""
    logs = np.log1p(np.maximum(daily, 0.0))
    if len(daily) < WEEKDAYS_FROM:
        return logs
    weekday = np.arange(len(daily)) % 7
    return logs - weekday_effect(logs)[weekday]


def cut_into_levels(x: Series, y: Series, noise: float) -> tuple[list[int], Series]:
    """The index at which each level begins; and the values that are level: those of `y`, or `y` without a slope.

    Slow growth is no row of jumps. So the series is cut twice, as it is and without the
    slope that its pieces have in common; the second cut counts where it is cheaper by
    more than SLOPE_PENALTY.

    Args:
        x: (points,) Days, ascending.
        y: (points,) Values.
        noise: Standard deviation of a value about its level.
    """
    begins, cost = cut(x, y / noise, PENALTY, LEAST_DAYS, lines=False)
    sloped_begins = [0]
    sloped_cost = cost
    straight = y
    # The first slope is that of one piece and has the jumps in it. Without it the pieces are better known, and by them
    # the slope.
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
    """The slope of the best straight lines through all pieces that have one slope, each piece with its own level.

    begins: the index at which each piece begins.
    """
    pieces = np.split(x, begins[1:])
    from_centre = np.concatenate([piece - piece.mean() for piece in pieces])
    return float(from_centre @ y / (from_centre @ from_centre))


# --- weeks


def week_over_week(daily: Series) -> tuple[float, bool]:
    """By what share the last seven days have more than the weekdays of the weeks before; NaN where not known.

    The second result is whether that is clear: more than weeks usually differ.

    daily: (days,) Totals, oldest first; NaN where a day was not seen whole.
    """
    oldest_days = len(daily) % 7  # of no whole week
    weeks = daily[oldest_days:].reshape(-1, 7)
    if len(weeks) <= WEEKS_COMPARED:
        return np.nan, False
    ratios = [
        ratio_of_weeks(weeks[number], weeks[number - WEEKS_COMPARED : number])
        for number in range(WEEKS_COMPARED, len(weeks))
    ]
    ratio = ratios[-1]
    if np.isnan(ratio) or ratio < 0:
        return np.nan, False
    return ratio - 1, is_unusual(ratios)


def ratio_of_weeks(week: Series, before: Series) -> float:
    """The total of a week over the usual total of the same weekdays; NaN where fewer than LEAST_WEEKDAYS are known.

    The usual total of a weekday is the median of the weeks before.

    Args:
        week: (7,) Totals by day.
        before: (weeks, 7) Totals by day of the weeks before it.
    """
    usual = np.array([middle(weekday) for weekday in before.T])
    is_comparable = np.isfinite(usual) & np.isfinite(week)
    usual_total = float(usual[is_comparable].sum())
    if is_comparable.sum() < LEAST_WEEKDAYS or usual_total <= 0:
        return np.nan
    return float(week[is_comparable].sum()) / usual_total


def is_unusual(ratios: list[float]) -> bool:
    """Whether the last ratio differs from the median of the earlier ones by more than WEEK_SIGMAS of their deviations.

    It must also differ by LEAST_JUMP, and at least EVIDENCE_WEEKS earlier ones must be
    known. ratios: of weeks, oldest first; NaN is unknown.
    """
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf: an empty week
        logs = np.log(np.maximum(ratios, 0.0))
    last = logs[-1]
    earlier = finite(logs[:-1])
    if len(earlier) < EVIDENCE_WEEKS:
        return False
    usual = float(np.median(earlier))
    deviation = float(np.sqrt(np.mean((earlier - usual) ** 2)))
    least = max(WEEK_SIGMAS * deviation, np.log1p(LEAST_JUMP))
    return bool(abs(last - usual) > least)


# --- pace


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a consumer works; NaN: not known.

    Attributes:
        rate: Messages a second that one consumer acknowledges now, while it has enough
            to do.
        change: Of the rate over 30 days, as a share.
        low: With 95 % confidence the change is not less.
        high: With 95 % confidence the change is not more.
        hours: Hours with a backlog throughout, in which the rate was seen.
    """

    rate: float = np.nan
    change: float = np.nan
    low: float = np.nan
    high: float = np.nan
    hours: int = 0


def pace(acknowledged: Series, consumers: Series, backlog: Series) -> Pace:
    """How fast a consumer works: the median of the last seven days with a rate, and its change over 30 days.

    Only hours with a backlog throughout show it: in others a consumer waits for
    messages.

    Args:
        acknowledged: (hours,) Messages; NaN where too little was seen.
        consumers: (hours,) How many.
        backlog: (hours,) Share of the polls with ready messages.
    """
    is_busy = (backlog >= 1.0) & (consumers > 0) & np.isfinite(acknowledged)
    hours = int(is_busy.sum())
    rates = rates_per_consumer(acknowledged, consumers, is_busy)
    # The rate itself may be older than the days over which its change is measured.
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


def rates_per_consumer(
    acknowledged: Series, consumers: Series, is_busy: Mask
) -> Series:
    """(hours,) Messages a second that one consumer acknowledged; NaN unless the hour was busy."""
    divisors = np.where(is_busy, consumers, 1.0)  # never 0
    rates = acknowledged / HOUR / divisors
    return np.where(is_busy, rates, np.nan)


def daily_medians(hourly: Series) -> Series:
    """(days,) The median of each whole day, counted back from the last hour."""
    days = hourly[len(hourly) % 24 :].reshape(-1, 24)
    return np.array([middle(day) for day in days])


def change_over_time(time: Series, values: Series) -> tuple[float, float, float]:
    """By what share values grow in one unit of time: the change, and the lowest and highest with 95 % confidence.

    It is the slope of a straight line through the logarithms, with the usual error of
    such a slope.
    """
    logs = np.log(values)
    slope, level = np.polyfit(time, logs, 1).tolist()
    residuals = logs - level - slope * time
    power = max(float(((time - time.mean()) ** 2).sum()), 1e-9)  # never 0
    error = SIGMAS * spread(residuals) / np.sqrt(power) * WIDER
    slopes = [slope, slope - error, slope + error]
    change, low, high = np.expm1(slopes).tolist()  # of logarithms
    return change, low, high
