"""Numbers, times and evidence as people read them, the same in a terminal and on a page."""

from penstock.core.catalogues import read_toml
from penstock.core.formatting import (
    UNKNOWN,
    duration,
    in_bytes,
    moment,
    number_text,
    quantity,
)

__all__ = [
    "UNKNOWN",
    "age",
    "amount_text",
    "client_name_text",
    "duration",
    "formatted",
    "in_bytes",
    "moment",
    "name_text",
    "number_text",
]

NAMES = read_toml("penstock.insight", "names.toml")
MOMENTS = frozenset(NAMES["moments"])
"""Numbers that are points in time."""
UNITS = {name: unit for unit, names in NAMES["units"].items() for name in names.split()}


def formatted(name: str, value: float) -> str:
    """The number of this name as people read it."""
    if name in MOMENTS:
        return moment(value)
    return quantity(value, UNITS.get(name, ""))


def name_text(name: str) -> str:
    """The name of a number in words."""
    plain = name.replace("_", " ")
    plain = plain.removesuffix(" bytes")
    plain = plain.removesuffix(" ratio")
    key = name.replace(" ", "_")
    return str(NAMES["titles"].get(key, plain))


def client_name_text(name: str) -> str:
    """The name of a number of a client or a consumer in words.

    Messages that it acknowledges and rolls back count as acknowledged.
    """
    return str(NAMES["client_titles"].get(name, name_text(name)))


def age(
    now: float, exact: float | None, earliest: float | None, latest: float | None
) -> str:
    """The age of something in words; empty where nothing is known. Times in seconds.

    Args:
        now: the present.
        exact: when it came; None where only bounds are known.
        earliest: when it came at the earliest; None where that is not known.
        latest: when it came at the latest; None where that is not known.
    """
    if exact is not None:
        return duration(now - exact)
    if earliest is not None and latest is not None:
        shortest = duration(now - latest)
        longest = duration(now - earliest)
        return f"between {shortest} and {longest}"
    if latest is not None:
        return f"at least {duration(now - latest)}"
    if earliest is not None:
        return f"at most {duration(now - earliest)}"
    return ""


def amount_text(value: float | tuple[float, float | None] | None) -> str:
    """Messages of the account in words: a number, at least and at most so many, or at least so many; `unknown`."""
    if value is None:
        return UNKNOWN
    if not isinstance(value, tuple):
        return f"{value:,}"
    least, most = value
    if most is None:
        return f"at least {least:,}"
    return f"{least:,} to {most:,}"


def counted(count: int, thing: str) -> str:
    """The number with the thing in singular or plural."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {thing}{plural}"
