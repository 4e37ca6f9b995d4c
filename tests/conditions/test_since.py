"""`since` of a condition: when the numbers changed, never before it, and the same at every poll while it is active.

Each fault begins after a healthy time, at a moment that the test knows. A condition that looks back over a window may
not say that it began with the window.
"""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from agent.world import World as AgentWorld
from conditions.normal_world import Flow, knowing, steady
from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls, subscription
from conditions.scenarios import arrivals, every, together, working
from conditions.test_slowed import usual
from conditions.world import Judged, Queue, World
from penstock.agent.checkpoint import checkpoint_of
from penstock.conditions.catalogue import on
from penstock.conditions.wording import action
from penstock.model import AcknowledgeMode, Snapshot

LATE = 3
"""Polls after the fault within which its begin is found."""
HEALTHY_SECONDS = 300.0


def seconds_after(judged: Judged, name: str, fault: float) -> float:
    """From the fault to the begin of the condition of this name."""
    return judged.one(name).since - fault


def assert_begins_with(judged: Judged, name: str, fault: float) -> None:
    after = seconds_after(judged, name, fault)
    assert 0 <= after <= LATE * judged.step, (
        f"{name} begins {after:.0f} s after the fault"
    )


# --- Artemis: what happens to messages


def dies(queue: Queue) -> None:
    queue.waiting -= 1
    queue.X += 1


def expires(queue: Queue) -> None:
    queue.waiting -= 1
    queue.E += 1


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("name", "what"), [("dead_lettering", dies), ("expiring", expires)]
)
def test_what_happens_to_messages_begins_with_the_first(
    name: str, what: Callable[[Queue], None]
) -> None:
    world = World(15.0)
    queue = world.queue()
    work = together(arrivals(queue, 2), working(queue))
    world.run(HEALTHY_SECONDS, work)
    fault = world.now

    def happens(seconds: float) -> None:
        queue.come(1)
        what(queue)
        work(seconds)

    world.run(150, happens)
    assert_begins_with(world, name, fault)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("step", [5.0, 15.0])
def test_a_loop_begins_with_the_first_message_that_comes_back(step: float) -> None:
    world = World(step)
    queue = world.queue()
    work = together(arrivals(queue, 2), working(queue))
    world.run(HEALTHY_SECONDS, work)
    fault = world.now
    failing = queue.join("failing", window=50)

    def comes_back(_: float) -> None:
        queue.come(20 - queue.waiting)
        queue.take(failing)
        queue.roll_back(failing)

    world.run(150, comes_back)
    assert_begins_with(world, "redelivery_loop", fault)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("burst", [1, 30])
def test_a_backlog_begins_when_it_begins_to_grow(burst: int) -> None:
    """Before, messages come one by one, or in bursts that take as long as two polls to work off."""
    world = World(15.0)
    queue = world.queue()
    work = working(queue, per_second=3, window=20)
    bursts = every(burst, lambda: queue.come(2 * burst))
    world.run(HEALTHY_SECONDS, together(bursts, work))
    fault = world.now
    world.run(300, together(arrivals(queue, 8), work))
    assert_begins_with(world, "falling_behind", fault)


# --- against what is usual


@pytest.mark.slow  # many polls
def test_slow_consumers_are_slow_since_they_became_slow() -> None:
    judged = knowing(q=usual(0.05))
    flow = Flow(judged).run(HEALTHY_SECONDS, 5.0)
    fault = judged.now
    flow.run(180, 5.0, settles=4.0)
    assert_begins_with(judged, "slowed", fault)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("name", "expired", "dead"),
    [("expiring_unusually", 0.93, 0.0), ("dead_lettering_unusually", 0.0, 0.93)],
)
def test_more_is_lost_than_usual_since_it_is_more(
    name: str, expired: float, dead: float
) -> None:
    judged = knowing(q=steady(1.0))
    flow = Flow(judged).run(HEALTHY_SECONDS, 1.0)
    fault = judged.now
    flow.run(300, 1.0, expires=expired, dies=dead)
    assert_begins_with(judged, name, fault)


@pytest.mark.slow  # many polls
def test_a_surge_begins_when_more_comes() -> None:
    judged = knowing(q=steady(5.0))
    flow = Flow(judged).run(HEALTHY_SECONDS, 5.0)
    fault = judged.now
    flow.run(400, 10.0)
    assert_begins_with(judged, "surge", fault)


# --- OpenMQ


LIMITED = {"q": {"limit_messages": 1000, "dead_letters": 1, "message_limit_bytes": 1e7}}
POLLS_BEFORE = 12


def after_health(
    world: OpenmqJudged, fault: Callable[[int], dict[str, object]], polls: int = 12
) -> float:
    """Polls of a queue to which nothing comes, then those of the fault: when it began."""
    openmq_polls(world, POLLS_BEFORE, lambda _: fault(0))
    begin = world.now
    openmq_polls(world, polls, lambda i: fault(i + 1))
    return begin


@pytest.mark.slow  # many polls
def test_refused_messages_are_refused_since_the_first() -> None:
    world = openmq()
    fault = after_health(world, lambda i: {
        "queues": {"q": {"A": 1000 + 20 * i, "K": 0, "M": 1000, "D": 0}}, "addresses": LIMITED,
    })  # fmt: skip
    assert_begins_with(world, "rejecting", fault)


def test_messages_leave_unread_since_the_first() -> None:
    world = openmq()
    fault = after_health(world, lambda i: {
        "queues": {"q": {"A": 1000 + 30 * i, "K": 500 + 30 * i, "M": 500, "D": 10}},
        "consumers": {"c": {"N": 110 + 10 * i, "T": 10, "L": world.now + 10}},
        "addresses": {"q": {"limit_messages": 1e5, "policy": "reject_newest"}},
    })  # fmt: skip
    assert_begins_with(world, "removed_unsettled", fault)


@pytest.mark.slow  # many polls
def test_what_a_member_of_a_subscription_gives_back_it_gives_back_since_then() -> None:
    world = openmq()
    fault = after_health(world, lambda i: {
        "queues": {"s": subscription(M=20, D=20)},
        "consumers": {"c": {"queue": "s", "N": 20 + 5000 * i, "T": 20, "acknowledge_mode": AcknowledgeMode.TRANSACTED}},
    })  # fmt: skip
    assert_begins_with(world, "redelivery_loop", fault)
    found = world.one("redelivery_loop")
    assert "returned" not in found.evidence, (
        "a subscription counts nothing, and 0 of 0 is no reason"
    )
    assert "0 of 0" not in action(on("openmq", "redelivery_loop"), found.evidence)


# --- it stays


@pytest.mark.slow  # many polls
def test_it_stays_when_the_clock_of_the_broker_jumps() -> None:
    """A broker that is paused for a moment answers late: its clock seems to go back, and the skew is measured anew."""
    world = World(15.0)
    queue = world.queue()
    queue.come(10)
    queue.take(queue.join(window=10))
    shown = []
    for poll in range(40):
        world.skew = 1.4 if 30 <= poll < 35 else 0.0
        world.run(15.0, lambda _: queue.come(1))
        shown += [one.since for one in world.conditions if one.name == "stalled"]
    assert len(shown) > 12
    assert len(set(shown)) == 1


@pytest.mark.slow  # many polls
def test_it_stays_over_a_restart_of_the_agent() -> None:
    """The next agent measures another skew."""
    world = Skewed()
    world.queue(1, "q", messages=10, added=10, delivering=10)
    world.consumer(1, 1, "app", buffered=10, delivered=10)
    for _ in range(40):
        world.poll()
    (before,) = [one for one in world.conditions if one.name == "stalled"]
    kept = checkpoint_of(world.state, world.snapshot(), world.policy)
    after = world.restarted_agent(15.0, kept)
    world = Skewed(
        **{
            one.name: getattr(after, one.name)
            for one in fields(after)
            if not one.name.startswith("_")
        }
    )
    world.skew = 0.8
    for _ in range(4):
        world.poll()
    (now,) = [one for one in world.conditions if one.name == "stalled"]
    assert now.since == before.since


class Skewed(AgentWorld):
    """Its broker's clock is ahead of the agent's by `skew` seconds."""

    skew = 0.0

    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        assert found.broker is not None
        ahead = replace(found.broker, clock=found.broker.clock + self.skew)
        return replace(found, broker=ahead)
