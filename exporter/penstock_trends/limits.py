"""When a level meets its limit: the line that it is on now, how long that has held, and whether it fell before.

The series without its rhythm (the pattern of hours and weekdays) is cut into straight pieces, and the last piece is
carried on: its line is drawn further until it meets the limit. There is no date where the past does not support one: a
line is trusted for four times as long as it has held.

A point is the median of some hours, by its day before now. Noise is the standard deviation of a point about its line.
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
"""Known hours, below which nothing is said."""
SILENT_HOURS: Final = 36
"""Without a value, after which the present level is not known."""
FINE_DAYS: Final = 14
"""At the end, in which a point is 6 hours; before it a day."""
PENALTY: Final = 22.0
"""Cost of one more line, in squared noise: it must explain more than that (see `pieces.cut`)."""
LEAST_POINTS: Final = 3
"""Points of one line."""
OUTLYING: Final = 6.0
"""Times the noise, from which a single point is an outlier."""
NOISE_MARGIN: Final = 1.15
"""Times the estimated noise that is taken."""
LEAST_NOISE: Final = 0.001
"""As a share of the limit, below which the noise is never taken."""
EXCURSION_DAYS: Final = 3.2
"""Longest time that a level leaves its line and comes back to it, without a new line."""
SIGMAS: Final = 2.6
"""Standard errors in half the interval of a slope or a level."""
FARTHEST_DAYS: Final = 90.0
"""Days, beyond which no date is given."""
TRUSTED: Final = 4.0
"""Times that a line has held, for which it is carried on; less where it was faster before."""
TRUSTED_SLOWING: Final = 1.5
SLOWING: Final = 1.3
"""Times its slope that the line before rose, from which a level slows down."""
HOLDS_DAYS: Final = 1.0
"""Days that a line must have held to be carried on at all."""
CURVED_DAYS: Final = 14.0
"""Days that a line of the logarithms must have held to be preferred."""
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
    """When a limit is met, in days from now; inf: never.

    Attributes:
        days: By the line itself.
        earliest: By the steepest line that the points allow.
        latest: By the flattest one, with the days that a rhythm may add.
    """

    days: float = np.inf
    earliest: float = np.inf
    latest: float = np.inf


@dataclass(frozen=True, slots=True)
class Line:
    """The straight line that holds now; of levels, or of their logarithms (see `curve`).

    Attributes:
        slope: Rise a day.
        slope_error: Half the interval of the slope, SIGMAS standard errors.
        level: Now.
        level_error: Half the interval of the level.
        window: Days for which it has held.
        before: Slope of the line before it.
        bend: How much the slope grows a day, where it grew by about as much from each
            of the last three lines to the next; else 0.
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

    Unknown without a limit, with fewer than LEAST_HOURS known hours, and where the last
    one is more than SILENT_HOURS ago.

    Args:
        hourly: (hours,) Levels up to now, oldest first; NaN where nothing was seen.
        limit: In the unit of the levels; NaN, inf or not above 0 without one.
    """
    has_limit = limit > 0 and not np.isinf(limit)
    seen = np.flatnonzero(np.isfinite(hourly))
    if not has_limit or len(seen) < LEAST_HOURS:
        return Outlook("unknown")
    silent_hours = len(hourly) - seen[-1]
    if silent_hours > SILENT_HOURS:
        return Outlook("unknown")
    last_seen = hourly[seen[-6:]]
    present = float(np.median(last_seen))
    if present >= limit:
        return Outlook("met", days=0.0, low=0.0, high=0.0, level=present)
    highs, late = without_rhythm(hourly)
    x, y = points(highs)
    if len(x) < LEAST_POINTS:
        return Outlook("unknown")
    return outlook_of_points(x, y, limit, late)


def outlook_of_points(x: Series, y: Series, limit: float, late: float) -> Outlook:
    """When a level meets its limit, by its points: the last line is carried on, or the curve where growth is faster.

    Args:
        x: (points,) Days before now, negative.
        y: (points,) Levels without their rhythm; the level now is below the limit.
        limit: In the unit of the levels.
        late: Days that a rhythm may add.
    """
    noise = noise_of_points(x, y, LEAST_NOISE * limit)
    y = calm(y, OUTLYING * noise)
    line = last_line(x, y, noise)
    carried = line
    room = limit - line.level
    if line.slope > line.before:
        curved = curve(x, y, LEAST_NOISE / 2 * limit, line)
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
    """Whether the line surely rises, and has held for long enough to be carried on until it meets the limit.

    It is carried on for TRUSTED times its window, and never beyond FARTHEST_DAYS.
    """
    if line.slope <= line.slope_error or line.window < HOLDS_DAYS:
        return False
    reach = TRUSTED * line.window
    if line.before > SLOWING * line.slope and line.slope > 0:
        # The more it slows down, the less it is trusted: what saturates never gets there.
        slower = min(1.0, 2 * line.slope / line.before)
        reach = TRUSTED_SLOWING * line.window * slower
    return arrival.days <= min(reach, FARTHEST_DAYS)


def arrival_of(room: float, line: Line, late: float) -> Arrival:
    """When a line has used up its room; never where it does not rise.

    Args:
        room: By how much the level may still rise.
        line: The line that is carried on.
        late: Days that a rhythm may add.
    """
    if line.slope <= 0:
        return Arrival()
    days = days_until(room, line)
    error = max(line.slope_error, line.slope * doubt(days, line))
    # A bent line rises faster on its way than now.
    mean_slope = room / max(days, 0.1)
    steepest = max(line.slope, mean_slope) + error
    slowest = line.slope - error
    earliest = (room - line.level_error) / steepest - EARLIER
    latest = np.inf
    if slowest > 0:
        latest = max((room + line.level_error) / slowest, 0.0) + LATER + late
    return Arrival(days, max(earliest, 0.0), latest)


def days_until(room: float, line: Line) -> float:
    """Days until a rising line has used up the room; where it is bent its slope keeps growing.

    A bent line rises by slope · days + bend / 2 · days²; the days are the positive root.
    """
    if not line.bend:
        return max(room / line.slope, 0.0)
    # At its end a bent line is steeper than in its mean.
    slope_now = line.slope + line.bend * line.window / 2
    root = np.sqrt(slope_now**2 + 2 * line.bend * max(room, 0.0))
    return max(float(root - slope_now) / line.bend, 0.0)


def doubt(days: float, line: Line) -> float:
    """Share of the slope that is in doubt: the more, the further the line is carried on beyond its window."""
    least = 0.12 if line.bend else 0.06
    windows_ahead = days / max(line.window, 0.1)
    return least + 0.06 * min(windows_ahead, 4.0)


# --- rhythm


def without_rhythm(hourly: Series) -> tuple[Series, float]:
    """(hours,) The series without its rhythm, lifted to its highest hour and weekday, as these meet the limit first.

    The second result: days by which the limit may be met later, as the highest hour or
    weekday is still to come. The rhythm of a level above 0 is a factor, that of others
    a sum.
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
    if is_factor:
        levels = np.exp(levels)
    return levels, late


def hours_before_now(hourly: Series) -> NDArray[np.int64]:
    """(hours,) How many hours each one lies before the last."""
    return np.arange(len(hourly))[::-1]


def below_highest_hour(levels: Series, *, is_factor: bool) -> Series | None:
    """(hours,) How far each hour of the day usually lies below the highest one; None without a rhythm worth the name.

    That is one of more than 2 % of the level. is_factor: whether levels are logarithms,
    in which a share is a difference.
    """
    recent = levels[-RHYTHM_DAYS * DAY :]
    # By hours back from now, as `hours_before_now` counts.
    effect = hour_effect(recent, by_day(levels)[-RHYTHM_DAYS:])
    if effect is None:
        return None
    unit = 1.0 if is_factor else abs(middle(recent))
    if np.ptp(effect) <= 0.02 * unit:
        return None
    below: Series = effect.max() - effect
    return below[hours_before_now(levels) % DAY]


def below_highest_weekday(levels: Series) -> Series | None:
    """(hours,) How far each weekday usually lies below the highest one; None without a rhythm of weekdays.

    There is one where the steps from day to day are less than 0.6 times as large
    without it. The largest steps are cut, so that a single jump does not decide.
    """
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
    # Whole days are counted back from now; hours before the first of them are of day -1.
    day = days - 1 - hours_before_now(levels) // DAY
    return below[day % 7]


def by_day(hourly: Series) -> Series:
    """(days,) The median of each 24 hours, counted back from now, oldest first; NaN where none is known."""
    days = hourly[len(hourly) % DAY :].reshape(-1, DAY)
    return np.array([middle(day) for day in days])


def hour_effect(hourly: Series, daily: Series) -> Series | None:
    """(DAY,) How far each hour of the day lies above the line through the medians of the days, the last hour first.

    So a trend is no rhythm. None where that is no more than noise, and where fewer than
    four days or not all hours are known.

    Args:
        hourly: (hours,) Levels up to now.
        daily: (days,) Medians of its days, see `by_day`.
    """
    whole_days = hourly[len(hourly) % DAY :]
    is_seen = np.isfinite(daily)
    if is_seen.sum() < 4:
        return None
    hour = np.arange(len(whole_days))
    # The median of a day stands in its middle.
    noons = (np.flatnonzero(is_seen) + 0.5) * DAY - 0.5
    above = whole_days - np.interp(hour, noons, daily[is_seen])
    effect = medians_by_hour(above)
    if not np.isfinite(effect).all():
        return None
    residuals = above - effect[hours_before_now(whole_days) % DAY]
    if np.ptp(effect) <= 3 * spread(residuals):
        return None
    centred: Series = effect - effect.mean()
    return centred


def medians_by_hour(above: Series) -> Series:
    """(DAY,) The median of each hour of the day, the last hour before now first.

    The first and the last twelve hours are left out: before the first noon and after
    the last one there is no line.

    above: (hours,) How far each hour of some whole days lies above the line.
    """
    half = DAY // 2
    inside = above[half:-half]
    # The index of the first hour inside that lies some whole days and `back` hours before now.
    first_index = [(half - 1 - back) % DAY for back in range(DAY)]
    return np.array([middle(inside[index::DAY]) for index in first_index])


# --- points and lines


def points(hourly: Series) -> tuple[Series, Series]:
    """(points,) Days before now, negative; and levels: medians of 6 hours for FINE_DAYS, of whole days before these.

    A point needs a quarter of its hours, and stands at the mean time of those that are
    known.
    """
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
    """The noise of the points of 6 hours, or of those of days, whichever is more; at least `least`."""
    is_fine = x > -FINE_DAYS
    return max(
        NOISE_MARGIN * noise_of(y[is_fine]),
        NOISE_MARGIN * noise_of(y[~is_fine]),
        least,
    )


def last_line(x: Series, y: Series, noise: float) -> Line:
    """The line of the last piece of the cheapest cut; points of excursions (see `excursions`) are left out.

    Args:
        x: (points,) Days before now, negative.
        y: (points,) Levels, or their logarithms.
        noise: Standard deviation of a point about its line.
    """
    begins, _ = cut(x, y / noise, PENALTY, LEAST_POINTS, lines=True)
    is_kept = ~excursions(x, y, begins, noise)
    if not is_kept.all():
        x = x[is_kept]
        y = y[is_kept]
        begins, _ = cut(x, y / noise, PENALTY, LEAST_POINTS, lines=True)
    # Two lines before the last one show whether the level is bent.
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
    """(points,) True in short pieces, after which the next piece goes on along the line of the piece before.

    So a purge or a burst of some days does not begin a new line.

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
    """The median distance of the points in `after` from the line through those in `before`."""
    slope, level = fitted(x[before], y[before])
    distances = np.abs(y[after] - level - slope * x[after])
    return float(np.median(distances))


def common_bend(slopes: list[float], centres: list[float]) -> float:
    """How much the slope grows a day, if it grew by about as much twice, over three lines; else 0.

    Args:
        slopes: Of the last lines, at most three, oldest first.
        centres: The day in the middle of each line.
    """
    bends = np.diff(slopes) / np.diff(centres)
    if len(bends) < 2:
        return 0.0
    grew_twice = bends.min() > 0
    is_alike = bends.max() < 2.5 * bends.min()
    if grew_twice and is_alike:
        return float(bends.mean())
    return 0.0


def fitted(x: Series, y: Series) -> tuple[float, float]:
    """The slope and the level at 0 of the straight line."""
    slope, level = np.polyfit(x, y, 1).tolist()
    return slope, level


def line_of(x: Series, y: Series, noise: float, *, before: float, bend: float) -> Line:
    """The straight line of least squares through the points of a piece, with its errors; before, bend: see `Line`."""
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
    """The line of the logarithms, where it explains the past better than `line`; else None.

    A level that grows by a share of itself is a straight line in logarithms. That is
    better where it rises and has held for twice as long as `line`, and for CURVED_DAYS.

    Args:
        x: (points,) Days before now, negative.
        y: (points,) Levels.
        least: Smallest noise of the levels.
        line: The last line of the levels.
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
    """Whether the level has been about as high before and fell, and now rises no faster than it did then.

    Then it is a backlog that comes and goes, and the limit is not expected to be met.
    """
    least = max(0.06 * limit, OUTLYING * noise)
    highest, fastest = falls(x, y, least)
    was_as_high = line.level <= highest + 0.02 * limit
    return was_as_high and line.slope < 1.5 * fastest


def falls(x: Series, y: Series, least: float) -> tuple[float, float]:
    """The highest peak after which the level fell by `least`, and the fastest mean rise up to such a peak, a day.

    -inf and 0 without a fall. Points are followed one by one: from the lowest one until
    the level has risen by `least`, then from the highest one until it has fallen by as
    much.
    """
    highest = -np.inf
    fastest = 0.0
    low = 0  # the index of the lowest point since the last fall
    peak = 0  # the index of the highest point since the rise began
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
            days = max(float(x[peak] - x[low]), 0.25)  # the width of a point
            highest = max(highest, float(y[peak]))
            fastest = max(fastest, rise / days)
            low = index
            is_rising = False
    return highest, fastest
