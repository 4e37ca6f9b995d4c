"""Which findings become series, and when they are looked for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conditions.world import Judged
from findings.evaluated import idle, openmq
from penstock.findings.engine import MOST, SECONDS
from penstock.insight.explain import BrokerView, findings_of
from penstock.settings.policy import Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings

NO_DEAD = {"has_dead_letter_address": 0.0, "killed": 3.0}


def test_no_more_than_the_most_of_one_rule() -> None:
    judged = Judged()
    judged.poll({f"q{i:03}": NO_DEAD for i in range(MOST + 5)})
    assert len(judged.tables["finding"]) == MOST


def test_one_finding_a_client_of_all_its_connections_the_worst() -> None:
    def play(n: int) -> Any:
        queue, consumers = idle(3)(n)
        return queue, {
            name: {**said, "connection": 7 + (name == "c0")}
            for name, said in consumers.items()
        }

    found = openmq(play, 2, client_memory=1).state.findings.found
    assert [
        one.evidence["consumers"]
        for one in found
        if one.rule.name == "flow_limit_exceeds_memory"
    ] == [2]


def rule(**says: Any) -> Rules:
    return Rules((Rule(Match(queue="q"), RuleSettings(**says)),))


@pytest.mark.parametrize(
    ("says", "left"),
    [({"silence": True}, 0), ({"ignore": True}, 0), ({"owner": "me"}, 1)],
)
def test_what_the_operator_does_not_want_is_not_exported(
    says: Mapping[str, Any], left: int
) -> None:
    judged = Judged()
    judged.policy = replace(Policy("b"), rules=rule(**says))
    judged.poll({"q": NO_DEAD})
    assert len(judged.tables["finding"]) == left


def test_findings_go_when_their_cause_does_and_the_series_stay_while_it_lasts() -> None:
    judged = Judged()
    judged.poll({"q": NO_DEAD})
    before = judged.state.findings.index
    judged.poll({"q": NO_DEAD})
    assert judged.state.findings.index is before
    judged.poll({"q": {"has_dead_letter_address": 1.0}}, after=SECONDS - 1)
    assert len(judged.tables["finding"]) == 1
    judged.poll({"q": {"has_dead_letter_address": 1.0}}, after=1)
    assert len(judged.tables["finding"]) == 0


def test_a_connections_findings_are_shown_of_its_queues_and_silenced_with_them() -> (
    None
):
    world = openmq(idle(2), 2, client_memory=1)
    snapshot = world.snapshot({"q": {}}, {}, {})
    view = BrokerView(world.state, world.tables, snapshot, world.policy, 15.0)
    (series,) = world.tables["queue"].index
    assert "flow_limit_exceeds_memory" in {
        one.rule.name for one in findings_of(view, series)
    }
    shown = {(row.scope, row.object, row.rule) for row in world.tables["finding"].index}
    assert ("connection", "app", "flow_limit_exceeds_memory") in shown
    quiet = openmq(idle(2), 2, client_memory=1, silence=True)
    assert not len(quiet.tables["finding"])
