"""Requests in the form of Jolokia and the names of MBeans in them, as both brokers are asked: all of them reads."""

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import fields

from penstock.core.errors import BadAnswer
from penstock.transports.transport import Request

_KEY_PROPERTY = re.compile(r'([^=,]*)=("(?:[^"\\]|\\.)*"|[^,]*)', re.DOTALL)


@cache
def attributes(row: type[Struct]) -> tuple[str, ...]:
    """The names of the attributes that are asked for rows of this type."""
    return tuple(column.encode_name for column in fields(row))


def read(mbean: str, attributes: Sequence[str], **config: str) -> Request:
    """Attributes of all MBeans that match the pattern; what one lacks is left out of its answer."""
    config = {"ignoreErrors": "true", **config}
    return {
        "type": "read",
        "mbean": mbean,
        "attribute": list(attributes),
        "config": config,
    }


def call(mbean: str, operation: str, *arguments: str | int) -> Request:
    return {
        "type": "exec",
        "mbean": mbean,
        "operation": operation,
        "arguments": list(arguments),
    }


def quote(text: str) -> str:
    """As ObjectName.quote."""
    for character in '\\"*?':
        text = text.replace(character, "\\" + character)
    return '"' + text.replace("\n", "\\n") + '"'


def unquote(quoted: str) -> str:
    """As ObjectName.unquote."""
    text = iter(quoted[1:-1])
    return "".join(
        ({"n": "\n"}.get(after := next(text, ""), after) if c == "\\" else c)
        for c in text
    )


def key_of(name: str, wanted: str) -> str:
    """A key property of an ObjectName, unquoted. BadAnswer: the name, which came with an answer, lacks it."""
    value = key_if_any(name, wanted)
    if value is None:
        raise BadAnswer(f"an MBean without {wanted} in its name: {name[:200]!r}")
    return value


def key_if_any(name: str, wanted: str) -> str | None:
    for match in _KEY_PROPERTY.finditer(name, name.find(":") + 1):
        if match[1] == wanted:
            return unquote(match[2]) if match[2].startswith('"') else match[2]
    return None
