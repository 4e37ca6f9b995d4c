"""What a PromQL expression uses and gives: the checks of rules and dashboards are written with it."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import promql_parser as promql

from penstock.assets.rule_files import recordings
from penstock.assets.values import DEFAULT
from penstock.exposition.catalogue import CATALOGUE, Family

SCRAPED = (
    "job", "instance", "pod", "container", "endpoint", "service", "node",
    "prometheus", "prometheus_replica", "replica",
    "pod_template_hash", "app_kubernetes_io_version",
)  # fmt: skip
"""Labels of scrapes: of the Prometheus operator, of servers whose series are stored together, mapped ones of pods."""
TARGET = frozenset({*SCRAPED, *DEFAULT.identity})
"""Labels that any series may have."""
FAMILIES: Mapping[str, Family] = {family.name: family for family in CATALOGUE}
OVER_COUNTERS = frozenset({"rate", "irate", "increase", "resets"})
OVER_GAUGES = frozenset({"delta", "idelta", "deriv", "predict_linear"})
_EITHER = re.compile(r"(changes|absent|present|count|last)(_over_time)?")
_SCALARS = frozenset({"time", "scalar", "pi"})
_SETS = frozenset({"and", "or", "unless"})
_COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})

Path = tuple[Any, ...]
"""Above a node, outermost first."""


_STRING = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*`')


def quoted(expression: str) -> str:
    """
    With strings in quotes in place of those in backticks.

    Prometheus takes a string in backticks as it is; the parser of these tests looks for escapes in it.
    """
    return _STRING.sub(
        lambda found: (
            json.dumps(found[0][1:-1]) if found[0].startswith("`") else found[0]
        ),
        expression,
    )


def nodes(node: Any, above: Path = ()) -> Iterator[tuple[Any, Path]]:
    """Every node of a parsed expression with those above it."""
    yield node, above
    for child in children(node):
        yield from nodes(child, (*above, node))


def children(node: Any) -> list[Any]:
    if isinstance(node, promql.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql.Call):
        return list(node.args)
    if isinstance(node, promql.MatrixSelector):
        return [node.vector_selector]
    if isinstance(node, promql.AggregateExpr):
        return [node.expr] if node.param is None else [node.param, node.expr]
    if isinstance(node, promql.ParenExpr | promql.SubqueryExpr | promql.UnaryExpr):
        return [node.expr]
    return []


def selectors(expression: str) -> Iterator[tuple[Any, Path]]:
    """The selectors of an expression with the nodes above each."""
    for node, above in nodes(promql.parse(expression)):
        if isinstance(node, promql.VectorSelector):
            yield node, above


def operator(node: Any) -> str:
    return str(node.op)


def compares(node: Any) -> bool:
    return isinstance(node, promql.BinaryExpr) and operator(node) in _COMPARISONS


def labels_of(node: Any, known: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    """The labels that a result can have; None of a scalar. `known`: labels by metric name."""
    if isinstance(node, promql.NumberLiteral | promql.StringLiteral):
        return None
    if isinstance(node, promql.VectorSelector):
        return known[str(node.name)]
    if isinstance(node, promql.AggregateExpr):
        return _labels_of_aggregation(node, known)
    if isinstance(node, promql.Call):
        return _labels_of_call(node, known)
    if isinstance(node, promql.BinaryExpr):
        return _labels_of_operation(node, known)
    (child,) = children(node)
    return labels_of(child, known)


def _labels_of_aggregation(
    node: Any, known: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    inner = labels_of(node.expr, known) or frozenset()
    if node.modifier is None:
        return inner if operator(node) in {"topk", "bottomk"} else frozenset()
    named = frozenset(node.modifier.labels)
    return inner & named if "By" in str(node.modifier.type) else inner - named


def _labels_of_call(
    node: Any, known: Mapping[str, frozenset[str]]
) -> frozenset[str] | None:
    if node.func.name in _SCALARS:
        return None
    if node.func.name in {"absent", "absent_over_time", "vector"}:
        return frozenset()
    vectors = [
        labels for arg in node.args if (labels := labels_of(arg, known)) is not None
    ]
    if node.func.name in {"label_replace", "label_join"}:
        return vectors[0] | {node.args[1].val}
    return vectors[0]


def _labels_of_operation(
    node: Any, known: Mapping[str, frozenset[str]]
) -> frozenset[str] | None:
    left = labels_of(node.lhs, known)
    right = labels_of(node.rhs, known)
    if left is None or right is None:
        return left if right is None else right
    if operator(node) == "or":
        return left | right
    if (
        operator(node) in _SETS
        or node.modifier is None
        or node.modifier.matching is None
    ):
        return left
    card = str(node.modifier.card)
    included = frozenset(node.modifier.group_labels or ())
    if "ManyToOne" in card:
        return left | included
    if "OneToMany" in card:
        return right | included
    named = frozenset(node.modifier.matching.labels)
    return left & named if is_on(node) else left - named


def is_on(node: Any) -> bool:
    """Whether an operation matches `on` labels, not `ignoring` them."""
    return "Include" in str(node.modifier.matching.type)


def catalogue_labels() -> dict[str, frozenset[str]]:
    """Labels by metric name: the catalogue, what Prometheus itself has, and the recording rules."""
    known = {
        name: TARGET | frozenset(family.label_names)
        for name, family in FAMILIES.items()
    }
    known["up"] = TARGET
    known["ALERTS"] = TARGET | {
        "alertname",
        "alertstate",
        "severity",
        "broker",
        "address",
        "queue",
        "client",
    }
    for rule in chain.from_iterable(recordings().values()):
        known[rule["record"]] = (
            labels_of(promql.parse(rule["expr"]), known) or frozenset()
        )
    return known


def problems(expression: str, known: Mapping[str, frozenset[str]]) -> list[str]:
    """What is wrong with an expression, by the checks below; nothing, no entry."""
    try:
        tree = promql.parse(expression)
    except ValueError as error:
        return [f"no PromQL: {error}"]
    if unknown := [
        node.name for node, _ in selectors(expression) if node.name not in known
    ]:
        return [f"unknown metric {name}" for name in unknown]
    found: list[str] = []
    for node, above in nodes(tree):
        if isinstance(node, promql.VectorSelector):
            found += [*_matchers(node, known), *_type(node, above)]
        elif isinstance(node, promql.AggregateExpr):
            found += _aggregation(node, known)
        elif isinstance(node, promql.BinaryExpr):
            found += [*_matching(node, known), *_comparison(node)]
        elif isinstance(node, promql.SubqueryExpr):
            found.append("a subquery: the sum of a rate, never the rate of a sum")
    return found


def _matchers(node: Any, known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for matcher in node.matchers.matchers:
        if matcher.name not in known[node.name]:
            yield f"{node.name} has no label {matcher.name}"
        if "Re" in str(matcher.op) and re.fullmatch(r"[\w -]*", matcher.value):
            yield f"the regular expression of {matcher.name} is a literal"
        if matcher.value in {"artemis", "openmq", "classic"}:
            yield "names a kind of broker"


def _type(node: Any, above: Path) -> Iterator[str]:
    functions = {call.func.name for call in above if isinstance(call, promql.Call)}
    if any(_EITHER.fullmatch(name) for name in functions):
        return
    known = FAMILIES.get(node.name)
    counter = known.type == "counter" if known else str(node.name).endswith("_total")
    begun_since = any(
        isinstance(one, promql.BinaryExpr) and operator(one) == "unless"
        for one in above
    )
    if (
        counter and not functions & OVER_COUNTERS and not begun_since
    ):  # one that was not there before has grown from 0
        yield f"the counter {node.name} is used without rate or increase"
    if not counter and functions & OVER_COUNTERS:
        yield f"rate or increase of {node.name}, which is no counter"
    if counter and functions & OVER_GAUGES:
        yield f"delta or deriv of the counter {node.name}"


def _aggregation(node: Any, known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    inner = labels_of(node.expr, known) or frozenset()
    if node.modifier is not None and (missing := set(node.modifier.labels) - inner):
        yield f"aggregated by or without labels that are not there: {sorted(missing)}"
    names = {
        str(one.name)
        for one, _ in nodes(node.expr)
        if isinstance(one, promql.VectorSelector)
    }
    if operator(node) == "sum" and any(name.endswith("_ratio") for name in names):
        yield "a sum of ratios"


def _matching(node: Any, known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    left = labels_of(node.lhs, known)
    right = labels_of(node.rhs, known)
    if left is None or right is None or operator(node) == "or":
        return
    matching = node.modifier.matching if node.modifier is not None else None
    if matching is None:
        if left != right:
            yield f"sides differ in {sorted(left ^ right)} and nothing says on which labels to match"
    elif is_on(node) and (missing := set(matching.labels) - (left & right)):
        yield f"matched on {sorted(missing)}, which one side lacks"


def _comparison(node: Any) -> Iterator[str]:
    if not compares(node) or not isinstance(node.rhs, promql.NumberLiteral):
        return
    names = {
        str(one.name)
        for one, _ in nodes(node.lhs)
        if isinstance(one, promql.VectorSelector)
    }
    if node.rhs.val > 1 and names and all(name.endswith("_ratio") for name in names):
        yield f"a ratio is compared with {node.rhs.val:g}"
    counts = [
        one
        for one, _ in nodes(node.lhs)
        if isinstance(one, promql.AggregateExpr) and operator(one) == "count"
    ]
    if node.rhs.val == 0 and operator(node) in {"==", "<="} and counts:
        yield "a count is never 0: there is no series then"
