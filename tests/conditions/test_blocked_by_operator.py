"""`blocked_by_operator`: sending to a blocked address fails; it is no producer that waits."""

import numpy as np
import pytest

from conditions.situations import FULL, HOLDER, WAIT, polls
from conditions.world import Judged


@pytest.mark.parametrize("queue", [{}, {**WAIT, "D": 10}])
def test_a_blocked_address_is_told_at_the_second_poll(queue: dict[str, float]) -> None:
    assert polls(Judged(), 2, queue, producers_paused=1.0).names == {
        "blocked_by_operator"
    }


def test_one_that_is_full_too_is_told_once() -> None:
    judged = polls(
        Judged(), 8, {**WAIT, "D": 10}, {"c": HOLDER}, producers_paused=1.0, **FULL
    )
    assert judged.names == {"blocked_by_operator"}


@pytest.mark.parametrize("said", [0.0, np.nan])
def test_versions_that_do_not_show_it_are_quiet(said: float) -> None:
    assert not polls(
        Judged(), 8, {**WAIT, "D": 10}, {"c": HOLDER}, producers_paused=said
    ).names
