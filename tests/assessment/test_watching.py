"""What is watched is so until it is proven, and does not come back with the next poll."""

import pytest

from conditions.world import Judged
from penstock.assessment.watching import window_is_young
from penstock.settings.constants import Constants

LATE = (0.0, 0.013, 0.004, 0.021, 0.009)
"""Seconds by which polls are late, in turn."""


@pytest.mark.parametrize("interval", [1.0, 2.0, 5.0, 15.0, 30.0])
@pytest.mark.nightly  # many polls
def test_a_window_that_is_full_stays_full_however_the_polls_are_late(
    interval: float,
) -> None:
    """Else all that is healthy would be watched at every second poll."""
    world = Judged(constants=Constants(trend=60.0), step=interval)
    needed = world.constants.trend_seconds(interval)
    young: list[bool] = []
    for n in range(int(3 * needed / interval)):
        late = LATE[n % len(LATE)] - LATE[n % len(LATE) - 1]
        world.poll({"q": {"A": 10.0 * n, "K": 10.0 * n}}, after=interval + late)
        young.append(window_is_young(world.state.judgement, world.constants))
    assert young == sorted(young, reverse=True)
    assert young[0]
    assert not young[-1]
