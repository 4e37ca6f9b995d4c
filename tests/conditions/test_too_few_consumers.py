"""`too_few_consumers`: fewer than the operator expects while messages wait or come."""

import numpy as np
import pytest

from conditions.rules_world import Q, rule, ruled_polls, unread
from conditions.world import Consumer, Judged, Queue, World
from penstock.conditions import too_few_consumers
from penstock.conditions.condition import Severity
from penstock.observation.facts import Seen, facts
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.settings.rules import Rules


def test_too_few_consumers_by_expectation() -> None:
    judged = Judged()
    names = ["few", "enough", "none", "unexpected", "quiet"]
    queues = {
        name: {"A": 1.0, "M": 0.0 if name == "quiet" else 1.0, "consumers": 2.0}
        for name in names
    }
    queues["none"]["consumers"] = 0.0
    found = facts(Seen(), judged.snapshot(queues, {}, {}), Constants())
    assert found is not None
    expected = np.array([3, 2, 3, np.nan, 3.0])
    assert too_few_consumers.too_few(found[1], expected).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]


def two_are_expected() -> tuple[World, Queue]:
    """A queue that two consumers should read."""
    world = World()
    world.policy = Policy("b", rules=Rules((rule(expected_consumers=2),)))
    return world, world.queue()


def batch_is_read(queue: Queue, reader: Consumer) -> None:
    """By a reader that leaves then."""
    queue.take(reader)
    queue.settle(reader)
    queue.close(reader)


# --- what the operator says


@pytest.mark.parametrize(
    ("expected", "names"), [(1, set()), (2, {"too_few_consumers"})]
)
def test_too_few_consumers(expected: int, names: set[str]) -> None:
    few = unread(rule(expected_consumers=expected))
    few.consumer(10, Q, "c")
    ruled_polls(few, 3, added=1)
    assert few.names() == names
    if names:
        evidence = few.condition("too_few_consumers").evidence
        assert (evidence["consumers"], evidence["expected"]) == (1, 2)


@pytest.mark.slow  # many polls
def test_that_the_last_one_leaves_too_ends_nothing() -> None:
    """One of two was a condition, none of two was healthy until `no_consumer` came."""
    world, queue = two_are_expected()
    last = queue.join()
    world.run(60, lambda _: queue.come())
    assert world.names == {"too_few_consumers"}
    queue.close(last)
    while "no_consumer" not in world.names:
        world.run(15, lambda _: queue.come())
        assert world.names & {"too_few_consumers", "no_consumer"}
    assert world.seconds > 300
    world.run(30, lambda _: queue.come())
    assert world.names == {"no_consumer"}


@pytest.mark.slow  # many polls
def test_a_batch_whose_readers_come_and_go_has_never_too_few() -> None:
    world, queue = two_are_expected()
    for _ in range(3):
        readers = [queue.join(), queue.join()]
        world.run(60, lambda _: queue.come())
        for one in readers:
            batch_is_read(queue, one)
        world.run(120, lambda _: queue.come())
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_readers_of_a_batch_that_leave_one_after_the_other_are_missed_for_two_polls() -> (
    None
):
    world, queue = two_are_expected()
    for _ in range(4):
        world.first.clear()
        readers = [queue.join(), queue.join()]
        world.run(60, lambda _: queue.come())
        for one in readers:
            batch_is_read(queue, one)
            world.run(45, lambda _: queue.come())
        world.run(900, lambda _: queue.come())
        left = world.seconds - world.last.get("too_few_consumers", 0.0)
    assert "no_consumer" not in world.first  # it has learned how long they are away
    assert left >= 840


@pytest.mark.slow  # many polls
def test_it_is_no_more_than_a_warning_while_the_one_that_is_there_works() -> None:
    world, queue = two_are_expected()
    queue.come(5000)
    reader = queue.join(window=10)

    def works(_: float) -> None:
        queue.come()
        queue.take(reader)
        queue.settle(reader, 1)

    world.run(900, works)
    assert world.one("too_few_consumers").severity is Severity.WARNING
