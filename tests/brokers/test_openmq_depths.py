"""Depths of OpenMQ destinations: what is carried on between readings, and what may be read when."""

import math

import pytest

from penstock.brokers.openmq.answers import Depth, Destination
from penstock.brokers.openmq.depths import LEFT_ALONE, TOO_LONG, Depths


def row(
    name: str = "q", entered: float = 0, left: float = 0, size: float = 10
) -> Destination:
    return Destination(
        name=name,
        type="q",
        messages_added=entered,
        removed=left,
        added_bytes=entered * size,
        removed_bytes=left * size,
    )


def depth(messages: float, delayed: float = 0) -> Depth:
    return Depth(messages, 3, 2, delayed, messages * 10)


def test_between_readings_the_counters_carry_it_on() -> None:
    depths = Depths()
    depths.begin(100)
    depths.note(row(entered=1000, left=400), depth(600))
    assert depths.carried(row(entered=1000, left=400)).exact
    depths.begin(115)
    found = depths.carried(row(entered=1100, left=450))
    assert (
        found.messages,
        found.bytes,
        found.pending,
        found.uncommitted,
        found.exact,
    ) == (650, 6500, 3, 2, False)


def test_messages_reloaded_at_a_start_are_not_lost() -> None:
    depths = Depths()
    depths.begin(100)
    depths.note(row(), depth(20_000))
    depths.begin(115)
    assert depths.carried(row(entered=5)).messages == 20_005


def test_a_destination_created_anew_begins_anew() -> None:
    depths = Depths()
    depths.begin(100)
    depths.note(row(entered=1000), depth(1000))
    found = depths.carried(row(entered=7, left=2))
    assert found.messages == 5
    assert math.isnan(found.bytes)


def test_small_brokers_are_read_in_one_call_at_every_poll() -> None:
    depths = Depths()
    for now in range(0, 1500, 15):
        depths.begin(now)
        assert depths.may_read_all(10_000)
        depths.spend_on_all(10_000, 100, 0.1)


def test_large_ones_keep_to_their_share_of_the_time() -> None:
    depths = Depths()
    read = 0
    for now in range(0, 15_000, 15):
        depths.begin(now)
        if depths.may_read_all(500_000):  # 2 s of CPU each
            depths.spend_on_all(500_000, 1, 2.0)
            read += 1
    assert (
        200 <= read <= 235
    )  # 15,000 s at 3 % of a core, and what was saved up at first


def test_the_longest_unread_comes_first() -> None:
    depths = Depths()
    depths.begin(0)
    rows = [row(name, entered=100) for name in ("a", "b")]
    depths.note(rows[0], depth(100))
    light, costly = depths.due(rows)
    assert light == [("q", "b"), ("q", "a")]
    assert costly == []


@pytest.mark.parametrize(
    ("after", "again"), [(LEFT_ALONE - 1, False), (LEFT_ALONE + 1, True)]
)
def test_what_held_the_lock_too_long_is_left_alone(after: float, again: bool) -> None:
    depths = Depths()
    depths.begin(0)
    depths.note(row(), depth(10))
    depths.spend(("q", "q"), TOO_LONG + 0.1)
    depths.begin(after)
    assert bool(depths.due([row()])[0]) is again
    assert depths.may_read_all(10) is again


def test_many_delayed_messages_are_not_walked() -> None:
    depths = Depths()
    depths.begin(0)
    depths.note(row(), depth(30_000, delayed=30_000))  # 18 s of CPU
    depths.begin(1000)
    assert depths.due([row()]) == ([], [])
