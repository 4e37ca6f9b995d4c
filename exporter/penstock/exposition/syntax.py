"""The syntax of both text formats: Prometheus text 0.0.4 and OpenMetrics 1.0. Sample lines are the same in both."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Final

from xxhash import xxh3_64_hexdigest

from penstock.exposition.catalogue import Family
from penstock.settings.policy import LABEL_BYTES


class Format(Enum):
    TEXT = "text 0.0.4"
    OPENMETRICS = "OpenMetrics 1.0"


END: Final = {Format.TEXT: b"", Format.OPENMETRICS: b"# EOF\n"}
"""The text behind the last family."""

_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
# Prometheus' lexer takes NUL for the end of its input; UTF-8 cannot carry half of a surrogate pair.
_SPECIAL: Final = re.compile(r'[\\"\n\x00\ud800-\udfff]')


def header(family: Family, form: Format) -> bytes:
    """The HELP and TYPE lines."""
    name = family.name
    kind = family.type
    text = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
    if form is Format.OPENMETRICS:
        name = openmetrics_name(family)
        text = text.replace('"', '\\"')
    elif kind == "info":
        kind = "gauge"
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode()


def openmetrics_name(family: Family) -> str:
    """The name of the family in OpenMetrics, where `_total` and `_info` belong to the sample only."""
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return family.name.removesuffix(suffix)


def label_texts(
    names: Sequence[str], rows: Sequence[object], longest: int = LABEL_BYTES
) -> list[bytes]:
    """(rows,) The text between name and value: a row's attributes `names` as labels, and a space. longest: bytes of a
    label's value, before it is escaped; see `shortened`.
    """
    if not names:
        return [b" "] * len(rows)
    template = "{" + ",".join(f'{name}="%s"' for name in names) + "} "
    columns = [_label_values(name, rows, longest) for name in names]
    return [(template % values).encode() for values in zip(*columns, strict=True)]


def label_text(labels: Mapping[str, str]) -> bytes:
    """The same for one row with labels of its own."""
    pairs = []
    for name, value in labels.items():
        escaped = _SPECIAL.sub(_escape, value)
        pairs.append(f'{name}="{escaped}"')
    text = ",".join(pairs)
    return f"{{{text}}} ".encode()


def shortened(value: str, longest: int) -> str:
    """A text of at most so many bytes: a longer one is cut, and ends with `~` and 16 digits that no other text has."""
    octets = value.encode(errors="surrogatepass")
    if len(octets) <= longest:
        return value
    start = octets[: longest - 17].decode(errors="ignore")
    return f"{start}~{xxh3_64_hexdigest(octets)}"


def _label_values(name: str, rows: Sequence[object], longest: int) -> list[str]:
    """(rows,) An attribute of the rows as texts: not too long, and escaped."""
    values = [
        value if type(value) is str else _text(value)
        for value in map(attrgetter(name), rows)
    ]
    # UTF-8 has up to four bytes a character: some values may be too long.
    most = longest // 4
    if max(map(len, values), default=0) > most:
        values = [
            shortened(value, longest) if len(value) > most else value
            for value in values
        ]
    # One look at all of them: there is rarely anything to escape.
    if _SPECIAL.search("".join(values)):
        values = [_SPECIAL.sub(_escape, value) for value in values]
    return values


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], "\N{REPLACEMENT CHARACTER}")
