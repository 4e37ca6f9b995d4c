import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis
from penstock.model import QueueKind

NO_DEAD = {"has_dead_letter_address": 0.0, "killed": 3.0}


@pytest.mark.parametrize(
    ("queue", "address", "holds"),
    [
        (NO_DEAD, {"max_delivery_attempts": 10.0}, True),
        (NO_DEAD, {}, True),
        (NO_DEAD, {"max_delivery_attempts": -1.0}, False),
        (NO_DEAD | {"has_dead_letter_address": 1.0}, {}, False),
        ({"killed": 3.0}, {}, False),  # not known
        (NO_DEAD | {"kind": QueueKind.DEAD_LETTER}, {}, False),
        (NO_DEAD | {"kind": QueueKind.INTERNAL}, {}, False),
    ],
)
def test_deliveries_are_limited_and_nothing_takes_dead_letters(
    queue: Numbers, address: Numbers, holds: bool
) -> None:
    assert (
        "no_dead_letter_address" in on_artemis(queue, address, others={"q2": {}})
    ) is holds
