"""Numbers and durations as people read them, in every text: of conditions, causes, answers, commands and pages."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

UNKNOWN = "unknown"


def duration(seconds: float) -> str:
    """Return a duration in at most two units, such as `2 min 25 s`; 0 s where two clocks make it negative."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if round(seconds) < 60:
        return f"{number_text(max(seconds, 0.0))} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    counts = {"d": days, "h": hours, "min": minutes, "s": rest}
    parts = [f"{count} {unit}" for unit, count in counts.items() if count]
    return " ".join(parts[:2])


def moment(seconds: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Return a time in seconds since 1970 as text; "unknown" for one that no calendar has, as in a damaged file."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def number_text(value: float) -> str:
    """Return a whole number from 100 on, else three digits; never an exponent."""
    if not math.isfinite(value):
        return UNKNOWN
    is_whole = float(value).is_integer()
    if is_whole or abs(value) >= 100:
        return f"{round(value):,}"  # an int has no minus before 0
    return f"{value:.3g}" if abs(value) >= 0.001 else "less than 0.001"


def in_bytes(size: float) -> str:
    """Return a size in bytes with the unit that an operator thinks in."""
    for unit, factor in (
        ("GiB", 2**30),
        ("MiB", 2**20),
        ("KiB", 2**10),
    ):  # largest first
        if size >= factor:
            return f"{number_text(size / factor)} {unit}"
    return f"{size:,.0f} B"


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit as people write it.

    Seconds become minutes to days, bytes KiB to GiB, a flag yes or no.
    """
    if unit == "seconds":
        return duration(value)
    if unit == "bytes":
        return in_bytes(value)
    if unit == "flag":
        return "yes" if value else "no"
    if unit == "ratio":
        return f"{number_text(100 * value)} %"
    if unit == "percent":
        return f"{number_text(value)} %"
    if value == 1 and unit.isalpha():  # `1 message`, but `1 messages/s`
        unit = unit.removesuffix("s")
    return f"{number_text(value)} {unit}".rstrip()


def some(names: Iterable[str], between: str = ", ", most: int = 3) -> str:
    """Return each name once, in order: the first `most`, and how many more there are."""
    distinct = [*dict.fromkeys(names)]
    parts = distinct[:most]
    if len(distinct) > most:
        parts.append(f"{len(distinct) - most} more")
    return between.join(parts)
