"""When a level meets its limit: the line that it is on now, how long that has held, and what spoke against it before.

Optimal straight pieces of a series without its rhythm; the last is carried on. Says nothing where the past does not
carry it: a line is trusted for four times as long as it has held.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from penstock_trends.pieces import calm, cut, middle, noise_of, spread, weekday_effect

Series = NDArray[np.float64]
State = Literal["met", "rising", "far", "falls back", "unknown"]
DAY: Final = 24
LEAST_HOURS: Final = 24
SILENT_HOURS: Final = 36
"""Without a value, after which the present level is not known."""
FINE_DAYS: Final = 14
"""At the end, in which a point is 6 hours; before it a day."""
PENALTY: Final = 22.0
LEAST_POINTS: Final = 3
EXCURSION_DAYS: Final = 3.2
SIGMAS: Final = 2.6
FARTHEST_DAYS: Final = 90.0
TRUSTED: Final = 4.0
"""Times that a line has held, for which it is carried on; less where it was faster before."""
TRUSTED_SLOWING: Final = 1.5
HOLDS_DAYS: Final = 1.0
CURVED_DAYS: Final = 14.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """state: met; rising: in `days`, between low and high; far: not within 90 days, or no line that can be trusted;
    falls back: as so often before it got as high; unknown. level, slope (a day): of the line that has held for `window`
    days. Days are NaN but for rising and met.
    """

    state: State
    days: float = np.nan
    low: float = np.nan
    high: float = np.nan
    level: float = np.nan
    slope: float = np.nan
    window: float = np.nan


@dataclass(frozen=True, slots=True)
class Line:
    """slope a day and its error; level now and its error; window: days; before: slope of the line before it; bend: what
    the slope gains a day, where it did so over the last three lines alike, else 0.
    """

    slope: float
    slope_error: float
    level: float
    level_error: float
    window: float
    before: float
    bend: float


def outlook(hourly: Series, limit: float) -> Outlook:
    """Of hourly levels up to now, oldest first, NaN where nothing was seen; both in one unit. 3 ms for 90 days."""
    known = np.flatnonzero(np.isfinite(hourly))
    if (
        len(known) < LEAST_HOURS
        or len(hourly) - known[-1] > SILENT_HOURS
        or not 0 < limit < np.inf
    ):
        return Outlook("unknown")
    now = float(np.median(hourly[known[-6:]]))
    if now >= limit:
        return Outlook("met", 0.0, 0.0, 0.0, level=now)
    lifted, late = without_rhythm(hourly)
    x, y = points(lifted)
    if len(x) < LEAST_POINTS:
        return Outlook("unknown")
    noise = noise_of_points(x, y, 0.001 * limit)
    y = calm(y, 6 * noise)
    line = last_line(x, y, noise)
    curved = curve(x, y, 0.0005 * limit, line) if line.slope > line.before else None
    room, slope = (
        (np.log(limit) - curved.level, curved) if curved else (limit - line.level, line)
    )
    found = ranged(room, slope, late)
    if trusted(found, slope) and not fell_back(x, y, limit, noise, line):
        return Outlook(
            "rising", *found, level=line.level, slope=line.slope, window=slope.window
        )
    state: State = "falls back" if trusted(found, slope) else "far"
    return Outlook(state, level=line.level, slope=line.slope, window=slope.window)


def trusted(found: tuple[float, float, float], line: Line) -> bool:
    """Whether the line has held for long enough to be carried on to where it meets the limit."""
    slowing = line.before > 1.3 * line.slope
    reach = TRUSTED * line.window
    if (
        slowing and line.slope > 0
    ):  # the more, the less: what saturates never gets there
        reach = TRUSTED_SLOWING * line.window * min(1.0, 2 * line.slope / line.before)
    certain = line.slope > line.slope_error
    return (
        certain and line.window >= HOLDS_DAYS and found[0] <= min(reach, FARTHEST_DAYS)
    )


def ranged(room: float, line: Line, late: float) -> tuple[float, float, float]:
    """Days until `room` is used up, the earliest and the latest; late: days that a rhythm may add."""
    if line.slope <= 0:
        return np.inf, np.inf, np.inf
    days = max(room / line.slope, 0.0)
    if line.bend:
        steeper = line.slope + line.bend * line.window / 2  # than its mean, now
        days = max(
            float(np.sqrt(steeper**2 + 2 * line.bend * max(room, 0.0)) - steeper)
            / line.bend,
            0.0,
        )
    doubt = (0.12 if line.bend else 0.06) + 0.06 * min(
        days / max(line.window, 0.1), 4.0
    )
    error = max(line.slope_error, line.slope * doubt)
    steepest = max(line.slope, room / max(days, 0.1)) + error
    low = max((room - line.level_error) / steepest - 0.4, 0.0)
    slowest = line.slope - error
    high = (
        max((room + line.level_error) / slowest, 0.0) + 0.6 + late
        if slowest > 0
        else np.inf
    )
    return days, low, high


def without_rhythm(hourly: Series) -> tuple[Series, float]:
    """The series lifted to the highs of its hours and weekdays, as highs meet limits; and how many days later than
    its line a rhythm lets it meet one.
    """
    recent = hourly[-28 * DAY :]
    logarithm = bool(np.nanmin(recent) > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.log(np.where(hourly > 0, hourly, np.nan)) if logarithm else hourly.copy()
    late = 0.0
    ends = len(z) - np.arange(len(z)) - 1  # hours before now
    daily = by_day(z)
    hour = hour_effect(z[-28 * DAY :], daily[-28:])
    level = abs(middle(z[-28 * DAY :])) if not logarithm else 1.0
    if hour is not None and np.ptp(hour) > 0.02 * level:
        z = z + (hour.max() - hour)[ends % DAY]
        late = 1.0
        daily = by_day(z)
    if len(daily) >= 22:
        weekday = weekday_effect(daily)
        before = np.abs(np.diff(daily))
        after = np.abs(np.diff(daily - weekday[np.arange(len(daily)) % 7]))
        cap = float(np.nanquantile(before, 0.9)) if np.isfinite(before).any() else 0.0
        if np.nanmean(np.minimum(after, cap)) < 0.6 * np.nanmean(
            np.minimum(before, cap)
        ):
            day = (len(daily) - 1 - ends // DAY) % 7
            z = z + (weekday.max() - weekday)[day]
            late = 3.0
    return (np.exp(z) if logarithm else z), late


def by_day(hourly: Series) -> Series:
    """The middle of each whole day, counted back from now."""
    days = hourly[len(hourly) % DAY :].reshape(-1, DAY)
    return np.array([middle(day) for day in days])


def hour_effect(hourly: Series, daily: Series) -> Series | None:
    """What each hour lies above the line through the middles of the days, the last hour first; None where that is no
    more than noise.
    """
    whole = hourly[len(hourly) % DAY :]
    known = np.isfinite(daily)
    if known.sum() < 4:
        return None
    at = np.arange(len(whole))
    apart = whole - np.interp(
        at, (np.flatnonzero(known) + 0.5) * DAY - 0.5, daily[known]
    )
    inside = apart[
        DAY // 2 : -(DAY // 2)
    ]  # beyond the first and the last middle there is no line
    effect = np.array(
        [middle(inside[(DAY // 2 - 1 - back) % DAY :: DAY]) for back in range(DAY)]
    )
    if not np.isfinite(effect).all():
        return None
    rest = apart - effect[(len(whole) - 1 - at) % DAY]
    return effect - effect.mean() if np.ptp(effect) > 3 * spread(rest) else None


def points(hourly: Series) -> tuple[Series, Series]:
    """Days before now (negative) and levels: middles of 6 hours for 14 days, of days before that."""
    x = []
    y = []
    end = len(hourly)
    while end > 0:
        width = 6 if len(hourly) - end < FINE_DAYS * DAY else DAY
        begin = max(end - width, 0)
        here = hourly[begin:end]
        at = np.flatnonzero(np.isfinite(here))
        if len(at) >= width / 4:
            x.append((begin + float(at.mean()) + 1 - len(hourly)) / DAY)
            y.append(float(np.median(here[at])))
        end = begin
    return np.array(x[::-1]), np.array(y[::-1])


def noise_of_points(x: Series, y: Series, least: float) -> float:
    """That of the fine points at the end, or of the days before, whichever is more."""
    fine = x > -FINE_DAYS
    return max(1.15 * noise_of(y[fine]), 1.15 * noise_of(y[~fine]), least)


def last_line(x: Series, y: Series, noise: float) -> Line:
    """The line that holds now; short excursions, after which the line before goes on, are left out."""
    begins, _ = cut(x, y / noise, PENALTY, LEAST_POINTS, lines=True)
    keep = np.ones(len(x), np.bool_)
    for first, begin, end, after in zip(
        begins, begins[1:], begins[2:], [*begins[3:], len(x)], strict=False
    ):
        slope, level = fitted(x[first:begin], y[first:begin])
        goes_on = (
            np.median(np.abs(y[end:after] - level - slope * x[end:after])) < 4 * noise
        )
        if x[end - 1] - x[begin] <= EXCURSION_DAYS and goes_on:
            keep[begin:end] = False
    if not keep.all():
        x = x[keep]
        y = y[keep]
        begins, _ = cut(x, y / noise, PENALTY, LEAST_POINTS, lines=True)
    parts = list(zip(np.split(x, begins[1:]), np.split(y, begins[1:]), strict=True))[
        -3:
    ]
    slopes = [fitted(*part)[0] for part in parts]
    bends = np.diff(slopes) / np.diff([part_x.mean() for part_x, _ in parts])
    alike = len(bends) == 2 and bends.min() > 0 and bends.max() < 2.5 * bends.min()
    before = slopes[-2] if len(slopes) > 1 else 0.0
    return line_of(*parts[-1], noise, before, float(bends.mean()) if alike else 0.0)


def fitted(x: Series, y: Series) -> tuple[float, float]:
    """Slope and level at 0 of the straight line."""
    slope, level = np.polyfit(x, y, 1).tolist()
    return slope, level


def line_of(x: Series, y: Series, noise: float, before: float, bend: float) -> Line:
    slope, level = fitted(x, y)
    rest = max(noise, float(np.std(y - level - slope * x)))
    power = max(float(((x - x.mean()) ** 2).sum()), 1e-9)
    slope_error = SIGMAS * rest / np.sqrt(power)
    level_error = SIGMAS * rest * np.sqrt(1 / len(x) + x.mean() ** 2 / power)
    return Line(slope, slope_error, level, level_error, float(-x[0]), before, bend)


def curve(x: Series, y: Series, least: float, line: Line) -> Line | None:
    """The line of the logarithms, where that has held for twice as long: what grows by its own share."""
    if y.min() <= 0:
        return None
    z = np.log(y)
    found = last_line(x, z, noise_of_points(x, z, least / float(np.median(y))))
    return (
        found
        if found.window >= max(2 * line.window, CURVED_DAYS) and found.slope > 0
        else None
    )


def fell_back(x: Series, y: Series, limit: float, noise: float, line: Line) -> bool:
    """Whether it has been about as high before and fell, and rises no faster than it did then."""
    highest, fastest = falls(x, y, max(0.06 * limit, 6 * noise))
    return line.level <= highest + 0.02 * limit and line.slope < 1.5 * fastest


def falls(x: Series, y: Series, least: float) -> tuple[float, float]:
    """The highest level from which it fell by `least`, -inf without one, and the fastest mean rise before a fall."""
    highest = -np.inf
    fastest = 0.0
    low = high = 0
    rising = False
    for at in range(1, len(y)):
        if rising:
            high = at if y[at] >= y[high] else high
            if y[high] - y[at] >= least:
                highest = max(highest, float(y[high]))
                fastest = max(
                    fastest,
                    float(y[high] - y[low]) / max(float(x[high] - x[low]), 0.25),
                )
                low = at
                rising = False
        else:
            low = at if y[at] <= y[low] else low
            if y[at] - y[low] >= least:
                high = at
                rising = True
    return highest, fastest
