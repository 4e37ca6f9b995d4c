"""A cancel, a stop, a reload at each single moment in which the agent waits."""

import pytest

from agent.interleavings import Coming, World, live, world

__all__ = ["world"]


@pytest.mark.parametrize("coming", Coming)
def test_whatever_comes_at_any_moment(world: World, coming: Coming) -> None:
    at = 1
    while live(world, coming, at):
        at += 1
    assert at > 100
