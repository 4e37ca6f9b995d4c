"""The cheapest cut of a series into straight lines or into levels. Exact, by dynamic programming over all cuts.

A piece is a row of points that one line, or level, describes; a cut is a choice of pieces. More pieces lie closer to
the points, so each costs a penalty. And robust estimates of level and noise, which single outliers do not move.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Indexes = NDArray[np.int64]
MIDDLE_HALF: Final = 1.4826
"""Median distance from the median → standard deviation of a normal distribution."""
LASTING_LAG: Final = 4
"""Points, over which noise that lasts is seen."""
FEWEST_WEEKS: Final = 2
"""Below which a day of the week says nothing."""


def cut(
    x: Series,
    y: Series,
    penalty: float,
    fewest_points: int,
    *,
    lines: bool,
) -> tuple[list[int], float]:
    """The index at which each piece begins, the first at 0; and the cost of the cut.

    A piece costs `penalty` and the squared distances of its points from its line.

    Args:
        x: (points,) Ascending, a few hundred points, none NaN.
        y: (points,) None NaN.
        penalty: Cost of each piece but the first.
        fewest_points: Of one piece.
        lines: Whether pieces are straight lines; else they are levels.
    """
    size = len(x)
    costs = squares(
        x - x.mean(),
        y - y.mean(),
        lines=lines,
    )
    if size < 2 * fewest_points:
        return [0], float(costs[0, size])
    # best_cost[end]: of all cuts of the points before `end`, the cheapest one. Its last
    # piece begins at last_begin[end].
    best_cost = np.full(size + 1, np.inf)
    best_cost[0] = -penalty  # the first piece costs none
    last_begin = np.zeros(size + 1, np.int64)
    for end in range(fewest_points, size + 1):
        begins = slice(0, end - fewest_points + 1)
        totals = best_cost[begins] + costs[begins, end] + penalty
        last_begin[end] = np.argmin(totals)
        best_cost[end] = totals.min()
    return begins_up_to(last_begin, size), float(best_cost[size])


def begins_up_to(last_begin: Indexes, size: int) -> list[int]:
    """The begins of all pieces of the first `size` points, ascending.

    last_begin: (size + 1,) Begin of the last piece, by the number of points.
    """
    begins: list[int] = []
    end = size
    while end > 0:
        end = int(last_begin[end])
        begins.append(end)
    return begins[::-1]


def squares(x: Series, y: Series, *, lines: bool) -> Series:
    """(points + 1, points + 1) The sum of squared distances from the best line, or level.

    Row `begin` and column `end`: of the points from `begin` to before `end`. It follows
    from sums alone, as a variance does: Σ(y - mean)² = Σy² - (Σy)² / n.
    """
    each_point = np.ones(len(x))
    count = np.maximum(sums_between(each_point), 1.0)
    sum_y = sums_between(y)
    about_level = sums_between(y * y) - sum_y**2 / count
    if not lines:
        return not_negative(about_level)
    sum_x = sums_between(x)
    variance = sums_between(x * x) - sum_x**2 / count
    covariance = sums_between(x * y) - sum_x * sum_y / count
    explained = covariance**2 / np.maximum(variance, 1e-9)
    return not_negative(about_level - explained)


def sums_between(values: Series) -> Series:
    """(values + 1, values + 1) The sum of the values from `begin` to before `end`."""
    sums = np.concatenate(
        [
            [0.0],
            np.cumsum(values),
        ]
    )
    between: Series = sums[None, :] - sums[:, None]
    return between


def not_negative(values: Series) -> Series:
    """The values; 0 where rounding, or an end before its begin, made one negative."""
    positive: Series = np.maximum(values, 0.0)
    return positive


def finite(values: Series) -> Series:
    """The values that are known."""
    return values[np.isfinite(values)]


def middle(values: Series) -> float:
    """The median of the known values; NaN where none is known."""
    seen = finite(values)
    if not len(seen):
        return np.nan
    return float(np.median(seen))


def spread(values: Series) -> float:
    """The standard deviation of the known values, estimated by their middle half; 0 where none is known."""
    seen = finite(values)
    if not len(seen):
        return 0.0
    distances = np.abs(seen - np.median(seen))
    return MIDDLE_HALF * float(np.median(distances))


def noise_of(y: Series) -> float:
    """The standard deviation of a point about the mean of its neighbours.

    Noise that lasts is larger than direct neighbours show. So neighbours some points
    away count too, up to twice the first estimate.
    """
    near = deviation_about(y, 1)
    far = deviation_about(y, LASTING_LAG)
    return max(near, min(far, 2 * near))


def deviation_about(y: Series, lag: int) -> float:
    """The standard deviation of a point about the points `lag` before and after it; 0 of too few points.

    Points further away than three deviations count as three.
    """
    if len(y) < 2 * lag + 3:
        return 0.0
    neighbours = (y[: -2 * lag] + y[2 * lag :]) / 2
    residuals = y[lag:-lag] - neighbours
    centred = residuals - np.median(residuals)
    reach = 3 * spread(residuals)
    clipped = np.clip(centred, -reach, reach)
    # The mean of two neighbours adds half a variance of its own.
    return float(np.std(clipped) / np.sqrt(1.5))


def weekday_effect(daily: Series) -> Series:
    """(7,) How far each day of the week lies above the week around it; 0 where too few days are known.

    The median of many weeks: neither a trend nor a step nor a reset misleads it. A
    weekday is an index of `daily` modulo 7.
    """
    no_effect = np.zeros(7)
    if len(daily) < FEWEST_WEEKS * 7:
        return no_effect
    each_day = np.full(7, 1 / 7)
    # The mean of the seven days about each day, but for the three first and last ones.
    week_means = np.convolve(daily, each_day, mode="valid")
    above = np.full(len(daily), np.nan)
    above[3:-3] = daily[3:-3] - week_means
    effect = np.array([middle(above[weekday::7]) for weekday in range(7)])
    if not np.isfinite(effect).all():
        return no_effect
    centred: Series = effect - effect.mean()
    return centred


def calm(values: Series, outlying: float) -> Series:
    """The values, with single outliers replaced by the level around them.

    An outlier lies further than `outlying` above, or below, both the median of the
    three values before it and the median of the three after it.
    """
    calmed = values.copy()
    for index in range(3, len(values) - 3):
        before = float(np.median(values[index - 3 : index]))
        after = float(np.median(values[index + 1 : index + 4]))
        distances = np.array(
            [
                values[index] - before,
                values[index] - after,
            ]
        )
        is_above = (distances > outlying).all()
        is_below = (distances < -outlying).all()
        if is_above or is_below:
            calmed[index] = (before + after) / 2
    return calmed
