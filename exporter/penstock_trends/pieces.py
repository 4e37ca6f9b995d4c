"""The cheapest cut of a series into straight lines or into levels. Exact, by dynamic programming over all cuts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]


def cut(
    x: Series, y: Series, penalty: float, least: int, *, lines: bool
) -> tuple[list[int], float]:
    """Where each piece begins, the first at 0; and what the cut costs.

    x, y: a few hundred points, ascending, none NaN. A piece has at least `least` points and costs `penalty` and the
    squares of its distances from its own line, or level.
    """
    size = len(x)
    costs = squares(x - x.mean(), y - y.mean(), lines=lines)
    if size < 2 * least:
        return [0], float(costs[0, size])
    best = np.full(size + 1, np.inf)
    begins = np.zeros(size + 1, np.int64)
    best[0] = -penalty
    for end in range(least, size + 1):
        begin = slice(0, end - least + 1)
        total = best[begin] + costs[begin, end] + penalty
        begins[end] = int(np.argmin(total))
        best[end] = total[begins[end]]
    found = [int(begins[size])]
    while found[0]:
        found.insert(0, int(begins[found[0]]))
    return found, float(best[size])


def squares(x: Series, y: Series, *, lines: bool) -> Series:
    """[begin, end]: the squares about the best line, or level, of the points from begin to before end."""

    def between(values: Series) -> Any:
        sums = np.concatenate([[0.0], np.cumsum(values)])
        return sums[None, :] - sums[:, None]

    count = np.maximum(between(np.ones(len(x))), 1.0)
    sum_y = between(y)
    costs = between(y * y) - sum_y**2 / count
    if lines:
        sum_x = between(x)
        spread_x = np.maximum(between(x * x) - sum_x**2 / count, 1e-9)
        costs = costs - (between(x * y) - sum_x * sum_y / count) ** 2 / spread_x
    found: Series = np.maximum(costs, 0.0)
    return found


def middle(values: Series) -> float:
    """The median of what is known, NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def spread(values: Series) -> float:
    """The standard deviation of what is known, as its middle half has it; 0 of nothing."""
    known = values[np.isfinite(values)]
    return (
        1.4826 * float(np.median(np.abs(known - np.median(known))))
        if len(known)
        else 0.0
    )


def noise_of(y: Series) -> float:
    """Standard deviation of a point about its neighbours; about those four points away too, within bounds, as noise
    that lasts is more than it seems. What lies far off counts as three deviations.
    """

    def away(lag: int) -> float:
        if len(y) < 2 * lag + 3:
            return 0.0
        rest = y[lag:-lag] - (y[: -2 * lag] + y[2 * lag :]) / 2
        reach = 3 * spread(rest)
        return float(
            np.std(np.clip(rest - np.median(rest), -reach, reach)) / np.sqrt(1.5)
        )

    near = away(1)
    return max(near, min(away(4), 2 * near))


def weekday_effect(daily: Series) -> Series:
    """What each day of the week (index modulo 7) lies above the mean of the week about it; 0 where too few are known.

    The middle of many weeks: neither a trend nor a step nor a reset misleads it.
    """
    if len(daily) < 14:
        return np.zeros(7)
    apart = np.full(len(daily), np.nan)
    apart[3:-3] = daily[3:-3] - np.convolve(daily, np.full(7, 1 / 7), mode="valid")
    effect = np.array([middle(apart[day::7]) for day in range(7)])
    return effect - effect.mean() if np.isfinite(effect).all() else np.zeros(7)


def calm(values: Series, outlying: float) -> Series:
    """Single values further than `outlying` from the middles of the three before and of the three after, on the same
    side, are drawn to the mean of these.
    """
    out = values.copy()
    for at in range(3, len(values) - 3):
        before = float(np.median(values[at - 3 : at]))
        after = float(np.median(values[at + 1 : at + 4]))
        off = np.array([values[at] - before, values[at] - after])
        if (off > outlying).all() or (off < -outlying).all():
            out[at] = (before + after) / 2
    return out
