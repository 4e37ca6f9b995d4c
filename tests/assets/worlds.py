"""The scene in which an alert fires, played in other worlds: clusters, agents, pods, Prometheus servers side by side.

Made for each alert from its own tests, without texts: only who fires is compared.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import promql_parser as promql

from assets.promql import SCRAPED, children, is_on, nodes, operator
from penstock.assets.values import DEFAULT

Test = dict[str, Any]
Rule = Mapping[str, Any]
ELSEWHERE = "elsewhere"


def with_label(series: str, name: str, value: str) -> str:
    """A selector with this label, in place of its own of that name."""
    rest = re.sub(rf'\b{name}="[^"]*",?', "", series)
    return (
        re.sub(r"\{", f'{{{name}="{value}",', rest, count=1)
        if "{" in rest
        else f'{rest}{{{name}="{value}"}}'
    )


def metric(series: str) -> str:
    return series.partition("{")[0]


def copied(test: Test, name: str, value: str) -> list[dict[str, str]]:
    return [
        {**one, "series": with_label(one["series"], name, value)}
        for one in test["input_series"]
    ]


def played(
    name: str,
    test: Test,
    series: list[dict[str, str]],
    fired: Sequence[Mapping[str, str]],
    at: int,
) -> Test:
    """The last check of `test` with other series. fired: the labels of each alert."""
    check = {
        **test["alert_rule_test"][at],
        "exp_alerts": [{"exp_labels": dict(one)} for one in fired],
    }
    return {
        "name": name,
        "interval": test["interval"],
        "input_series": series,
        "alert_rule_test": [check],
    }


def worlds(
    tests: Sequence[Test], rules: Sequence[Rule], *, deep: bool = True
) -> Iterator[Test]:
    """Of each test named `fires …` or `boundary …`. deep: also those in which labels differ."""
    rules = [rule for rule in rules if "alert" in rule]
    lighter = [*as_warnings(tests)]
    yield from lighter
    for test in (
        one
        for one in [*tests, *lighter]
        if one["name"].startswith(("fires", "boundary"))
    ):
        fires = [
            i for i, check in enumerate(test["alert_rule_test"]) if check["exp_alerts"]
        ]
        at = max(fires, default=len(test["alert_rule_test"]) - 1)
        fired = [one["exp_labels"] for one in test["alert_rule_test"][at]["exp_alerts"]]
        if test["name"].startswith("fires"):
            yield from _in_incident(test, fired, at, rules)
        if deep:
            yield from _beside(test, fired, at)
            if test["name"].startswith("fires"):
                yield from _apart(test, tests, fired, at, rules)


def _beside(test: Test, fired: Sequence[Mapping[str, str]], at: int) -> Iterator[Test]:
    """Copies of everything that differ in one label: of identity they are two, of a scrape one and the same."""
    whole = str(test["input_series"])
    for name in (
        one
        for one in DEFAULT.identity
        if f"{one}=" not in whole and test["input_series"]
    ):
        series = [*copied(test, name, "one"), *copied(test, name, "two")]
        twice = [{**one, name: value} for one in fired for value in ("one", "two")]
        yield played(f"two of {name}", test, series, twice, at)
    own = {name for one in fired for name in one}
    if not own & {"job", "instance"}:
        series = [one for name in SCRAPED for one in copied(test, name, ELSEWHERE)]
        labelled = test["input_series"]
        for name in SCRAPED:
            labelled = copied({**test, "input_series": labelled}, name, ELSEWHERE)
        if len({one["series"] for one in labelled}) == len(labelled):
            yield played("with every label of a scrape", test, labelled, fired, at)
        yield played(
            "seen by several", test, [*test["input_series"], *series], fired, at
        )


def _in_incident(
    test: Test, fired: Sequence[Mapping[str, str]], at: int, rules: Sequence[Rule]
) -> Iterator[Test]:
    """The condition belongs to an incident, or another one does."""
    (severity,) = {one["severity"] for one in fired}
    (rule,) = (one for one in rules if one["labels"]["severity"] == severity)
    if not (found := re.search(r"mq_\w+_in_incident", rule["expr"])):
        return
    raised = re.findall(r"(mq_\w+)\{", rule["expr"])[0]
    of_rule = [one for one in test["input_series"] if metric(one["series"]) == raised]
    own = [
        {**one, "series": one["series"].replace(raised, found[0])} for one in of_rule
    ]
    yield played(
        "the incident fires in its place", test, [*test["input_series"], *own], [], at
    )
    name = (
        "client"
        if "_client_" in raised
        else "address"
        if "_address_" in raised
        else "queue"
    )
    others = [
        {**one, "series": with_label(one["series"], name, ELSEWHERE)} for one in own
    ]
    yield played(
        "another's incident is no reason",
        test,
        [*test["input_series"], *others],
        fired,
        at,
    )
    none = [
        {**one, "values": "0x80"} if one in of_rule else one
        for one in test["input_series"]
    ]
    yield played("none is none", test, none, [], at)


def as_warnings(tests: Sequence[Test]) -> Iterator[Test]:
    """Those in which a condition is critical, with the same as a warning."""
    for test in tests:
        values = {
            one["values"]
            for one in test["input_series"]
            if metric(one["series"]).endswith("_unhealthy")
        }
        if not test["name"].startswith(("fires", "goes", "quiet")) or not any(
            one.startswith("2x") for one in values
        ):
            continue
        series = [
            {**one, "values": one["values"].replace("2x", "1x", 1)}
            if metric(one["series"]).endswith("_unhealthy")
            else one
            for one in test["input_series"]
        ]
        checks = [
            {
                **check,
                "exp_alerts": [
                    {"exp_labels": {**one["exp_labels"], "severity": "warning"}}
                    for one in check["exp_alerts"]
                ],
            }
            for check in test["alert_rule_test"]
        ]
        yield {**test, "input_series": series, "alert_rule_test": checks}


def _apart(
    test: Test,
    tests: Sequence[Test],
    fired: Sequence[Mapping[str, str]],
    at: int,
    rules: Sequence[Rule],
) -> Iterator[Test]:
    """B of the rule is elsewhere in one label: of `A and on (…) B` nothing fires, of `A unless on (…) B` A does."""
    trees = {rule["labels"]["severity"]: promql.parse(rule["expr"]) for rule in rules}
    (severity,) = {one["severity"] for one in fired}
    for node, _ in nodes(trees[severity]):
        if not isinstance(node, promql.BinaryExpr) or not is_joined(node):
            continue
        if operator(node) == "unless" and not metrics(node.rhs) <= metrics(
            node.lhs
        ):  # else it is its own past
            yield from _suppressed_elsewhere(test, tests, node, fired, at)
        if operator(node) != "and":
            continue
        right = metrics(node.rhs) - metrics(node.lhs)
        if not right & {
            metric(one["series"]) for one in test["input_series"]
        } or "or" in {operator(one) for one in descendants(node.rhs)}:
            continue
        for label in matched_on(node):
            series = [
                {**one, "series": with_label(one["series"], label, ELSEWHERE)}
                if metric(one["series"]) in right
                else one
                for one in test["input_series"]
            ]
            yield played(f"{sorted(right)} of another {label}", test, series, [], at)


def matched_on(node: Any) -> list[str]:
    return [*node.modifier.matching.labels]


def _suppressed_elsewhere(
    test: Test,
    tests: Sequence[Test],
    node: Any,
    fired: Sequence[Mapping[str, str]],
    at: int,
) -> Iterator[Test]:
    """What would keep it from firing, as some other test has it, put beside each series, but for one label."""
    names = matched_on(node)
    (suppressor, *_) = (
        one
        for other in tests
        for one in other["input_series"]
        if metric(one["series"]) in metrics(node.rhs)
        and one["values"].startswith(
            "0x" if "== 0" in " ".join(node.rhs.prettify().split()) else "1"
        )
        and all(_chooses(matcher, one["series"]) for matcher in matchers(node.rhs))
    )
    of_left = [
        one["series"]
        for one in test["input_series"]
        if metric(one["series"]) in metrics(node.lhs)
    ]
    for label in names:
        beside = []
        for series in of_left:
            own = dict(re.findall(r'(\w+)="([^"]*)"', series))
            text = suppressor["series"]
            for name in names:
                text = with_label(
                    text, name, ELSEWHERE if name == label else own.get(name, "")
                )
            beside.append({"series": text, "values": suppressor["values"]})
        yield played(
            f"kept from by another {label}",
            test,
            [*test["input_series"], *beside],
            fired,
            at,
        )


def matchers(node: Any) -> Iterator[Any]:
    for one, _ in nodes(node):
        if isinstance(one, promql.VectorSelector):
            yield from one.matchers.matchers


def _chooses(matcher: Any, series: str) -> bool:
    found = re.search(rf'\b{matcher.name}="([^"]*)"', series)
    value = found[1] if found else ""
    return (
        bool(re.fullmatch(matcher.value, value))
        if "Re" in str(matcher.op)
        else value == matcher.value
    )


def is_joined(node: Any) -> bool:
    return (
        node.modifier is not None and node.modifier.matching is not None and is_on(node)
    )


def metrics(node: Any) -> set[str]:
    return {
        str(one.name)
        for one, _ in nodes(node)
        if isinstance(one, promql.VectorSelector)
    }


def descendants(node: Any) -> Iterator[Any]:
    for child in children(node):
        yield from descendants(child)
    if isinstance(node, promql.BinaryExpr):
        yield node


# --- recording rules

INFO = 'mq_broker_info{job="penstock",instance="a:1",broker="b1",kind="artemis",node_id="n1",role="active"}'


def burst(number: int) -> str:
    """A counter that grows by 1,200 times this between the fifth and the sixth minute: 4 a second over five minutes."""
    return f"0x20 {300 * number}+{300 * number}x3 {1200 * number}x30"


def of_recording(rule: Rule) -> Iterator[Test]:
    """What a recording rule says of nodes, clusters, agents and pods side by side."""
    family = re.findall(r"mq_queue_\w+", rule["expr"])[0]
    queue = family + '{job="penstock",instance="a:1",broker="b1",address="o",queue="o"}'
    counts = family.endswith("_total")
    if "evicted" in family:
        queue = with_label(queue, "reason", "ring")

    def scene(
        name: str,
        nodes: Sequence[tuple[Mapping[str, str], int]],
        expected: Mapping[str, float],
        passed_on: int = 0,
    ) -> Test:
        """nodes: the labels of each agent's view of a broker, how many messages it has there; passed_on: of these."""
        series = []
        for labels, number in nodes:
            info = INFO
            own = queue
            for label, value in labels.items():
                info = with_label(info, label, value)
                own = (
                    own
                    if label in {"node_id", "role"}
                    else with_label(own, label, value)
                )
            values = burst(number) if counts else f"{number}x60"
            series += [
                {"series": info, "values": "1x60"},
                {"series": own, "values": values},
            ]
            if passed_on:
                redistributed = own.replace(
                    family, "mq_queue_messages_redistributed_total"
                )
                series.append({"series": redistributed, "values": burst(passed_on)})
        samples = [
            {
                "labels": f'{rule["record"]}{{{labels}address="o",queue="o"}}',
                "value": value * 4 if counts else value,
            }
            for labels, value in expected.items()
        ]
        check = {"expr": rule["record"], "eval_time": "8m", "exp_samples": samples}
        return {
            "name": name,
            "interval": "15s",
            "input_series": series,
            "promql_expr_test": [check],
        }

    if "evicted" in family:
        yield scene("reasons are added", [({}, 3), ({"reason": "limit"}, 4)], {"": 7})
    passive = {"broker": "b9", "role": "passive"}
    other = {"broker": "b2", "node_id": "n2"}
    if "redistributed" in rule["expr"]:
        yield scene(
            "what a cluster passed on counts where it went",
            [({}, 8)],
            {"": 4},
            passed_on=4,
        )
    yield scene(
        "nodes are added, a backup is not", [({}, 3), (other, 4), (passive, 9)], {"": 7}
    )
    for label in ("job", "instance", "broker"):
        yield scene(
            f"one broker by another {label}",
            [({}, 3), ({label: ELSEWHERE}, 4)],
            {"": 4},
        )
        yield scene(
            f"another broker by {label}",
            [({}, 3), ({label: ELSEWHERE, "node_id": "n2"}, 4)],
            {"": 7},
        )
    yield from _side_by_side(scene)


def _side_by_side(scene: Callable[..., Test]) -> Iterator[Test]:
    """Scenes of two views of a broker that differ in one label: of identity they are two, of a scrape the same."""
    for label in DEFAULT.identity:
        nodes_of = [({label: "one"}, 3), ({label: "two"}, 4)]
        yield scene(
            f"one node id in two of {label}",
            nodes_of,
            {f'{label}="one",': 3, f'{label}="two",': 4},
        )
        others = [({label: "one"}, 3), ({label: "two", "node_id": "n2"}, 4)]
        yield scene(
            f"a node each in two of {label}",
            others,
            {f'{label}="one",': 3, f'{label}="two",': 4},
        )
    for label in SCRAPED[2:]:
        yield scene(
            f"scraped twice, by {label}",
            [({label: "one"}, 3), ({label: "two"}, 4)],
            {"": 4},
        )
