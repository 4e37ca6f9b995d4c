"""When something began, for rules that look back over a window of polls.

The window shows that something happens. It also shows when that began: where the numbers changed, which is not where
the window begins.
"""

from collections.abc import Callable

import numpy as np

from penstock.core.table import Column, Mask, Matrix, Positions
from penstock.core.windows import Window


def onset(window: Window, excess: Matrix) -> Column:
    """(rows,) When each row began to be above the number that it is compared with.

    The running sum of the excess falls, or stays, until the change, and rises after it. So the change is in the sample
    behind the last one at which the sum was lowest.

    Args:
        window: The samples of the last polls.
        excess: Of shape (samples of the window, rows): by how much each sample is above what it is compared with.

    Returns:
        One time for each row, by the broker's clock, in seconds: the end of the sample in which the change was first
        seen, so that it is never before the change.
    """
    rows = excess.shape[1]
    before_the_first = np.zeros((1, rows))
    sums = np.cumsum(excess, axis=0)
    running = np.vstack([before_the_first, sums])
    last = len(running) - 1
    from_the_last = np.argmin(running[::-1], axis=0)
    lowest = last - from_the_last
    samples = len(window.samples)
    first_above = np.minimum(lowest, samples - 1)
    return ends(window)[first_above]


def ends(window: Window) -> Column:
    """(samples,) When each sample of the window was taken; the last of its polls counts."""
    times = [sample.stamp for sample in window.samples]
    return np.array(times)


def first_rise(window: Window, variable: int, rows: Positions) -> Column:
    """(rows,) When the variable, which counts events, was first above 0 in the window."""
    changes = window.of(variable, rows)
    happened = np.maximum(changes, 0.0)
    return onset(window, happened)


def balance_onset(window: Window, variable: int, rows: Positions) -> Column:
    """(rows,) When the variable began to rise: a balance that goes up and down, as numbers are not read at one moment.

    It is compared with half its mean: before the change it is below that, after it above.
    """
    changes = window.of(variable, rows)
    mean = changes.mean(axis=0)
    excess = changes - mean / 2
    return onset(window, excess)


def growth_onset(
    window: Window, variable: int, rows: Positions, per_second: Column
) -> Column:
    """(rows,) When the variable, a level, began to grow.

    Args:
        window: The samples of the last polls.
        variable: A level: its value at the end of each sample.
        rows: The rows that are asked for.
        per_second: How fast each of them grows over the whole window. Half of that divides a level that stays from
            one that grows.
    """
    as_read = window.of(variable, rows, np.nan)
    levels = filled_forward(as_read)
    growth = np.diff(
        levels,
        axis=0,
        prepend=levels[:1],
    )
    of_samples = seconds(window)[:, None]
    usual = of_samples * per_second / 2
    return onset(window, growth - usual)


def seconds(window: Window) -> Column:
    """(samples,) Seconds of each sample of the window; 0 for the first one of all, which has no poll before it."""
    lasted = [sample.stamp - sample.begin for sample in window.samples]
    return np.nan_to_num(np.array(lasted))


def filled_forward(levels: Matrix) -> Matrix:
    """(samples, rows) The levels, the last known one in place of a missing one; 0 before the first."""
    filled = levels.copy()
    before = np.zeros(levels.shape[1])
    for line, read in enumerate(levels):
        missing = np.isnan(read)
        filled[line] = np.where(missing, before, read)
        before = filled[line]
    return filled


def where_asked(asked: Mask, times_of: Callable[[Positions], Column]) -> Column:
    """(all rows,) The times of the rows that are `asked` for, and NaN for all others.

    `times_of` is called with these rows, and only if there are any, as at few polls.
    """
    times = np.full(len(asked), np.nan)
    rows = np.flatnonzero(asked)
    if len(rows):
        times[rows] = times_of(rows)
    return times
