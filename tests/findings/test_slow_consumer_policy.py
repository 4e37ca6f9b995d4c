import pytest

from conditions.things import Numbers
from conditions.world import Judged
from findings.evaluated import by_rule

RULE = "slow_consumer_policy"
SLOW = {
    "slow_consumer_rate": 1.0,
    "slow_consumer_kills": 1.0,
    "slow_consumer_period": 5.0,
}


@pytest.mark.parametrize(
    ("address", "gap", "holds"),
    [
        (SLOW, 20.0, True),
        (SLOW | {"slow_consumer_kills": 0.0}, 20.0, False),
        ({"slow_consumer_kills": 1.0}, 20.0, False),
        (SLOW | {"slow_consumer_rate": 1 / 20}, 20.0, False),
        (SLOW | {"slow_consumer_rate": 1 / 19}, 20.0, True),
        (SLOW, None, False),  # nothing learned: nothing is known of its jobs
    ],
)
def test_a_policy_that_disconnects_the_healthy(
    address: Numbers, gap: float | None, holds: bool
) -> None:
    judged = Judged(step=20.0)
    done = judged.now
    for n in range(4):
        settled = n if gap is not None else 0
        times = (
            {"L": done + 20.0 * (n + 1), "Ld": done + 20.0 * (n + 1)}
            if gap is not None
            else {"Ld": done}
        )
        judged.poll(
            {"q": {"A": 10.0, "M": 10.0 - settled, "K": float(settled), "D": 1.0}},
            {"c": {"T": 1.0, "N": settled + 1.0, "C": float(settled), **times}},
            {"q": address},
        )
    rules = by_rule(judged)
    assert (RULE in rules) is holds
    if holds:
        assert rules[RULE].evidence["gap"] == pytest.approx(gap, rel=0.01)
