"""`make compare` sees a change of what people read: conditions, their causes, the answers of `explain`."""

from dataclasses import replace
from typing import Any

import pytest
from bench.compare.__main__ import compared
from bench.compare.said import causes_of, explained, leaves

from conditions.situations import HELD, HOLDER, polls
from conditions.world import Judged
from penstock.causes.verdict import CauseState, Verdict
from penstock.insight.explain import BrokerView


def hung() -> Judged:
    return polls(Judged(step=60.0), 8, HELD, {"c": HOLDER})


def test_each_text_of_an_answer_is_a_row_of_its_own() -> None:
    answer = {"queue": "q", "clients": [{"name": "a"}, {"name": None}]}
    assert list(leaves(answer)) == [
        ("queue", '"q"'),
        ("clients.0.name", '"a"'),
        ("clients.1.name", "null"),
    ]


def test_what_is_known_of_causes_is_among_what_is_compared() -> None:
    (condition,) = hung().conditions
    changed = condition._replace(
        verdicts={
            **condition.verdicts,
            "client_hangs": Verdict(CauseState.PROVEN, "planted"),
        }
    )
    before = causes_of([condition])
    now = causes_of([changed])
    assert before
    assert [
        "causes",
        "stalled",
        "q q app",
        "client_hangs",
        "proven",
        "planted",
        "",
    ] in now
    assert before != now


def test_the_queues_with_a_condition_are_explained() -> None:
    world = hung()
    snapshot = world.snapshot({"q": HELD}, {"c": HOLDER}, {})
    view = BrokerView(
        world.state,
        world.tables,
        replace(snapshot, stamp=world.now),
        world.policy,
        world.step,
    )
    rows = explained(view, world.conditions)
    assert any(
        path.startswith("conditions.0.") and text == '"stalled"'
        for _, _, path, text in rows
    )
    assert {row[1] for row in rows} == {"q"}


def poll(**parts: Any) -> dict[str, Any]:
    return {"source": "made up", "poll": 1, "conditions": [], "samples": [], **parts}


@pytest.mark.parametrize(
    ("part", "row", "differing"),
    [
        ("conditions", ["stalled", "b"], ["stalled"]),
        (
            "causes",
            ["causes", "stalled", "q q app", "client_hangs", "proven", "planted", ""],
            ["causes"],
        ),
        (
            "explained",
            ["explain", "q", "conditions.0.action", '"planted"'],
            ["explain"],
        ),
        ("samples", 'mq_up{broker="b"} 1', ["mq_up"]),
    ],
)
def test_a_planted_change_is_seen(
    part: str, row: Any, differing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = poll(causes=[], explained=[])
    now = poll(causes=[], explained=[]) | {part: [row]}
    found = compared(iter([before]), iter([now]))
    assert (found["different"], found["differing"], found["not_compared"]) == (
        1,
        differing,
        [],
    )
    assert "planted" in capsys.readouterr().out or part in ("conditions", "samples")


def test_what_an_older_commit_does_not_print_is_named_and_not_compared() -> None:
    found = compared(iter([poll()]), iter([poll(causes=[["causes"]])]))
    assert (found["different"], found["not_compared"]) == (0, ["causes"])
