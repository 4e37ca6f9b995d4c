"""A sum is checked before it is shown: a message count that cannot be is not believed, nor the one after it."""

from typing import TYPE_CHECKING

import pytest

from account.openmq_world import openmq_broker
from account.world import Broker, queue
from penstock.insight.sum_check import content_that_adds_up

if TYPE_CHECKING:
    from penstock.insight.answers import Amount

NOT_READ = float("nan")
"""As a reader makes of a MessageCount of -20."""


def counted(*contents: float) -> Broker:
    """50 came and 20 were acknowledged: 30 are there, whatever the broker counts at these polls."""
    broker = Broker().see({"q": queue(0, 0)}, polls=3)
    for content in contents:
        broker.see({"q": queue(50, content, K=20.0)})
    return broker


def test_a_count_that_cannot_be_is_unknown() -> None:
    sheet = counted(NOT_READ).sheet()
    assert sheet.there["ready"] is None
    assert "below 0" in sheet.reasons["ready"]
    assert sheet.sums == "50 added = unknown ready + 20 acknowledged"


@pytest.mark.parametrize("polls", [1, 2, 3, 6])
def test_a_count_that_does_not_add_up_is_unknown_and_both_are_shown(polls: int) -> None:
    sheet = counted(NOT_READ, *[10.0] * polls).sheet()
    assert sheet.there["ready"] is None
    assert (
        sheet.reasons["ready"]
        == "the broker's message count says 10, what came and left says 30"
    )
    assert "10 ready" not in sheet.sums


def test_a_count_that_is_right_again_is_believed() -> None:
    sheet = counted(NOT_READ, 10.0, 30.0).sheet()
    assert sheet.sums == "50 added = 30 ready + 20 acknowledged"


def test_a_row_that_was_read_while_it_changed_is_believed() -> None:
    sheet = counted(29.0).sheet()
    assert sheet.there["ready"] == 29
    assert "ready" not in sheet.reasons


def test_what_a_ring_evicts_is_no_wrong_count() -> None:
    broker = (
        Broker()
        .see({"q": queue(0, 0, ring=10.0)}, polls=3)
        .see({"q": queue(50, 10, K=20.0, ring=10.0)}, polls=2)
    )
    assert broker.sheet().there["ready"] == 10


def test_bounds_that_leave_room_are_no_wrong_count() -> None:
    there: dict[str, Amount] = {"ready": 10}
    assert content_that_adds_up({"added": 50}, there, {"acknowledged": (20, 40)}) == (
        there,
        "",
    )


def test_a_count_of_openmq_alike() -> None:
    """More left than came, by the counters of one row: the content is not what the row says."""
    broker = openmq_broker().see(10, 0, 10, polls=4).see(20, 5, 30)
    sheet = broker.sheet()
    assert sheet.there["ready"] is None
    assert "says 30" in sheet.reasons["ready"]
