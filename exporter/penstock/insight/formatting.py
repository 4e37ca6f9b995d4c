"""Numbers, times and evidence as people read them, the same in a terminal and on a page."""

import math
from datetime import UTC, datetime

from penstock.core.catalogues import read_toml

UNKNOWN = "unknown"
NAMES = read_toml("penstock.insight", "names.toml")
SECONDS, MOMENTS = frozenset(NAMES["seconds"]), frozenset(NAMES["moments"])
"""What is a duration and what a point in time, by the names of `explain` and of the lists."""


def formatted(name: str, value: float) -> str:
    if name in MOMENTS:
        return moment(value)
    return duration(value) if name in SECONDS else f"{value:,.12g}"


def age(now: float, exact: float | None, earliest: float | None, latest: float | None) -> str:
    """Of what came at these times, in seconds; None where it is not known. Empty where nothing is."""
    if exact is not None:
        return duration(max(now - exact, 0.0))
    if earliest is not None and latest is not None:
        return f"between {duration(max(now - latest, 0.0))} and {duration(now - earliest)}"
    if latest is not None:
        return f"at least {duration(max(now - latest, 0.0))}"
    return "" if earliest is None else f"at most {duration(now - earliest)}"


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
