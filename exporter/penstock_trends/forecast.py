"""Forecasts of hourly series with intervals, and the back-test that says whether they are worth showing. Numpy only.

An ensemble: direct ridge regressions on lags (two shapes, plain and on logarithms), the seasonal naives, medians by
hour of the week, and theta; each weighs by the inverse fifth power of its error in rolling origins. Intervals come from
the errors of the same origins, per series and horizon, with one quantile pooled over the fleet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Model = Callable[[Series, int], Series]

DAY: Final = 24
WEEK: Final = 168
ORIGINS: Final = 8
SHARPNESS: Final = 5.0
"""A model weighs by its error to the minus so much."""
LEAST_DAYS: Final = 10
"""Of a series below this only the seasonal naive is made, and not shown."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """values: by hour ahead. scale: expected absolute error by hour ahead. scores: errors of the back-test in units of
    `scale`. daily: half the width of the 95 % interval of the sum of each 24 hours ahead. mase: of the ensemble, in
    the back-test, over that of the seasonal naive (`naive`).
    """

    values: Series
    scale: Series
    scores: Series
    daily: Series
    mase: float
    naive: float

    @property
    def worth_showing(self) -> bool:
        return bool(self.mase < self.naive)


def seasonal_naive(season: int) -> Model:
    def model(y: Series, horizon: int) -> Series:
        return (
            np.tile(y[-season:], horizon // season + 1)[:horizon]
            if len(y) >= season
            else np.full(horizon, y[-1])
        )

    return model


def week_medians(y: Series, horizon: int) -> Series:
    """The median of the last four weeks at each hour of the week, moved to the level of the last week."""
    weeks = min(len(y) // WEEK, 4)
    if weeks < 2:
        return seasonal_naive(DAY)(y, horizon)
    recent = y[-weeks * WEEK :].reshape(weeks, WEEK)
    usual = np.median(recent, axis=0)
    return np.tile(usual + np.median(recent[-1] - usual), horizon // WEEK + 1)[:horizon]


THETA_WEEKS: Final = 4
SMOOTHING: Final = 0.3
LEAST_INDEX: Final = 0.02
"""Of an hour of the week: below it the rhythm is no factor."""


def theta(y: Series, horizon: int) -> Series:
    """Without its rhythm by hour of the week: the smoothed level and half of the straight line's slope."""
    weeks = min(len(y) // WEEK, 6)
    if weeks < 2:
        return seasonal_naive(DAY)(y, horizon)
    recent = y[-weeks * WEEK :].reshape(weeks, WEEK)
    means = recent.mean(axis=1)
    tilt = np.polyfit(np.arange(weeks) * WEEK, means, 1)[
        0
    ]  # which is no rhythm of the week
    levels = means[:, None] + tilt * (np.arange(WEEK) - (WEEK - 1) / 2)
    index = np.median(recent / np.where(levels > 0, levels, 1.0), axis=0)
    if levels.min() <= 0 or index.min() < LEAST_INDEX:
        return week_medians(y, horizon)
    flat = (recent / index).ravel()[-THETA_WEEKS * WEEK :]
    weights = SMOOTHING * (1 - SMOOTHING) ** np.arange(len(flat))[::-1]
    level = float(flat @ weights) / float(weights.sum())
    at = np.arange(len(flat)) - (len(flat) - 1) / 2
    slope = float(at @ flat) / float(at @ at)
    ahead = np.arange(1, horizon + 1)
    made: Series = (level + slope / 2 * ahead) * np.tile(index, horizon // WEEK + 1)[
        :horizon
    ]
    return made


@dataclass(frozen=True, slots=True)
class Ridge:
    """days, weeks: how many of the nearest days and whole weeks back are looked at; half_life: weeks after which an
    hour of the past counts half; penalty: on standardised values.
    """

    days: int
    weeks: int
    half_life: float
    penalty: float


NEAR: Final = Ridge(days=1, weeks=2, half_life=1.0, penalty=0.1)
FAR: Final = Ridge(days=2, weeks=3, half_life=6.0, penalty=0.02)
FADES: Final = (2.0, 8.0)
"""Hours after which what is unusual at the origin counts a third."""


def ridge(shape: Ridge, *, logarithm: bool) -> Model:
    """One regression per series for all hours ahead of one day: the same hour on earlier days, and recent levels."""

    def model(y: Series, horizon: int) -> Series:
        floor = min(float(y.min()), 0.0)
        z = np.log1p(y - floor) if logarithm else y
        spread = float(np.std(z)) or 1.0
        centre = float(np.mean(z))
        z = (z - centre) / spread
        days = [
            _one_day(z, first, min(DAY, horizon - first), shape)
            for first in range(0, horizon, DAY)
        ]
        out = np.concatenate(days) * spread + centre
        if not logarithm:
            return out
        made: Series = (
            np.expm1(np.minimum(out, np.log1p(2 * (y.max() - floor) + 1))) + floor
        )
        return made

    return model


def lags_of(length: int, ahead: int, shape: Ridge) -> list[int]:
    """Hours back to the nearest days and weeks that are known at the origin, with enough behind them to learn from."""
    nearest = ahead + DAY
    wanted = {nearest + DAY * day for day in range(shape.days)}
    wanted |= {
        WEEK * week for week in range(1, shape.weeks + 1) if WEEK * week >= nearest
    }
    return sorted(lag for lag in wanted if lag + 2 * WEEK <= length) or [nearest]


def _one_day(z: Series, ahead: int, width: int, shape: Ridge) -> Series:
    """Hours ahead+1 … ahead+width."""
    end = len(z)
    lags = lags_of(len(z), ahead, shape)
    targets = np.arange(max(*lags, ahead + DAY + WEEK), end)
    if len(targets) < 2 * DAY:
        return np.tile(z[-DAY:], 2)[:width]
    sums = np.concatenate([[0.0], np.cumsum(z)])

    def features(at: NDArray[np.int64]) -> Series:
        # What is known ends where the origin of that hour of the day would have been.
        lead = ahead + (at - end - ahead) % DAY
        origin = np.clip(at - lead, WEEK, end)
        levels = [(sums[origin] - sums[origin - span]) / span for span in (DAY, WEEK)]
        last = z[origin - 1]
        unusual = [last - z[np.maximum(origin - 1 - span, 0)] for span in (DAY, WEEK)]
        faded = [one * np.exp(-lead / fade) for one in unusual for fade in FADES]
        same = [z[np.minimum(at - lag, end - 1)] for lag in lags]
        return np.stack([*same, *levels, *faded, last, np.ones(len(at))], axis=1)

    x = features(targets)
    weighted = x * (0.5 ** ((end - targets) / (shape.half_life * WEEK)))[:, None]
    penalty = shape.penalty * np.eye(x.shape[1])
    penalty[-1, -1] = 1e-6
    beta = np.linalg.solve(weighted.T @ x + penalty, weighted.T @ z[targets])
    made: Series = features(np.arange(end + ahead, end + ahead + width)) @ beta
    return made


MODELS: Final[dict[str, Model]] = {
    "naive": seasonal_naive(DAY),
    "naive_week": seasonal_naive(WEEK),
    "week_medians": week_medians,
    "theta": theta,
    "near": ridge(NEAR, logarithm=False),
    "near_log": ridge(NEAR, logarithm=True),
    "far": ridge(FAR, logarithm=False),
    "far_log": ridge(FAR, logarithm=True),
}


def forecast(y: Series, horizon: int, season: int = DAY) -> Forecast:
    """y: hourly values without gaps, oldest first; horizon: hours ahead. What counts never falls below 0 unless y does.

    season: of the seasonal naive that the back-test compares with.
    """
    origins = origins_of(len(y), horizon)
    names = list(MODELS) if origins else ["naive"]
    errors: dict[str, list[float]] = {name: [] for name in names} if origins else {}
    made: list[dict[str, Series]] = []
    for origin in origins:
        now = {
            name: clipped(MODELS[name](y[:origin], horizon), y[:origin])
            for name in names
        }
        made.append(now)
        for name in names:
            errors[name].append(
                float(np.abs(now[name] - y[origin : origin + horizon]).mean())
            )
    weights = weights_of(errors, names)
    values = clipped(
        mixed({name: MODELS[name](y, horizon) for name in names}, weights), y
    )
    unit = float(np.abs(y[season:] - y[:-season]).mean()) if len(y) > season else 0.0
    if not origins or unit == 0:
        unknown = np.full(horizon, np.nan)
        return Forecast(
            values, unknown, np.empty(0), unknown[: horizon // DAY], np.nan, np.nan
        )
    # Each origin is forecast by the weights of the others: its own errors must not choose for it.
    residuals = np.stack([
        mixed(now, weights_of({n: [e for j, e in enumerate(errors[n]) if j != i] for n in names}, names))
        - y[origin : origin + horizon]
        for i, (origin, now) in enumerate(zip(origins, made, strict=True))
    ])  # fmt: skip
    naive = [
        seasonal_naive(season)(y[:origin], horizon) - y[origin : origin + horizon]
        for origin in origins
    ]
    scale = scale_of(residuals, unit)
    return Forecast(
        values,
        scale * inflation(np.arange(1, horizon + 1)),
        np.sort((np.abs(residuals) / scale).ravel()),
        daily_width(residuals),
        float(np.abs(residuals).mean() / unit),
        float(np.abs(np.stack(naive)).mean() / unit),
    )


def origins_of(length: int, horizon: int) -> list[int]:
    """The origins of the back-test: the last ones first, a day apart, each with enough before it."""
    found = [length - horizon - DAY * step for step in range(ORIGINS)]
    return [origin for origin in found if origin >= max(LEAST_DAYS * DAY, 2 * horizon)]


def weights_of(
    errors: dict[str, list[float]], names: Sequence[str]
) -> dict[str, float]:
    if not errors or not errors[names[0]]:
        return dict.fromkeys(names, 1 / len(names))
    mean = {name: float(np.mean(errors[name])) + 1e-12 for name in names}
    inverse = {name: mean[name] ** -SHARPNESS for name in names}
    total = sum(inverse.values())
    return {name: inverse[name] / total for name in names}


def mixed(made: dict[str, Series], weights: dict[str, float]) -> Series:
    total: Series = np.sum(
        [weights[name] * values for name, values in made.items()], axis=0
    )
    return total


def clipped(values: Series, y: Series) -> Series:
    """Within what is thinkable: no count below 0, nothing far above what was ever seen."""
    low = float(y.min())
    high = float(y.max())
    reach = high - low
    return np.clip(
        values,
        min(low - reach, 0.0) if low < 0 else max(low - reach, 0.0),
        high + reach,
    )


def scale_of(residuals: Series, unit: float) -> Series:
    """Usual error by hour ahead: by day ahead and hour of the day, drawn to the day's mean as the origins are few."""
    absolute = np.abs(residuals).mean(axis=0)
    out = np.empty(len(absolute))
    for first in range(0, len(absolute), DAY):
        day = absolute[first : first + DAY]
        out[first : first + DAY] = (day + day.mean()) / 2
    return np.maximum(out, 0.02 * unit)


def inflation(hours: NDArray[np.int64]) -> Series:
    """Of the interval by hours ahead: the errors of a back-test are a little smaller than those of what comes, and the
    more so the further it looks, as its origins are only days apart.
    """
    return np.interp(hours, [48, WEEK], INFLATIONS)


def daily_width(residuals: Series) -> Series:
    """Half the width of the 95 % interval of each day's sum, from the sums of the residuals: hours of a day err alike,
    but not all the same way.
    """
    days = residuals.shape[1] // DAY
    sums = np.abs(
        residuals[:, : days * DAY].reshape(len(residuals), days, DAY).sum(axis=2)
    )
    usual = (sums.mean(axis=0) + sums.mean()) / 2
    width: Series = DAILY_WIDTH * usual * inflation(DAY * np.arange(1, days + 1))
    return width


INFLATIONS: Final = (1.2, 1.6)
"""48 hours ahead, and a week."""
DAILY_WIDTH: Final = 2.5
"""Mean absolute errors in half an interval of 95 %."""


def pooled_quantile(scores: Sequence[Series]) -> float:
    """How many scales wide an interval must be to hold 95 %, over the whole fleet; NaN without any."""
    every = np.concatenate([np.empty(0), *scores])
    return float(np.quantile(every, 0.95)) if len(every) else np.nan
