"""The small rules of flow: clock, worst, what is shown, what waits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.things import ACTIVE, NAN, queue, table
from penstock.core.table import Column
from penstock.model import Process
from penstock.series.clock import Clock
from penstock.series.labels import POLLS_OUTSIDE, TopK, top_k
from penstock.series.queues import ready


def column(*values: float) -> Column:
    return np.array(values, np.float64)


# --- clock


def seen(
    clock: Clock, stamp: float, broker_clock: float = NAN, uptime: float = NAN
) -> Clock:
    broker = replace(ACTIVE, clock=broker_clock, uptime=uptime)
    return clock.advance(broker, stamp, Process.of(broker))


def test_skew_is_smoothed_and_times_are_moved_only_by_a_real_change() -> None:
    clock = seen(Clock(), 100.0, 102.0)
    assert (clock.skew, clock.applied) == (2.0, 2.0)
    clock = seen(clock, 110.0, 112.5)
    assert clock.skew == pytest.approx(2.15)
    assert clock.applied == 2.0
    for stamp in range(120, 300, 10):
        clock = seen(clock, stamp, stamp + 2.5)
    assert clock.skew == pytest.approx(2.5, abs=0.01)
    assert 2.25 < clock.applied < 2.5


def test_a_step_of_a_clock_is_followed_at_once() -> None:
    clock = seen(seen(Clock(), 100.0, 100.0), 110.0, 710.0)
    assert (clock.skew, clock.applied) == (600.0, 600.0)


def test_without_a_clock_nothing_is_moved_and_nothing_forgotten() -> None:
    clock = seen(Clock(), 100.0)
    assert np.isnan(clock.skew)
    assert clock.applied == 0.0
    assert seen(seen(Clock(), 100.0, 105.0), 110.0).applied == 5.0


def test_the_start_is_the_same_text_at_every_poll_until_a_restart() -> None:
    clock = seen(Clock(), 1000.0, uptime=400.0)
    assert clock.start == 600.0
    clock = seen(clock, 1010.3, uptime=410.0)
    assert clock.start == 600.0
    clock = seen(clock, 1020.0, uptime=NAN)
    assert clock.start == 600.0
    clock = seen(clock, 1030.0, uptime=0.5)
    assert clock.start == 1029.5


def test_a_restart_within_the_jitter_is_a_restart() -> None:
    clock = seen(Clock(), 1000.0, uptime=0.6)
    assert seen(clock, 1000.5, uptime=0.2).start == pytest.approx(1000.3)


# --- the worst


value = st.one_of(st.just(NAN), st.integers(0, 3).map(float))


@given(
    st.lists(st.tuples(value, value, st.integers(-1, 3)), max_size=15),
    st.integers(0, 16),
    st.integers(0, 16),
)
def test_worst_is_what_a_plain_sort_says(
    rows: list[tuple[float, float, int]], total: int, per_group: int
) -> None:
    first, then, groups = (
        np.array([row[n] for row in rows], np.float64) for n in range(3)
    )
    mask = top_k(first, then, groups.astype(np.int64), total, per_group)

    def rank(at: int) -> tuple[float, float, int]:
        a, b = (-np.inf if np.isnan(number) else number for number in rows[at][:2])
        return -a, -b, at

    chosen: list[int] = []
    taken: dict[int, int] = {}
    for at in sorted(range(len(rows)), key=rank):
        group = rows[at][2]
        if len(chosen) < total and taken.get(group, 0) < per_group:
            chosen.append(at)
            taken[group] = taken.get(group, 0) + 1
    assert np.flatnonzero(mask).tolist() == sorted(chosen)


def advance(shown: TopK, keys: list[int], worst_keys: set[int]) -> TopK:
    return shown.advance(
        np.array(keys, np.int64),
        np.array([key in worst_keys for key in keys], np.bool_),
    )


def test_what_is_shown_stays_for_some_polls_outside_and_leaves_then() -> None:
    shown = advance(TopK(), [1, 2, 3], {1})
    for _ in range(POLLS_OUTSIDE - 1):
        shown = advance(shown, [1, 2, 3], {2})
        assert shown.keys.tolist() == [1, 2]
    assert advance(shown, [1, 2, 3], {2}).keys.tolist() == [2]
    again = advance(advance(shown, [1, 2, 3], {1}), [1, 2, 3], {2})
    assert again.keys.tolist() == [1, 2]


@given(st.lists(st.dictionaries(st.integers(0, 6), st.booleans()), max_size=10))
def test_shown_is_who_was_among_the_worst_within_the_last_polls(
    polls: list[dict[int, bool]],
) -> None:
    shown = TopK()
    outside = dict[int, int]()
    for poll in polls:
        keys = sorted(poll)
        shown = advance(shown, keys, {key for key in keys if poll[key]})
        outside = {
            key: 0 if poll[key] else outside[key] + 1
            for key in keys
            if poll[key] or outside.get(key, POLLS_OUTSIDE) + 1 < POLLS_OUTSIDE
        }
        assert shown.keys.tolist() == sorted(outside)


# --- what waits


@pytest.mark.parametrize(
    ("messages", "delivering", "scheduled", "last_value", "waiting"),
    [
        (10, 3, 2, 0, 5),
        (10, 3, 2, 1, 8),  # last-value queues do not count what is in delivery
        (10, 3, 2, NAN, 5),
        (2, 3, 0, 0, 0),  # counts of different moments: never below 0
        (NAN, 3, 2, 0, NAN),
        (10, NAN, 2, 0, NAN),
        (10, NAN, 2, 1, 8),
        (10, 3, NAN, 0, NAN),
    ],
)
def test_ready(
    messages: float,
    delivering: float,
    scheduled: float,
    last_value: float,
    waiting: float,
) -> None:
    rows = table(
        [queue("q")],
        messages=[messages],
        delivering=[delivering],
        scheduled=[scheduled],
        last_value=[last_value],
    )
    np.testing.assert_array_equal(ready(rows), column(waiting))
