"""The facts of each queue, broker and address: level, growth, rhythm, forecast, losses, time to limits.

Pure functions of the hourly rows of one series (`i1`, or `h1` of a kind without counters) as columns. Spark runs them
bucket by bucket (`facts.py`). `first` is always the begin of the first hour, `until` the time up to which the history
is whole, both in seconds since 1970 by the clock of the rows.

A row is one hour of one life of the counters: after a restart of the broker they begin at 0 again, so an hour in which
it restarted has several rows. A gap is a time without polls. How much a counter grew in it is known (`gap_…`), but not
in which hour.
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
"""Errors of a back-test that are kept: from the smallest to the largest, evenly spaced."""
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
    """Yields the rows of each series, by themselves. rows: ascending by series."""
    size = len(rows["sid"])
    if not size:
        return
    # No series has the number -1: so the first row differs, too.
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
        values: (rows,) NaN is unknown.
        how: How the rows of an hour are put together, one for each life: "sum" or
            "max".
    """
    start = rows["start"]
    hour = ((start - start.min()) // HOUR).astype(np.int64)
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
    """(hours,) How much a counter grew in each hour; NaN for hours of which too little was seen.

    Such an hour would look quiet, and was not. Growth in a gap is left out, as nobody
    knows in which hour it was.
    """
    is_complete = rows["complete"] > 0
    return regular(rows, np.where(is_complete, rows[counter], np.nan))


def filled(values: Series) -> Series:
    """(hours,) The values, each unknown one replaced by the median of its hour of the week.

    Where that hour is never known, by the median of all. A forecast needs a series
    without gaps; no rate is derived from these.
    """
    without_gaps = values.copy()
    hour_of_week = np.arange(len(values)) % HOURS
    for unknown in np.flatnonzero(np.isnan(values)).tolist():
        same_hour = values[hour_of_week == hour_of_week[unknown]]
        if not np.isfinite(same_hour).any():
            same_hour = values
        without_gaps[unknown] = np.nanmedian(same_hour)
    return without_gaps


def up_to(hourly: Series, first: int, until: float) -> Series:
    """(hours,) The values, with NaN for the hours from the last one to `until`: the series was not seen in them."""
    hours = int(until - first) // HOUR
    unseen = np.full(max(hours - len(hourly), 0), np.nan)
    return np.append(hourly, unseen)


def days_of_hours(hours: int, first: int) -> NDArray[np.int64]:
    """(hours,) The day since 1970 of each hour from `first` on."""
    hour = first // HOUR + np.arange(hours)
    return hour // 24


def without(hourly: Series, first: int, holidays: Collection[int]) -> Series:
    """(hours,) The values, with NaN for the hours of holidays: these show nothing of other days.

    holidays: days since 1970.
    """
    day = days_of_hours(len(hourly), first)
    is_holiday = np.isin(day, [*holidays])
    return np.where(is_holiday, np.nan, hourly)


def profile(hourly: Series, first: int) -> list[float]:
    """(HOURS,) The median by hour of the week, Monday 00:00 first; NaN for an hour that was never seen.

    A median is the mean of the two middle values of the sorted values, or of the middle
    one and itself.
    """
    # The hour of the week of the first value.
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
    """The number of the first whole day, since 1970."""
    return -(-first // DAY)  # rounded up


def whole_days(hourly: Series, first: int) -> Series:
    """(days,) Totals by day, from the first whole day to the last.

    NaN for a day with fewer than LEAST_DAY_HOURS known hours; in others an unknown hour
    counts like the mean of the known ones.
    """
    begin = (_first_day(first) * DAY - first) // HOUR
    hourly = hourly[begin:]
    days = hourly[: len(hourly) // 24 * 24].reshape(-1, 24)
    known_hours = np.isfinite(days).sum(axis=1)
    totals = np.nansum(days, axis=1) * 24 / np.maximum(known_hours, 1)
    return np.where(known_hours >= LEAST_DAY_HOURS, totals, np.nan)


def _daily(hourly: Series, first: int) -> list[list[float]]:
    """For each day with a known hour its number, since 1970, and its mean."""
    day = days_of_hours(len(hourly), first)
    is_known = np.isfinite(hourly)
    known_days = np.unique(day[is_known])
    return [
        [int(number), float(hourly[(day == number) & is_known].mean())]
        for number in known_days
    ]


def weeks(rows: Columns, until: float) -> list[Plain]:
    """The totals of each week in which the series was seen, the newest first, with growth in gaps.

    A row has `back`, how many weeks ago it was (0 for the seven days before `until`);
    `hours`, in how many hours the series was seen; and a total for each of COUNTED.
    """
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
    """When the series was first and last seen, in seconds since 1970.

    Rows have the wall clock of the broker; their column `offset` says by how many
    seconds it is ahead of UTC.
    """
    begins = rows["start"] - rows.get("offset", 0)
    return {
        "first": int(begins.min()),
        "last": int(begins.max()) + HOUR,
    }


def span_hours(rows: Columns, until: float = 0.0) -> int:
    """The number of hours from the first hour to the last one, or to `until` if that is later."""
    end = max(rows["start"].max() + HOUR, until)
    return int(end - rows["start"].min()) // HOUR


def coverage(rows: Columns, until: float = 0.0) -> float:
    """Share of the expected polls that were made, from the first hour to the last, or to `until`.

    How many are expected follows from the interval in each hour; an hour without polls
    has the interval of the last hour that has some. NaN where no poll is expected.
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
    """Whether the series was last seen more than SILENT_HOURS ago: then nothing is said of today."""
    return bool(until - rows["start"].max() > SILENT_HOURS * HOUR)


def idle_hours(rows: Columns) -> float:
    """The number of hours since the last traffic in which the broker reported how many messages came.

    Traffic is messages that came or were acknowledged, also in a gap. NaN where the
    counter of messages is never known.
    """
    start = rows["start"]
    added = increases(rows, "added")
    acknowledged = increases(rows, "acknowledged")
    is_reported = np.isfinite(added)
    if not is_reported.any():
        return np.nan
    has_traffic = (added > 0) | (acknowledged > 0)
    last_traffic = -1
    if has_traffic.any():
        last_traffic = start[has_traffic].max()
    is_idle = (start > last_traffic) & is_reported
    return len(np.unique(start[is_idle]))


def blind_hours(rows: Columns) -> int:
    """The number of hours with polls, but without any number of messages that came.

    0 for a broker that never reports it: that is no fault of some hours.
    """
    is_reported = np.isfinite(rows["added"])
    if not is_reported.any():
        return 0
    hours = rows["start"]
    not_reported = np.setdiff1d(hours, hours[is_reported])
    return len(not_reported)


# --- sums


def increases(rows: Columns, counter: str) -> Series:
    """(rows,) How much a counter grew in each row and in the gap before it."""
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
    """The facts of a queue. `facts.COLUMNS` names those of which a table is made.

    Traffic and profile leave holidays out, as these show nothing of other days; sums
    have all days. holidays: days since 1970.
    """
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
    """The message count of a queue: last, mean, highest (`peak`), and the count below which 95 % of the polls are."""
    means = mean_by_hour(rows, "messages")
    peak = _finite_max(regular(rows, rows["messages_max"], "max"))
    p95 = np.nan
    if "hist_at" in rows:
        # The middle of a bin may lie above the highest count in it.
        middle_of_bin = percentile(rows["hist_at"], rows["hist_n"], 0.95)
        p95 = min(middle_of_bin, peak)
    return {
        "last": float(means[-1]),
        "mean": _known_mean(means),
        "peak": peak,
        "p95": p95,
    }


def traffic_facts(hourly: Series, first: int) -> Plain:
    """The facts of the traffic of a queue: its growth, sudden changes, and the last week beside earlier ones.

    hourly: (hours,) Messages that came.
    """
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
    """How fast a consumer of the queue works, by the messages that were acknowledged.

    On brokers that do not count these, by all messages that left.

    consumers: (hours,) Their number.
    """
    left = complete(rows, "acknowledged")
    if not np.isfinite(left).any():
        left = complete(rows, "removed")
    backlog = mean_by_hour(rows, "backlog")
    return asdict(pace(left, consumers, backlog))


def queue_details(rows: Columns, until: float, holidays: Collection[int] = ()) -> Plain:
    """The details of a queue that only the report shows, for few queues: messages by day, and forecasts.

    There is no forecast of a queue that is gone. holidays: days since 1970.
    """
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
    """The forecast of the next week, see `foreseen`; it leaves out past holidays, and takes future ones for Sundays."""
    usual = without(hourly, first, holidays)
    next_week = foreseen(usual)
    if next_week is None:
        return None
    values = np.array(next_week["values"])
    next_hour = first // HOUR + len(hourly)
    next_week["values"] = like_sundays(values, next_hour, holidays).tolist()
    return next_week


def foreseen(hourly: Series) -> Plain | None:
    """The forecast of the next week with the numbers of its interval, as JSON can hold it.

    None where fewer than LEAST_HOURS hours, or than LEAST_COVERAGE of them, are known;
    for a series of zeros; and without a back-test.
    """
    is_known = np.isfinite(hourly)
    is_too_short = is_known.sum() < LEAST_HOURS
    if is_too_short or is_known.mean() < LEAST_COVERAGE:
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
    """(hours,) The values of a week, with those of its Sunday on holidays, hour by hour.

    Args:
        values: (hours,) One week.
        hour: Hours since 1970 of the first value.
        holidays: Days since 1970.
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
    """How often the broker restarted: its uptime fell from one hour to the next. None where that is never known.

    uptime: (hours,) Highest of each hour.
    """
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
    """When a level meets its limit, see `limit_facts`.

    level, limit: columns as in BROKER_LIMITS.
    """
    return limit_facts(
        mean_by_hour(rows, level),
        last_setting(rows, limit),
        first_hour(rows),
        until,
    )


def limit_facts(hourly: Series, limit: float, first: int, until: float) -> Plain:
    """When a level meets its limit: the fields of `Outlook`, with peak, days, and the time that they count from.

    Its `days_low` and `days_high` are inf where the limit is not expected to be met
    within 90 days; `low` and `high` are NaN then.
    """
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
"""Kind → the function that makes its facts."""
DETAILED: Final = {"queue": queue_details}
"""Kind → the function that makes its details."""


def cleaned(value: Any) -> Any:
    """The value, and all values in it, as JSON can hold them: None for NaN and -inf, "never" for inf."""
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float) or isfinite(value):
        return value
    return "never" if value > 0 else None
