"""
The rules with scrapes that add labels of pods: two agents on one broker, and a rollout that replaces a pod.

An alert about a broker has the labels of the identity and Penstock's own, whatever else its series have.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest

from assets.boards import DOCUMENTS, panels, substituted
from assets.promql import FAMILIES, children
from assets.test_alerts import promtool, put, rules_in
from penstock.assets.rule_files import ALERTS, RECORDING
from penstock.assets.values import DEFAULT

Series = Mapping[str, str]
QUEUE = {"broker": "b1", "address": "orders", "queue": "orders"}
MINUTES = 40
"""Of each scene; samples come twice a minute."""
ALL_ALONG = f"1x{2 * MINUTES}"
UNTIL_20 = f"1x{MINUTES} stale"
FROM_20 = f"_x{MINUTES} 1x{MINUTES}"


def pod(number: int, version: str = "1.0") -> dict[str, str]:
    """What a scrape adds that maps labels of pods."""
    return {
        "job": "penstock",
        "instance": f"10.0.0.{number}:19771",
        "pod": f"penstock-{number}",
        "pod_template_hash": f"hash{version}",
        "app_kubernetes_io_version": version,
        "team": f"team-{version}",
    }


def series(family: str, labels: Mapping[str, str], values: str) -> Series:
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    return {"series": f"{family}{{{inside}}}", "values": values}


def fired(name: str, at: int, *alerts: Mapping[str, str]) -> dict[str, Any]:
    """What of an alert fires, at a minute."""
    return {
        "alertname": name,
        "eval_time": f"{at}m",
        "exp_alerts": [{"exp_labels": dict(one)} for one in alerts],
    }


def checked(
    folder: Path, rules: Sequence[Mapping[str, Any]], test: Mapping[str, Any]
) -> str:
    """What promtool finds wrong in a scene with these rules; nothing, an empty text."""
    silent = [
        {name: value for name, value in rule.items() if name != "annotations"}
        for rule in rules
    ]
    file = put(
        folder, silent, {"evaluation_interval": "30s"}, [{"interval": "30s", **test}]
    )
    status, output = promtool("test", "rules", file)
    return output if status else ""


def of_alert(name: str) -> list[Mapping[str, Any]]:
    return [rule for rule in rules_in(ALERTS) if rule["alert"] == name]


@pytest.mark.prometheus
def test_two_agents_raise_one_alert(tmp_path: Path) -> None:
    agents = [pod(1), pod(2, "1.1")]
    raised = [
        series(
            "mq_queue_unhealthy",
            {**one, **QUEUE, "cause": "no_consumer"},
            f"2x{2 * MINUTES}",
        )
        for one in agents
    ]
    alert = {**QUEUE, "cause": "no_consumer", "severity": "critical"}
    test = {
        "input_series": raised,
        "alert_rule_test": [fired("PenstockNoConsumer", 10, alert)],
    }
    assert checked(tmp_path / "rules", of_alert("PenstockNoConsumer"), test) == ""


@pytest.mark.prometheus
def test_a_rollout_leaves_one_alert_that_goes_on(tmp_path: Path) -> None:
    """A new pod of another version takes over at minute 20: nothing resolves, nothing fires a second time."""
    labels = {**QUEUE, "cause": "no_consumer"}
    raised = [
        series(
            "mq_queue_unhealthy", {**pod(1), **labels}, UNTIL_20.replace("1x", "2x", 1)
        ),
        series(
            "mq_queue_unhealthy",
            {**pod(2, "1.1"), **labels},
            FROM_20.replace(" 1x", " 2x"),
        ),
    ]
    alert = {**labels, "severity": "critical"}
    checks = [fired("PenstockNoConsumer", at, alert) for at in (10, 19, 20, 21, 22, 30)]
    test = {"input_series": raised, "alert_rule_test": checks}
    assert checked(tmp_path / "rules", of_alert("PenstockNoConsumer"), test) == ""


@pytest.mark.prometheus
@pytest.mark.parametrize(
    "name", ["PenstockAgentAbsent", "PenstockBrokerUnwatched", "PenstockBrokerDown"]
)
def test_a_rollout_is_no_absence(name: str, tmp_path: Path) -> None:
    """What the old pod alone showed, with its labels, is not gone: the new one shows it."""
    build = {"version": "1.0", "revision": "a", "pythonversion": "3.13"}
    families = {
        "penstock_build_info": build,
        "penstock_broker_expected": {"broker": "b1"},
        "mq_up": {"broker": "b1"},
    }
    pods = [(pod(1), UNTIL_20), (pod(2, "1.1"), FROM_20)]
    rows = [
        series(family, {**one, **own}, values)
        for family, own in families.items()
        for one, values in pods
    ]
    checks = [fired(name, at) for at in range(10, MINUTES)]
    assert (
        checked(
            tmp_path / "rules",
            of_alert(name),
            {"input_series": rows, "alert_rule_test": checks},
        )
        == ""
    )


@pytest.mark.prometheus
def test_a_rollout_brings_no_dead_letters(tmp_path: Path) -> None:
    """The new pod has the address of the old one, as a Service gives it, and counts on from what was there before."""
    old = {**pod(1), "instance": "penstock:19771"}
    new = {**pod(2, "1.1"), "instance": "penstock:19771"}
    rows = []
    for labels, values in ((old, UNTIL_20), (new, FROM_20)):
        rows += [
            series(
                "mq_queue_messages_added_total",
                {**labels, **QUEUE},
                values.replace("1x", "5000x", 1),
            ),
            series("mq_queue_info", {**labels, **QUEUE, "kind": "dead_letter"}, values),
            series(
                "mq_broker_info",
                {**labels, "broker": "b1", "node_id": "n1", "role": "active"},
                values,
            ),
        ]
    name = "PenstockDeadLettersGrowing"
    test = {
        "input_series": rows,
        "alert_rule_test": [fired(name, at) for at in range(16, MINUTES)],
    }
    assert checked(tmp_path / "rules", of_alert(name), test) == ""


@pytest.mark.prometheus
def test_a_rollout_loses_no_messages(tmp_path: Path) -> None:
    """What the dashboard shows as lost in its range is not all that the new pod has on its account."""
    board = DOCUMENTS["penstock-messages"]
    (query,) = (
        target["expr"]
        for panel in panels(board)
        for target in panel["targets"]
        if panel["title"] == "Lost otherwise"
    )
    expression = substituted(query.replace("$__range", "15m"))
    lost = {**QUEUE, "fate": "dropped"}
    rows = [
        series(
            "mq_account_messages_total",
            {**pod(1), **lost},
            UNTIL_20.replace("1x", "5000x", 1),
        ),
        series(
            "mq_account_messages_total",
            {**pod(2, "1.1"), **lost},
            FROM_20.replace(" 1x", " 5000x"),
        ),
    ]
    none = [{"labels": "{}", "value": 0}]
    checks = [
        {"expr": expression, "eval_time": f"{at}m", "exp_samples": none}
        for at in (19, 22, 30, 39)
    ]
    assert (
        checked(
            tmp_path / "rules", [], {"input_series": rows, "promql_expr_test": checks}
        )
        == ""
    )


@pytest.mark.prometheus
def test_a_recorded_number_counts_a_broker_once(tmp_path: Path) -> None:
    """Two agents of two versions watch it, one of which is replaced."""
    info = {"broker": "b1", "kind": "artemis", "node_id": "n1", "role": "active"}
    pods = [(pod(1), ALL_ALONG), (pod(2, "1.1"), UNTIL_20), (pod(3, "1.2"), FROM_20)]
    rows = [series("mq_broker_info", {**one, **info}, values) for one, values in pods]
    rows += [
        series("mq_queue_messages", {**one, **QUEUE}, values) for one, values in pods
    ]
    name = "address_queue:mq_queue_messages:sum"
    (rule,) = (one for one in rules_in(RECORDING) if one["record"] == name)
    one = [{"labels": f'{name}{{address="orders",queue="orders"}}', "value": 1}]
    checks = [
        {"expr": name, "eval_time": f"{at}m", "exp_samples": one}
        for at in (10, 19, 20, 21, 30)
    ]
    assert (
        checked(
            tmp_path / "rules",
            [rule],
            {"input_series": rows, "promql_expr_test": checks},
        )
        == ""
    )


@pytest.mark.slow  # all rules
def test_rules_about_brokers_keep_no_label_that_a_scrape_may_add() -> None:
    """`without` keeps labels that no list foresees."""
    for rule in (*rules_in(ALERTS), *rules_in(RECORDING)):
        if of_agents(rule):
            continue
        tree = promql.parse(rule["expr"])
        for aggregation in outermost(tree):
            assert "By" in str(aggregation.modifier.type), rule["expr"]
            assert set(aggregation.modifier.labels) <= own_labels() | set(
                DEFAULT.identity
            ), rule["expr"]


def of_agents(rule: Mapping[str, Any]) -> bool:
    """Whether a rule is about agents, which scrapes tell apart."""
    runbook = rule.get("annotations", {}).get("runbook_url", "")
    return "/penstock.html" in runbook and rule["alert"] != "PenstockAgentAbsent"


def outermost(node: Any) -> list[Any]:
    """The aggregations whose labels those of a result are."""
    if isinstance(node, promql.AggregateExpr):
        return [node]
    if isinstance(node, promql.BinaryExpr | promql.ParenExpr):
        return [one for child in children(node) for one in outermost(child)]
    return []


def own_labels() -> set[str]:
    return {label for family in FAMILIES.values() for label in family.label_names}
