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
    parts = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if count]
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


def some(names: Iterable[str], between: str = ", ", most: int = 3) -> str:
    """Each once, in their order: the first, and how many more."""
    names = [*dict.fromkeys(names)]
    return between.join([*names[:most], *[f"{len(names) - most} more"] * (len(names) > most)])
