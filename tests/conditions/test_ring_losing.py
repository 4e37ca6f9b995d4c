"""`ring_losing`: informs of what a ring throws away, and warns where the operator wants it kept."""

from typing import Any

import numpy as np
import pytest

from account.world import Broker
from account.world import queue as account_queue
from conditions.rules_world import Q, rule, ruled, ruled_polls
from conditions.situations import ring
from penstock.conditions.condition import Severity
from penstock.model import QueueKind
from penstock.settings.rules import RingLoss


@pytest.mark.parametrize(
    ("kind", "told"), [(QueueKind.USER, True), (QueueKind.RETROACTIVE, False)]
)
def test_losses_inform_where_they_are_judged(kind: QueueKind, told: bool) -> None:
    world, queue, _ = ring(10)
    queue.said["kind"] = kind
    world.run(90, lambda _: queue.come(1))
    assert world.evicted() > 30
    assert ("ring_losing" in world.notices) is told
    assert not world.names


@pytest.mark.slow  # many polls
def test_what_comes_into_it_are_scheduled_messages_when_they_fall_due() -> None:
    world, queue, _ = ring(10)
    queue.schedule(4000)
    world.run(600, lambda _: queue.due(2))
    assert world.one("ring_losing").evidence["rate_in"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("does", "why"),
    [
        (
            "none",
            "messages come to a full ring that has no consumer: each one evicts the oldest",
        ),
        ("idle", "messages come to a full ring, and its consumers acknowledge none"),
        ("slow", "messages come to a full ring faster than its consumers take them"),
    ],
)
def test_it_says_why_arrivals_evict(does: str, why: str) -> None:
    world, queue, (consumer,) = ring(10, 1)
    if does == "none":
        queue.close(consumer)

    def live(_: float) -> None:
        queue.come(2)
        if does == "slow":
            queue.take(consumer, 1)
            queue.settle(consumer)

    world.run(90, live)
    found = world.one("ring_losing")
    assert found.why == why
    assert found.evidence["consumers"] == (does != "none")


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("limit", [{}, {"ring": 50.0}])
def test_a_last_value_that_is_replaced_is_no_loss_of_a_ring(
    limit: dict[str, float],
) -> None:
    """Its sum lacks what was replaced, as that of a ring lacks what was evicted; of both nobody can say which."""
    broker = Broker()
    for n in range(20):
        taker = {f"c{n // 4}": {"T": 5.0, "N": 5.0}}
        broker.see(
            {"q": account_queue(100.0 * n, 10, K=30.0 * n, last_value=1.0, **limit)},
            consumers=taker,
        )
    assert broker.evicted() > 1000
    assert not broker.notices | broker.names


def test_it_says_that_a_paused_ring_is_paused() -> None:
    world, queue, _ = ring(10, 1)
    queue.said["paused"] = 1.0
    world.run(90, lambda _: queue.come(2))
    assert "that is paused" in world.one("ring_losing").why


@pytest.mark.slow  # many polls
def test_where_clients_gave_back_it_names_them() -> None:
    world, queue, consumers = ring(10)
    world.run(30)
    for _ in range(6):
        queue.come(10)
        holder = queue.join("b", window=np.inf)
        queue.take(holder)
        world.run(15)
        queue.come(10)
        world.run(15, lambda _: None)
        queue.close(holder)
    assert not consumers
    world.run(15)
    assert world.one("ring_lost_by_consumer").why.startswith(
        "b closed, lost the connection or rolled back: 10 to 20 messages"
    )


# --- what the operator says


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("keys", "severity"),
    [
        ({}, Severity.INFO),
        ({"ring_loss": RingLoss.EXPECTED}, Severity.INFO),
        ({"ring_loss": RingLoss.ALERT}, Severity.WARNING),
        ({"ring_retention": 70.0}, Severity.INFO),
        ({"ring_retention": 90.0}, Severity.WARNING),
    ],
)
def test_a_ring_that_loses(keys: dict[str, Any], severity: Severity) -> None:
    """100 messages at 20 in 15 s cover 75 s."""
    ring = ruled(rule(**keys), trend=120.0)
    ring.queue(Q, "ring", messages=100, added=100, ring_limit=100)
    ring.consumer(10, Q, "c")
    ruled_polls(ring, 15, added=20)
    assert ring.condition("ring_losing").severity is severity
