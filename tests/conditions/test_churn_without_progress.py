"""`churn_without_progress`: clients that come and go and settle nothing."""

import pytest

from conditions.scenarios import every
from conditions.situations import WAIT
from conditions.world import Judged, World
from penstock.conditions.condition import Severity
from penstock.settings.constants import Constants


def reconnecting(
    world: World, seconds: float, *, consumers: int = 1, each: float = 20
) -> World:
    """Consumers that take messages, settle none, and come again after so many seconds."""
    queue = world.queue()
    queue.come(50)

    def again() -> None:
        for consumer in [*queue.consumers.values()]:
            queue.close(consumer)
        for _ in range(consumers):
            queue.take(queue.join(window=10))

    return world.run(seconds, every(each, again))


@pytest.mark.slow  # many polls
def test_churn_is_critical_and_ends_two_polls_after_progress() -> None:
    world = reconnecting(World(), 500)
    condition = world.one("churn_without_progress")
    assert condition.severity is Severity.CRITICAL
    assert condition.evidence["consumers_seen"] >= 20
    queue = world.queues["q"]
    queue.settle(next(iter(queue.consumers.values())))
    world.run(15)
    assert "churn_without_progress" in world.names
    world.run(15)
    assert "churn_without_progress" not in world.names


@pytest.mark.slow  # many polls
def test_churn_takes_its_patience() -> None:
    """The spell begins at the second poll: at the first nothing is known to stand."""
    world = reconnecting(World(), 500)
    assert world.first["churn_without_progress"] == 30 + 300


@pytest.mark.slow  # many polls
def test_churn_ends_with_its_queue() -> None:
    world = reconnecting(World(), 500)
    del world.queues["q"]
    world.run(30)
    assert not world.conditions


@pytest.mark.slow  # many polls
def test_one_reconnect_is_an_accident() -> None:
    judged = Judged()
    for n in range(60):
        judged.poll(
            {"q": {**WAIT, "D": 5}},
            {f"c{n // 30}": {"T": 5.0, "N": 5.0, "Ld": judged.now}},
        )
    assert "churn_without_progress" not in judged.names


@pytest.mark.slow  # many polls
def test_a_pool_of_which_a_few_reconnect_is_no_churn() -> None:
    """Nine came in 450 s, of which five are there: not more than twice as many."""
    world = World()
    queue = world.queue()
    queue.come(100)
    for _ in range(5):
        queue.take(queue.join(window=10))

    def one_again() -> None:
        queue.close(next(iter(queue.consumers.values())))
        queue.take(queue.join(window=10))

    world.run(450, every(100, one_again, phase=100))
    ((_, spell),) = world.state.judgement.churn.streaks.items()
    assert (spell.ids, spell.polls) == (9, 5)
    assert "churn_without_progress" not in world.alarms


def test_churn_waits_for_clients_to_return_after_the_brokers_start() -> None:
    world = World(step=5.0, constants=Constants(cold=10.0, floor=1.0, floor_polls=0.1))
    world.uptime = 0.0
    reconnecting(world, 120, each=5)
    assert 60 <= world.first["churn_without_progress"] <= 70


@pytest.mark.slow  # many polls
def test_churn_whose_clients_stay_takes_two_polls_to_leave() -> None:
    world = reconnecting(World(), 500)
    for _ in range(30):
        world.queues["q"].join()
    world.run(15)
    assert "churn_without_progress" in world.names
    world.run(15)
    assert "churn_without_progress" not in world.names
