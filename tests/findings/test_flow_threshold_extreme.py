from functools import cache
from typing import Any

import pytest

from conditions.openmq_world import OpenmqJudged
from findings.evaluated import SIZE, paused_at
from penstock.findings.rules.openmq import SURE

RULE = "flow_threshold_extreme"
EFFECTS = [
    (100, 90, "batches are small"),
    (100, 89, ""),
    (100, 10, "run dry"),
    (100, 11, ""),
    (100, 50, ""),
    (10, 1, "run dry"),
    (9, 0, ""),  # of so few there is no share to speak of
]
"""Limit, resume level, and what comes of them."""


@cache
def found() -> list[dict[str, Any]]:
    """The findings at each poll, by client; each pair of limit and level is that of a queue of its own."""
    world = OpenmqJudged()
    plays = {
        f"{limit}-{resume}": paused_at(limit, resume) for limit, resume, _ in EFFECTS
    }
    at_polls = []
    for poll in range(SURE + 1):
        played = {name: play(poll) for name, play in plays.items()}
        queues = {name: queue for name, (queue, _) in played.items()}
        consumers = {
            name: {**consumer, "queue": name, "connection": number}
            for number, (name, (_, of_queue)) in enumerate(played.items())
            for consumer in of_queue.values()
        }
        world.poll(queues, consumers, dict.fromkeys(plays, SIZE))
        at_polls.append(
            {
                one.object: one
                for one in world.state.findings.found
                if one.rule.name == RULE
            }
        )
    return at_polls


@pytest.mark.parametrize(("limit", "resume", "effect"), EFFECTS)
def test_a_threshold_at_either_end(limit: int, resume: int, effect: str) -> None:
    one = found()[-1].get(f"{limit}-{resume}/app")
    assert (one is not None) is bool(effect)
    if one is not None:
        assert one.scope == "client"
        assert effect in one.says
        assert one.evidence == {
            "limit": limit, "resume": resume, "threshold": 100 * resume / limit, "batch": limit - resume,
            "starved": 0.0, "at_limit": 1.0,
        }  # fmt: skip


def test_a_few_pauses_are_not_sure_yet() -> None:
    assert found()[SURE - 1] == {}
