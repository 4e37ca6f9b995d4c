"""What a ring lost, as its counters show it: never above the truth, and the truth once it is quiet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditions.situations import quiet, ring
from conditions.things import Numbers
from conditions.world import Consumer, Judged, Queue, World


def seen(world: World, polls: int = 2) -> float:
    """What is shown after so many polls at which nothing happens."""
    world.run(15.0 * polls)
    return world.evicted()


# --- the manual's examples


def test_a_ring_of_three_pushes_a_out_when_d_comes() -> None:
    world, queue, _ = ring(3)
    quiet(world)
    queue.come(3)
    assert seen(world) == 0
    queue.come(1)
    assert seen(world) == 1 == queue.lost
    assert world.column("queue", "messages") == 3


def test_messages_in_delivery_do_not_count_against_the_ring() -> None:
    """Three of three in delivery and one more: four in four; the close of the consumer pushes one out."""
    world, queue, (consumer,) = ring(3, 1)
    quiet(world)
    queue.come(3)
    queue.take(consumer)
    queue.come(1)
    assert seen(world) == 0
    assert (world.column("queue", "messages"), world.column("queue", "delivering")) == (
        4,
        3,
    )
    assert world.column("queue", "ring_at_risk") == 1
    queue.close(consumer)
    assert seen(world) == 1 == queue.lost


def test_a_ring_made_smaller_trims_nothing_and_every_arrival_drops_one() -> None:
    world, queue, _ = ring(10)
    quiet(world)
    queue.come(10)
    queue.ring = 4
    assert seen(world) == 0
    assert world.column("queue", "ring_used_ratio") == 2.5
    assert world.column("queue", "ring_at_risk") == 0
    assert world.column("queue", "ring_oversize_since") == world.now - 15
    queue.come(3)
    assert seen(world) == 3 == queue.lost
    assert world.column("queue", "messages") == 10


@pytest.mark.slow  # many polls
def test_scheduled_messages_do_not_count_until_they_fall_due() -> None:
    """One after the other is scheduled: 1/1, 2/1, 3/1, 4/1; when they fall due one stays."""
    world, queue, _ = ring(1)
    quiet(world)
    for n in range(1, 5):
        queue.schedule(1)
        assert seen(world) == 0
        assert world.column("queue", "messages") == n
        assert world.column("queue", "ring_scheduled_at_risk") == n - 1
    queue.due(4)
    assert seen(world) == 3 == queue.lost


# --- line by line


@dataclass
class Line:
    """What happens to a ring of 10 with a consumer, and what is shown once it is quiet."""

    does: Callable[[Queue, Consumer], None]
    evicted: float


def _overflow(queue: Queue, _: Consumer) -> None:
    queue.come(25)


def _close(queue: Queue, consumer: Consumer) -> None:
    for _ in range(4):
        queue.come(10)
        queue.take(consumer)
    queue.close(consumer)


def _roll_back(queue: Queue, consumer: Consumer) -> None:
    """The whole prefetch of 38 returns, of 4 that were acknowledged: 28 are lost."""
    for n in (10, 10, 10, 8):
        queue.come(n)
        queue.take(consumer)
    queue.acknowledge(consumer, 4)
    queue.roll_back(consumer)


def _open_transaction(queue: Queue, consumer: Consumer) -> None:
    queue.come(10)
    queue.take(consumer)
    queue.acknowledge(consumer, 7)


def _killed(queue: Queue, consumer: Consumer) -> None:
    queue.come(10)
    queue.take(consumer)
    queue.X += consumer.T
    consumer.C += consumer.T
    consumer.T = 0


def _expired(queue: Queue, _: Consumer) -> None:
    queue.come(10)
    queue.waiting -= 4
    queue.E += 4


LINES = {
    "overflow": Line(_overflow, 15),
    "close": Line(_close, 30),
    "rollback": Line(_roll_back, 28),
    "open transaction": Line(_open_transaction, 0),
    "killed": Line(_killed, 0),
    "expired": Line(_expired, 0),
}


@pytest.mark.parametrize("line", LINES)
def test_what_happens_to_a_ring(line: str) -> None:
    world, queue, (consumer,) = ring(10, 1)
    quiet(world)
    LINES[line].does(queue, consumer)
    assert LINES[line].evicted == queue.lost
    assert seen(world, 4) == LINES[line].evicted


def test_what_expired_on_arrival_hides_as_many_evictions_and_later_ones_count() -> None:
    """It is in E and not in A: at least so many are known."""
    world, queue, _ = ring(10, 1)
    quiet(world)
    queue.come(15)
    assert seen(world) == 5
    queue.expire_on_arrival(100)
    assert seen(world) == 5
    queue.come(7)
    assert seen(world) == 12


@pytest.mark.slow  # takes a second
def test_lags_of_the_address_do_not_add_up() -> None:
    """Something expires in every poll, and the address was read up to 40 messages earlier."""
    judged = Judged()
    for n in range(200):
        added = 1000.0 * n
        queue = {"A": added, "K": added - n, "E": float(n), "M": 0.0, "ring": 10.0}
        judged.poll({"q": queue}, {}, {"q": {"messages_added": added - 40.0 * (n % 2)}})
    assert judged.evicted() == 0


def test_a_last_value_queue_does_not_count_in_delivery_in_its_depth() -> None:
    judged = Judged()
    for _ in range(3):
        judged.poll({"q": {"A": 20.0, "K": 5.0, "M": 3.0, "D": 2.0, "last_value": 1.0}})
    assert judged.evicted() == 10
    (row,) = judged.tables["eviction"].index
    assert row.reason == "last_value"


LEDGER = {"A": 100.0, "K": 40.0, "E": 10.0, "X": 5.0, "M": 10.0, "ring": 10.0}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("said", [{"A": 10.0}, {"K": 0.0}, {"X": 0.0}, {"E": 0.0}])
def test_when_an_operator_sets_a_counter_back_it_goes_on(said: Numbers) -> None:
    """By 3 more that come to the full ring at each poll."""
    judged = Judged().poll({"q": LEDGER}).poll({"q": LEDGER})
    assert judged.evicted() == 35
    for more in range(0, 12, 3):
        judged.poll({"q": {**LEDGER, **said, "A": said.get("A", 100.0) + more}})
        assert judged.evicted() == 35 + max(more - 3, 0)
    judged.uptime = 0.0  # the broker starts anew
    for _ in range(2):
        judged.poll({"q": {"A": 17.0, "K": 5.0, "M": 10.0, "ring": 10.0}})
    assert judged.evicted() == 2


def test_a_queue_without_a_limit_has_no_ledger() -> None:
    judged = Judged()
    for _ in range(3):
        judged.poll({"q": {"A": 20.0, "M": 3.0}})
    assert np.isnan(judged.evicted())
    assert np.isnan(judged.column("queue", "lost_by_consumer"))
    assert np.isnan(judged.column("queue", "ring_at_risk"))


def test_while_paging_nothing_is_at_risk_that_is_known() -> None:
    judged = Judged().poll(
        {"q": {"A": 20.0, "M": 20.0, "ring": 5.0}}, {}, {"q": {"paging": 1.0}}
    )
    assert np.isnan(judged.column("queue", "ring_at_risk"))
    assert np.isnan(judged.column("queue", "ring_scheduled_at_risk"))


# --- sightings


def shown(balances: Sequence[float]) -> list[float]:
    """What is shown of these sums."""
    judged = Judged()
    found = []
    for balance in balances:
        judged.poll({"q": {"A": 2000.0, "M": 2000.0 - balance, "ring": 10.0}})
        found.append(judged.evicted())
    return found


@pytest.mark.parametrize(
    ("balances", "evicted"),
    [
        ([0, 0], [np.nan, 0]),
        ([0, 0, 5, 5], [np.nan, 0, 0, 5]),
        ([0, 0, 5, 9], [np.nan, 0, 0, 5]),
        ([0, 0, 50, 5, 5], [np.nan, 0, 0, 5, 5]),
        ([50, 5, 5], [np.nan, 5, 5]),
        ([-5, -5, 5, 5], [np.nan, 0, 0, 10]),
    ],
)
def test_a_sighting_counts_when_it_is_seen_twice(
    balances: list[float], evicted: list[float]
) -> None:
    """Also the first: what the broker's process has lost before it was polled."""
    assert shown(balances) == pytest.approx(evicted, nan_ok=True)


def test_last_values_are_replaced_and_no_ring_loses() -> None:
    judged = Judged()
    for n in range(4):
        judged.poll({"q": {"A": 20.0 + 9 * n, "M": 3.0, "last_value": 1.0}})
    assert judged.evicted() == 35
    assert not judged.notices


# --- random traffic


STEPS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 30)), min_size=0, max_size=6
)


def _act(queue: Queue, what: int, n: int) -> None:
    consumers = [*queue.consumers.values()]
    one = consumers[n % len(consumers)] if consumers else None
    if what == 0 or one is None:
        queue.come(n)
    elif what == 1:
        queue.take(one, n)
    elif what == 2:
        queue.settle(one, n)
    elif what == 3:
        queue.roll_back(one)
    elif what == 4:
        queue.close(one)
    elif what == 5:
        queue.schedule(n)
        queue.due(min(n, queue.scheduled) // 2)
    else:
        queue.expire_on_arrival(n)
    if n % 7 == 0:
        queue.join(window=np.inf)


def _check(world: World, queue: Queue, before: float) -> float:
    shown = world.evicted()
    assert not shown > queue.lost
    assert not shown < before
    if not np.isnan(shown):
        assert 0 <= world.column("queue", "lost_by_consumer") <= shown
    return before if np.isnan(shown) else shown


@pytest.mark.slow  # takes a second
@given(
    st.lists(st.tuples(STEPS, STEPS, STEPS), min_size=3, max_size=15),
    st.integers(1, 40),
    st.booleans(),
)
def test_never_above_the_truth_and_true_when_quiet(
    polls: list[tuple[list[tuple[int, int]], ...]], size: int, alone: bool
) -> None:
    """Things happen before a poll, between its reading of consumers and addresses, and before that of the queues."""
    world, queue, _ = ring(size, 2)
    expires = any(what == 6 for parts in polls for part in parts for what, _ in part)
    if not alone:
        world.queue("other").said["address"] = "q"
    quiet(world)
    shown = 0.0
    for before, between, last in polls:
        for what, n in before:
            _act(queue, what, n)
        todo = [between, last]

        def happen(_: float, todo: list[list[tuple[int, int]]] = todo) -> None:
            for what, n in todo.pop(0):
                _act(queue, what, n)

        world.apart = 0.01
        world.now = world.now + 15
        world.uptime = world.uptime + 15
        world.look(happen)
        shown = _check(world, queue, shown)
    world.apart = 0.0
    for _ in range(4):
        world.run(15)
        shown = _check(world, queue, shown)
    if not expires:
        assert shown == queue.lost


@pytest.mark.slow  # many polls
@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), max_size=20),
)
def test_what_is_at_risk_is_what_a_close_loses(
    size: int, steps: list[tuple[int, int]]
) -> None:
    world, queue, (consumer,) = ring(size, 1)
    quiet(world)
    for what, n in steps:
        _act(queue, what, n)
    world.run(45)
    lost_before = world.evicted()
    at_risk = world.column("queue", "ring_at_risk")
    assert lost_before == queue.lost
    for one in [*queue.consumers.values()]:
        queue.close(one)
    world.run(45)
    assert world.evicted() - lost_before == at_risk
    assert at_risk == queue.lost_by_consumers
    assert world.column("queue", "lost_by_consumer") == at_risk
    assert consumer.W == 0


def test_scheduled_messages_are_not_at_risk_when_consumers_go() -> None:
    judged = Judged().poll(
        {"q": {"A": 22.0, "M": 22.0, "D": 8.0, "S": 10.0, "ring": 5.0}}
    )
    assert judged.column("queue", "ring_at_risk") == 7
    assert judged.column("queue", "ring_scheduled_at_risk") == 9
