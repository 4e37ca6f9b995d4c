"""`paused`: a queue or its address is paused."""

import pytest

from conditions.situations import at_limits, polls
from conditions.things import Numbers
from conditions.world import START, Judged, Queue, World
from penstock.conditions.condition import Severity


@pytest.mark.parametrize(
    ("queue", "address", "names"),
    [({"paused": 1.0}, {}, {"paused"}), ({}, {"paused": 1.0}, {"paused"})],
)
def test_paused(queue: Numbers, address: dict[str, float], names: set[str]) -> None:
    assert at_limits(queue, address) == names


def test_paused_without_a_backlog_only_informs() -> None:
    judged = polls(Judged(), 3, {"paused": 1.0})
    assert (judged.names, judged.notices) == (set(), {"paused"})
    assert judged.one("paused").since == START + 15


def how(world: World) -> Severity:
    return world.one("paused").severity


def idle_night() -> tuple[World, Queue]:
    """A queue of which the last message was settled two hours ago, and that is paused now."""
    world = World()
    queue = world.queue()
    reader = queue.join()
    queue.come(3)
    queue.take(reader)
    world.run(60)
    queue.settle(reader)
    world.step = 60.0
    world.run(2 * 3600, tick=15)
    world.step = 15.0
    queue.said["paused"] = 1.0
    return world, queue


@pytest.mark.slow  # many polls
def test_after_an_idle_night_it_is_critical_only_once_a_message_has_waited() -> None:
    world, queue = idle_night()
    queue.come(1)
    world.run(270)
    assert how(world) is Severity.WARNING
    world.run(60)
    assert how(world) is Severity.CRITICAL


@pytest.mark.slow  # many polls
def test_what_clients_buffer_waits_too() -> None:
    world, queue = idle_night()
    reader = queue.join()
    queue.come(5)
    queue.take(reader)
    world.run(330)
    queue.come(1)
    world.run(30)
    assert how(world) is Severity.CRITICAL


@pytest.mark.slow  # many polls
def test_a_backlog_that_went_and_comes_again_waits_anew() -> None:
    world, queue = idle_night()
    queue.come(10)
    world.run(600)
    assert how(world) is Severity.CRITICAL
    queue.waiting = 0
    queue.X = 10
    world.run(600)
    queue.come(10)
    world.run(60)
    assert how(world) is Severity.WARNING


@pytest.mark.slow  # many polls
def test_a_message_that_is_delivered_again_after_a_delay_waits_all_the_time() -> None:
    world, queue = idle_night()
    queue.come(1)
    world.run(30)
    for _ in range(10):
        queue.waiting = 0
        queue.scheduled = 1
        world.run(60)
        queue.due()
        world.run(15)
    assert how(world) is Severity.CRITICAL


@pytest.mark.slow  # many polls
def test_scheduled_messages_do_not_wait() -> None:
    world, queue = idle_night()
    queue.schedule(10)
    world.run(900)
    queue.due(10)
    world.run(60)
    assert how(world) is Severity.WARNING
