"""How the report writes dates, durations, and when a limit is met."""

from datetime import UTC, datetime
from typing import Any, Final

from penstock.insight.formatting import duration

Plain = dict[str, Any]
UNKNOWN: Final = "\N{EN DASH}"
MANIFOLD: Final = 9.0
"""Relative change from which a factor is easier to read than a percentage."""
DAY: Final = 86400.0
MET: Final = {
    "met": "at its limit now",
    "far": "not within 90 days at the present rate",
    "falls back": "no date: it fell back from this level before",
    "unknown": "unknown: too little was seen of late",
}
"""State of a limit without a date → its text."""


def named(row: Plain) -> tuple[str, str, str]:
    """Returns broker, address and queue: the key by which rows about one queue are matched."""
    return row["broker"], row["address"], row["queue"]


def signed(change: float | None) -> str:
    """Returns a relative change as text: a percentage with its sign, or a factor."""
    if change is None:
        return UNKNOWN
    if change >= MANIFOLD:
        return f"{change + 1:.0f} times"
    percent = round(100 * change, 1) + 0.0  # + 0.0 makes 0.0 of -0.0
    return f"{percent:+.1f} %"


def lasted(seconds: float | None) -> str:
    """Returns a duration as text; UNKNOWN for None."""
    return UNKNOWN if seconds is None else duration(seconds)


def day_text(day: float) -> str:
    """Returns a date such as 9 Dec 2026. day: days since 1970."""
    date = datetime.fromtimestamp(DAY * day, UTC)
    return date.strftime("%d %b %Y").removeprefix("0")


def met_text(limit: Plain, now: float) -> str:
    """Returns the text that says when a limit is met. now: seconds since 1970 from which its days count."""
    if limit["state"] != "rising":
        return MET[limit["state"]]
    today = now / DAY
    expected = day_text(today + limit["days"])
    earliest = day_text(today + limit["low"])
    has_latest = isinstance(limit["high"], float | int)
    if has_latest:
        latest = day_text(today + limit["high"])
        span = f"between {earliest} and {latest}"
    else:
        span = f"at the earliest {earliest}"
    return f"limit met about {expected} ({span})"
