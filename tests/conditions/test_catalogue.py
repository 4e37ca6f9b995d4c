"""A condition is one file: what is registered is found everywhere, and no name is written a second time."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock
from agent.world import World
from docs.generator import generator
from penstock.assets.rule_files import all_alerts
from penstock.conditions.catalogue import CONDITIONS, for_kind
from penstock.conditions.condition import Alert, Condition, Raised, Scope, Variant
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format
from penstock.insight.answers import Evidence
from penstock.insight.explain import BrokerView, explain
from penstock.insight.lists import ListQuery, condition_list
from penstock.observation.poll import RuleInputs

PACKAGE = Path(penstock.__file__).parent


def many(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.found.ready > 3))


TOY = Condition(
    name="toy_backlog",
    scope=Scope.QUEUE,
    title="More than three messages wait.",
    rule=many,
    when="more than three messages wait for {proof}",
    quiet_on="three",
    evidence=lambda poll, at: {"ready": poll.found.ready[at]},
    causes={"toy": "a toy"},
    action="take {ready:.0f} messages",
    alert=Alert(
        name="PenstockToy",
        description="{queue.ready} messages of {in_queue} wait.",
        runbook="queues",
    ),
    variants={"openmq": Variant(causes={"toy": "another toy"})},
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Condition]:
    monkeypatch.setitem(CONDITIONS, TOY.name, TOY)
    for_kind.cache_clear()
    yield TOY
    for_kind.cache_clear()


def samples(world: World) -> list[str]:
    blocks = BrokerBlocks()
    exposition = Exposition(lambda _: b"")
    exposition.set_broker("b1", blocks)
    blocks.update(world.tables)
    return b"".join(exposition.chunks(Format.TEXT, gzip=False)).decode().splitlines()


@pytest.mark.slow  # many polls
def test_a_registered_condition_is_found_everywhere(toy: Condition) -> None:
    world = World()
    world.queue(1, "q", messages=5)
    world.queue(2, "few", messages=2)
    for _ in range(2):
        assert toy.name not in world.names()
        world.poll()
    assert [line for line in samples(world) if f'cause="{toy.name}"' in line] == [
        f'mq_queue_unhealthy{{broker="b1",address="q",queue="q",cause="{toy.name}"}} 1'
    ]
    view = BrokerView(world.state, world.tables, world.snapshot(), world.policy, 15.0)
    (active,) = [
        one for one in explain(view, "q").conditions if one.condition == toy.name
    ]
    assert (active.rule, [str(one) for one in active.causes]) == (
        "more than three messages wait for 15 s",
        ["possible: a toy"],
    )
    assert active.advice == "take 5 messages"
    assert active.evidence["ready"] == Evidence(5, "messages")
    assert condition_list([view], ListQuery(condition=toy.name)).total == 1
    text = generator.conditions("# Conditions\n" + generator.MARK)
    assert "## toy_backlog" in text
    assert "more than three messages wait for 15 s" in text
    (warning, critical) = [
        alert for alert in all_alerts() if alert.name == "PenstockToy"
    ]
    assert f'mq_queue_unhealthy{{cause="{toy.name}"}}' in warning.expr
    assert (warning.severity, critical.severity) == ("warning", "critical")
    assert "`{{ $labels.queue }}`" in warning.description


def test_a_variant_is_of_its_kind_of_broker_only(toy: Condition) -> None:
    assert for_kind("openmq")[toy.name].causes == {"toy": "another toy"}
    assert for_kind("artemis")[toy.name].causes == {"toy": "a toy"}


def test_what_a_kind_of_broker_does_not_have_silences_nothing_there() -> None:
    """A rule of another kind may read what this kind's poll does not have."""
    for kind in ("artemis", "openmq", "another"):
        conditions = for_kind(kind)
        for condition in conditions.values():
            assert {other.name for other in condition.silenced_by} <= conditions.keys()
    silences = {
        other.name for other in for_kind("openmq")["not_dispatching"].silenced_by
    }
    assert silences == {"paused", "connection_paused"}
    assert "connection_paused" not in for_kind("artemis")
    assert all(
        one.brokers != frozenset({"artemis"}) for one in for_kind("openmq").values()
    )


def test_a_silence_asks_for_the_rule_of_the_same_kind() -> None:
    """`Condition.on` resolves the conditions that silence it, too."""
    first = Condition(
        name="first", scope=Scope.QUEUE, title="", when="", quiet_on="", causes={}, action="", rule=many,
        variants={"openmq": Variant(rule=at_none)},
    )  # fmt: skip
    second = Condition(
        name="second", scope=Scope.QUEUE, title="", when="", quiet_on="", causes={}, action="", rule=many,
        silenced_by=(first,),
    )  # fmt: skip
    assert [other.rule for other in second.on("openmq").silenced_by] == [at_none]
    assert [other.rule for other in second.on("artemis").silenced_by] == [many]


def at_none(poll: RuleInputs) -> Raised:
    return Raised(np.zeros(len(poll.found.queues), np.bool_))


ALSO_COLUMNS = {
    "paused",
    "producers_blocked",
    "orphaned",
    "in_doubt",
    "unwanted",
    "unheld",
    "purged",
    "too_few_consumers",
}
"""Names that are also columns of a snapshot or of the metrics, fates, or causes."""
WORDS = {
    "unknown": {
        "assessment/object_state.py", "causes/evidence.py", "insight/objects.py",
        "brokers/clients.py", "insight/answers.py", "insight/formatting.py", "insight/knowledge.py", "insight/text.py",
        "brokers/classic/tables.py", "cli/main.py", "core/formatting.py", "tui/screens.py",
    }
}  # fmt: skip
"""Where a name is a word of everyday."""


def literals() -> Iterator[tuple[str, Path]]:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, file


@pytest.mark.slow  # takes a second
def test_a_condition_is_named_in_its_own_file_only() -> None:
    """Everything else imports it or gets it from the catalogue."""
    named: dict[str, set[Path]] = {
        name: set() for name in CONDITIONS.keys() - ALSO_COLUMNS
    }
    for text, file in literals():
        if text in named and str(file.relative_to(PACKAGE)) not in WORDS.get(text, ()):
            named[text].add(file)
    assert named == {name: {PACKAGE / "conditions" / f"{name}.py"} for name in named}


TESTED_TOGETHER = {
    "dead_lettering_unusually": "test_unusual_shares",
    "expiring_unusually": "test_unusual_shares",
}
"""Condition → the file of its tests, where several have one rule."""


def test_a_condition_has_its_tests() -> None:
    files = {file.stem for file in Path(__file__).parent.glob("test_*.py")}
    assert {
        TESTED_TOGETHER.get(name, f"test_{name}") for name in CONDITIONS
    } - files == set()
