"""`paused`: a queue or its address is paused."""

import pytest

from conditions.situations import at_limits, polls
from conditions.world import START, Judged, Numbers


@pytest.mark.parametrize(
    ("queue", "address", "names"), [({"paused": 1.0}, {}, {"paused"}), ({}, {"paused": 1.0}, {"paused"})]
)
def test_paused(queue: Numbers, address: dict[str, float], names: set[str]) -> None:
    assert at_limits(queue, address) == names


def test_paused_without_a_backlog_only_informs() -> None:
    judged = polls(Judged(), 3, {"paused": 1.0})
    assert (judged.names, judged.notices) == (set(), {"paused"})
    assert judged.one("paused").since == START + 15
