"""The parameters of a request: described, and checked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import Hinted
from penstock.insight.lists import WORST, ListQuery

DEFAULT_ROWS = 100
_DIGITS = re.compile(r"[0-9]{1,7}")
_TEXTS = ("address", "queue", "client", "condition", "text")

Given = Mapping[str, str]


class BadRequest(Hinted):
    """A parameter that cannot be used; `hint` says what is allowed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """place: query or path. schema: what JSON Schema says of its value beyond being a text."""

    name: str
    meaning: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    place: str = "query"
    required: bool = False


def integer(name: str, meaning: str, least: int, most: int) -> Parameter:
    return Parameter(
        name, meaning, {"type": "integer", "minimum": least, "maximum": most}
    )


LIMIT = integer("limit", f"Rows at most; default {DEFAULT_ROWS}.", 1, 1000)
OFFSET = integer("offset", "Rows to pass over, for the next page.", 0, 9_999_999)
POINTS = integer(
    "points", "So many of the last values with each row; default none.", 0, 240
)

RANGES = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86400.0, "7d": 7 * 86400.0}
"""Seconds."""
RANGE = Parameter(
    "range",
    "How far back the history is read; default the last hour, in memory.",
    {"enum": [*RANGES]},
)


def span(arguments: Given) -> float:
    """Seconds of the range that is asked for, 0 where none is. Raises BadRequest."""
    name = arguments.get(RANGE.name)
    if name is not None and name not in RANGES:
        raise BadRequest(
            f"range {name[:40]!r} is not known", f"one of {', '.join(RANGES)}"
        )
    return RANGES[name] if name else 0.0


def sort(sorts: Sequence[str]) -> Parameter:
    meaning = "Numbers begin with the largest, a minus before turns round."
    return Parameter("sort", meaning, {"enum": [*sorts, *(f"-{one}" for one in sorts)]})


def list_query(
    arguments: Given, sorts: Sequence[str], rows: int = DEFAULT_ROWS
) -> ListQuery:
    """The rows that are asked for, `rows` unless given. Raises BadRequest."""
    sort = arguments.get("sort", WORST)
    if sort.removeprefix("-") not in sorts:
        raise BadRequest(
            f"sort {sort[:40]!r} is not known",
            f"one of {', '.join(sorts)}; -NAME is the other way round",
        )
    texts = {name: arguments.get(name, "") for name in _TEXTS}
    return ListQuery(
        **texts,
        sort=sort,
        limit=whole(arguments, LIMIT, rows),
        offset=whole(arguments, OFFSET),
    )


def required(arguments: Given, *names: str) -> list[str]:
    """Their values. Raises BadRequest where one is missing."""
    for name in names:
        if not arguments.get(name):
            raise BadRequest(
                f"{name} is missing",
                "&".join(f"{parameter}=NAME" for parameter in names),
            )
    return [arguments[name] for name in names]


def whole(arguments: Given, parameter: Parameter, default: int = 0) -> int:
    """A whole number. Raises BadRequest where it is none or out of bounds."""
    text = arguments.get(parameter.name, str(default))
    least = parameter.schema["minimum"]
    most = parameter.schema["maximum"]
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise BadRequest(
            f"{parameter.name} cannot be used", f"a whole number from {least} to {most}"
        )
    return int(text)
