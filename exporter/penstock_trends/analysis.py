"""What the tiers say of each queue and broker: level, growth, rhythm, forecast, losses, time to limits.

One function per series, pure: its hourly rows (`i1`, or `h1` of a kind without counters) as columns. Spark runs it
bucket by bucket (`facts.py`).
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
LEAST_HOURS: Final = 21 * 24
"""Of evidence, below which no forecast is made."""
LEAST_COVERAGE: Final = 0.5
LEAST_DAY_HOURS: Final = 22
SCORES: Final = 100
COUNTED: Final = ("added", "acknowledged", "expired", "killed", "evicted")

Series = NDArray[np.float64]
Plain = dict[str, Any]


def split(rows: Columns) -> Iterator[dict[str, Any]]:
    """The rows of each series."""
    if not len(rows["sid"]):
        return
    edges = np.flatnonzero(np.diff(rows["sid"], prepend=-1))
    for begin, end in zip(
        edges.tolist(), np.append(edges[1:], len(rows["sid"])).tolist(), strict=True
    ):
        yield {name: column[begin:end] for name, column in rows.items()}


def regular(rows: Columns, values: Series, how: str = "sum") -> Series:
    """One value per hour from the first to the last, NaN where none is known; lives of an hour are put together."""
    at = ((rows["start"] - rows["start"].min()) // HOUR).astype(np.int64)
    size = int(at.max()) + 1
    seen = np.bincount(at[np.isfinite(values)], minlength=size) > 0
    if how == "max":
        out = np.full(size, -np.inf)
        np.fmax.at(out, at, values)
    else:
        out = np.bincount(at, weights=np.nan_to_num(values), minlength=size)
    return np.where(seen, out, np.nan)


def filled(values: Series) -> Series:
    """Gaps filled with the hour of the week's median, so that a forecast can be made; no rate is derived from these."""
    out = values.copy()
    hour = np.arange(len(out)) % HOURS
    for missing in np.flatnonzero(np.isnan(out)).tolist():
        alike = values[hour == hour[missing]]
        out[missing] = (
            np.nanmedian(alike) if np.isfinite(alike).any() else np.nanmedian(values)
        )
    return out


def coverage(rows: Columns, until: float = 0.0) -> float:
    """Share of the polls that should be there from the first to the last hour, or until then. Each hour by the interval
    that it had; one that was not seen by that of the hour before.
    """
    hours_behind = span_hours(rows, until) - span_hours(rows)
    unseen = np.full(hours_behind, np.nan)
    polls = np.append(regular(rows, rows["n"].astype(float)), unseen)
    expected = np.append(regular(rows, rows["expected"], "max"), unseen)
    hour = np.arange(len(expected))
    last_seen = np.maximum.accumulate(np.where(np.isfinite(expected), hour, 0))
    expected = expected[last_seen]
    counted = np.minimum(
        np.nan_to_num(polls), expected
    )  # those of an hour make up for no other hour
    total = float(expected.sum())
    if total == 0:
        return np.nan
    return float(counted.sum()) / total


def span_hours(rows: Columns, until: float = 0.0) -> int:
    """From the first to the last hour, or until then."""
    return int(max(rows["start"].max() + HOUR, until) - rows["start"].min()) // HOUR


def complete(rows: Columns, counter: str) -> Series:
    """Hourly growth of a counter; hours of which too little was seen are missing, not small. What came in a gap is in
    no hour.
    """
    return regular(rows, np.where(rows["complete"] > 0, rows[counter], np.nan))


def increases(rows: Columns, counter: str) -> Series:
    """How much a counter grew in each row and in the gap before it, of which the hour is not known."""
    grown: Series = rows[counter] + rows[f"gap_{counter}"]
    return grown


def known_sum(values: Series) -> float:
    """NaN where nothing is known."""
    return float(np.nansum(values)) if np.isfinite(values).any() else np.nan


def queue_facts(rows: Columns, until: float, holidays: Collection[int] = ()) -> Plain:
    """until: up to when the history is whole, by the clock of the rows. holidays: days since 1970, that say nothing of
    other days.
    """
    first = int(rows["start"].min())
    came = complete(rows, "added")
    left = complete(rows, "acknowledged")
    usual = without(came, first, holidays)
    left = left if np.isfinite(left).any() else complete(rows, "removed")
    means = (
        regular(rows, rows[f"{name}_sum"])
        for name in ("messages", "consumers", "backlog")
    )
    mean_depth, consumers, backlog = (
        total / regular(rows, rows["n"].astype(float)) for total in means
    )
    peak = regular(rows, rows["messages_max"], "max")
    traffic = whole_days(up_to(usual, first, until), first)
    grown = growth(traffic)
    jumps = [
        asdict(one) | {"day": _first_day(first) + one.day}
        for one in change_points(traffic)
    ]
    highest = _finite_max(peak)
    return {
        **span(rows),
        "coverage": coverage(rows),
        "consumers": float(consumers[-1]),
        "messages": {
            "last": float(mean_depth[-1]),
            "mean": float(np.nanmean(mean_depth))
            if np.isfinite(mean_depth).any()
            else np.nan,
            "peak": highest,
            "p95": min(percentile(rows["hist_at"], rows["hist_n"], 0.95), highest)
            if "hist_at" in rows
            else np.nan,
        },
        "busiest_rate": _quantile(came, 0.99) / HOUR,
        "backlog_share": share(rows["backlog_sum"], rows["n"]),
        **{name: known_sum(increases(rows, name)) for name in COUNTED},
        "ring": float(rows["ring_limit_max"][np.argmax(rows["start"])]),
        "traffic": asdict(grown) | {"clear": grown.clear},
        "changes": jumps,
        "week": dict(zip(("ratio", "clear"), week_over_week(traffic), strict=True)),
        "pace": asdict(pace(left, consumers, backlog)),
        "profile": profile(usual, first),
        "weeks": weeks(rows, until),
        "idle_hours": np.nan if is_gone(rows, until) else idle_hours(rows),
        "blind_hours": blind_hours(rows),
    }


def span(rows: Columns) -> Plain:
    """When it was first and last seen, seconds since 1970; `offset`: what the clock of the rows is ahead of UTC."""
    begins = rows["start"] - rows.get("offset", 0)
    return {"first": int(begins.min()), "last": int(begins.max()) + HOUR}


def weeks(rows: Columns, until: float) -> list[Plain]:
    """Totals of the seven days before `until`, the seven before these (`back` 1) and so on, with what came in gaps.
    hours: in which it was seen.
    """
    back = ((until - HOUR - rows["start"]) // (7 * DAY)).astype(int)
    grown = {name: increases(rows, name) for name in COUNTED}
    return [
        {"back": number, "hours": len(np.unique(rows["start"][back == number]))}
        | {name: known_sum(column[back == number]) for name, column in grown.items()}
        for number in np.unique(back[back >= 0]).tolist()
    ]


def queue_details(rows: Columns, until: float, holidays: Collection[int] = ()) -> Plain:
    """What only the report shows, of few queues."""
    came = complete(rows, "added")
    first = int(rows["start"].min())
    gone = is_gone(rows, until)
    depth = regular(rows, rows["messages_sum"]) / regular(rows, rows["n"].astype(float))
    days = enumerate(whole_days(came, first).tolist(), _first_day(first))
    usual = {
        name: without(values, first, holidays)
        for name, values in (("added", came), ("messages", depth))
    }
    made = {name: None if gone else foreseen(values) for name, values in usual.items()}
    for one in filter(None, made.values()):
        one["values"] = like_sundays(
            np.array(one["values"]), first // HOUR + len(came), holidays
        ).tolist()
    return {
        "daily": [[day, value] for day, value in days if np.isfinite(value)],
        "forecasts": made,
    }


def without(hourly: Series, first: int, holidays: Collection[int]) -> Series:
    """The hours of other days than these; theirs are unknown."""
    day = (first // HOUR + np.arange(len(hourly))) // 24
    return np.where(np.isin(day, [*holidays]), np.nan, hourly)


def like_sundays(values: Series, hour: int, holidays: Collection[int]) -> Series:
    """A week ahead from an hour (since 1970) on: what is usual on its Sunday is usual on holidays, too."""
    hours = hour + np.arange(len(values))
    # 1970 began on a Thursday
    sunday = (hours // 24 + 3) % 7 == 6
    holiday = np.isin(hours // 24, [*holidays])
    usual = np.zeros(24)
    usual[hours[sunday] % 24] = values[sunday]
    return np.where(holiday, usual[hours % 24], values)


def is_gone(rows: Columns, until: float) -> bool:
    """Whether it was seen too long ago to say anything of today."""
    return bool(until - rows["start"].max() > SILENT_HOURS * HOUR)


def share(part: Series, whole: Series) -> float:
    """Of the sums; NaN where nothing is known."""
    total = float(np.nansum(whole))
    return float(np.nansum(part)) / total if total else np.nan


def _quantile(values: Series, at: float) -> float:
    return float(np.nanquantile(values, at)) if np.isfinite(values).any() else np.nan


def profile(hourly: Series, first: int) -> list[float]:
    """Median by hour of the week, Monday 00:00 UTC first; NaN of an hour that was never seen."""
    begin = (first // HOUR + 72) % HOURS
    whole = np.full(-(-(begin + len(hourly)) // HOURS) * HOURS, np.nan)
    whole[begin : begin + len(hourly)] = hourly
    weeks = np.sort(whole.reshape(-1, HOURS), axis=0)  # NaN last
    seen = np.isfinite(weeks).sum(axis=0)
    middle = [
        weeks[np.maximum(at, 0), np.arange(HOURS)]
        for at in ((seen - 1) // 2, seen // 2)
    ]
    found: list[float] = np.where(
        seen > 0, (middle[0] + middle[1]) / 2, np.nan
    ).tolist()
    return found


def _first_day(first: int) -> int:
    return -(-first // DAY)


def up_to(hourly: Series, first: int, until: float) -> Series:
    """At least until then (seconds since 1970): what is not seen any more is unknown, and no news of today."""
    return np.append(
        hourly, np.full(max(int(until - first) // HOUR - len(hourly), 0), np.nan)
    )


def whole_days(hourly: Series, first: int) -> Series:
    """Totals by day of UTC from the first whole one on; NaN where more than two hours are unknown, which else count
    like the mean of the others.
    """
    hourly = hourly[(_first_day(first) * DAY - first) // HOUR :]
    days = hourly[: len(hourly) // 24 * 24].reshape(-1, 24)
    known = np.isfinite(days).sum(axis=1)
    return np.where(
        known >= LEAST_DAY_HOURS,
        np.nansum(days, axis=1) * 24 / np.maximum(known, 1),
        np.nan,
    )


def _daily(hourly: Series, first: int) -> list[list[float]]:
    """[day number since 1970, mean] of each day with anything known."""
    day = (first // HOUR + np.arange(len(hourly))) // 24
    known = np.isfinite(hourly)
    return [
        [int(d), float(hourly[(day == d) & known].mean())]
        for d in np.unique(day[known])
    ]


def foreseen(hourly: Series) -> Plain | None:
    """The forecast of the next week with what the interval needs; None where too little or nothing is known."""
    if (
        np.isfinite(hourly).sum() < LEAST_HOURS
        or np.isfinite(hourly).mean() < LEAST_COVERAGE
        or np.nanmax(hourly) == 0
    ):
        return None
    y = filled(hourly)
    made = forecast(y, HORIZON, season=HOURS)
    if not np.isfinite(made.mase):
        return None
    picked = made.scores[np.linspace(0, len(made.scores) - 1, SCORES).astype(int)]
    return {
        "values": made.values.tolist(), "scale": made.scale.tolist(), "scores": picked.tolist(),
        "mase": made.mase, "naive": made.naive, "shown": made.worth_showing,
        "daily": made.daily.tolist(),
    }  # fmt: skip


def idle_hours(rows: Columns) -> float:
    """Seen hours without any traffic at the end of what is known; what came in a gap is traffic, too. Hours in which
    the broker did not say what came are none of them. NaN where no counter says so.
    """
    came = increases(rows, "added")
    left = increases(rows, "acknowledged")
    if not np.isfinite(came).any():
        return np.nan
    busy = (came > 0) | (left > 0)
    last = rows["start"][busy].max() if busy.any() else -1
    silent = (rows["start"] > last) & np.isfinite(came)
    return len(np.unique(rows["start"][silent]))


def blind_hours(rows: Columns) -> int:
    """Hours with polls at none of which the broker said what came, of a queue of which it does at other times."""
    reported = np.isfinite(rows["added"])
    if not reported.any():
        return 0
    hours = rows["start"]
    without = np.setdiff1d(hours, hours[reported])
    return len(without)


def broker_facts(rows: Columns, until: float, _: Collection[int] = ()) -> Plain:
    uptime = rows["uptime_max"]
    return {
        **span(rows),
        "coverage": coverage(rows, until),
        "missing_hours": span_hours(rows, until) - len(np.unique(rows["start"])),
        "restarts": int((np.diff(uptime) < 0).sum())
        if np.isfinite(uptime).any()
        else None,
        "limits": {
            name: limit_of(rows, *of, until) for name, of in BROKER_LIMITS.items()
        },
    }


def address_facts(rows: Columns, until: float, _: Collection[int] = ()) -> Plain:
    """The limits that it has; on OpenMQ those of the destination."""
    limits = {name: limit_of(rows, *of, until) for name, of in ADDRESS_LIMITS.items()}
    return {
        **span(rows),
        "limits": {name: one for name, one in limits.items() if one["limit"] > 0},
    }


def limit_of(rows: Columns, level: str, limit: str, until: float) -> Plain:
    """level, limit: columns, without how they are summed up."""
    mean = regular(rows, rows[f"{level}_sum"]) / regular(rows, rows["n"].astype(float))
    return limit_facts(
        mean,
        float(rows[f"{limit}_max"][np.argmax(rows["start"])]),
        int(rows["start"].min()),
        until,
    )


def limit_facts(hourly: Series, limit: float, first: int, until: float) -> Plain:
    """When it is met, from `days_low` to `days_high`, in days after `now` (seconds since 1970); inf where not within 90
    days.
    """
    known = up_to(hourly, first, until)
    now = outlook(known, limit)
    never = now.state in ("far", "falls back")
    days = {
        f"days_{end}": np.inf if never else getattr(now, end) for end in ("low", "high")
    }
    daily = _daily(hourly, first)
    more = {
        "limit": limit,
        "peak": _finite_max(hourly),
        "daily": daily,
        "now": first + len(known) * HOUR,
    }
    return asdict(now) | days | more


BROKER_LIMITS: Final = {
    "memory": ("memory_used_bytes", "memory_limit_bytes"),
    "disk": ("disk_used_ratio", "disk_limit_ratio"),
}
ADDRESS_LIMITS: Final = {
    "messages": ("messages", "limit_messages"),
    "bytes": ("memory_bytes", "limit_bytes"),
}
FACTS: Final = {"queue": queue_facts, "broker": broker_facts, "address": address_facts}
DETAILED: Final = {"queue": queue_details}


def _finite_max(values: Series) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else np.nan


def cleaned(value: Any) -> Any:
    """As JSON can hold it: what is not known is None, what never comes is "never"."""
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else "never" if value > 0 else None
    return value
