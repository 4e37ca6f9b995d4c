"""Small changes to a rule, each of which its tests must notice."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser as promql

from assets.promql import nodes, operator

_TOKENS = re.compile(
    r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"|(?P<comparison>>=|<=|==|!=|>|<)|(?<![\w.])(?P<number>\d+(\.\d+)?)(?![\w.])'
)
_MATCHER = re.compile(r'(?<=[{,])\w+(=~|!=|!~|=)"[^"]*",?')
_CHANGED = {
    ">": ("<=", ">="),
    "<": (">=", "<="),
    ">=": ("<", ">"),
    "<=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
}
_RANGE = re.compile(r"\[(\w+)\]|offset (\w+)")
_LABELS = re.compile(r"\b(on|ignoring|by|without|group_left) \(([\w, ]*)\)")
_OTHER = {"max": "sum", "min": "max", "sum": "max"}

Rule = Mapping[str, Any]


def mutants(rule: Rule, *, deep: bool) -> Iterator[tuple[str, Rule]]:
    """What was changed, and the changed rule. deep: also ranges, aggregations, sets and lists of labels."""
    expression = rule["expr"]
    changes = [numbers, *([structure, lists] if deep else [])]
    changed = [made for change in changes for made in change(expression)]
    for what, other in dict(changed).items():
        yield what, {**rule, "expr": other}
    if "for" in rule:
        yield "for: 0s", {**rule, "for": "0s"}
        yield "for, twice as long", {**rule, "for": f"{2 * seconds(rule['for'])}s"}
        yield (
            "no keep_firing_for",
            {name: value for name, value in rule.items() if name != "keep_firing_for"},
        )


def seconds(duration: str) -> int:
    """Of a Prometheus duration."""
    return int(promql.parse_duration(duration).total_seconds())


def put_at(expression: str, found: re.Match[str], replacement: str) -> str:
    return expression[: found.start()] + replacement + expression[found.end() :]


def numbers(expression: str) -> Iterator[tuple[str, str]]:
    """Comparisons, numbers and matchers."""
    for token in _TOKENS.finditer(expression):
        replacements = (
            _CHANGED[token[0]]
            if token["comparison"]
            else _numbers(token[0])
            if token["number"]
            else ()
        )
        for replacement in replacements:
            yield (
                f"{token[0]} at {token.start()} is {replacement}",
                put_at(expression, token, replacement),
            )
    first = -1 if "ignoring (client)" in expression else expression.find("cause=")
    for matcher in _MATCHER.finditer(expression):
        if (
            not matcher[0].startswith("cause=") or matcher.start() == first
        ):  # others are matched by their labels, too
            yield f"without {matcher[0]}", put_at(expression, matcher, "")


def structure(expression: str) -> Iterator[tuple[str, str]]:
    """Ranges, aggregations that are compared, and what is joined by and, unless, or."""
    for span in _RANGE.finditer(expression):
        length = seconds(span[1] or span[2])
        for other in (length // 4, length * 4):
            yield (
                f"{span[0]} at {span.start()} is {other}s",
                put_at(
                    expression, span, span[0].replace(span[1] or span[2], f"{other}s")
                ),
            )
    tree = promql.parse(expression)
    for node, _ in nodes(tree):
        compared = isinstance(node, promql.BinaryExpr) and operator(node) in _CHANGED
        if compared and isinstance(node.lhs, promql.AggregateExpr) and not _any(node):
            whole = node.lhs.prettify()
            aggregated = _OTHER[operator(node.lhs)] + whole.lstrip().removeprefix(
                operator(node.lhs)
            )
            yield (
                f"{aggregated} in place of {whole}",
                _put(tree.prettify(), whole, aggregated),
            )
        if isinstance(node, promql.BinaryExpr) and operator(node) in {
            "and",
            "unless",
            "or",
        }:
            whole, left, right = (
                part.prettify() for part in (node, node.lhs, node.rhs)
            )
            for side in (left, right) if operator(node) == "or" else (left,):
                yield f"{side} in place of {whole}", _put(tree.prettify(), whole, side)


def _any(node: Any) -> bool:
    """Whether it asks only that there are some, or that all are 0, which is the same of a sum."""
    some = operator(node) == ">="
    none = operator(node) in {"==", ">"}
    return isinstance(node.rhs, promql.NumberLiteral) and (
        node.rhs.val <= 1 if some else none and node.rhs.val == 0
    )


def lists(expression: str) -> Iterator[tuple[str, str]]:
    """Each label left out of each list of labels; of the same list at several places at once."""
    for kind, listed in dict.fromkeys(
        (found[1], found[2]) for found in _LABELS.finditer(expression)
    ):
        names = listed.split(", ") if listed else []
        for name in names:
            fewer = ", ".join(one for one in names if one != name)
            yield (
                f"{kind} ({listed}) lacks {name}",
                expression.replace(f"{kind} ({listed})", f"{kind} ({fewer})"),
            )


def _put(text: str, part: str, other: str) -> str:
    """`other` in place of a part of a pretty expression, whose lines may stand further in."""
    lines = r"\n\s*".join(re.escape(line.strip()) for line in part.splitlines())
    changed = re.sub(rf"(?s){lines}", lambda _: other, text, count=1)
    assert changed != text, part
    return changed


def _numbers(number: str) -> tuple[str, ...]:
    value = float(number)
    if value <= 2 and value.is_integer():
        return tuple(f"{other:g}" for other in (value - 1, value + 1) if other >= 0)
    return f"{value * 0.8:.10g}", f"{value * 1.2:.10g}"
