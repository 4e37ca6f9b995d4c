"""Forecasts of hourly series with intervals, and the back-test that decides whether they are worth showing. Numpy only.

An ensemble: direct ridge regressions on lags (two shapes, plain and on logarithms), the seasonal naives, medians by
hour of the week, and theta; each weighs by the inverse fifth power of its error in rolling origins. Intervals come from
the errors of the same origins, per series and horizon, with one quantile pooled over the fleet.

An origin is an hour up to which a model knows the series; for a back-test origins lie in the past. The horizon is the
number of hours that are forecast from an origin. A lag is a number of hours back to an earlier value. A season is the
number of hours after which a series repeats itself: a day, or a week. The series is `y` in all functions of models:
(hours,) values without gaps, oldest first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Hours = NDArray[np.int64]
Factors = NDArray[np.floating[Any]]
Model = Callable[[Series, int], Series]
"""Hourly values without gaps, hours ahead → (hours ahead,)."""

DAY: Final = 24
WEEK: Final = 168
"""A day and a week, in hours."""
ORIGINS: Final = 8
"""Most origins of a back-test."""
SHARPNESS: Final = 5.0
"""A model weighs by its error to the minus so much."""
LEAST_DAYS: Final = 10
"""Of a series below this only the seasonal naive is made, and not shown."""
INFLATIONS: Final = (1.2, 1.6)
"""By what factor intervals are widened, 48 hours ahead and a week ahead."""
DAILY_WIDTH: Final = 2.5
"""Mean absolute errors in half an interval of 95 %."""
SMALLEST_SCALE: Final = 0.02
"""Of an expected error: as a share of the error of the seasonal naive."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast and how good it would have been.

    Attributes:
        values: (hours,) By hour ahead.
        scale: (hours,) Expected absolute error by hour ahead.
        scores: (errors,) Errors of the back-test in units of `scale`, ascending.
        daily: (days,) Half the width of the 95 % interval of the sum of each 24 hours
            ahead.
        mase: Error of the ensemble in the back-test, in units of the seasonal steps.
        naive: Error of the seasonal naive in the back-test, in the same units.
    """

    values: Series
    scale: Series
    scores: Series
    daily: Series
    mase: float
    naive: float

    @property
    def worth_showing(self) -> bool:
        """Whether the ensemble was better in the back-test than just repeating the last season."""
        return bool(self.mase < self.naive)


# --- models


def seasonal_naive(season: int) -> Model:
    """A model that repeats the last season; the last value where the series is shorter."""

    def model(y: Series, horizon: int) -> Series:
        if len(y) < season:
            return np.full(horizon, y[-1])
        return repeated(y[-season:], horizon)

    return model


def repeated(values: Series, horizon: int) -> Series:
    """(horizon,) The values again and again."""
    times = horizon // len(values) + 1
    return np.tile(values, times)[:horizon]


def week_medians(y: Series, horizon: int) -> Series:
    """(horizon,) The median of the last four weeks at each hour of the week, moved to the level of the last week.

    With less than two weeks, the last day again and again.
    """
    weeks = min(len(y) // WEEK, 4)
    if weeks < 2:
        return seasonal_naive(DAY)(y, horizon)
    by_week = y[-weeks * WEEK :].reshape(weeks, WEEK)
    usual = np.median(by_week, axis=0)
    moved = np.median(by_week[-1] - usual)
    return repeated(usual + moved, horizon)


THETA_WEEKS: Final = 4
"""Weeks at the end, from which the level and the slope of `theta` are taken."""
SMOOTHING: Final = 0.3
"""Weight of the last value in the smoothed level; each earlier value weighs 0.7 times as much as the next."""
LEAST_INDEX: Final = 0.02
"""Of an hour of the week: below it the rhythm is no factor."""


def theta(y: Series, horizon: int) -> Series:
    """(horizon,) The theta method: the smoothed level goes on with half of the slope of the last weeks.

    Both are taken from the series without its rhythm by hour of the week, and the
    rhythm is put back. Where that is no factor, `week_medians`; with less than two
    weeks, the last day again and again.
    """
    weeks = min(len(y) // WEEK, 6)
    if weeks < 2:
        return seasonal_naive(DAY)(y, horizon)
    by_week = y[-weeks * WEEK :].reshape(weeks, WEEK)
    rhythm = week_rhythm(by_week)
    if rhythm is None:
        return week_medians(y, horizon)
    flat = (by_week / rhythm).ravel()[-THETA_WEEKS * WEEK :]
    hours_ahead = np.arange(1, horizon + 1)
    half_slope = slope_of(flat) / 2
    line = smoothed(flat) + half_slope * hours_ahead
    forecast_: Series = line * repeated(rhythm, horizon)
    return forecast_


def week_rhythm(by_week: Series) -> Series | None:
    """(WEEK,) By what factor each hour of the week is above the level of its week; the median of the weeks.

    None where the rhythm is no factor: a level is not above 0, or an hour is almost
    always empty.

    by_week: (weeks, WEEK) values.
    """
    means = by_week.mean(axis=1)
    begins = np.arange(len(means)) * WEEK
    # A trend within the week is no rhythm: the level of a week rises or falls from hour to hour.
    trend = np.polyfit(begins, means, 1)[0]
    from_centre = np.arange(WEEK) - (WEEK - 1) / 2
    levels = means[:, None] + trend * from_centre
    divisors = np.where(levels > 0, levels, 1.0)
    factors: Series = np.median(by_week / divisors, axis=0)
    if levels.min() <= 0 or factors.min() < LEAST_INDEX:
        return None
    return factors


def smoothed(values: Series) -> float:
    """The exponentially smoothed level at the end."""
    age = np.arange(len(values))[::-1]
    weights = SMOOTHING * (1 - SMOOTHING) ** age
    return float(values @ weights) / float(weights.sum())


def slope_of(values: Series) -> float:
    """The slope of the straight line of least squares through the values, by index."""
    from_centre = np.arange(len(values)) - (len(values) - 1) / 2
    return float(from_centre @ values) / float(from_centre @ from_centre)


# --- regression


@dataclass(frozen=True, slots=True)
class Ridge:
    """The shape of a regression.

    Attributes:
        days: Nearest days that it looks at.
        weeks: Whole weeks back that it looks at.
        half_life: Weeks after which an hour of the past counts half.
        penalty: Of the factors of standardised values, which keeps them small.
    """

    days: int
    weeks: int
    half_life: float
    penalty: float


# NEAR forgets fast and knows few lags, FAR forgets slowly and knows more of them.
NEAR: Final = Ridge(days=1, weeks=2, half_life=1.0, penalty=0.1)
FAR: Final = Ridge(days=2, weeks=3, half_life=6.0, penalty=0.02)
FADES: Final = (2.0, 8.0)
"""Hours after which an unusual value at the origin counts a third."""
LEVEL_SPANS: Final = (DAY, WEEK)
"""Hours up to the origin, whose means are levels that a regression knows."""


def ridge(shape: Ridge, *, logarithm: bool) -> Model:
    """A model with one regression for each day ahead: on the same hour of earlier days, and on recent levels.

    It works on standardised values (their mean is 0 and their deviation 1), so that one
    penalty fits all series.

    Args:
        shape: Which lags it has, and how fast it forgets.
        logarithm: Whether it works on logarithms: then effects are factors, and a
            forecast ends at the logarithm of twice the highest value.
    """

    def model(y: Series, horizon: int) -> Series:
        floor = min(float(y.min()), 0.0)
        values = np.log1p(y - floor) if logarithm else y
        spread = float(np.std(values)) or 1.0
        centre = float(np.mean(values))
        standardised = (values - centre) / spread
        days = [
            _one_day(standardised, first, min(DAY, horizon - first), shape)
            for first in range(0, horizon, DAY)
        ]
        ahead = np.concatenate(days) * spread + centre
        if not logarithm:
            return ahead
        highest = np.log1p(2 * (y.max() - floor) + 1)
        exponential: Series = np.expm1(np.minimum(ahead, highest))
        return exponential + floor

    return model


def lags_of(length: int, ahead: int, shape: Ridge) -> list[int]:
    """The lags of a regression, ascending: hours back to the same hour of the nearest days, and of whole weeks before.

    Only values that are known at the origin are used, and only lags that leave two
    weeks of the series to learn from; at least the nearest day.

    Args:
        length: Hours of the series.
        ahead: Hours from the origin to the day that is forecast.
        shape: How many days and weeks are wanted.
    """
    nearest = ahead + DAY
    days = {nearest + DAY * day for day in range(shape.days)}
    weeks = {WEEK * week for week in range(1, shape.weeks + 1)}
    known_weeks = {lag for lag in weeks if lag >= nearest}
    longest = length - 2 * WEEK
    lags = [lag for lag in days | known_weeks if lag <= longest]
    return sorted(lags) or [nearest]


def _one_day(z: Series, ahead: int, width: int, shape: Ridge) -> Series:
    """(width,) Forecast of the hours ahead+1 … ahead+width of a standardised series `z`, at most a day.

    With less than two days to learn from it is the last day again.
    """
    end = len(z)
    features = Features(z, ahead, lags_of(end, ahead, shape))
    # The first hour whose features all lie within the series.
    first = max(*features.lags, ahead + DAY + WEEK)
    if end - first < 2 * DAY:
        return repeated(z[-DAY:], width)
    factors = regression(features, first, shape)
    hours = np.arange(end + ahead, end + ahead + width)
    day: Series = features.at(hours) @ factors
    return day


class Features:
    """The features of hours: the numbers that a regression knows of an hour at the origin of its forecast.

    The lead of an hour is how many hours the origin lies before it: from `ahead` to a
    day more.

    Attributes:
        z: (hours,) Standardised values.
        ahead: Hours from the origin to before the first hour that is forecast.
        lags: Hours back to values that are features.
    """

    def __init__(self, z: Series, ahead: int, lags: Sequence[int]) -> None:
        self.z = z
        self.ahead = ahead
        self.lags = lags
        # The sum of the values before each hour: the sum of a span is a difference of two.
        self._sums = np.concatenate(
            [
                [0.0],
                np.cumsum(z),
            ]
        )

    def at(self, hours: Hours) -> Series:
        """(hours, features) The features of some hours, one column each, the constant last.

        They are the values at the lags, recent levels, unusual steps, and the value at
        the origin. hours: indexes of the series; beyond its end are the hours ahead.
        """
        z = self.z
        end = len(z)
        # An hour of the past is learned with the lead that its hour of the day will have in the forecast.
        lead = self.ahead + (hours - end - self.ahead) % DAY
        origin = np.clip(hours - lead, WEEK, end)
        last = z[origin - 1]
        same_hours = [z[np.minimum(hours - lag, end - 1)] for lag in self.lags]
        columns = [
            *same_hours,
            *self._levels(origin),
            *self._unusual(origin, lead),
            last,
            np.ones(len(hours)),
        ]
        return np.stack(columns, axis=1)

    def _levels(self, origin: Hours) -> list[Series]:
        """(hours,) for each of LEVEL_SPANS: the mean of the values of so many hours before the origin."""
        return [
            (self._sums[origin] - self._sums[origin - span]) / span
            for span in LEVEL_SPANS
        ]

    def _unusual(self, origin: Hours, lead: Hours) -> list[Series]:
        """(hours,) for each of LEVEL_SPANS and FADES: by how much the last value is above the one a span earlier.

        An unusual value says little of hours far ahead: it fades with the lead.
        """
        last = origin - 1
        columns = []
        for span in LEVEL_SPANS:
            earlier = np.maximum(last - span, 0)
            step = self.z[last] - self.z[earlier]
            columns += [step * np.exp(-lead / fade) for fade in FADES]
        return columns


def regression(features: "Features", first: int, shape: Ridge) -> Factors:
    """(features,) The factor of each feature, by weighted ridge regression over all hours from `first` on.

    Ridge regression is least squares with a penalty on large factors; the weight of an
    hour is halved with each half-life of its age.
    """
    end = len(features.z)
    hours = np.arange(first, end)
    x = features.at(hours)
    age = (end - hours) / (shape.half_life * WEEK)
    weighted = x * (0.5**age)[:, None]
    penalty = shape.penalty * np.eye(x.shape[1])
    penalty[-1, -1] = 1e-6  # the constant costs next to nothing
    return np.linalg.solve(
        weighted.T @ x + penalty,
        weighted.T @ features.z[hours],
    )


REGRESSIONS: Final[dict[str, Model]] = {
    "near": ridge(NEAR, logarithm=False),
    "near_log": ridge(NEAR, logarithm=True),
    "far": ridge(FAR, logarithm=False),
    "far_log": ridge(FAR, logarithm=True),
}
MODELS: Final[dict[str, Model]] = {
    "naive": seasonal_naive(DAY),
    "naive_week": seasonal_naive(WEEK),
    "week_medians": week_medians,
    "theta": theta,
    **REGRESSIONS,
}


# --- ensemble


@dataclass(frozen=True, slots=True)
class Backtest:
    """The forecasts of each model from an origin in the past, beside the true values.

    Attributes:
        actual: (horizon,) The true values.
        forecasts: (horizon,) by model.
        errors: Mean absolute error by model.
    """

    actual: Series
    forecasts: Mapping[str, Series]
    errors: Mapping[str, float]


def forecast(y: Series, horizon: int, season: int = DAY) -> Forecast:
    """The forecast of the next hours by the ensemble of all models, with its back-test.

    A series that is too short for a back-test gets the seasonal naive of a day, and no
    errors. A count is never forecast below 0 unless `y` is.

    Args:
        y: (hours,) Values without gaps, oldest first.
        horizon: Hours ahead.
        season: Hours, of the seasonal naive that the back-test compares with.
    """
    tests = [backtest(y, origin, horizon) for origin in origins_of(len(y), horizon)]
    names = list(MODELS) if tests else ["naive"]
    ahead = {name: MODELS[name](y, horizon) for name in names}
    weights = weights_of([test.errors for test in tests], names)
    values = clipped(mixed(ahead, weights), y)
    unit = seasonal_step(y, season)
    if not tests or unit == 0:
        return without_backtest(values)
    naive = naive_error(y, horizon, season)
    return with_backtest(values, residuals_of(tests), naive, unit)


def seasonal_step(y: Series, season: int) -> float:
    """The mean distance of a value from the one a season before it; 0 where the series is not longer than a season."""
    if len(y) <= season:
        return 0.0
    steps = y[season:] - y[:-season]
    return float(np.abs(steps).mean())


def with_backtest(
    values: Series, residuals: Series, naive: float, unit: float
) -> Forecast:
    """A forecast with its errors.

    Args:
        values: (horizon,) By hour ahead.
        residuals: (origins, horizon) Errors of the back-test.
        naive: Error of the seasonal naive in the back-test.
        unit: In which errors are measured, see `seasonal_step`.
    """
    scale = scale_of(residuals, unit)
    errors = np.abs(residuals)
    scores = (errors / scale).ravel()  # of all origins and hours ahead together
    hours_ahead = np.arange(1, len(values) + 1)
    return Forecast(
        values=values,
        scale=scale * inflation(hours_ahead),
        scores=np.sort(scores),
        daily=daily_width(residuals),
        mase=float(errors.mean() / unit),
        naive=naive / unit,
    )


def without_backtest(values: Series) -> Forecast:
    """A forecast of which no error is known."""
    unknown = np.full(len(values), np.nan)
    return Forecast(
        values=values,
        scale=unknown,
        scores=np.empty(0),
        daily=unknown[: len(values) // DAY],
        mase=np.nan,
        naive=np.nan,
    )


def origins_of(length: int, horizon: int) -> list[int]:
    """The origins of the back-test, at most ORIGINS: the last one first, a day apart.

    Each has a whole horizon after it, and before it LEAST_DAYS and twice the horizon.
    """
    last = length - horizon
    origins = [last - DAY * step for step in range(ORIGINS)]
    enough = max(LEAST_DAYS * DAY, 2 * horizon)
    return [origin for origin in origins if origin >= enough]


def backtest(y: Series, origin: int, horizon: int) -> Backtest:
    """The forecasts of each model from an origin, which know only the values before it, with their errors."""
    past = y[:origin]
    actual = y[origin : origin + horizon]
    forecasts = {
        name: clipped(model(past, horizon), past) for name, model in MODELS.items()
    }
    errors = {
        name: float(np.abs(values - actual).mean())
        for name, values in forecasts.items()
    }
    return Backtest(actual, forecasts, errors)


def residuals_of(tests: Sequence[Backtest]) -> Series:
    """(origins, horizon) Errors of the ensemble in the back-test, forecast less true value.

    Each origin is forecast with the weights that the errors of the other origins give:
    with its own errors in them the ensemble would look better than it is.
    """
    residuals = []
    for number, test in enumerate(tests):
        others = [*tests[:number], *tests[number + 1 :]]
        errors = [other.errors for other in others]
        weights = weights_of(errors, list(test.forecasts))
        residuals.append(mixed(test.forecasts, weights) - test.actual)
    return np.stack(residuals)


def naive_error(y: Series, horizon: int, season: int) -> float:
    """The mean absolute error of the seasonal naive from the origins of the back-test."""
    model = seasonal_naive(season)
    residuals = [
        model(y[:origin], horizon) - y[origin : origin + horizon]
        for origin in origins_of(len(y), horizon)
    ]
    return float(np.abs(np.stack(residuals)).mean())


def weights_of(
    errors: Sequence[Mapping[str, float]], names: Sequence[str]
) -> dict[str, float]:
    """The weight of each model, by its mean error to the power of -SHARPNESS; they add up to 1.

    Without errors all weigh the same.

    errors: of each origin, by model.
    """
    if not errors:
        return dict.fromkeys(names, 1 / len(names))
    inverse = {}
    for name in names:
        mean = float(np.mean([origin[name] for origin in errors])) + 1e-12  # never 0
        inverse[name] = mean**-SHARPNESS
    total = sum(inverse.values())
    return {name: weight / total for name, weight in inverse.items()}


def mixed(forecasts: Mapping[str, Series], weights: Mapping[str, float]) -> Series:
    """(horizon,) The weighted sum of the forecasts."""
    weighted = [weights[name] * values for name, values in forecasts.items()]
    total: Series = np.sum(weighted, axis=0)
    return total


def clipped(values: Series, y: Series) -> Series:
    """The values, none more than the range of `y` below its lowest or above its highest value.

    And none below 0, unless `y` is: a count is never negative.
    """
    low = float(y.min())
    high = float(y.max())
    reach = high - low
    lowest = max(low - reach, 0.0)
    if low < 0:
        lowest = low - reach
    return np.clip(values, lowest, high + reach)


# --- intervals


def scale_of(residuals: Series, unit: float) -> Series:
    """(horizon,) Usual absolute error of each hour ahead: the mean of that of the hour and that of its day.

    The origins are few, so one hour alone says little. At least SMALLEST_SCALE times
    `unit`, so that an even series has a width, too.

    Args:
        residuals: (origins, horizon) Errors of the back-test.
        unit: See `seasonal_step`.
    """
    absolute = np.abs(residuals).mean(axis=0)
    scale = np.empty(len(absolute))
    for first in range(0, len(absolute), DAY):
        hours = slice(first, first + DAY)
        mean_of_day = absolute[hours].mean()
        scale[hours] = (absolute[hours] + mean_of_day) / 2
    return np.maximum(scale, SMALLEST_SCALE * unit)


def inflation(hours: Hours) -> Series:
    """(hours,) By what factor an interval is wider than the errors of the back-test say, for some hours ahead.

    Those errors are smaller than real ones, and the more so the further ahead, as the
    origins are only days apart.
    """
    return np.interp(hours, [48, WEEK], INFLATIONS)


def daily_width(residuals: Series) -> Series:
    """(days,) Half the width of the 95 % interval of each day's sum, from the sums of the residuals of a day.

    The widths of the hours cannot be added up: some errors of a day cancel each other.
    As in `scale_of` each day is drawn half-way to the mean of all.
    """
    origins, hours = residuals.shape
    days = hours // DAY
    by_day = residuals[:, : days * DAY].reshape(origins, days, DAY)
    sums = np.abs(by_day.sum(axis=2))
    usual = (sums.mean(axis=0) + sums.mean()) / 2
    hours_ahead = DAY * np.arange(1, days + 1)
    width: Series = DAILY_WIDTH * usual * inflation(hours_ahead)
    return width


def pooled_quantile(scores: Sequence[Series]) -> float:
    """How many scales wide an interval must be to hold 95 %, over the whole fleet; NaN without any."""
    pooled = np.concatenate([np.empty(0), *scores])
    if not len(pooled):
        return np.nan
    return float(np.quantile(pooled, 0.95))
