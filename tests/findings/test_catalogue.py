"""The rules as such; one more is seen wherever findings are."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from string import Formatter

import msgspec
import pytest

from conditions.world import Judged
from docs.generator import generator
from penstock import findings
from penstock.findings import catalogue, rules
from penstock.findings.catalogue import RULES
from penstock.findings.finding import FindingRule, FindingScope, Found, of_queues
from penstock.findings.usage import FindingContext
from penstock.insight.explain import BrokerView, explain
from penstock.model import BrokerKind

PACKAGE = Path(findings.__file__).parents[1]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_texts_name_only_numbers_that_have_a_unit(rule: FindingRule) -> None:
    fields = [
        (name, form)
        for _, name, form, _ in Formatter().parse(rule.says + rule.advice)
        if name
    ]
    assert {name for name, form in fields if form} <= set(rule.units)
    assert len(rule.units) == sum(
        len(names.split()) for names in rule.evidence.values()
    )
    assert all((rule.says, rule.advice, rule.when, rule.arithmetic))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_tests_of_its_name(rule: FindingRule) -> None:
    assert (Path(__file__).parent / f"test_{rule.name}.py").is_file()


def test_every_rule_is_in_the_catalogue() -> None:
    modules = [
        import_module(f"{rules.__name__}.{one.name}")
        for one in iter_modules(rules.__path__)
    ]
    written = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, FindingRule)
    ]
    assert [rule.name for rule in RULES] == list(
        dict.fromkeys(rule.name for rule in RULES)
    )
    assert sorted(rule.name for rule in RULES) == sorted(rule.name for rule in written)


@pytest.mark.slow  # many polls
def test_the_name_of_a_rule_stands_in_one_file() -> None:
    """Beside the list of all; `slow_consumer_policy` is also what Artemis calls a setting."""
    files = (file for file in PACKAGE.rglob("*.py") if file != Path(catalogue.__file__))
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    settings = PACKAGE / "brokers"
    for rule in RULES:
        named = [
            file for file, text in texts.items() if re.search(rf"\b{rule.name}\b", text)
        ]
        assert len([file for file in named if settings not in file.parents]) == 1, (
            rule.name
        )


# --- one more


def find(rule: FindingRule, context: FindingContext) -> Found:
    depth = context.queues["messages"]
    yield from of_queues(rule, context, depth > 2, {"depth": depth})


TOY = FindingRule(
    name="deeper_than_two",
    scope=FindingScope.QUEUE,
    find=find,
    when="the queue has more than two messages",
    says="the queue has {depth:.0f} messages",
    advice="consume {depth:.0f} messages of {other:.0f}",
    arithmetic="messages",
    evidence={"messages": "depth"},
)


def test_a_rule_that_is_added_is_exported_explained_and_documented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue, "RULES", (*RULES, TOY))
    judged = Judged().poll({"q": {"A": 3.0, "M": 3.0}, "flat": {"A": 1.0, "M": 1.0}})
    (row,) = judged.tables["finding"].index
    assert (row.broker, row.scope, row.object, row.rule) == (
        "b",
        "queue",
        "q",
        "deeper_than_two",
    )
    snapshot = judged.snapshot({"q": {}}, {}, {})
    view = BrokerView(judged.state, judged.tables, snapshot, judged.policy, 15.0)
    assert msgspec.to_builtins(explain(view, "q").findings) == [
        {
            "rule": "deeper_than_two",
            "scope": "queue",
            "object": "q",
            "says": "the queue has 3 messages",
            "evidence": {"depth": {"value": 3, "unit": "messages"}},
            "advice": "consume 3 messages of an unknown number of",
        }
    ]
    row = "| `deeper_than_two` | queue | artemis, classic, openmq | the queue has more than two messages | messages |"
    assert row in generator.findings(generator.BEGIN)


def test_a_rule_of_another_kind_of_broker_is_not_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy = replace(TOY, brokers=frozenset({BrokerKind.OPENMQ}), when="w", arithmetic="n")
    monkeypatch.setattr(catalogue, "RULES", (toy,))
    assert not len(Judged().poll({"q": {"A": 3.0, "M": 3.0}}).tables["finding"])
    assert "| `deeper_than_two` | queue | openmq | w | n |" in generator.findings(
        generator.BEGIN
    )
