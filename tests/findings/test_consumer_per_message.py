import pytest

from conditions.world import Judged
from findings.evaluated import by_rule
from penstock.findings.rules.clients import LEAST_POLLS

RULE = "consumer_per_message"


@pytest.mark.parametrize(
    ("each", "stays", "polls", "holds"),
    [
        (1.0, 0, 10, True),
        (2.0, 0, 10, True),
        (3.0, 0, 10, False),
        (1.0, 0, LEAST_POLLS - 1, False),
        (1.0, 4, 10, False),  # a pool that stays, and a few that come and go
    ],
)
def test_a_consumer_for_each_message(
    each: float, stays: int, polls: int, holds: bool
) -> None:
    judged = Judged()
    held = {"C": 0.0, "T": 1.0, "N": 1.0}
    for n in range(polls + 1):
        come = {f"c{n}.{i}": {"T": 0.0, "N": each, "C": each} for i in range(2)}
        stay = {f"s{i}": held for i in range(stays)}
        judged.poll({"q": {"A": 100.0, "K": 2.0 * n * each}}, {**come, **stay})
    rules = by_rule(judged)
    assert (RULE in rules) is holds
    if holds:
        assert rules[RULE].evidence == {"new": 20.0, "seconds": 135.0, "each": each}
