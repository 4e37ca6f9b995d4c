"""`paused`: a queue or its address is paused."""

import pytest

from conditions.situations import at_limits, polls
from conditions.world import START, Judged, Numbers, World
from penstock.conditions.condition import Severity


@pytest.mark.parametrize(
    ("queue", "address", "names"), [({"paused": 1.0}, {}, {"paused"}), ({}, {"paused": 1.0}, {"paused"})]
)
def test_paused(queue: Numbers, address: dict[str, float], names: set[str]) -> None:
    assert at_limits(queue, address) == names


def test_paused_without_a_backlog_only_informs() -> None:
    judged = polls(Judged(), 3, {"paused": 1.0})
    assert (judged.names, judged.notices) == (set(), {"paused"})
    assert judged.one("paused").since == START + 15


def test_after_an_idle_night_it_is_critical_only_once_a_message_has_waited() -> None:
    world = World()
    queue = world.queue()
    reader = queue.join()
    queue.come(3)
    queue.take(reader)
    queue.settle(reader)
    world.run(2 * 3600, tick=15)
    queue.said["paused"] = 1.0
    queue.come(1)
    world.run(30)
    assert world.one("paused").severity is Severity.WARNING
    world.run(300)
    assert world.one("paused").severity is Severity.CRITICAL
