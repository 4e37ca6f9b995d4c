"""
Scores the forecast: of a week of imagined queues, and where M4_TRAIN is given of the M4 hourly series. The last line
is one JSON object.

M4_TRAIN: the training part, whose last 48 hours are the validation; M4_TEST: the published test part, when there.
"""

import csv
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock_demo.history import rhythm
from penstock_trends.forecast import (
    DAY,
    forecast,
    origins_of,
    pooled_quantile,
    seasonal_naive,
)

HORIZON = 48
WEEK_AHEAD = 168
SEED = 168
IMAGINED = 80
WEEKS = 10
Series = NDArray[np.float64]


def read(path: Path) -> list[Series]:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [np.array([float(cell) for cell in row[1:] if cell]) for row in rows]


def naive2(y: Series) -> Series:
    """M4's yardstick: the naive of what is left without its season, where there is one."""
    n = len(y)
    centred = y - y.mean()
    power = float(centred @ centred)
    acf = (
        np.array([centred[k:] @ centred[:-k] / power for k in range(1, DAY + 1)])
        if power
        else np.zeros(DAY)
    )
    limit = 1.645 * np.sqrt((1 + 2 * np.sum(acf[: DAY - 1] ** 2)) / n)
    if abs(acf[DAY - 1]) <= limit or y.min() <= 0:
        return np.full(HORIZON, y[-1])
    trend = np.convolve(
        y, np.concatenate([[0.5], np.ones(DAY - 1), [0.5]]) / DAY, mode="valid"
    )
    ratio = y[DAY // 2 : DAY // 2 + len(trend)] / trend
    season = np.array(
        [
            ratio[(np.arange(len(ratio)) + DAY // 2) % DAY == h].mean()
            for h in range(DAY)
        ]
    )
    season *= DAY / season.sum()
    level = y[-1] / season[(n - 1) % DAY]
    made: Series = level * season[(n + np.arange(HORIZON)) % DAY]
    return made


def smape(actual: Series, made: Series) -> float:
    return float(np.mean(200 * np.abs(actual - made) / (np.abs(actual) + np.abs(made))))


def imagined() -> list[Series]:
    """Messages an hour of queues, small and large: a week's rhythm, growth or not, noise that lasts, some hours of
    bursts and some without traffic. Of a seed that was fixed before the forecast was scored on it.
    """
    random = np.random.default_rng(SEED)
    shapes = rhythm(random, IMAGINED)
    made = []
    for shape in shapes:
        hours = WEEKS * WEEK_AHEAD
        noise = random.uniform(0.05, 0.3)
        memory = random.uniform(0.0, 0.8)
        steps = random.standard_normal(hours) * np.sqrt(1 - memory**2)
        for at in range(1, hours):
            steps[at] += memory * steps[at - 1]
        level = 3600 * np.exp(random.uniform(np.log(0.01), np.log(20)))
        growth = (1 + random.choice([0.0, 0.0, 0.02, -0.02])) ** (
            np.arange(hours) / WEEK_AHEAD
        )
        mean = (
            level
            * np.tile(shape, WEEKS)
            * growth
            * np.exp(noise * steps - noise**2 / 2)
        )
        mean *= np.where(random.random(hours) < 0.003, random.uniform(2, 4, hours), 1.0)
        mean *= random.random(hours) >= 0.002
        made.append(random.poisson(mean).astype(float))
    return made


def week_ahead(train: list[Series], test: list[Series]) -> dict[str, float]:
    """A week ahead: MASE, and the share of the hours and of the sums of days that the intervals hold."""
    # Shorter ones have no back-test of a week, and no interval.
    long = [
        (y, actual)
        for y, actual in zip(train, test, strict=True)
        if origins_of(len(y), WEEK_AHEAD)
    ]
    train = [y for y, _ in long]
    test = [actual for _, actual in long]
    made = [forecast(y, WEEK_AHEAD, season=WEEK_AHEAD) for y in train]
    width = pooled_quantile([one.scores for one in made])
    hours = []
    days = []
    errors = []
    for y, actual, one in zip(train, test, made, strict=True):
        hours.append((np.abs(actual - one.values) <= width * one.scale).mean())
        off = np.abs((actual - one.values).reshape(-1, DAY).sum(axis=1))
        days.append((off <= one.daily).mean())
        errors.append(
            np.abs(actual - one.values).mean() / np.abs(y[DAY:] - y[:-DAY]).mean()
        )
    print(f"a week ahead: {len(train)} series")
    found = {
        "mase": np.mean(errors),
        "coverage": np.mean(hours),
        "daily_coverage": np.mean(days),
    }
    return {name: round(float(value), 4) for name, value in found.items()}


def score(train: list[Series], test: list[Series]) -> dict[str, float]:
    made = [forecast(y, HORIZON) for y in train]
    width = pooled_quantile([one.scores for one in made])
    rows: dict[str, list[tuple[float, float]]] = {
        "ours": [],
        "naive2": [],
        "seasonal": [],
    }
    inside = []
    for y, actual, one in zip(train, test, made, strict=True):
        unit = float(np.abs(y[DAY:] - y[:-DAY]).mean())
        for name, values in (
            ("ours", one.values),
            ("naive2", naive2(y)),
            ("seasonal", seasonal_naive(DAY)(y, HORIZON)),
        ):
            rows[name].append(
                (smape(actual, values), float(np.abs(actual - values).mean()) / unit)
            )
        low = one.values - width * one.scale
        high = one.values + width * one.scale
        low = np.maximum(low, 0.0) if y.min() >= 0 else low
        inside.append(float(((actual >= low) & (actual <= high)).mean()))
    mean = {name: np.mean(values, axis=0) for name, values in rows.items()}
    for name, (s, m) in mean.items():
        print(
            f"{name:9} sMAPE {s:.3f} MASE {m:.3f} OWA {np.mean(mean[name] / mean['naive2']):.3f}"
        )
    owa = float(np.mean(mean["ours"] / mean["naive2"]))
    return {
        "owa": round(owa, 4),
        "mase": round(float(mean["ours"][1]), 4),
        "coverage": round(float(np.mean(inside)), 4),
    }


def main() -> int:
    queues = imagined()
    own = week_ahead(
        [y[:-WEEK_AHEAD] for y in queues], [y[-WEEK_AHEAD:] for y in queues]
    )
    path = os.environ.get("M4_TRAIN")
    if not path:
        print(json.dumps({"bench": "forecast", "imagined_week": own}))
        return 0
    if not Path(path).is_file():
        print(
            "M4_TRAIN must name Hourly-train.csv of the M4 competition", file=sys.stderr
        )
        return 2
    train = read(Path(path))
    # What tuning may look at ends 48 hours before the validation begins.
    tuning = os.environ.get("M4_TUNE") == "1"
    if tuning:
        train = [y[:-HORIZON] for y in train]
    began = time.process_time()
    validation = score([y[:-HORIZON] for y in train], [y[-HORIZON:] for y in train])
    print(f"{1000 * (time.process_time() - began) / len(train):.1f} ms CPU a series")
    week = week_ahead(
        [y[:-WEEK_AHEAD] for y in train], [y[-WEEK_AHEAD:] for y in train]
    )
    test: dict[str, Any] | None = None
    if not tuning and (other := os.environ.get("M4_TEST")):
        test = score(train, read(Path(other)))
    print(
        json.dumps(
            {
                "imagined_week": own,
                "tuning" if tuning else "validation": validation,
                "week": week,
                "test": test,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
