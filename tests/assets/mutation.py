"""Small changes to an alerting rule, each of which its tests must notice."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser as promql

_TOKENS = re.compile(
    r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"|(?P<comparison>>=|<=|==|!=|>|<)|(?<![\w.])(?P<number>\d+(\.\d+)?)(?![\w.])'
)
_MATCHER = re.compile(r'(?<=[{,])\w+(=~|!=|!~|=)"[^"]*",?')
_CHANGED = {">": ("<=", ">="), "<": (">=", "<="), ">=": ("<", ">"), "<=": (">", "<"), "==": ("!=",), "!=": ("==",)}

Rule = Mapping[str, Any]


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """What was changed, and the changed rule."""
    for what, expression in dict(_expressions(rule["expr"])).items():
        yield what, {**rule, "expr": expression}
    yield "for: 0s", {**rule, "for": "0s"}
    yield "for, twice as long", {**rule, "for": f"{2 * seconds(rule['for'])}s"}
    yield "no keep_firing_for", {name: value for name, value in rule.items() if name != "keep_firing_for"}


def seconds(duration: str) -> int:
    """Of a Prometheus duration."""
    return int(promql.parse_duration(duration).total_seconds())


def _expressions(expression: str) -> Iterator[tuple[str, str]]:
    for token in _TOKENS.finditer(expression):
        replacements = _CHANGED[token[0]] if token["comparison"] else _numbers(token[0]) if token["number"] else ()
        for replacement in replacements:
            changed = expression[: token.start()] + replacement + expression[token.end() :]
            yield f"{token[0]} at {token.start()} is {replacement}", changed
    for matcher in _MATCHER.finditer(expression):
        yield f"without {matcher[0]}", expression[: matcher.start()] + expression[matcher.end() :]
    tree = promql.parse(expression)
    if isinstance(tree, promql.BinaryExpr) and str(tree.op) in {"and", "unless"}:
        yield f"without {tree.op} …", tree.lhs.prettify()


def _numbers(number: str) -> tuple[str, ...]:
    value = float(number)
    if value <= 2 and value.is_integer():
        return tuple(f"{other:g}" for other in (value - 1, value + 1) if other >= 0)
    return f"{value * 0.8:.10g}", f"{value * 1.2:.10g}"
