"""What Grafana makes of the variables in a query, by the rules of its template service and its Prometheus data source.

A reference may name a format, as in `${queue:regex}`; without one the data source decides. All that these dashboards
use is here, and what they could be tempted to use; a format that is not here is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

REFERENCE: Final = re.compile(
    r"""\$(?P<plain>\w+)
    | \[\[ (?P<old>\w+) (?: : (?P<old_format>\w+) )? \]\]
    | \$\{ (?P<braced>\w+) (?: : (?P<format>\w+) )? \}""",
    re.VERBOSE,
)
EVERYTHING: Final = ".*"
"""The custom value of the choice `All`; Grafana puts it into a query as it is."""
BUILT_IN: Final = {"__rate_interval": "1m", "__interval": "15s", "__range": "1h"}


@dataclass(frozen=True, slots=True)
class Choice:
    """
    What is chosen for a variable. several: whether the variable offers several values, or `All`.

    everything: `All` is chosen, in place of `values`.
    """

    values: tuple[str, ...] = ()
    several: bool = False
    everything: bool = False


ALL: Final = Choice(several=True, everything=True)


def expanded(
    text: str, choices: Mapping[str, Choice], *, quotes_escaped: bool = False
) -> str:
    """
    A query as Grafana sends it; a variable that is not among the choices stays as it is written.

    quotes_escaped: as with Grafana's feature `prometheusSpecialCharsInLabelValues`.
    """

    def replaced(found: re.Match[str]) -> str:
        name = found["plain"] or found["old"] or found["braced"]
        if name in BUILT_IN:
            return BUILT_IN[name]
        if name not in choices:
            return found[0]
        choice = choices[name]
        if choice.everything:
            return EVERYTHING
        written = found["old_format"] or found["format"]
        return (
            _formatted(choice, written)
            if written
            else _of_prometheus(choice, quotes_escaped=quotes_escaped)
        )

    return REFERENCE.sub(replaced, text)


def _formatted(choice: Choice, written: str) -> str:
    if written == "raw":
        return ",".join(choice.values)
    if written == "regex":
        return _alternatives(
            [_escaped(value, r"\^$*+?.()|[]{}/", "\\") for value in choice.values]
        )
    if written == "doublequote":
        return ",".join(
            '"' + value.replace('"', '\\"') + '"' for value in choice.values
        )
    if written == "percentencode":
        (value,) = choice.values
        return quote(value, safe="-_.~")
    raise NotImplementedError(written)


def _of_prometheus(choice: Choice, *, quotes_escaped: bool) -> str:
    """Without a format: as a string in PromQL, and as a regular expression within it where there may be several."""
    if choice.several:
        return _alternatives(
            [
                _as_expression(value, quotes_escaped=quotes_escaped)
                for value in choice.values
            ]
        )
    (value,) = choice.values
    value = value.replace("\\", r"\\")
    return value.replace('"', r"\"") if quotes_escaped else value.replace("'", r"\\'")


def _as_expression(value: str, *, quotes_escaped: bool) -> str:
    value = value.replace("\\", r"\\\\")
    if quotes_escaped:
        return _escaped(value.replace('"', r"\\\""), "$^*{}[]'+?.()|", r"\\")
    return _escaped(value, "$^*{}[]+?.()|", r"\\")


def _alternatives(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"({'|'.join(values)})"


def _escaped(value: str, special: str, by: str) -> str:
    return "".join(
        by + character if character in special else character for character in value
    )
