"""`crash_looping`: a client that fails again and again beside others, and everything that only looks like it."""

import pytest

from agent.stored import as_read
from conditions.scenarios import every, together
from conditions.world import Live, Queue, Rate, World
from penstock.agent.checkpoint import checkpoint_of, restore
from penstock.assessment.assess import State
from penstock.conditions.catalogue import on
from penstock.conditions.wording import action


def good(queue: Queue, per_second: float = 20) -> Live:
    consumer = queue.join("good", window=100)
    rate = Rate(per_second)

    def live(seconds: float) -> None:
        n = rate(seconds)
        queue.come(n)
        queue.take(consumer, n)
        queue.settle(consumer)

    return live


def crashing(
    queue: Queue,
    each: float = 3.5,
    held: int = 19,
    *,
    settles: int = 0,
    sight: bool = False,
) -> Live:
    """
    Takes some and is gone after `each` seconds, then is started anew.

    settles: so many just before it goes. sight: a second before, so that a poll may see it.
    """
    consumer = queue.join("bad", window=held)
    left = each

    def live(seconds: float) -> None:
        nonlocal consumer, left
        queue.come(settles)
        queue.take(consumer)
        left -= seconds
        if settles and (left <= 0 or (sight and left <= 1)):
            queue.settle(consumer, settles)
        if left <= 1e-9:
            left = each
            queue.close(consumer)
            consumer = queue.join("bad", window=held)

    return live


def world_of(step: float = 2.0, backlog: int = 100) -> tuple[World, Queue]:
    world = World(step=step)
    queue = world.queue()
    queue.come(backlog)
    return world, queue


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [pytest.param(2.0, marks=pytest.mark.slow), 6.0, 10.0])
def test_a_crash_loop_beside_a_good_client(step: float) -> None:
    world, queue = world_of(step)
    world.run(300, together(good(queue), crashing(queue)), tick=0.5)
    condition = world.one("crash_looping")
    assert (condition.client, condition.severity.name) == ("bad", "WARNING")
    assert world.alarms == {"crash_looping"}
    seen = condition.evidence["consumers_seen"]
    returned = condition.evidence["given_back"]
    assert (returned, 5 <= seen <= 120) == (19 * seen, True)
    assert world.first["crash_looping"] <= 12 * step
    text = action(on("artemis", "crash_looping"), condition.evidence)
    assert f"{seen:.0f} consumers came and went" in text
    assert f"returned at least {returned:,.0f} messages" in " ".join(text.split())


@pytest.mark.slow  # many polls
def test_it_ends_ten_minutes_after_the_last_crash() -> None:
    world, queue = world_of()
    work = good(queue)
    world.run(60, together(work, crashing(queue)), tick=0.5)
    for one in [*queue.consumers.values()]:
        if one.client == "bad":
            queue.close(one)
    world.step = 20.0  # nothing happens any more between two polls
    world.run(500, work)
    assert world.names == {"crash_looping"}
    world.run(180, work)
    assert not world.names


@pytest.mark.slow  # many polls
def test_one_that_acknowledged_before_it_went_hides_no_others() -> None:
    world, queue = world_of()
    work = good(queue)
    loop = crashing(queue)
    lucky = queue.join("bad", window=2)
    world.run(20, together(work, loop), tick=0.5)
    assert world.names == {"crash_looping"}
    queue.come(2)
    queue.take(lucky)
    queue.settle(lucky, 1)
    world.look()
    queue.close(lucky)
    world.first.clear()
    world.run(40, together(work, loop), tick=0.5)
    assert world.names == {"crash_looping"}


def test_it_is_seen_where_one_in_the_same_moment_had_worked() -> None:
    """A pool: at nearly every poll several are gone, and once one of them had acknowledged some."""
    world, queue = world_of(10.0)
    loops = [crashing(queue, each, held=3) for each in (3.0, 3.5, 4.0)]
    lucky = queue.join("bad", window=2)
    queue.take(lucky)
    queue.settle(lucky, 1)
    world.run(20, together(good(queue), *loops), tick=0.5)
    queue.close(lucky)
    world.run(60, together(*loops, good(queue)), tick=0.5)
    condition = world.one("crash_looping")
    assert condition.evidence["given_back"] == 3 * condition.evidence["consumers_seen"]


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("client", ["bad", "fast"])
def test_a_batch_that_is_acknowledged_between_two_polls_before_its_consumer_goes_hides_no_others(
    client: str,
) -> None:
    """Of the client itself, or of another one that is replaced."""
    world, queue = world_of(10.0)
    work = good(queue)
    loop = crashing(queue)
    world.run(30, together(work, loop), tick=0.5)
    for _ in range(4):
        replaced = queue.join(client, window=200)
        queue.come(200)
        queue.take(replaced)
        queue.settle(replaced)
        queue.close(replaced)
        world.run(60, together(work, loop), tick=0.5)
    assert world.names == {"crash_looping"}


@pytest.mark.slow  # many polls
def test_where_nothing_is_settled_at_all_there_is_one_condition_for_it() -> None:
    world, queue = world_of(10.0)
    world.run(400, crashing(queue), tick=0.5)
    assert world.alarms == {"churn_without_progress"}


@pytest.mark.slow  # many polls
def test_it_goes_on_over_a_restart_of_the_agent() -> None:
    """And ends when the last crash is ten minutes old, as without one."""
    world, queue = world_of()
    work = good(queue)
    world.run(120, together(work, crashing(queue)), tick=0.5)
    for one in [*queue.consumers.values()]:
        if one.client == "bad":
            queue.close(one)
    world.run(10, work)
    begun = world.one("crash_looping")
    snapshot = world.snapshot({"q": queue.queue_said()}, queue.consumers_said(), {})
    memory = checkpoint_of(world.state, snapshot, world.policy)
    assert memory is not None
    memory = as_read(memory)
    world.state = restore(memory, State(), snapshot, world.policy)
    world.run(2, work)
    assert world.one("crash_looping")._replace(evidence={}) == begun._replace(
        evidence={}
    )
    world.step = 20.0  # nothing happens any more between two polls
    world.run(480, work)
    assert world.one("crash_looping").client == "bad"
    world.run(180, work)
    assert not world.names


# --- what looks like it and is healthy


@pytest.mark.slow  # many polls
def test_clients_that_acknowledge_before_they_close() -> None:
    """No poll sees it: every row vanishes with messages and none acknowledged. The queue settles more than its rows."""
    world, queue = world_of(6.0)
    world.run(300, together(good(queue), crashing(queue, settles=3)), tick=0.5)
    loops = world.state.judgement.churn.crash_loops.loops
    assert sum(one.consumers for one in loops.values()) > 40
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_a_rollout() -> None:
    """Each instance works, and is replaced with what it had prefetched."""
    world, queue = world_of(6.0)
    left = 7.0
    consumer = queue.join("app", window=500)

    def live(seconds: float) -> None:
        nonlocal left, consumer
        left -= seconds
        queue.come(20)
        queue.take(consumer)
        queue.settle(consumer, 10)
        if left <= 0:
            left = 7.0
            queue.close(consumer)
            consumer = queue.join("app", window=500)

    world.run(300, live, tick=0.5)
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_instances_half_of_which_are_stopped_in_their_first_job() -> None:
    world, queue = world_of(6.0, backlog=3000)
    busy = crashing(queue, 5, 20)
    quick = crashing(queue, 4, 20, settles=3, sight=True)
    world.run(900, together(good(queue), busy, quick), tick=0.5)
    assert "crash_looping" not in world.alarms


@pytest.mark.slow  # many polls
def test_pollers_that_take_three_of_what_was_prefetched() -> None:
    world, queue = world_of(6.0, backlog=3000)
    world.run(
        300,
        together(good(queue), crashing(queue, 5, 2500, settles=3, sight=True)),
        tick=0.5,
    )
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_a_pool_that_stops_once() -> None:
    """A hundred rows at once, each with a job of which nothing was acknowledged."""
    world, queue = world_of(backlog=1000)
    pool = [queue.join("pool", window=5) for _ in range(100)]
    work = good(queue)
    for one in pool:
        queue.take(one)
    world.run(20, work)
    for one in pool:
        queue.close(one)
    world.run(100, work)
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_four_crashes_are_no_loop() -> None:
    world, queue = world_of()
    world.run(120, together(good(queue), crashing(queue, 30)), tick=0.5)
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_clients_that_come_back_after_the_brokers_start() -> None:
    world, queue = world_of()
    world.uptime = 0.0
    world.run(50, together(good(queue), crashing(queue)), tick=0.5)
    assert not world.alarms


@pytest.mark.nightly  # many clients
def test_ten_thousand_pollers_cost_a_sweep_a_minute() -> None:
    """What is known of clients that came once goes."""
    world, queue = world_of()
    work = good(queue)

    def one() -> None:
        consumer = queue.join(f"job{world.seconds}", window=2)
        queue.take(consumer)
        world.look()
        queue.close(consumer)

    world.run(60, together(work, every(10, one)))
    assert len(world.state.judgement.churn.crash_loops.loops) >= 5
    world.run(720, work)
    assert not world.state.judgement.churn.crash_loops.loops
