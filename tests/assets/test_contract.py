"""Rules against the catalogue: what they use is there, of the right type, and joined on labels that both sides have."""

import re
from collections.abc import Iterator

import promql_parser as promql
import pytest
import yaml

from assets.mutation import seconds
from assets.promql import (
    catalogue_labels,
    compares,
    labels_of,
    nodes,
    operator,
    problems,
    selectors,
)
from penstock.assets.alerts import AlertRule
from penstock.assets.rule_files import ALERTS as FILE
from penstock.assets.rule_files import all_alerts, recordings, rule_files
from penstock.conditions.catalogue import CONDITIONS
from rig.each import of_each

KNOWN = catalogue_labels()
ALERTS = list(all_alerts())
BY_NAME = {f"{alert.name}-{alert.severity}": alert for alert in ALERTS}
MOST_TEXTS = 5
"""Annotations of an alert: Prometheus makes each as a template, for every alert that fires, at every evaluation."""
SILENT = {
    "expiring", "dead_lettering", "holder_gone", "removed_unsettled", "unknown", "producer_rolls_back", "purged",
    "surge",
}  # fmt: skip
"""Conditions that are notices always."""
SEEN_BY_OTHERS = {"two_actives"}
"""PenstockTwoActives compares what all agents show: the two may be watched by different ones."""
HANG_AND_RESTART = 240
"""s: two minutes without an answer, a restart and two polls, with a margin."""


def queries_of(template: str) -> Iterator[str]:
    """The queries in an annotation."""
    for query in re.findall(r"printf `([^`]*)` [^`]*\| query", template):
        yield query.replace("%q", '"x"')


def causes(expression: str) -> set[str]:
    return {
        matcher.value
        for selector, _ in selectors(expression)
        for matcher in selector.matchers.matchers
        if matcher.name == "cause"
    }


@of_each(
    {rule["record"]: rule["expr"] for group in recordings().values() for rule in group}
)
def test_recording_rules(expression: str) -> None:
    assert problems(expression, KNOWN) == []


@of_each(BY_NAME)
def test_alerts(alert: AlertRule) -> None:
    assert problems(alert.expr, KNOWN) == []
    parts = [node for node, _ in nodes(promql.parse(alert.expr))]
    assert any(compares(part) for part in parts) or " unless " in alert.expr
    assert not any(
        isinstance(part, promql.AggregateExpr) and operator(part) in {"topk", "bottomk"}
        for part in parts
    )
    assert alert.name.startswith("Penstock")
    assert seconds(alert.wait) > 0


def test_no_range_of_all_queues_is_read_twice() -> None:
    """What one rule of an alert asks for twice is recorded."""
    for alert in ALERTS:
        ranges = re.findall(r"\w+\([^()]*\[\w+\]\)", alert.expr)
        read = [
            one
            for one in ranges
            if "queue" in one and one.startswith(("rate", "increase", "avg"))
        ]
        assert len(set(read)) == len(read), alert.name


@of_each(BY_NAME)
def test_annotations(alert: AlertRule) -> None:
    """Sentences with the evidence; every label and number in them exists."""
    assert re.fullmatch(r"[A-Z][^{}]*\.", alert.summary)
    assert alert.description.endswith((".", "}}")) or "see the" in alert.description
    have = labels_of(promql.parse(alert.expr), KNOWN)
    assert have is not None
    assert (
        set(re.findall(r"\$labels\.(\w+)", alert.description)) | set(alert.labels)
        <= have
    )
    for query in queries_of(alert.description):
        assert problems(query, KNOWN) == []
    if {"queue", "address", "client"} & set(alert.labels):
        assert "query" not in alert.description, (
            "there may be thousands: each would ask Prometheus at every evaluation"
        )


@pytest.mark.slow  # all boards or rules
def test_every_alert_says_what_it_does_and_what_to_do() -> None:
    rules = yaml.safe_load(rule_files()[FILE])["groups"]
    for rule in (rule for group in rules for rule in group["rules"]):
        texts = rule["annotations"]
        assert len(texts) <= MOST_TEXTS, rule["alert"]
        said = r"\nImpact: [A-Z0-9`].*[^ ]\nAction: [A-Z0-9`].*[^ ]\nExplain: penstock (explain '.*'|check)$"
        assert re.search(said, texts["description"]), rule["alert"]


@of_each(BY_NAME)
def test_firing_outlasts_a_hang_and_a_restart(alert: AlertRule) -> None:
    """mq_up alone stays while a broker hangs."""
    names = {selector.name for selector, _ in selectors(alert.expr)}
    if any(name.startswith("mq_") for name in names) and names != {"mq_up"}:
        assert seconds(alert.keep) >= HANG_AND_RESTART
    assert seconds(alert.keep) >= 120


def test_every_condition_has_its_alert() -> None:
    named = [(cause, alert.name) for alert in ALERTS for cause in causes(alert.expr)]
    assert {cause for cause, _ in named} == CONDITIONS.keys() - SILENT - SEEN_BY_OTHERS
    assert len(dict(named)) == len(set(named)), "two alerts on one cause"


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("mq_queue_messages_added_total > 10", "without rate"),
        ("rate(mq_queue_messages[5m]) > 0", "no counter"),
        ("deriv(mq_queue_messages_added_total[5m]) > 0", "of the counter"),
        ("mq_queue_messages{colour='red'}", "no label colour"),
        ("mq_queue_massages > 0", "unknown metric"),
        (
            "mq_queue_messages / mq_queue_ring_limit_messages{queue=~'orders'}",
            "literal",
        ),
        ("mq_address_memory_used_ratio > 70", "ratio is compared"),
        ("sum without (address) (mq_address_memory_used_ratio) > 0.9", "sum of ratios"),
        ("count(mq_up == 1) == 0", "never 0"),
        ("mq_queue_messages > mq_address_messages", "sides differ in ['queue']"),
        ("mq_queue_messages * on (queue) mq_up", "one side lacks"),
        ("sum by (topic) (mq_queue_messages)", "not there"),
        ("rate(sum(mq_queue_messages_added_total)[5m:1m]) > 0", "subquery"),
        ('mq_broker_info{kind="artemis"}', "kind of broker"),
        ("mq_queue_messages >", "no PromQL"),
    ],
)
def test_the_checks_find_what_they_are_for(expression: str, complaint: str) -> None:
    assert any(complaint in problem for problem in problems(expression, KNOWN))
