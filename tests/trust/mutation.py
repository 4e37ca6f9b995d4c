"""JSON with some of its values replaced by what no broker should say, for hypothesis."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]

NUMBERS = (-1, 0, 1e308, -1e308, 1e-320, 2**53 + 1, 2**63, -(2**63), 2**64, 10**40)
TEXTS = (
    *(
        "",
        "ERROR: x",
        "NaN",
        "-1",
        "true",
        "null",
        "\ud800",
        "\x00",
        "\u202e\n\r\t\"\\<script>&'",
        "x" * 5000,
    ),
    *("${HOME}", 'a,b=c:"d"*?', "2.44.0", "2.x", "9" * 400),
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    {"a": {"b": 1}},
    [None, 1, "x"],
)
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([*NUMBERS, *TEXTS, *OTHERS]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Of everything in it, containers too."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy with another value at a path; one that is there no more changes nothing."""
    if not path:
        return new
    head = path[0]
    rest = path[1:]
    if isinstance(value, dict) and head in value:
        return {**value, head: replaced(value[head], rest, new)}
    if isinstance(value, list) and isinstance(head, int) and head < len(value):
        return [*value[:head], replaced(value[head], rest, new), *value[head + 1 :]]
    return value


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one to four places changed; a JSON text in it counts as what it says."""
    opened = unfold(value)
    paths = list(places(opened))
    for number in draw(
        st.lists(st.integers(0, len(paths) - 1), min_size=1, max_size=4)
    ):
        opened = replaced(opened, paths[number], draw(ODD))
    return fold(opened)


INSIDE = "JSON text"


def unfold(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unfold(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unfold(inner) for inner in value]
    if isinstance(value, str) and value.startswith('{"'):
        return {INSIDE: json.loads(value)}
    return value


def fold(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            json.dumps(fold(value[INSIDE]))
            if INSIDE in value
            else {key: fold(one) for key, one in value.items()}
        )
    return [fold(one) for one in value] if isinstance(value, list) else value
