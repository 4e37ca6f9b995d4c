import pytest

from conditions.openmq_world import OpenmqJudged
from findings.evaluated import by_rule
from penstock.settings.constants import Constants

RULE = "limit_below_buffer"


@pytest.mark.parametrize(
    ("policy", "delivering", "polls", "holds"),
    [
        ("remove_oldest", 70.0, 5, True),
        ("remove_low_priority", 70.0, 5, True),
        ("reject_newest", 70.0, 5, False),
        ("remove_oldest", 100.0, 5, False),
        ("remove_oldest", 70.0, 3, False),
    ],
)
def test_clients_that_hold_what_the_limit_removed(
    policy: str, delivering: float, polls: int, holds: bool
) -> None:
    """They hold 100, of which the destination has `delivering`."""
    world = OpenmqJudged(constants=Constants())
    for i in range(polls):
        world.poll(
            {
                "q": {
                    "A": 100 + 30 * i,
                    "K": 30 * i,
                    "M": 100,
                    "D": delivering,
                    "uncommitted": 0.0,
                }
            },
            {"c": {"N": 100, "T": 100, "L": world.now}},
            {"q": {"limit_messages": 100, "policy": policy}},
        )
    rules = by_rule(world)
    assert (RULE in rules) is holds
    if holds:
        assert rules[RULE].evidence == {
            "stale": 30,
            "limit": 100,
            "buffered": 100,
            "advised": 10,
        }
        assert "to 10:" in rules[RULE].advice
        assert "unknown" not in rules[RULE].says


@pytest.mark.slow  # many polls
def test_a_skew_of_one_poll_is_none() -> None:
    world = OpenmqJudged(constants=Constants())
    for i in range(8):
        world.poll(
            {
                "q": {
                    "A": 100 + 30 * i,
                    "K": 30 * i,
                    "M": 100,
                    "D": 70.0 if i % 3 else 100.0,
                    "uncommitted": 0.0,
                }
            },
            {"c": {"N": 100, "T": 100, "L": world.now}},
            {"q": {"limit_messages": 100, "policy": "remove_oldest"}},
        )
    assert RULE not in by_rule(world)
