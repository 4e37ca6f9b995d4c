"""By what share traffic grows a week, with limits: slopes of the logarithms between equal weekdays."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock_trends.changes import change_points
from penstock_trends.pieces import middle, spread

Series = NDArray[np.float64]
WEEKS: Final = 12
LEAST_WEEKS: Final = 3
SIGMAS: Final = 2.4
WIDER: Final = 1.4
"""As days that follow each other are alike."""


@dataclass(frozen=True, slots=True)
class Growth:
    """per_week: share (0.03: three percent more each week), between low and high with 95 % confidence; NaN: not known.
    weeks: in which that was seen.
    """

    per_week: float = np.nan
    low: float = np.nan
    high: float = np.nan
    weeks: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether the limits agree on the direction."""
        return self.low > 0 or self.high < 0


def growth(daily: Series) -> Growth:
    """Of totals by whole day, oldest first, NaN where one was not seen whole; since the last jump of level."""
    daily = daily[-7 * WEEKS :]
    jumps = change_points(daily)
    daily = daily[jumps[-1].day :] if jumps else daily
    weeks = len(daily) / 7
    padded = np.concatenate([np.full(-len(daily) % 7, np.nan), daily]).reshape(-1, 7)
    logs = np.log(np.where(padded > 0, padded, np.nan))
    i, j = np.triu_indices(len(logs), 1)
    slope = middle(((logs[j] - logs[i]) / (j - i)[:, None]).ravel())
    if weeks < LEAST_WEEKS or not np.isfinite(slope):
        return Growth(weeks=weeks)
    rest = logs - slope * np.arange(len(logs))[:, None]
    rest = rest - np.array([middle(day) for day in rest.T])
    seen = np.isfinite(rest)
    of_week = np.array([np.nanmean(week) for week in rest if np.isfinite(week).any()])
    n = len(of_week)
    if n < LEAST_WEEKS:
        return Growth(weeks=weeks)
    apart = of_week - of_week.mean()
    memory = float(
        np.clip(apart[1:] @ apart[:-1] / max(float(apart @ apart), 1e-12), 0.0, 0.8)
    )
    deviation = max(spread(rest), 0.5 * float(rest[seen].std())) / np.sqrt(
        7 * seen.mean()
    )
    reach = (
        SIGMAS
        * deviation
        * np.sqrt(12 / (n**3 - n))
        * np.sqrt((1 + memory) / (1 - memory))
        * WIDER
    )
    low, made, high = np.expm1([slope - reach, slope, slope + reach]).tolist()
    return Growth(made, low, high, weeks)
