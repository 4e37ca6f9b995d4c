"""Causes of `slowed` and `producer_silent`: what other queues show, and what they cannot."""

from collections.abc import Mapping

import pytest

from causes.world import possible
from conditions.normal_world import Flow, knowing, steady
from conditions.test_slowed import usual
from penstock.causes.verdict import Verdict


def slowed() -> Mapping[str, Verdict]:
    judged = knowing(q=usual(0.05))
    Flow(judged).run(600, 5.0).run(180, 5.0, settles=4.0)
    return judged.one("slowed").verdicts


@pytest.mark.slow  # many polls
def test_a_slow_disk_is_not_excluded_by_queues_of_which_nothing_is_known() -> None:
    found = slowed()["broker_slow"]
    assert (found.state, found.fact) == (
        possible,
        "the pace of no other queue is known; look at the disk of the broker",
    )


@pytest.mark.slow  # many polls
def test_nor_are_a_slow_client_and_a_slow_host() -> None:
    found = slowed()
    assert found["client_slow"][:2] == (
        possible,
        "the pace of its clients on another queue is not known",
    )
    assert found["host_slow"][:2] == (
        possible,
        "the pace of another queue on their hosts is not known",
    )


@pytest.mark.slow  # many polls
def test_a_producer_may_have_moved_to_where_no_queue_shows_it() -> None:
    """To another broker, or to an address without a queue."""
    judged = knowing(q=steady(20.0))
    Flow(judged).run(600, 20.0).run(600, 0.0)
    found = judged.one("producer_silent").verdicts["moved"]
    assert found[:2] == (
        possible,
        "against it: no other queue of this broker began to get as much",
    )
