"""Every fault is found and nothing else is said, every healthy rhythm is quiet: however it is polled."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from conditions.scenarios import FAULTS, HEALTHY, one_wedged_of_eight
from conditions.world import World

APART = "20 ms apart"
MODES: dict[str, dict[str, Any]] = {
    "5 s": {"step": 5.0},
    "15 s": {},
    "30 s": {"step": 30.0},
    "every 4th blind": {"blind": 4},
    "9 polls missed": {"missed": (150.0, 285.0)},
    APART: {"apart": 0.02},
}
FAST = {"busy", "busy pool", "some fail", "ring overflows", "one big rollback"}
"""What happens between two reads of a poll matters to these."""
UNTIL = 450.0


def played(scenarios: Iterable[str], *, apart: Collection[str] = ()) -> list[Any]:
    """Each scenario in each mode; those in another rhythm than the usual one seldom differ from it: they are slow."""
    return [
        pytest.param(name, mode, marks=[pytest.mark.slow] if MODES[mode].keys() - {"apart"} else [])
        for name in scenarios
        for mode in MODES
        if mode != APART or name in apart
    ]


def until(mode: str) -> float:
    return {"5 s": 390.0, "30 s": 540.0, "9 polls missed": 600.0}.get(mode, UNTIL)


@pytest.mark.parametrize(("fault", "mode"), played(FAULTS))
def test_a_fault_is_found_and_nothing_else(fault: str, mode: str) -> None:
    setup, condition, others = FAULTS[fault]
    world = World(**MODES[mode])
    world.run(until(mode), setup(world))
    assert condition in world.alarms
    assert world.alarms <= {condition} | others
    assert world.last[condition] == world.seconds or condition == "ring_lost_by_consumer"


@pytest.mark.parametrize(("rhythm", "mode"), played(HEALTHY, apart=FAST))
def test_a_healthy_rhythm_is_quiet(rhythm: str, mode: str) -> None:
    world = World(**MODES[mode])
    world.run(until(mode), HEALTHY[rhythm](world))
    assert world.polls >= 18
    assert not world.alarms


def test_of_a_staggered_pool_only_the_wedged_member_is_in_the_condition() -> None:
    world = World()
    world.run(UNTIL, one_wedged_of_eight(world))
    assert world.one("stalled").consumers == 1
    assert world.column("queue", "unhealthy_consumers") == 1
