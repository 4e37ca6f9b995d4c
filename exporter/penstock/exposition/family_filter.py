"""Which families a request wants, `/metrics?name[]=…&exclude[]=…`: some receivers take no body as large as ours."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from penstock.core.errors import PenstockError

MOST: Final = 50
"""Patterns in one request: each is held against every family."""
_FAMILY: Final = re.compile(rb"^# HELP ", re.MULTILINE)
_SUFFIX: Final = {b"counter": "_total", b"info": "_info"}


class UnknownFamily(PenstockError):
    """A name or pattern that no family bears, or too many of them."""


@dataclass(frozen=True, slots=True)
class FamilyFilter:
    """
    names, without: families by name as their samples bear it, `*` stands for anything; no `names` are all.

    Of what both speak of, `without` wins.
    """

    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.names or self.without)

    def of(self, known: Iterable[str]) -> frozenset[str]:
        """The chosen ones of all there are. UnknownFamily when a name fits none: a slip must not look like no data."""
        known = frozenset(known)
        patterns = {*self.names, *self.without}
        if len(patterns) > MOST:
            raise UnknownFamily(f"{len(patterns)} names in name[] and exclude[], at most {MOST} are taken; use *")
        fits = {pattern: {name for name in known if fnmatchcase(name, pattern)} for pattern in patterns}
        for pattern, found in fits.items():
            if not found:
                raise UnknownFamily(
                    f"no metric is named {pattern[:100]!r}; name[] and exclude[] take names as in docs/metrics.md,"
                    " * for any part of one"
                )
        wanted = known if not self.names else frozenset[str]().union(*(fits[pattern] for pattern in self.names))
        return wanted.difference(*(fits[pattern] for pattern in self.without))


def families(text: bytes) -> dict[str, bytes]:
    """Whole families, each with its HELP and TYPE lines, by the name that their samples bear."""
    found = {}
    for part in _FAMILY.split(text)[1:]:
        name, _, behind = part.partition(b" ")
        kind = behind.partition(b"# TYPE ")[2].partition(b"\n")[0].rpartition(b" ")[2]
        suffix = _SUFFIX.get(kind, "")
        found[name.decode().removesuffix(suffix) + suffix] = b"# HELP " + part
    return found
