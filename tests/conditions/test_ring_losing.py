"""`ring_losing`: informs of what a ring throws away, and warns where the operator wants it kept."""

from typing import Any

import pytest

from conditions.rules_world import Q, rule, ruled, ruled_polls
from conditions.situations import ring
from penstock.conditions.condition import Severity
from penstock.model import QueueKind
from penstock.settings.rules import RingLoss


@pytest.mark.parametrize(("kind", "told"), [(QueueKind.USER, True), (QueueKind.RETROACTIVE, False)])
def test_losses_inform_where_they_are_judged(kind: QueueKind, told: bool) -> None:
    world, queue, _ = ring(10)
    queue.said["kind"] = kind
    world.run(90, lambda _: queue.come(1))
    assert world.evicted() > 30
    assert ("ring_losing" in world.notices) is told
    assert not world.names


# --- what the operator says


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
