import pytest

from findings.evaluated import on_artemis

RULE = "management_guard_off"


@pytest.mark.parametrize(
    ("unguarded", "holds"), [(1.0, True), (0.0, False), (float("nan"), False)]
)
def test_the_guard(unguarded: float, holds: bool) -> None:
    rules = on_artemis({}, unguarded=unguarded)
    assert (RULE in rules) is holds
    if holds:
        assert (rules[RULE].scope, rules[RULE].object) == ("broker", "b")
