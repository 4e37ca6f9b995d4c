import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis
from penstock.model import QueueKind


@pytest.mark.parametrize(
    ("queue", "attempts", "holds"),
    [
        ({}, -1.0, True),
        ({}, 0.0, True),
        ({}, 1.0, False),
        ({"kind": QueueKind.LINK}, -1.0, False),
    ],
)
def test_attempts_on_an_address_with_queues_of_applications(
    queue: Numbers, attempts: float, holds: bool
) -> None:
    found = on_artemis(queue, {"max_delivery_attempts": attempts}, others={"q2": {}})
    assert ("unlimited_delivery_attempts" in found) is holds
