"""The time to empty is there while a queue drains, and only then."""

import numpy as np
import pytest

from conditions.scenarios import arrivals, together, working
from conditions.world import World


def draining(backlog: int = 2000) -> World:
    world = World(step=5.0)
    queue = world.queue()
    queue.come(backlog)
    return world.run(
        120, together(arrivals(queue, 2), working(queue, per_second=10, window=100))
    )


@pytest.mark.slow  # many polls
def test_a_queue_that_drains_has_a_time() -> None:
    world = draining()
    queue = world.queues["q"]
    assert abs(world.column("queue", "drain") - queue.waiting / 8) < 10


@pytest.mark.slow  # many polls
def test_an_empty_queue_does_not_drain_in_no_time() -> None:
    world = World(step=5.0)
    queue = world.queue()
    world.run(120, together(arrivals(queue, 2), working(queue)))
    assert world.column("queue", "ready") == 0
    assert np.isnan(world.column("queue", "drain"))


@pytest.mark.slow  # many polls
def test_nothing_waits_while_one_client_holds_all() -> None:
    """It is not empty, and does not become so: no `drain 0 s`."""
    world = World(step=5.0)
    queue = world.queue()
    queue.come(500)
    queue.take(queue.join(window=500))
    world.run(120)
    assert np.isnan(world.column("queue", "drain"))


@pytest.mark.slow  # many polls
def test_it_ends_with_the_last_consumer_and_not_with_the_window() -> None:
    world = draining()
    world.queues["q"].consumers = {}
    world.run(5)
    assert np.isnan(world.column("queue", "drain"))


@pytest.mark.slow  # many polls
def test_it_ends_where_the_queue_is_paused() -> None:
    world = draining()
    world.queues["q"].said["paused"] = 1.0
    world.run(5)
    assert np.isnan(world.column("queue", "drain"))


@pytest.mark.slow  # many polls
def test_it_ends_where_nothing_is_taken_for_longer_than_is_usual() -> None:
    world = draining(100_000)
    world.run(250)
    assert world.column("queue", "drain") > 0  # shorter than its clients may take
    world.run(100)
    assert np.isnan(world.column("queue", "drain"))


@pytest.mark.slow  # many polls
def test_scheduled_messages_that_fall_due_come_too() -> None:
    """Nothing is sent meanwhile; a drain time rose with the backlog, and no consumer was said to keep up."""
    world = World()
    queue = world.queue()
    queue.schedule(10_000)
    world.run(450, together(lambda _: queue.due(8), working(queue, per_second=6)))
    assert np.isnan(world.column("queue", "drain"))
    behind = world.one("falling_behind")
    assert behind.evidence["rate_in"] == 8
    assert behind.verdicts["too_few_consumers"].fact.startswith(
        "2 at this pace keep up"
    )
