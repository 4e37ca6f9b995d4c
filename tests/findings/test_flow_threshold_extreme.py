import pytest

from findings.evaluated import on_openmq, paused_at
from penstock.findings.rules.openmq import SURE

RULE = "flow_threshold_extreme"


@pytest.mark.parametrize(
    ("limit", "resume", "polls", "effect"),
    [
        (100, 90, SURE + 1, "batches are small"),
        (100, 89, SURE + 1, ""),
        (100, 10, SURE + 1, "run dry"),
        (100, 11, SURE + 1, ""),
        (100, 50, SURE + 1, ""),
        (100, 90, SURE, ""),  # not sure yet
        (10, 1, SURE + 1, "run dry"),
        (9, 0, SURE + 1, ""),  # of so few there is no share to speak of
    ],
)
def test_a_threshold_at_either_end(limit: int, resume: int, polls: int, effect: str) -> None:
    rules = on_openmq(paused_at(limit, resume), polls)
    assert (RULE in rules) is bool(effect)
    if effect:
        one = rules[RULE]
        assert (one.scope, one.object) == ("client", "q/app")
        assert effect in one.says
        assert one.evidence == {
            "limit": limit, "resume": resume, "threshold": 100 * resume / limit, "batch": limit - resume,
            "starved": 0.0, "at_limit": 1.0,
        }  # fmt: skip
