"""Numbers, times and evidence as people read them, the same in a terminal and on a page."""

import math
from datetime import UTC, datetime

UNKNOWN = "unknown"
SECONDS = frozenset({"ring_retention", "ring_overflow", "drain", "ring_retention_target", "drain_target", "patience"})
MOMENTS = frozenset({"oldest_message", "blocked_since", "last_delivery", "last_acknowledgement"})
"""What is a duration and what a point in time, by the names of `explain` and of the lists."""


def formatted(name: str, value: float) -> str:
    if name in MOMENTS:
        return moment(value)
    return duration(value) if name in SECONDS else f"{value:,.12g}"


def amount_text(value: float | tuple[float, float | None] | None) -> str:
    """Messages of the account: a number, at least and at most so many, or at least so many; `unknown` of None."""
    if value is None:
        return UNKNOWN
    if isinstance(value, tuple):
        return f"at least {value[0]:,}" if value[1] is None else f"{value[0]:,} to {value[1]:,}"
    return f"{value:,}"


def moment(seconds: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A time in seconds since 1970; "unknown" of what no calendar has, as a damaged file may say."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def duration(seconds: float) -> str:
    """In at most two units."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if abs(seconds) < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if count]
    return " ".join(parts[:2])
