"""Growth of hourly series; their forecasts with intervals, and the back-test that says whether they are worth showing.
Numpy only.

An ensemble: direct ridge regressions on lags (two shapes, plain and on logarithms), the seasonal naives, and medians by
hour of the week; each weighs by the inverse cube of its error in rolling origins. Intervals come from the errors of the
same origins, per series and horizon, with one quantile pooled over the fleet.
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
SHARPNESS: Final = 3.0
"""A model weighs by its error to the minus so much."""
LEAST_DAYS: Final = 10
"""Of a series below this only the seasonal naive is made, and not shown."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """values: by hour ahead. scale: expected absolute error by hour ahead. scores: errors of the back-test in units of
    `scale`. mase: of the ensemble, in the back-test, over that of the seasonal naive (`naive`).
    """

    values: Series
    scale: Series
    scores: Series
    mase: float
    naive: float

    @property
    def worth_showing(self) -> bool:
        return bool(self.mase < self.naive)


def seasonal_naive(season: int) -> Model:
    def model(y: Series, horizon: int) -> Series:
        return np.tile(y[-season:], horizon // season + 1)[:horizon] if len(y) >= season else np.full(horizon, y[-1])

    return model


def week_medians(y: Series, horizon: int) -> Series:
    """The median of the last four weeks at each hour of the week, moved to the level of the last week."""
    weeks = min(len(y) // WEEK, 4)
    if weeks < 2:
        return seasonal_naive(DAY)(y, horizon)
    recent = y[-weeks * WEEK :].reshape(weeks, WEEK)
    usual = np.median(recent, axis=0)
    return np.tile(usual + np.median(recent[-1] - usual), horizon // WEEK + 1)[:horizon]


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
        days = [_one_day(z, first, min(DAY, horizon - first), shape) for first in range(0, horizon, DAY)]
        out = np.concatenate(days) * spread + centre
        if not logarithm:
            return out
        made: Series = np.expm1(np.minimum(out, np.log1p(2 * (y.max() - floor) + 1))) + floor
        return made

    return model


def lags_of(length: int, ahead: int, shape: Ridge) -> list[int]:
    """Hours back to the nearest days and weeks that are known at the origin, with enough behind them to learn from."""
    nearest = ahead + DAY
    wanted = {nearest + DAY * day for day in range(shape.days)}
    wanted |= {WEEK * week for week in range(1, shape.weeks + 1) if WEEK * week >= nearest}
    return sorted(lag for lag in wanted if lag + 2 * WEEK <= length) or [nearest]


def _one_day(z: Series, ahead: int, width: int, shape: Ridge) -> Series:
    """Hours ahead+1 … ahead+width."""
    end, lags = len(z), lags_of(len(z), ahead, shape)
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
        now = {name: clipped(MODELS[name](y[:origin], horizon), y[:origin]) for name in names}
        made.append(now)
        for name in names:
            errors[name].append(float(np.abs(now[name] - y[origin : origin + horizon]).mean()))
    weights = weights_of(errors, names)
    values = clipped(mixed({name: MODELS[name](y, horizon) for name in names}, weights), y)
    unit = float(np.abs(y[season:] - y[:-season]).mean()) if len(y) > season else 0.0
    if not origins or unit == 0:
        return Forecast(values, np.full(horizon, np.nan), np.empty(0), np.nan, np.nan)
    # Each origin is told by the weights of the others: its own errors must not choose for it.
    residuals = np.stack([
        mixed(now, weights_of({n: [e for j, e in enumerate(errors[n]) if j != i] for n in names}, names))
        - y[origin : origin + horizon]
        for i, (origin, now) in enumerate(zip(origins, made, strict=True))
    ])  # fmt: skip
    naive = [seasonal_naive(season)(y[:origin], horizon) - y[origin : origin + horizon] for origin in origins]
    scale = scale_of(residuals, unit)
    return Forecast(
        values,
        scale,
        np.sort((np.abs(residuals) / scale).ravel()),
        float(np.abs(residuals).mean() / unit),
        float(np.abs(np.stack(naive)).mean() / unit),
    )


def origins_of(length: int, horizon: int) -> list[int]:
    """Where the back-test stands: the last ones first, a day apart, each with enough before it."""
    found = [length - horizon - DAY * step for step in range(ORIGINS)]
    return [origin for origin in found if origin >= max(LEAST_DAYS * DAY, 2 * horizon)]


def weights_of(errors: dict[str, list[float]], names: Sequence[str]) -> dict[str, float]:
    if not errors or not errors[names[0]]:
        return dict.fromkeys(names, 1 / len(names))
    mean = {name: float(np.mean(errors[name])) + 1e-12 for name in names}
    inverse = {name: mean[name] ** -SHARPNESS for name in names}
    total = sum(inverse.values())
    return {name: inverse[name] / total for name in names}


def mixed(made: dict[str, Series], weights: dict[str, float]) -> Series:
    total: Series = np.sum([weights[name] * values for name, values in made.items()], axis=0)
    return total


def clipped(values: Series, y: Series) -> Series:
    """Within what is thinkable: no count below 0, nothing far above what was ever seen."""
    low, high = float(y.min()), float(y.max())
    reach = high - low
    return np.clip(values, min(low - reach, 0.0) if low < 0 else max(low - reach, 0.0), high + reach)


def scale_of(residuals: Series, unit: float) -> Series:
    """Usual error by hour ahead: by day ahead and hour of the day, drawn to the day's mean as the origins are few."""
    absolute = np.abs(residuals).mean(axis=0)
    out = np.empty(len(absolute))
    for first in range(0, len(absolute), DAY):
        day = absolute[first : first + DAY]
        out[first : first + DAY] = (day + day.mean()) / 2
    return np.maximum(out, 0.02 * unit)


INFLATION: Final = 1.08
"""Of the interval: the errors of a back-test are a little smaller than those of what comes."""


def pooled_quantile(scores: Sequence[Series]) -> float:
    """How many scales wide an interval must be to hold 95 %, over the whole fleet; NaN without any."""
    every = np.concatenate([np.empty(0), *scores])
    return float(np.quantile(every, 0.95)) * INFLATION if len(every) else np.nan


STEP_DAYS: Final = 14
STEP_SHARE: Final = 0.2
STEP_MADS: Final = 2.3
LEAST_WEEKS: Final = 3
CONFIDENCE: Final = 1.96


@dataclass(frozen=True, slots=True)
class Growth:
    """slope: units per week, with Sen's limits low and high; level: of the last week; step: hour of the last step
    change, -1 without one; the slope is that of the time after it. weeks: how long that is.
    """

    slope: float
    low: float
    high: float
    level: float
    step: int
    weeks: float

    @property
    def clear(self) -> bool:
        """Whether the limits say which way it goes."""
        return bool(np.isfinite(self.low) and (self.low > 0 or self.high < 0))


def growth(hourly: Series) -> Growth:
    """Of an hourly series, NaN where nothing is known; oldest first."""
    step = last_step(hourly)
    part = hourly[step:] if step > 0 else hourly
    level = float(np.nanmean(hourly[-WEEK:])) if np.isfinite(hourly[-WEEK:]).any() else np.nan
    weeks = len(part) / WEEK
    if weeks < LEAST_WEEKS:
        return Growth(np.nan, np.nan, np.nan, level, step, weeks)
    slope = slope_by_hour_of_week(part)
    low, high = sen_limits(part)
    return Growth(slope, low, high, level, step, weeks)


def slope_by_hour_of_week(hourly: Series) -> float:
    """Per week: Theil-Sen of each hour of the week on its own, which no rhythm can mislead; the mean of these."""
    weeks = hourly[len(hourly) % WEEK :].reshape(-1, WEEK)
    i, j = np.triu_indices(len(weeks), 1)
    slopes = (weeks[j] - weeks[i]) / (j - i)[:, None]
    known = np.isfinite(slopes).any(axis=0)
    return float(np.mean(np.nanmedian(slopes[:, known], axis=0))) if known.any() else np.nan


def sen_limits(hourly: Series) -> tuple[float, float]:
    """Limits of the slope per week by Sen, from the medians of each week: what lies in a week is not independent."""
    weeks = hourly[len(hourly) % WEEK :].reshape(-1, WEEK)
    keep = np.isfinite(weeks).sum(axis=1) >= WEEK // 2
    at, values = np.flatnonzero(keep), np.array([np.nanmean(week) for week in weeks[keep]])
    n = len(values)
    if n < LEAST_WEEKS:
        return np.nan, np.nan
    i, j = np.triu_indices(n, 1)
    slopes = np.sort((values[j] - values[i]) / (at[j] - at[i]))
    spread = CONFIDENCE * np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    first = int(np.floor((len(slopes) - spread) / 2))
    last = int(np.ceil((len(slopes) + spread) / 2))
    if first < 0 or last >= len(slopes):
        return float(slopes[0]) - abs(float(np.ptp(slopes))), float(slopes[-1]) + abs(float(np.ptp(slopes)))
    return float(slopes[first]), float(slopes[last])


def last_step(hourly: Series) -> int:
    """The hour of the greatest lasting change of level, -1 without one: two weeks either side, without weekdays."""
    days = hourly[len(hourly) % DAY :].reshape(-1, DAY)
    daily = np.array([np.nanmedian(day) if np.isfinite(day).any() else np.nan for day in days])
    known = np.isfinite(daily)
    if known.sum() < 2 * STEP_DAYS + 1:
        return -1
    daily = np.interp(np.arange(len(daily)), np.flatnonzero(known), daily[known])
    # What a weekday differs from the week around it: unlike its own median, that knows no level.
    around = np.array([np.nanmean(daily[max(at - 3, 0) : at + 4]) for at in range(len(daily))])
    apart = daily - around
    weekday = np.array([np.nanmedian(apart[k::7]) if np.isfinite(apart[k::7]).any() else 0.0 for k in range(7)])
    flat = daily - weekday[np.arange(len(daily)) % 7]
    centre = float(np.nanmedian(daily))
    best, found = 0.0, -1
    for at in range(STEP_DAYS, len(daily) - STEP_DAYS + 1):
        before, after = flat[at - STEP_DAYS : at], flat[at : at + STEP_DAYS]
        jump = abs(float(np.nanmedian(after) - np.nanmedian(before)))
        spread = float(
            np.nanmedian(np.abs(np.concatenate([before - np.nanmedian(before), after - np.nanmedian(after)])))
        )
        base = max(abs(float(np.nanmedian(daily[at - STEP_DAYS : at]))), abs(centre) * 0.1, 1e-9)
        if jump > STEP_SHARE * base and jump > STEP_MADS * 1.4826 * max(spread, 1e-9) * 1.5 and jump > best:
            best, found = jump, at
    return -1 if found < 0 else found * DAY + (len(hourly) - days.size)


def days_to(limit: float, now: Growth) -> tuple[float, float]:
    """Days until the level meets `limit`: earliest and latest by Sen's limits; inf = never, NaN = no clear trend."""
    if not now.clear or not np.isfinite(limit):
        return np.nan, np.nan
    if now.level >= limit:
        return 0.0, 0.0
    room = limit - now.level
    if now.high <= 0:
        return np.inf, np.inf
    return 7 * room / now.high, 7 * room / now.low if now.low > 0 else np.inf
