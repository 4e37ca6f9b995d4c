"""What is another than before, and since when: jumps of level, the last week beside others, the pace of consumers."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock_trends.pieces import calm, cut, middle, noise_of, spread, weekday_effect

Series = NDArray[np.float64]
HOUR: Final = 3600
PENALTY: Final = 16.0
SLOPE_PENALTY: Final = 5.0
LEAST_DAYS: Final = 3
LEAST_JUMP: Final = 0.1
"""As a share; what is less is not reported."""
EVIDENCE_DAYS: Final = 8
PACE_DAYS: Final = 30
PACE_HOURS: Final = 8
"""With a backlog throughout, below which it may be a standstill that made the backlog, and no pace."""


@dataclass(frozen=True, slots=True)
class Jump:
    """day: index of the first day at the new level. ratio: of the levels, -0.3: three tenths less."""

    day: int
    ratio: float


def change_points(daily: Series) -> list[Jump]:
    """The lasting jumps in totals by whole day, oldest first, NaN where one was not seen whole."""
    at = np.flatnonzero(np.isfinite(daily))
    if len(at) < 3 * LEAST_DAYS:
        return []
    logs = np.log1p(np.maximum(daily, 0.0))
    if len(daily) >= 21:
        logs = logs - weekday_effect(logs)[np.arange(len(daily)) % 7]
    x = at.astype(float)
    y = logs[at]
    noise = max(1.1 * noise_of(y), 0.005)
    y = calm(y, 5 * noise)
    levels, price = cut(x, y / noise, PENALTY, LEAST_DAYS, lines=False)
    begins = [0]
    straight = y
    sloped = price
    for _ in range(3):  # the slope first with the jumps in it, then without
        straight = y - slope_within(x, y, begins) * x
        begins, sloped = cut(x, straight / noise, PENALTY, LEAST_DAYS, lines=False)
    if sloped + SLOPE_PENALTY < price:
        levels = begins
        y = straight
    means = [float(part.mean()) for part in np.split(y, levels[1:])]
    jumps = zip(levels[1:], np.expm1(np.diff(means)).tolist(), strict=True)
    return [
        Jump(int(at[begin]), ratio)
        for begin, ratio in jumps
        if abs(ratio) >= LEAST_JUMP
    ]


def slope_within(x: Series, y: Series, begins: list[int]) -> float:
    """Of the pieces in common, each with a level of its own."""
    x = np.concatenate([part - part.mean() for part in np.split(x, begins[1:])])
    return float(x @ y / (x @ x))


def week_over_week(daily: Series) -> tuple[float, bool]:
    """The last seven days against the same weekdays of the four weeks before, as a share more or less, NaN where not
    known; and whether that is beyond what weeks differ. daily: totals by whole day, oldest first, NaN: not seen whole.
    """
    weeks = daily[len(daily) % 7 :].reshape(-1, 7)
    if len(weeks) < 5:
        return np.nan, False
    ratios = []
    for at in range(4, len(weeks)):
        usual = np.array([middle(day) for day in weeks[at - 4 : at].T])
        both = np.isfinite(usual) & np.isfinite(weeks[at])
        before = float(usual[both].sum())
        ratios.append(
            float(weeks[at][both].sum()) / before
            if both.sum() >= 4 and before > 0
            else np.nan
        )
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(ratios, 0.0))
    if not ratios[-1] >= 0:
        return np.nan, False
    earlier = logs[:-1][np.isfinite(logs[:-1])]
    usual_ratio = float(np.median(earlier)) if len(earlier) >= 3 else 0.0
    deviation = (
        float(np.sqrt(np.mean((earlier - usual_ratio) ** 2)))
        if len(earlier) >= 3
        else np.inf
    )
    clear = abs(logs[-1] - usual_ratio) > max(4.0 * deviation, np.log1p(LEAST_JUMP))
    return ratios[-1] - 1, bool(clear)


@dataclass(frozen=True, slots=True)
class Pace:
    """rate: messages a second that one consumer acknowledges while it has enough to do, now; change: of it over 30 days
    as a share, between low and high. NaN: not known. hours: in which it was seen.
    """

    rate: float = np.nan
    change: float = np.nan
    low: float = np.nan
    high: float = np.nan
    hours: int = 0


def pace(acknowledged: Series, consumers: Series, backlog: Series) -> Pace:
    """By hour, NaN where too little was seen. acknowledged: messages; consumers: how many; backlog: share of the polls
    with ready messages. Only hours with a backlog throughout say what consumers can do.
    """
    usable = (backlog >= 1.0) & (consumers > 0) & np.isfinite(acknowledged)
    rate = np.where(
        usable, acknowledged / HOUR / np.where(usable, consumers, 1.0), np.nan
    )
    days = rate[len(rate) % 24 :].reshape(-1, 24)[-2 * PACE_DAYS :]
    daily = np.array([middle(day) for day in days])
    at = np.flatnonzero(daily > 0)
    if not len(at) or usable.sum() < PACE_HOURS:
        return Pace(hours=int(usable.sum()))
    now = middle(daily[at[-7:]])
    at = at[at >= len(daily) - PACE_DAYS]
    if len(at) < EVIDENCE_DAYS:
        return Pace(now, hours=int(usable.sum()))
    logs = np.log(daily[at])
    x = at / PACE_DAYS
    slope, level = np.polyfit(x, logs, 1).tolist()
    rest = logs - level - slope * x
    error = (
        2.4
        * spread(rest)
        / np.sqrt(max(float(((x - x.mean()) ** 2).sum()), 1e-9))
        * 1.2
    )
    change, low, high = np.expm1([slope, slope - error, slope + error]).tolist()
    return Pace(now, change, low, high, int(usable.sum()))
