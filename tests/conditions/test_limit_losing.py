"""`limit_losing`: a limit removes what nobody has read."""

import pytest

from conditions.openmq_world import losing, openmq_polls
from penstock.model import QueueKind


@pytest.mark.parametrize("policy", ["remove_oldest", "remove_low_priority"])
def test_limit_that_removes_unread(policy: str) -> None:
    world = losing(policy, 500)
    assert world.names == {"limit_losing"}
    assert world.one("limit_losing").evidence["evicted"] == 5 * 20
    assert world.evicted() == 5 * 20  # of eight polls three show what is usual


def test_below_the_limit_nothing_is_removed_by_it() -> None:
    world = losing("remove_oldest", 5000)
    assert "limit_losing" not in world.names | world.notices


def test_the_dead_message_queue_keeps_the_newest() -> None:
    world = losing("remove_oldest", 500, QueueKind.DEAD_LETTER)
    assert "limit_losing" not in world.names | world.notices


@pytest.mark.slow  # many polls
def test_restart_of_the_broker_begins_anew() -> None:
    world = losing("remove_oldest", 500)
    world.uptime = 0
    openmq_polls(world, 1, lambda _: {
        "queues": {"q": {"A": 0, "K": 0, "M": 400, "D": 0}},
        "addresses": {"q": {"limit_messages": 500, "policy": "remove_oldest"}},
    })  # fmt: skip
    assert world.names == set()
    assert world.evicted() == 5 * 20
