"""The parameters of a request, checked."""

import re
from collections.abc import Mapping, Sequence

from penstock.errors import PenstockError
from penstock.flow.lists import WORST, Wanted

MAX_ROWS = 1000
DEFAULT_ROWS = 100
MAX_OFFSET = 9_999_999
MAX_POINTS = 240
_DIGITS = re.compile(r"[0-9]{1,7}")
_TEXTS = ("address", "queue", "client", "condition", "text")


class BadRequest(PenstockError):
    """A parameter that cannot be used; `hint` says what is allowed."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def wanted(given: Mapping[str, str], sorts: Sequence[str], rows: int = DEFAULT_ROWS) -> Wanted:
    """The rows that are asked for, `rows` unless said. Raises BadRequest."""
    sort = given.get("sort", WORST)
    if sort.removeprefix("-") not in sorts:
        raise BadRequest(f"sort {sort[:40]!r} is not known", f"one of {', '.join(sorts)}; -NAME is the other way round")
    limit = whole(given, "limit", rows, 1, MAX_ROWS)
    offset = whole(given, "offset", 0, 0, MAX_OFFSET)
    return Wanted(**{name: given.get(name, "") for name in _TEXTS}, sort=sort, limit=limit, offset=offset)


def required(given: Mapping[str, str], *names: str) -> list[str]:
    """Their values. Raises BadRequest where one is missing."""
    for name in names:
        if not given.get(name):
            raise BadRequest(f"{name} is missing", "&".join(f"{one}=NAME" for one in names))
    return [given[name] for name in names]


def whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A whole number. Raises BadRequest where it is none or out of bounds."""
    text = given.get(name, str(default))
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise BadRequest(f"{name} cannot be used", f"a whole number from {least} to {most}")
    return int(text)
