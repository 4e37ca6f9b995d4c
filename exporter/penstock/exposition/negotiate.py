"""The wishes of a request: its format and encoding, and its families (`/metrics?name[]=…&exclude[]=…`)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from penstock.core.errors import PenstockError
from penstock.exposition.syntax import Format

_ELEMENT: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_PARAMETER: Final = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*"?)+')
_QUALITY: Final = re.compile(r"0?\.\d+|0\.?|1(?:\.0*)?")

_MEDIA_TYPES: Final = {
    Format.TEXT: "text/plain",
    Format.OPENMETRICS: "application/openmetrics-text",
}
_VERSIONS: Final = {Format.TEXT: "0.0.4", Format.OPENMETRICS: "1.0.0"}


class NegotiatedFormat(NamedTuple):
    """In which format to answer, and the exact Content-Type to name it by."""

    format: Format
    content_type: str


class _Element(NamedTuple):
    """One element of a header: `value` and the names of `parameters` in lower case, quality 0 to 1."""

    value: str
    quality: float
    parameters: Mapping[str, str]


_TEXT: Final = NegotiatedFormat(Format.TEXT, "text/plain; version=0.0.4; charset=utf-8")


def answer(accept: str | None) -> NegotiatedFormat:
    """The format that suits the Accept header best; text 0.0.4 when none does."""
    elements = list(_elements(accept or ""))
    best = _TEXT
    best_rank = (0.0, 0, 0)
    for form in (Format.TEXT, Format.OPENMETRICS):
        match = _best_match(form, elements)
        if match is None:
            continue
        element = elements[match.number]
        rank = (element.quality, match.exactness, -match.number)
        if element.quality > 0 and rank > best_rank:
            best = _TEXT if form is Format.TEXT else _openmetrics(element)
            best_rank = rank
    return best


class _Match(NamedTuple):
    """An element of the Accept header that a format fits: how exact it is, and its number in the header."""

    exactness: int
    number: int


def _best_match(form: Format, elements: Sequence[_Element]) -> _Match | None:
    """The element that counts for a format: the most exact one, and of several the first; None: none fits."""
    best: _Match | None = None
    for number, element in enumerate(elements):
        exactness = _exactness(form, element)
        if exactness is not None and (best is None or exactness > best.exactness):
            best = _Match(exactness, number)
    return best


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether the Accept-Encoding header allows gzip, and does not like the plain body better."""
    quality = {
        element.value: element.quality for element in _elements(accept_encoding or "")
    }
    gzip = quality.get("gzip", quality.get("x-gzip", quality.get("*", 0.0)))
    return gzip > 0 and gzip >= quality.get("identity", 0.0)


def _exactness(form: Format, element: _Element) -> int | None:
    """How exactly an element of the Accept header names a format, 0 to 3; None: it does not fit."""
    media_type = _MEDIA_TYPES[form]
    if element.value == media_type:
        version = element.parameters.get("version")
        if version is None:
            return 2
        return 3 if version == _VERSIONS[form] else None
    if element.value == media_type.split("/")[0] + "/*":
        return 1
    return 0 if element.value == "*/*" else None


def _openmetrics(element: _Element) -> NegotiatedFormat:
    asked = element.parameters.get("escaping", "").lower()
    # `dots` and `values` would rename our metrics, which need no escaping in these two.
    scheme = "allow-utf-8" if asked in ("allow-utf-8", "allow-utf8") else "underscores"
    text = (
        f"application/openmetrics-text; version=1.0.0; charset=utf-8; escaping={scheme}"
    )
    return NegotiatedFormat(Format.OPENMETRICS, text)


def _elements(header: str) -> Iterator[_Element]:
    """The elements of a comma-separated header with `q` and other parameters; malformed ones are left out."""
    for element in _ELEMENT.findall(header):
        stripped = [part.strip() for part in _PARAMETER.findall(element)]
        value, *parts = stripped or [""]
        parameters = {}
        for part in parts:
            name, _, text = part.partition("=")
            parameters[name.strip().lower()] = text.strip().strip('"')
        quality = parameters.get("q", "1")
        if value and _QUALITY.fullmatch(quality):
            yield _Element(value.lower(), float(quality), parameters)


MOST: Final = 50
"""Patterns in one request: each is held against every family."""
_FAMILY: Final = re.compile(rb"^# HELP ", re.MULTILINE)
_SUFFIX: Final = {b"counter": "_total", b"info": "_info"}


class UnknownFamily(PenstockError):
    """A name or pattern that no family bears, or too many of them."""


@dataclass(frozen=True, slots=True)
class FamilyFilter:
    """names, without: families by name as their samples bear it, `*` matches anything; no `names` are all. Of what
    both speak of, `without` wins.
    """

    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.names or self.without)

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """The chosen ones of all there are. UnknownFamily when a name fits none: a slip must not look like no data."""
        names = frozenset(names)
        patterns = {*self.names, *self.without}
        if len(patterns) > MOST:
            raise UnknownFamily(
                f"{len(patterns)} names in name[] and exclude[], at most {MOST} are taken; use *"
            )
        fits = {pattern: _matching(names, pattern) for pattern in patterns}
        wanted = names
        if self.names:
            wanted = frozenset[str]().union(*(fits[name] for name in self.names))
        return wanted.difference(*(fits[pattern] for pattern in self.without))


def _matching(names: Iterable[str], pattern: str) -> set[str]:
    """The names that a pattern fits. Raises UnknownFamily when there is none."""
    matches = {name for name in names if fnmatchcase(name, pattern)}
    if not matches:
        raise UnknownFamily(
            f"no metric is named {pattern[:100]!r}; name[] and exclude[] take names as in docs/metrics.md,"
            " * for any part of one"
        )
    return matches


def families(text: bytes) -> dict[str, bytes]:
    """Whole families, each with its HELP and TYPE lines, by the name that their samples bear."""
    texts = {}
    for part in _FAMILY.split(text)[1:]:
        name, _, behind = part.partition(b" ")
        type_line = behind.partition(b"# TYPE ")[2].partition(b"\n")[0]
        kind = type_line.rpartition(b" ")[2]
        suffix = _SUFFIX.get(kind, "")
        family = name.decode().removesuffix(suffix) + suffix
        texts[family] = b"# HELP " + part
    return texts
