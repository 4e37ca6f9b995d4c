"""The scene in which an alert fires, played in other worlds: clusters, agents, pods, Prometheus servers side by side.

Made for each alert from its own tests, without texts: only who fires is compared.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import promql_parser as promql

from assets.promql import children, is_on, nodes, operator
from penstock.assets.values import DEFAULT, OF_SCRAPES

Test = dict[str, Any]
Rule = Mapping[str, Any]
SCRAPED = tuple(name for name in OF_SCRAPES if name not in DEFAULT.identity)
ELSEWHERE = "elsewhere"


def with_label(series: str, name: str, value: str) -> str:
    """A selector with this label, in place of its own of that name."""
    rest = re.sub(rf'\b{name}="[^"]*",?', "", series)
    return re.sub(r"\{", f'{{{name}="{value}",', rest, count=1) if "{" in rest else f'{rest}{{{name}="{value}"}}'


def metric(series: str) -> str:
    return series.partition("{")[0]


def copied(test: Test, name: str, value: str) -> list[dict[str, str]]:
    return [{**one, "series": with_label(one["series"], name, value)} for one in test["input_series"]]


def played(name: str, test: Test, series: list[dict[str, str]], fired: Sequence[Mapping[str, str]], at: int) -> Test:
    """The last check of `test` with other series. fired: the labels of each alert."""
    check = {**test["alert_rule_test"][at], "exp_alerts": [{"exp_labels": dict(one)} for one in fired]}
    return {"name": name, "interval": test["interval"], "input_series": series, "alert_rule_test": [check]}


def worlds(tests: Sequence[Test], rules: Sequence[Rule]) -> Iterator[Test]:
    """Of each test named `fires …`, or for more than one severity of the first of each."""
    for test in (one for one in tests if one["name"].startswith("fires")):
        at = max(i for i, check in enumerate(test["alert_rule_test"]) if check["exp_alerts"])
        fired = [one["exp_labels"] for one in test["alert_rule_test"][at]["exp_alerts"]]
        yield from _beside(test, fired, at)
        yield from _apart(test, fired, at, rules)


def _beside(test: Test, fired: Sequence[Mapping[str, str]], at: int) -> Iterator[Test]:
    """Copies of everything that differ in one label: of identity they are two, of a scrape one and the same."""
    for name in DEFAULT.identity:
        series = [*copied(test, name, "one"), *copied(test, name, "two")]
        twice = [{**one, name: value} for one in fired for value in ("one", "two")]
        yield played(f"two of {name}", test, series, twice, at)
    own = {name for one in fired for name in one}
    if not own & {"job", "instance"}:
        series = [one for name in SCRAPED for one in copied(test, name, ELSEWHERE)]
        yield played("seen by several", test, [*test["input_series"], *series], fired, at)


def _apart(test: Test, fired: Sequence[Mapping[str, str]], at: int, rules: Sequence[Rule]) -> Iterator[Test]:
    """Of `A and on (…) B` in the rule B is elsewhere in one label: nothing fires."""
    trees = {rule["labels"]["severity"]: promql.parse(rule["expr"]) for rule in rules}
    (severity,) = {one["severity"] for one in fired}
    for node, above in nodes(trees[severity]):
        if not isinstance(node, promql.BinaryExpr) or operator(node) != "and" or not is_joined(node):
            continue
        beside_or = any(isinstance(one, promql.BinaryExpr) and operator(one) == "or" for one in above)
        right = metrics(node.rhs) - metrics(node.lhs)
        if beside_or or not right or "or" in {operator(one) for one in descendants(node.rhs)}:
            continue
        for label in node.modifier.matching.labels:
            series = [
                {**one, "series": with_label(one["series"], label, ELSEWHERE)} if metric(one["series"]) in right else one
                for one in test["input_series"]
            ]
            yield played(f"{sorted(right)} of another {label}", test, series, [], at)


def is_joined(node: Any) -> bool:
    return node.modifier is not None and node.modifier.matching is not None and is_on(node)


def metrics(node: Any) -> set[str]:
    return {str(one.name) for one, _ in nodes(node) if isinstance(one, promql.VectorSelector)}


def descendants(node: Any) -> Iterator[Any]:
    for child in children(node):
        yield from descendants(child)
    if isinstance(node, promql.BinaryExpr):
        yield node
