"""When a level meets its limit: the line that it is on now, how long that has held, and whether it fell before.

The series without its rhythm is cut into straight pieces, and the last piece is carried on. There is no date where the
past does not support one: a line is trusted for four times as long as it has held.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from penstock_trends.pieces import calm, cut, middle, noise_of, spread, weekday_effect

Series = NDArray[np.float64]
State = Literal["met", "rising", "far", "falls back", "unknown"]
Mask = NDArray[np.bool_]
DAY: Final = 24
RHYTHM_DAYS: Final = 28
"""The last days, from which the rhythm is learned."""
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
SLOWING: Final = 1.3
"""Times its slope that the line before rose, from which a level slows down."""
HOLDS_DAYS: Final = 1.0
CURVED_DAYS: Final = 14.0
EARLIER: Final = 0.4
LATER: Final = 0.6
"""Days that a limit may be met before, and after, the line says, by the width of a point."""
HOURS_LATER: Final = 1.0
WEEKDAYS_LATER: Final = 3.0
"""Days that a rhythm of hours, or of weekdays, may add."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a level meets its limit; level, slope and window are those of the line that holds now.

    Attributes:
        state: met; rising: in `days`, between low and high; far: not within 90 days, or
            no line that can be trusted; falls back: as so often before it got as high;
            unknown.
        days: From now; NaN unless rising or met.
        low: Fewest days; NaN unless rising or met.
        high: Most days; NaN unless rising or met.
        level: Now.
        slope: A day.
        window: Days for which the line has held.
    """

    state: State
    days: float = np.nan
    low: float = np.nan
    high: float = np.nan
    level: float = np.nan
    slope: float = np.nan
    window: float = np.nan


@dataclass(frozen=True, slots=True)
class Arrival:
    """Days until a limit is met, by the line, at the earliest and at the latest; inf: never."""

    days: float = np.inf
    earliest: float = np.inf
    latest: float = np.inf


@dataclass(frozen=True, slots=True)
class Line:
    """The straight line that holds now.

    Attributes:
        slope: A day.
        slope_error: A day.
        level: Now.
        level_error: Of the level.
        window: Days for which it has held.
        before: Slope of the line before it.
        bend: How much the slope grows a day, where it did so over the last three lines
            alike; else 0.
    """

    slope: float
    slope_error: float
    level: float
    level_error: float
    window: float
    before: float
    bend: float


def outlook(hourly: Series, limit: float) -> Outlook:
    """When a level meets its limit. It takes 3 ms for 90 days.

    Args:
        hourly: (hours,) Levels up to now, oldest first; NaN where nothing was seen.
        limit: In the unit of the levels.
    """
    seen = np.flatnonzero(np.isfinite(hourly))
    if not limit > 0 or np.isinf(limit):
        return Outlook("unknown")
    if len(seen) < LEAST_HOURS or len(hourly) - seen[-1] > SILENT_HOURS:
        return Outlook("unknown")
    present = float(np.median(hourly[seen[-6:]]))
    if present >= limit:
        return Outlook("met", days=0.0, low=0.0, high=0.0, level=present)
    highs, late = without_rhythm(hourly)
    x, y = points(highs)
    if len(x) < LEAST_POINTS:
        return Outlook("unknown")
    return outlook_of_points(x, y, limit, late)


def outlook_of_points(x: Series, y: Series, limit: float, late: float) -> Outlook:
    """When a level meets its limit, by its points.

    Args:
        x: (points,) Days before now, negative.
        y: (points,) Levels without their rhythm, all below the limit now.
        limit: In the unit of the levels.
        late: Days that a rhythm may add.
    """
    noise = noise_of_points(x, y, 0.001 * limit)
    y = calm(y, 6 * noise)
    line = last_line(x, y, noise)
    carried = line
    room = limit - line.level
    if line.slope > line.before:
        curved = curve(x, y, 0.0005 * limit, line)
        if curved is not None:
            carried = curved
            room = float(np.log(limit)) - curved.level
    arrival = arrival_of(room, carried, late)
    state: State = "rising"
    if not trusted(arrival, carried):
        state = "far"
    elif fell_back(x, y, limit, noise, line):
        state = "falls back"
    dated = arrival if state == "rising" else Arrival(np.nan, np.nan, np.nan)
    return Outlook(
        state,
        days=dated.days,
        low=dated.earliest,
        high=dated.latest,
        level=line.level,
        slope=line.slope,
        window=carried.window,
    )


def trusted(arrival: Arrival, line: Line) -> bool:
    """Whether the line has held for long enough to be carried on until it meets the limit."""
    if line.slope <= line.slope_error or line.window < HOLDS_DAYS:
        return False
    reach = TRUSTED * line.window
    if line.before > SLOWING * line.slope and line.slope > 0:
        # The more it slows down, the less it is trusted: what saturates never gets there.
        slower = min(1.0, 2 * line.slope / line.before)
        reach = TRUSTED_SLOWING * line.window * slower
    return arrival.days <= min(reach, FARTHEST_DAYS)


def arrival_of(room: float, line: Line, late: float) -> Arrival:
    """When the line has used up its room.

    Args:
        room: What the level may still rise.
        line: That holds now.
        late: Days that a rhythm may add.
    """
    if line.slope <= 0:
        return Arrival()
    days = days_until(room, line)
    error = max(line.slope_error, line.slope * doubt(days, line))
    mean_slope = room / max(days, 0.1)
    steepest = max(line.slope, mean_slope) + error
    slowest = line.slope - error
    earliest = (room - line.level_error) / steepest - EARLIER
    latest = np.inf
    if slowest > 0:
        latest = max((room + line.level_error) / slowest, 0.0) + LATER + late
    return Arrival(days, max(earliest, 0.0), latest)


def days_until(room: float, line: Line) -> float:
    """Days until a rising line, or its bend, has used up the room."""
    if not line.bend:
        return max(room / line.slope, 0.0)
    # At its end a bent line is steeper than in its mean.
    slope_now = line.slope + line.bend * line.window / 2
    root = np.sqrt(slope_now**2 + 2 * line.bend * max(room, 0.0))
    return max(float(root - slope_now) / line.bend, 0.0)


def doubt(days: float, line: Line) -> float:
    """Share of the slope that is in doubt, the more the further the line is carried on."""
    at_once = 0.12 if line.bend else 0.06
    times_its_window = days / max(line.window, 0.1)
    return at_once + 0.06 * min(times_its_window, 4.0)


# --- rhythm


def without_rhythm(hourly: Series) -> tuple[Series, float]:
    """(hours,) The series lifted to the highs of its hours and weekdays, as highs meet limits.

    And the days that a rhythm may add until a limit is met.
    """
    recent = hourly[-RHYTHM_DAYS * DAY :]
    is_factor = bool(np.nanmin(recent) > 0)
    levels = hourly
    if is_factor:
        levels = np.log(np.where(hourly > 0, hourly, np.nan))
    late = 0.0
    above_hours = below_highest_hour(levels, is_factor=is_factor)
    if above_hours is not None:
        levels = levels + above_hours
        late = HOURS_LATER
    above_weekdays = below_highest_weekday(levels)
    if above_weekdays is not None:
        levels = levels + above_weekdays
        late = WEEKDAYS_LATER
    return (np.exp(levels) if is_factor else levels), late


def hours_before_now(hourly: Series) -> NDArray[np.int64]:
    """(hours,) How many hours each one lies before the last."""
    return np.arange(len(hourly))[::-1]


def below_highest_hour(levels: Series, *, is_factor: bool) -> Series | None:
    """(hours,) How far each hour of the day usually lies below the highest one; None without a rhythm.

    is_factor: whether levels are logarithms; else the rhythm must be a share of them.
    """
    recent = levels[-RHYTHM_DAYS * DAY :]
    effect = hour_effect(recent, by_day(levels)[-RHYTHM_DAYS:])
    if effect is None:
        return None
    unit = 1.0 if is_factor else abs(middle(recent))
    if np.ptp(effect) <= 0.02 * unit:
        return None
    below: Series = effect.max() - effect
    return below[hours_before_now(levels) % DAY]


def below_highest_weekday(levels: Series) -> Series | None:
    """(hours,) How far each weekday usually lies below the highest one; None unless days differ less without it."""
    daily = by_day(levels)
    days = len(daily)
    if days < 22:
        return None
    effect = weekday_effect(daily)
    steps = np.abs(np.diff(daily))
    if not np.isfinite(steps).any():
        return None
    flat = daily - effect[np.arange(days) % 7]
    flat_steps = np.abs(np.diff(flat))
    largest = float(np.nanquantile(steps, 0.9))
    usual_step = np.nanmean(np.minimum(steps, largest))
    usual_flat_step = np.nanmean(np.minimum(flat_steps, largest))
    if not usual_flat_step < 0.6 * usual_step:
        return None
    below: Series = effect.max() - effect
    day = days - 1 - hours_before_now(levels) // DAY
    return below[day % 7]


def by_day(hourly: Series) -> Series:
    """(days,) The median of each whole day, counted back from now."""
    days = hourly[len(hourly) % DAY :].reshape(-1, DAY)
    return np.array([middle(day) for day in days])


def hour_effect(hourly: Series, daily: Series) -> Series | None:
    """(DAY,) How far each hour lies above the line through the medians of the days, the last hour first.

    None where that is no more than noise.
    """
    whole_days = hourly[len(hourly) % DAY :]
    is_seen = np.isfinite(daily)
    if is_seen.sum() < 4:
        return None
    hour = np.arange(len(whole_days))
    noons = (np.flatnonzero(is_seen) + 0.5) * DAY - 0.5
    above = whole_days - np.interp(hour, noons, daily[is_seen])
    # Before the first noon and after the last one there is no line.
    half = DAY // 2
    inside = above[half:-half]
    effect = np.array(
        [middle(inside[(half - 1 - back) % DAY :: DAY]) for back in range(DAY)]
    )
    if not np.isfinite(effect).all():
        return None
    residuals = above - effect[hours_before_now(whole_days) % DAY]
    if np.ptp(effect) <= 3 * spread(residuals):
        return None
    centred: Series = effect - effect.mean()
    return centred


# --- points and lines


def points(hourly: Series) -> tuple[Series, Series]:
    """(points,) Days before now, negative, and levels: medians of 6 hours for 14 days, of whole days before that."""
    x = []
    y = []
    end = len(hourly)
    while end > 0:
        is_fine = len(hourly) - end < FINE_DAYS * DAY
        width = 6 if is_fine else DAY
        begin = max(end - width, 0)
        levels = hourly[begin:end]
        seen = np.flatnonzero(np.isfinite(levels))
        if len(seen) >= width / 4:
            hour = begin + float(seen.mean()) + 1
            x.append((hour - len(hourly)) / DAY)
            y.append(float(np.median(levels[seen])))
        end = begin
    return np.array(x[::-1]), np.array(y[::-1])


def noise_of_points(x: Series, y: Series, least: float) -> float:
    """The noise of the fine points at the end, or of the days before, whichever is more; at least `least`."""
    is_fine = x > -FINE_DAYS
    return max(
        1.15 * noise_of(y[is_fine]),
        1.15 * noise_of(y[~is_fine]),
        least,
    )


def last_line(x: Series, y: Series, noise: float) -> Line:
    """The line that holds now; short excursions, after which the line before goes on, are left out."""
    begins, _ = cut(x, y / noise, PENALTY, LEAST_POINTS, lines=True)
    is_kept = ~excursions(x, y, begins, noise)
    if not is_kept.all():
        x = x[is_kept]
        y = y[is_kept]
        begins, _ = cut(x, y / noise, PENALTY, LEAST_POINTS, lines=True)
    pieces_x = np.split(x, begins[1:])[-3:]
    pieces_y = np.split(y, begins[1:])[-3:]
    slopes = [
        fitted(piece_x, piece_y)[0]
        for piece_x, piece_y in zip(pieces_x, pieces_y, strict=True)
    ]
    centres = [float(piece_x.mean()) for piece_x in pieces_x]
    return line_of(
        pieces_x[-1],
        pieces_y[-1],
        noise,
        before=slopes[-2] if len(slopes) > 1 else 0.0,
        bend=common_bend(slopes, centres),
    )


def excursions(x: Series, y: Series, begins: list[int], noise: float) -> Mask:
    """(points,) True in short pieces after which the line of the piece before them goes on.

    begins: the index at which each piece begins.
    """
    is_excursion = np.zeros(len(x), np.bool_)
    edges = [*begins, len(x)]
    for number in range(1, len(begins) - 1):
        before = slice(edges[number - 1], edges[number])
        piece = slice(edges[number], edges[number + 1])
        after = slice(edges[number + 1], edges[number + 2])
        is_short = np.ptp(x[piece]) <= EXCURSION_DAYS
        if is_short and distance_after(x, y, before, after) < 4 * noise:
            is_excursion[piece] = True
    return is_excursion


def distance_after(x: Series, y: Series, before: slice, after: slice) -> float:
    """How far the points of `after` lie from the line through those of `before`; the median."""
    slope, level = fitted(x[before], y[before])
    distances = np.abs(y[after] - level - slope * x[after])
    return float(np.median(distances))


def common_bend(slopes: list[float], centres: list[float]) -> float:
    """How much the slope grows a day, if it grew over three lines alike; else 0.

    centres: the day in the middle of each line.
    """
    bends = np.diff(slopes) / np.diff(centres)
    if len(bends) < 2:
        return 0.0
    is_alike = bends.max() < 2.5 * bends.min()
    if bends.min() > 0 and is_alike:
        return float(bends.mean())
    return 0.0


def fitted(x: Series, y: Series) -> tuple[float, float]:
    """The slope and the level at 0 of the straight line."""
    slope, level = np.polyfit(x, y, 1).tolist()
    return slope, level


def line_of(x: Series, y: Series, noise: float, *, before: float, bend: float) -> Line:
    """The straight line through the points with its errors; before, bend: see `Line`."""
    slope, level = fitted(x, y)
    residuals = y - level - slope * x
    deviation = SIGMAS * max(noise, float(np.std(residuals)))
    centre = x.mean()
    power = max(float(((x - centre) ** 2).sum()), 1e-9)
    uncertainty_now = np.sqrt(1 / len(x) + centre**2 / power)
    return Line(
        slope=slope,
        slope_error=deviation / np.sqrt(power),
        level=level,
        level_error=deviation * uncertainty_now,
        window=float(-x[0]),
        before=before,
        bend=bend,
    )


def curve(x: Series, y: Series, least: float, line: Line) -> Line | None:
    """The line of the logarithms, where it has held for twice as long as `line`: the level grows by its own share.

    least: smallest noise of the levels.
    """
    if y.min() <= 0:
        return None
    logs = np.log(y)
    smallest_share = least / float(np.median(y))
    noise = noise_of_points(x, logs, smallest_share)
    curved = last_line(x, logs, noise)
    if curved.slope <= 0:
        return None
    if curved.window < max(2 * line.window, CURVED_DAYS):
        return None
    return curved


# --- falls


def fell_back(x: Series, y: Series, limit: float, noise: float, line: Line) -> bool:
    """Whether the level has been about as high before and fell, and rises no faster than it did then."""
    highest, fastest = falls(x, y, max(0.06 * limit, 6 * noise))
    was_as_high = line.level <= highest + 0.02 * limit
    return was_as_high and line.slope < 1.5 * fastest


def falls(x: Series, y: Series, least: float) -> tuple[float, float]:
    """The highest level from which it fell by `least`, -inf without one; and the fastest mean rise before a fall."""
    highest = -np.inf
    fastest = 0.0
    low = 0
    peak = 0
    is_rising = False
    for index in range(1, len(y)):
        if not is_rising:
            if y[index] <= y[low]:
                low = index
            if y[index] - y[low] >= least:
                peak = index
                is_rising = True
            continue
        if y[index] >= y[peak]:
            peak = index
        if y[peak] - y[index] >= least:
            rise = float(y[peak] - y[low])
            days = max(float(x[peak] - x[low]), 0.25)
            highest = max(highest, float(y[peak]))
            fastest = max(fastest, rise / days)
            low = index
            is_rising = False
    return highest, fastest
