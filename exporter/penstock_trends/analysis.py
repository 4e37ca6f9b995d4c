"""The facts of each queue, broker and address: level, growth, rhythm, forecast, losses, time to limits.

Pure functions of the hourly rows of one series (`i1`, or `h1` of a kind without counters) as columns. Spark runs them
bucket by bucket (`facts.py`). `first` is always the begin of the first hour, `until` the time up to which the history
is whole, both in seconds since 1970 by the clock of the rows.
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict
from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.history.compact import DAY
from penstock_trends.changes import change_points, pace, week_over_week
from penstock_trends.forecast import WEEK as HOURS
from penstock_trends.forecast import forecast
from penstock_trends.growth import growth
from penstock_trends.kernel import Columns, percentile
from penstock_trends.limits import SILENT_HOURS, outlook

HORIZON: Final = 168
WINDOW_DAYS: Final = 90
HOUR: Final = 3600
THURSDAY: Final = 3
"""Day of the week on which 1970 began; Monday is 0."""
SUNDAY: Final = 6
LEAST_HOURS: Final = 21 * 24
"""Of evidence, below which no forecast is made."""
LEAST_COVERAGE: Final = 0.5
LEAST_DAY_HOURS: Final = 22
"""Known hours, from which the total of a day is known."""
SCORES: Final = 100
"""Errors of a back-test that are kept, evenly spaced."""
COUNTED: Final = ("added", "acknowledged", "expired", "killed", "evicted")

BROKER_LIMITS: Final = {
    "memory": ("memory_used_bytes", "memory_limit_bytes"),
    "disk": ("disk_used_ratio", "disk_limit_ratio"),
}
"""Name → columns of the level and of its limit, without how they are summed up."""
ADDRESS_LIMITS: Final = {
    "messages": ("messages", "limit_messages"),
    "bytes": ("memory_bytes", "limit_bytes"),
}

Series = NDArray[np.float64]
Plain = dict[str, Any]


def split(rows: Columns) -> Iterator[dict[str, Any]]:
    """The rows of each series; `rows` ascend by series."""
    size = len(rows["sid"])
    if not size:
        return
    begins = np.flatnonzero(np.diff(rows["sid"], prepend=-1)).tolist()
    ends = [*begins[1:], size]
    for begin, end in zip(begins, ends, strict=True):
        yield {name: column[begin:end] for name, column in rows.items()}


# --- one value an hour


def first_hour(rows: Columns) -> int:
    """The begin of the first hour, in seconds."""
    return int(rows["start"].min())


def regular(rows: Columns, values: Series, how: str = "sum") -> Series:
    """(hours,) One value for each hour from the first to the last, NaN where none is known.

    Args:
        rows: Of one series.
        values: (rows,) Values of the lives of its counters.
        how: The lives of an hour are put together: their "sum", or the "max".
    """
    hour = ((rows["start"] - rows["start"].min()) // HOUR).astype(np.int64)
    hours = int(hour.max()) + 1
    is_known = np.isfinite(values)
    known_count = np.bincount(hour[is_known], minlength=hours)
    if how == "max":
        merged = np.full(hours, -np.inf)
        np.fmax.at(merged, hour, values)
    else:
        merged = np.bincount(
            hour,
            weights=np.nan_to_num(values),
            minlength=hours,
        )
    return np.where(known_count > 0, merged, np.nan)


def polls_by_hour(rows: Columns) -> Series:
    """(hours,) How many polls each hour has."""
    return regular(rows, rows["n"].astype(float))


def mean_by_hour(rows: Columns, column: str) -> Series:
    """(hours,) The mean of a column over the polls of each hour."""
    totals = regular(rows, rows[f"{column}_sum"])
    return totals / polls_by_hour(rows)


def complete(rows: Columns, counter: str) -> Series:
    """(hours,) How much a counter grew in each hour.

    Hours of which too little was seen are missing, not small. Growth in a gap is in no
    hour.
    """
    is_complete = rows["complete"] > 0
    return regular(rows, np.where(is_complete, rows[counter], np.nan))


def filled(values: Series) -> Series:
    """(hours,) The values; a missing one is the median of its hour of the week.

    So a forecast can be made; no rate is derived from these.
    """
    complete_values = values.copy()
    hour_of_week = np.arange(len(values)) % HOURS
    for missing in np.flatnonzero(np.isnan(values)).tolist():
        same_hour = values[hour_of_week == hour_of_week[missing]]
        if not np.isfinite(same_hour).any():
            same_hour = values
        complete_values[missing] = np.nanmedian(same_hour)
    return complete_values


def up_to(hourly: Series, first: int, until: float) -> Series:
    """(hours,) The values up to `until` at least: hours that are not seen any more are unknown."""
    hours = int(until - first) // HOUR
    unseen = np.full(max(hours - len(hourly), 0), np.nan)
    return np.append(hourly, unseen)


def days_of_hours(hours: int, first: int) -> NDArray[np.int64]:
    """(hours,) The day since 1970 of each hour from `first` on."""
    hour = first // HOUR + np.arange(hours)
    return hour // 24


def without(hourly: Series, first: int, holidays: Collection[int]) -> Series:
    """(hours,) The values; those of the hours of holidays are unknown."""
    day = days_of_hours(len(hourly), first)
    is_holiday = np.isin(day, [*holidays])
    return np.where(is_holiday, np.nan, hourly)


def profile(hourly: Series, first: int) -> list[float]:
    """(HOURS,) The median by hour of the week, Monday 00:00 UTC first; NaN for an hour that was never seen."""
    begin = (first // HOUR + THURSDAY * 24) % HOURS
    end = begin + len(hourly)
    weeks_begun = -(-end // HOURS)
    whole_weeks = np.full(weeks_begun * HOURS, np.nan)
    whole_weeks[begin:end] = hourly
    by_week = np.sort(whole_weeks.reshape(-1, HOURS), axis=0)  # NaN last
    seen = np.isfinite(by_week).sum(axis=0)
    hour = np.arange(HOURS)
    lower = by_week[np.maximum((seen - 1) // 2, 0), hour]
    upper = by_week[seen // 2, hour]
    medians: list[float] = np.where(
        seen > 0,
        (lower + upper) / 2,
        np.nan,
    ).tolist()
    return medians


# --- days and weeks


def _first_day(first: int) -> int:
    """The first whole day, since 1970."""
    return -(-first // DAY)


def whole_days(hourly: Series, first: int) -> Series:
    """(days,) Totals by day of UTC from the first whole one on.

    NaN where more than two hours are unknown; fewer ones count like the mean of the
    others.
    """
    begin = (_first_day(first) * DAY - first) // HOUR
    hourly = hourly[begin:]
    days = hourly[: len(hourly) // 24 * 24].reshape(-1, 24)
    known_hours = np.isfinite(days).sum(axis=1)
    totals = np.nansum(days, axis=1) * 24 / np.maximum(known_hours, 1)
    return np.where(known_hours >= LEAST_DAY_HOURS, totals, np.nan)


def _daily(hourly: Series, first: int) -> list[list[float]]:
    """The day since 1970 and the mean of each day of which an hour is known."""
    day = days_of_hours(len(hourly), first)
    is_known = np.isfinite(hourly)
    known_days = np.unique(day[is_known])
    return [
        [int(number), float(hourly[(day == number) & is_known].mean())]
        for number in known_days
    ]


def weeks(rows: Columns, until: float) -> list[Plain]:
    """Totals by week, with growth in gaps. back: 0 for the seven days before `until`; hours: in which it was seen."""
    age = until - HOUR - rows["start"]
    back = (age // (7 * DAY)).astype(int)
    totals = {name: increases(rows, name) for name in COUNTED}
    totals_by_week = []
    for number in np.unique(back[back >= 0]).tolist():
        is_in_week = back == number
        week: Plain = {
            "back": number,
            "hours": len(np.unique(rows["start"][is_in_week])),
        }
        for name, column in totals.items():
            week[name] = known_sum(column[is_in_week])
        totals_by_week.append(week)
    return totals_by_week


# --- seen, and not seen


def span(rows: Columns) -> Plain:
    """When it was first and last seen, seconds since 1970; column `offset`: how far the clock is ahead of UTC."""
    begins = rows["start"] - rows.get("offset", 0)
    return {
        "first": int(begins.min()),
        "last": int(begins.max()) + HOUR,
    }


def span_hours(rows: Columns, until: float = 0.0) -> int:
    """Hours from the first to the last, or to `until` if that is later."""
    end = max(rows["start"].max() + HOUR, until)
    return int(end - rows["start"].min()) // HOUR


def coverage(rows: Columns, until: float = 0.0) -> float:
    """Share of the expected polls from the first to the last hour, or to `until`; NaN where none is expected.

    Each hour by the interval that it had; one that was not seen by that of the hour
    before.
    """
    unseen = np.full(span_hours(rows, until) - span_hours(rows), np.nan)
    polls = np.append(polls_by_hour(rows), unseen)
    expected = np.append(regular(rows, rows["expected"], "max"), unseen)
    hour = np.arange(len(expected))
    last_seen = np.maximum.accumulate(np.where(np.isfinite(expected), hour, 0))
    expected = expected[last_seen]
    # More polls than expected make up for no other hour.
    counted = np.minimum(np.nan_to_num(polls), expected)
    total = float(expected.sum())
    if total == 0:
        return np.nan
    return float(counted.sum()) / total


def is_gone(rows: Columns, until: float) -> bool:
    """Whether it was seen too long ago to say anything of today."""
    return bool(until - rows["start"].max() > SILENT_HOURS * HOUR)


def idle_hours(rows: Columns) -> float:
    """Seen hours without any traffic at the end; NaN where no counter is known.

    Messages that came in a gap are traffic, too. Hours in which the broker did not
    report how many came do not count.
    """
    added = increases(rows, "added")
    acknowledged = increases(rows, "acknowledged")
    if not np.isfinite(added).any():
        return np.nan
    has_traffic = (added > 0) | (acknowledged > 0)
    last = -1
    if has_traffic.any():
        last = rows["start"][has_traffic].max()
    is_idle = (rows["start"] > last) & np.isfinite(added)
    return len(np.unique(rows["start"][is_idle]))


def blind_hours(rows: Columns) -> int:
    """Hours with polls in none of which the broker reported how many messages came; 0 where it never does."""
    is_reported = np.isfinite(rows["added"])
    if not is_reported.any():
        return 0
    hours = rows["start"]
    not_reported = np.setdiff1d(hours, hours[is_reported])
    return len(not_reported)


# --- sums


def increases(rows: Columns, counter: str) -> Series:
    """(rows,) How much a counter grew in each row and in the gap before it, of which the hour is not known."""
    growth_: Series = rows[counter] + rows[f"gap_{counter}"]
    return growth_


def known_sum(values: Series) -> float:
    """The sum of the known values; NaN where none is known."""
    if not np.isfinite(values).any():
        return np.nan
    return float(np.nansum(values))


def share(part: Series, whole: Series) -> float:
    """The sum of a part over the sum of the whole; NaN where that is 0."""
    total = float(np.nansum(whole))
    if not total:
        return np.nan
    return float(np.nansum(part)) / total


def _known_mean(values: Series) -> float:
    """The mean of the known values; NaN where none is known."""
    if not np.isfinite(values).any():
        return np.nan
    return float(np.nanmean(values))


def _quantile(values: Series, quantile: float) -> float:
    """The quantile of the known values; NaN where none is known."""
    if not np.isfinite(values).any():
        return np.nan
    return float(np.nanquantile(values, quantile))


def _finite_max(values: Series) -> float:
    """The highest of the known values; NaN where none is known."""
    if not np.isfinite(values).any():
        return np.nan
    return float(np.nanmax(values))


def last_setting(rows: Columns, column: str) -> float:
    """The value of a setting in the last hour."""
    newest = np.argmax(rows["start"])
    return float(rows[f"{column}_max"][newest])


# --- queues


def queue_facts(rows: Columns, until: float, holidays: Collection[int] = ()) -> Plain:
    """The facts of a queue. holidays: days since 1970, which show nothing of other days."""
    first = first_hour(rows)
    added = complete(rows, "added")
    usual = without(added, first, holidays)
    consumers = mean_by_hour(rows, "consumers")
    facts = {
        **span(rows),
        "coverage": coverage(rows),
        "consumers": float(consumers[-1]),
        "messages": depth_facts(rows),
        "busiest_rate": _quantile(added, 0.99) / HOUR,
        "backlog_share": share(rows["backlog_sum"], rows["n"]),
    }
    facts |= {name: known_sum(increases(rows, name)) for name in COUNTED}
    facts["ring"] = last_setting(rows, "ring_limit")
    facts |= traffic_facts(up_to(usual, first, until), first)
    facts |= {
        "pace": pace_facts(rows, consumers),
        "profile": profile(usual, first),
        "weeks": weeks(rows, until),
        "idle_hours": np.nan if is_gone(rows, until) else idle_hours(rows),
        "blind_hours": blind_hours(rows),
    }
    return facts


def depth_facts(rows: Columns) -> Plain:
    """The message count of a queue: last, mean, highest, and below which 95 % of the polls are."""
    means = mean_by_hour(rows, "messages")
    peak = _finite_max(regular(rows, rows["messages_max"], "max"))
    p95 = np.nan
    if "hist_at" in rows:
        p95 = min(percentile(rows["hist_at"], rows["hist_n"], 0.95), peak)
    return {
        "last": float(means[-1]),
        "mean": _known_mean(means),
        "peak": peak,
        "p95": p95,
    }


def traffic_facts(hourly: Series, first: int) -> Plain:
    """Growth, sudden changes, and the last week beside others. hourly: (hours,) messages that came."""
    daily = whole_days(hourly, first)
    grown = growth(daily)
    ratio, is_clear = week_over_week(daily)
    first_day = _first_day(first)
    changes = [
        {"day": first_day + jump.day, "ratio": jump.ratio}
        for jump in change_points(daily)
    ]
    return {
        "traffic": asdict(grown) | {"clear": grown.clear},
        "changes": changes,
        "week": {"ratio": ratio, "clear": is_clear},
    }


def pace_facts(rows: Columns, consumers: Series) -> Plain:
    """How fast a consumer of the queue works, by acknowledged messages, or by those that left where these are unknown.

    consumers: (hours,) How many there were.
    """
    left = complete(rows, "acknowledged")
    if not np.isfinite(left).any():
        left = complete(rows, "removed")
    backlog = mean_by_hour(rows, "backlog")
    return asdict(pace(left, consumers, backlog))


def queue_details(rows: Columns, until: float, holidays: Collection[int] = ()) -> Plain:
    """The details that only the report shows, for few queues. holidays: days since 1970."""
    first = first_hour(rows)
    added = complete(rows, "added")
    totals = whole_days(added, first).tolist()
    days = enumerate(totals, _first_day(first))
    hourly = {
        "added": added,
        "messages": mean_by_hour(rows, "messages"),
    }
    forecasts: dict[str, Plain | None] = dict.fromkeys(hourly)
    if not is_gone(rows, until):
        for name, values in hourly.items():
            forecasts[name] = foreseen_with_holidays(values, first, holidays)
    return {
        "daily": [[day, total] for day, total in days if np.isfinite(total)],
        "forecasts": forecasts,
    }


# --- forecasts


def foreseen_with_holidays(
    hourly: Series, first: int, holidays: Collection[int]
) -> Plain | None:
    """The forecast of the next week, made of days that are no holidays; holidays in it are like Sundays."""
    usual = without(hourly, first, holidays)
    next_week = foreseen(usual)
    if next_week is None:
        return None
    values = np.array(next_week["values"])
    next_hour = first // HOUR + len(hourly)
    next_week["values"] = like_sundays(values, next_hour, holidays).tolist()
    return next_week


def foreseen(hourly: Series) -> Plain | None:
    """The forecast of the next week with the numbers of its interval; None where too little or nothing is known."""
    is_known = np.isfinite(hourly)
    if is_known.sum() < LEAST_HOURS or is_known.mean() < LEAST_COVERAGE:
        return None
    if np.nanmax(hourly) == 0:
        return None
    made = forecast(filled(hourly), HORIZON, season=HOURS)
    if not np.isfinite(made.mase):
        return None
    evenly = np.linspace(0, len(made.scores) - 1, SCORES).astype(int)
    return {
        "values": made.values.tolist(),
        "scale": made.scale.tolist(),
        "scores": made.scores[evenly].tolist(),
        "mase": made.mase,
        "naive": made.naive,
        "shown": made.worth_showing,
        "daily": made.daily.tolist(),
    }


def like_sundays(values: Series, hour: int, holidays: Collection[int]) -> Series:
    """(hours,) The values of a week; those of holidays are the values of its Sunday.

    hour: the first one, since 1970.
    """
    hours = hour + np.arange(len(values))
    day = hours // 24
    is_sunday = (day + THURSDAY) % 7 == SUNDAY
    is_holiday = np.isin(day, [*holidays])
    of_sunday = np.zeros(24)
    of_sunday[hours[is_sunday] % 24] = values[is_sunday]
    return np.where(is_holiday, of_sunday[hours % 24], values)


# --- brokers, addresses and their limits


def broker_facts(rows: Columns, until: float, _: Collection[int] = ()) -> Plain:
    """The facts of a broker."""
    seen_hours = len(np.unique(rows["start"]))
    limits = {
        name: limit_of(rows, level, limit, until)
        for name, (level, limit) in BROKER_LIMITS.items()
    }
    return {
        **span(rows),
        "coverage": coverage(rows, until),
        "missing_hours": span_hours(rows, until) - seen_hours,
        "restarts": restarts(rows["uptime_max"]),
        "limits": limits,
    }


def restarts(uptime: Series) -> int | None:
    """How often the uptime fell; None where it is not known. uptime: (hours,)."""
    if not np.isfinite(uptime).any():
        return None
    return int((np.diff(uptime) < 0).sum())


def address_facts(rows: Columns, until: float, _: Collection[int] = ()) -> Plain:
    """The facts of an address: the limits that it has, on OpenMQ those of the destination."""
    limits = {
        name: limit_of(rows, level, limit, until)
        for name, (level, limit) in ADDRESS_LIMITS.items()
    }
    limited = {name: limit for name, limit in limits.items() if limit["limit"] > 0}
    return {**span(rows), "limits": limited}


def limit_of(rows: Columns, level: str, limit: str, until: float) -> Plain:
    """When a level meets its limit. level, limit: columns, without how they are summed up."""
    return limit_facts(
        mean_by_hour(rows, level),
        last_setting(rows, limit),
        first_hour(rows),
        until,
    )


def limit_facts(hourly: Series, limit: float, first: int, until: float) -> Plain:
    """When a level meets its limit: from `days_low` to `days_high`, in days after `now`; inf where not in 90 days."""
    levels = up_to(hourly, first, until)
    present = outlook(levels, limit)
    is_far = present.state in ("far", "falls back")
    facts = asdict(present)
    facts["days_low"] = np.inf if is_far else present.low
    facts["days_high"] = np.inf if is_far else present.high
    facts |= {
        "limit": limit,
        "peak": _finite_max(hourly),
        "daily": _daily(hourly, first),
        "now": first + len(levels) * HOUR,
    }
    return facts


FACTS: Final = {"queue": queue_facts, "broker": broker_facts, "address": address_facts}
DETAILED: Final = {"queue": queue_details}


def cleaned(value: Any) -> Any:
    """The value as JSON can hold it: None where it is not known, "never" for inf."""
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float) or isfinite(value):
        return value
    return "never" if value > 0 else None
