"""How the report writes dates, durations, and when a limit is met."""

from datetime import UTC, datetime
from typing import Any, Final

from penstock.insight.formatting import duration

Plain = dict[str, Any]
UNKNOWN: Final = "\N{EN DASH}"
MANIFOLD: Final = 9.0


def named(one: Plain) -> tuple[str, str, str]:
    return one["broker"], one["address"], one["queue"]


def signed(change: float | None) -> str:
    """A share more or less."""
    if change is None:
        return UNKNOWN
    return (
        f"{change + 1:.0f} times"
        if change >= MANIFOLD
        else f"{round(100 * change, 1) + 0.0:+.1f} %"
    )


def lasted(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def day_text(day: float) -> str:
    """Of a number of days since 1970."""
    return (
        datetime.fromtimestamp(86400.0 * day, UTC)
        .strftime("%d %b %Y")
        .removeprefix("0")
    )


MET: Final = {
    "met": "at its limit now",
    "far": "not within 90 days at the present rate",
    "falls back": "no date: it fell back from this level before",
    "unknown": "unknown: too little was seen of late",
}


def met_text(limit: Plain, now: float) -> str:
    """When the limit is met; now: seconds since 1970 from which its days count."""
    if limit["state"] != "rising":
        return MET[limit["state"]]
    today = now / 86400
    days, low = (day_text(today + limit[name]) for name in ("days", "low"))
    bounded = isinstance(limit["high"], float | int)
    span = (
        f"between {low} and {day_text(today + limit['high'])}"
        if bounded
        else f"at the earliest {low}"
    )
    return f"limit met about {days} ({span})"
