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
"""What is a point in time."""
UNITS = {name: unit for unit, names in NAMES["units"].items() for name in names.split()}


def formatted(name: str, value: float) -> str:
    return moment(value) if name in MOMENTS else quantity(value, UNITS.get(name, ""))


def name_text(name: str) -> str:
    """Of a number: its name in words."""
    plain = name.replace("_", " ").removesuffix(" bytes").removesuffix(" ratio")
    return str(NAMES["titles"].get(name.replace(" ", "_"), plain))


def client_name_text(name: str) -> str:
    """The same of a number of a client or a consumer. What it acknowledges and rolls back counts as acknowledged."""
    return str(NAMES["client_titles"].get(name, name_text(name)))


def age(
    now: float, exact: float | None, earliest: float | None, latest: float | None
) -> str:
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
        return (
            f"at least {value[0]:,}"
            if value[1] is None
            else f"{value[0]:,} to {value[1]:,}"
        )
    return f"{value:,}"


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
