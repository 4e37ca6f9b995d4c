"""Numbers, times and evidence as people read them, the same in a terminal and on a page."""

from penstock.core.catalogues import read_toml
from penstock.core.formatting import UNKNOWN, duration, moment, number_text

__all__ = ["UNKNOWN", "age", "amount_text", "duration", "formatted", "moment", "name_text", "number_text"]

NAMES = read_toml("penstock.insight", "names.toml")
SECONDS, MOMENTS = frozenset(NAMES["seconds"]), frozenset(NAMES["moments"])
"""What is a duration and what a point in time, by the names of `explain` and of the lists."""
RATIOS, UNITS = frozenset(NAMES["ratios"]), NAMES["units"]
"""What is shown as a percentage; what follows other numbers."""


def formatted(name: str, value: float) -> str:
    if name in MOMENTS:
        return moment(value)
    if name in SECONDS:
        return duration(value)
    return f"{number_text(100 * value)} %" if name in RATIOS else f"{number_text(value)} {UNITS.get(name, '')}".rstrip()


def name_text(name: str) -> str:
    """Of a number: its name in words."""
    found: str = NAMES["titles"].get(name, name.replace("_", " "))
    return found


def age(now: float, exact: float | None, earliest: float | None, latest: float | None) -> str:
    """Of what came at these times, in seconds; None where it is not known. Empty where nothing is."""
    if exact is not None:
        return duration(now - exact)
    if earliest is not None and latest is not None:
        return f"between {duration(now - latest)} and {duration(now - earliest)}"
    if latest is not None:
        return f"at least {duration(now - latest)}"
    return "" if earliest is None else f"at most {duration(now - earliest)}"


def amount_text(value: float | tuple[float, float | None] | None) -> str:
    """Messages of the account: a number, at least and at most so many, or at least so many; `unknown` of None."""
    if value is None:
        return UNKNOWN
    if isinstance(value, tuple):
        return f"at least {value[0]:,}" if value[1] is None else f"{value[0]:,} to {value[1]:,}"
    return f"{value:,}"


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def in_bytes(size: float) -> str:
    """With the unit that an operator thinks in."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.3g} {unit}"
    return f"{size:,.0f} B"
