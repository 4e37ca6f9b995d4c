"""A cancel, a stop, a reload at some of the moments in which the agent waits; at all of them: make test-trust."""

import pytest

from agent.interleavings import Coming, World, live, world

__all__ = ["world"]

STEP = 23
"""Each so many-th suspension; no divisor of the suspensions of one round."""


@pytest.mark.slow  # some dozen lives of an agent
@pytest.mark.parametrize("coming", Coming)
def test_whatever_comes_in_between(world: World, coming: Coming) -> None:
    at = 1
    while live(world, coming, at):
        at += STEP
    assert at > 3 * STEP
