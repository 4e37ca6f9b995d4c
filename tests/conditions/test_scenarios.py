"""Every fault is found and nothing else is said, every healthy rhythm is quiet: however it is polled."""

from typing import Any

import pytest

from conditions.scenarios import FAULTS, HEALTHY, one_wedged_of_eight
from conditions.town import Town
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
OTHER_RHYTHMS = [
    pytest.param(mode, marks=pytest.mark.slow)
    for mode in MODES
    if mode not in ("15 s", APART)
]
"""The scenarios seldom differ in these from the usual one."""


def until(mode: str) -> float:
    return {"5 s": 390.0, "30 s": 540.0, "9 polls missed": 600.0}.get(mode, UNTIL)


@pytest.mark.parametrize("mode", ["15 s", *OTHER_RHYTHMS])
def test_every_fault_is_found_and_nothing_else(mode: str) -> None:
    town = Town(
        {fault: setup for fault, (setup, _, _) in FAULTS.items()}, **MODES[mode]
    )
    town.run(until(mode), town.live)
    assert town.alarms_of.keys() == FAULTS.keys()
    for fault, (_, condition, others) in FAULTS.items():
        alarms = town.alarms_of[fault]
        assert alarms.keys() - others == {condition}, fault
        assert (
            alarms[condition] == town.seconds or condition == "ring_lost_by_consumer"
        ), fault


@pytest.mark.parametrize("mode", ["15 s", APART, *OTHER_RHYTHMS])
def test_every_healthy_rhythm_is_quiet(mode: str) -> None:
    rhythms = {
        name: setup for name, setup in HEALTHY.items() if mode != APART or name in FAST
    }
    town = Town(rhythms, **MODES[mode])
    town.run(until(mode), town.live)
    assert town.queues.keys() == rhythms.keys()
    assert town.polls >= 18
    assert not town.alarms_of


@pytest.mark.slow  # many polls
def test_of_a_staggered_pool_only_the_wedged_member_is_in_the_condition() -> None:
    world = World()
    world.run(UNTIL, one_wedged_of_eight(world))
    assert world.one("stalled").consumers == 1
    assert world.column("queue", "unhealthy_consumers") == 1
