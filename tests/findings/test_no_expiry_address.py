import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis


@pytest.mark.parametrize(
    ("queue", "holds"),
    [
        ({"has_expiry_address": 0.0, "E": 1.0}, True),
        ({"has_expiry_address": 0.0, "E": 0.0}, False),
        ({"has_expiry_address": 1.0, "E": 1.0}, False),
    ],
)
def test_messages_have_expired_and_nothing_takes_them(
    queue: Numbers, holds: bool
) -> None:
    assert ("no_expiry_address" in on_artemis(queue, others={"q2": {}})) is holds
