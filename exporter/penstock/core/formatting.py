"""Numbers and durations as people read them, in every text: of conditions, causes, answers, commands and pages."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

UNKNOWN = "unknown"


def duration(seconds: float) -> str:
    """In at most two units; what two clocks make less than nothing is none."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if round(seconds) < 60:
        return f"{number_text(max(seconds, 0.0))} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [
        f"{count} {unit}"
        for count, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
        if count
    ]
    return " ".join(parts[:2])


def moment(seconds: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A time in seconds since 1970; "unknown" of what no calendar has, as a damaged file may say."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def number_text(value: float) -> str:
    """Whole from 100 on, else with three digits; never with an exponent."""
    if not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 100 or float(value).is_integer():
        return f"{round(value):,}"  # an int has no minus before 0
    return f"{value:.3g}" if abs(value) >= 0.001 else "less than 0.001"


def in_bytes(size: float) -> str:
    """With the unit that an operator thinks in."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{number_text(size / factor)} {unit}"
    return f"{size:,.0f} B"


def quantity(value: float, unit: str) -> str:
    """With its unit as people write it: seconds in minutes to days, bytes in KiB to GiB, a flag as yes or no."""
    if special := {"seconds": duration, "bytes": in_bytes}.get(unit):
        return special(value)
    if unit == "flag":
        return "yes" if value else "no"
    if unit in ("ratio", "percent"):
        return f"{number_text(100 * value if unit == 'ratio' else value)} %"
    return f"{number_text(value)} {unit.removesuffix('s') if value == 1 and unit.isalpha() else unit}".rstrip()


def some(names: Iterable[str], between: str = ", ", most: int = 3) -> str:
    """Each once, in their order: the first, and how many more."""
    names = [*dict.fromkeys(names)]
    return between.join(
        [*names[:most], *[f"{len(names) - most} more"] * (len(names) > most)]
    )
