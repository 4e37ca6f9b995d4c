"""Since when something has been so, for rules that look back over a window of polls.

The window says that something happens. When it began is in the window too: it is where the numbers changed, and not
where the window happens to begin.
"""

from collections.abc import Callable

import numpy as np

from penstock.core.table import Column, Mask, Matrix, Positions
from penstock.core.windows import Window


def onset(window: Window, excess: Matrix) -> Column:
    """When some rows began to be above what they are compared with.

    The running sum of the excess falls, or stays, until the change and rises after it. So the change is in the sample
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
    """When each sample of the window was taken; of several polls in one the last of them."""
    times = [sample.stamp for sample in window.samples]
    return np.array(times)


def first_rise(window: Window, variable: int, rows: Positions) -> Column:
    """When the variable, which counts what happens, was first above 0 in the window; of these rows."""
    changes = window.of(variable, rows)
    happened = np.maximum(changes, 0.0)
    return onset(window, happened)


def balance_onset(window: Window, variable: int, rows: Positions) -> Column:
    """When the variable, a balance that reading makes go up and down, began to rise; of these rows.

    Compared with half of its mean: before the change it is below that, after it above.
    """
    changes = window.of(variable, rows)
    mean = changes.mean(axis=0)
    excess = changes - mean / 2
    return onset(window, excess)


def growth_onset(
    window: Window, variable: int, rows: Positions, per_second: Column
) -> Column:
    """When the variable, a level, began to grow; of these rows.

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
    """How long each sample of the window lasted; 0 for the first one of all, which has no poll before it."""
    lasted = [sample.stamp - sample.begin for sample in window.samples]
    return np.nan_to_num(np.array(lasted))


def filled_forward(levels: Matrix) -> Matrix:
    """The levels of shape (samples, rows), the last known one in place of one that is missing; 0 before the first."""
    filled = levels.copy()
    before = np.zeros(levels.shape[1])
    for line, read in enumerate(levels):
        missing = np.isnan(read)
        filled[line] = np.where(missing, before, read)
        before = filled[line]
    return filled


def where_asked(asked: Mask, times_of: Callable[[Positions], Column]) -> Column:
    """As long as `asked`: the times of the rows that are asked for, and NaN for all others.

    `times_of` is called with these rows, and only if there are any, as at few polls.
    """
    times = np.full(len(asked), np.nan)
    rows = np.flatnonzero(asked)
    if len(rows):
        times[rows] = times_of(rows)
    return times
