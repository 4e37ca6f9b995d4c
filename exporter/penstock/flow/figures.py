"""Numbers, times and evidence as people read them, the same in a terminal and on a page."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

SECONDS = frozenset({"ring_retention", "ring_overflow", "drain", "ring_retention_target", "drain_target", "patience"})
MOMENTS = frozenset({"oldest_message", "blocked_since", "last_delivery", "last_acknowledgement"})
"""What is a duration and what a point in time, by the names of `explain` and of the lists."""


def value(evidence: Mapping[str, Any]) -> str:
    """A number with its unit: `value` and `unit`."""
    told = evidence["value"]
    if told is None:
        return "unknown"
    return duration(told) if evidence["unit"] == "seconds" else f"{told:g} {evidence['unit']}".rstrip()


def number(name: str, told: float) -> str:
    if name in MOMENTS:
        return moment(told)
    return duration(told) if name in SECONDS else f"{told:,.12g}"


def moment(seconds: float) -> str:
    """A time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float) -> str:
    """In at most two units."""
    if abs(seconds) < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if count]
    return " ".join(parts[:2])
