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
    behind the last place at which the sum is lowest.

    Args:
        window: The samples of the last polls.
        excess: Of shape (samples of the window, rows): by how much each sample is above what it is compared with.

    Returns:
        One time for each row, by the broker's clock, in seconds: the end of the sample in which the change was first
        seen, so that it is never before the change.
    """
    rows = excess.shape[1]
    before_first_sample = np.zeros((1, rows))
    sums = np.cumsum(excess, axis=0)
    # `running[n]` is the sum before sample n.
    running = np.vstack([before_first_sample, sums])
    # `argmin` finds the first of equal numbers, and the last one is wanted: search backwards.
    steps_from_end = np.argmin(running[::-1], axis=0)
    lowest = len(running) - 1 - steps_from_end
    # Where the sum is lowest at the very end nothing is above: the last sample is as good as any.
    samples = len(window.samples)
    first_above = np.minimum(lowest, samples - 1)
    return sample_ends(window)[first_above]


def sample_ends(window: Window) -> Column:
    """(samples,) When each sample of the window was taken; the last of its polls counts."""
    times = [sample.stamp for sample in window.samples]
    return np.array(times)


def first_rise(window: Window, variable: int, rows: Positions) -> Column:
    """(rows,) When the variable, which counts events, was first above 0 in the window."""
    changes = window.of(variable, rows)
    happened = np.maximum(changes, 0.0)
    return onset(window, happened)


def balance_onset(window: Window, variable: int, rows: Positions) -> Column:
    """(rows,) When the variable began to rise, if it is a balance: that goes up and down before it rises.

    The numbers of a balance are not read at one moment, so that it is seldom exactly 0. It is compared with half its
    mean over the window: before the change it is below that, after it above.
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
    levels_with_gaps = window.of(variable, rows, np.nan)
    levels = filled_forward(levels_with_gaps)
    growth = np.diff(
        levels,
        axis=0,
        prepend=levels[:1],
    )
    seconds_as_column = seconds(window)[:, None]
    half_growth = seconds_as_column * per_second / 2
    return onset(window, growth - half_growth)


def seconds(window: Window) -> Column:
    """(samples,) Seconds of each sample of the window; 0 for the first one of all, which has no poll before it."""
    lengths = [sample.stamp - sample.begin for sample in window.samples]
    return np.nan_to_num(np.array(lengths))


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
