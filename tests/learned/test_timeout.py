"""How long is normal: what gaps teach, what they do not, and for whom."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditions.scenarios import every, together, visit
from conditions.world import Judged, World
from penstock.core.table import Index
from penstock.learned.timeout import BINS, EDGES, LearnedTimeout, bins, quantile
from penstock.series.totals import LEAST_DORMANT
from penstock.settings.constants import Constants

ONE = Index.of(["client"])
CONSTANTS = Constants()


def taught(
    *gaps: float, constants: Constants = CONSTANTS, patience: float = 3600.0
) -> LearnedTimeout:
    state = LearnedTimeout().advance(ONE)
    for gap in gaps:
        state = state.learn(
            np.array([0]), np.array([gap]), np.array([patience]), constants
        )
    return state


def seconds(state: LearnedTimeout, interval: float = 5.0) -> float:
    return float(state.seconds(CONSTANTS, interval)[0])


def weighing(weight: float, *, longest: float, q98: float) -> float:
    """The patience of one that learned so much."""
    return seconds(
        LearnedTimeout(ONE, np.array([weight]), np.array([longest]), np.array([q98]))
    )


# --- the histogram


@pytest.mark.parametrize(
    ("gap", "bin_"),
    [
        (0.0, 0),
        (0.25, 0),
        (0.2501, 1),
        (0.5, 2),
        (1.0, 4),
        (1e9, BINS - 1),
        (EDGES[20], 20),
    ],
)
def test_bins_grow_by_the_root_of_two(gap: float, bin_: int) -> None:
    assert bins(np.array([gap])).tolist() == [bin_]
    assert len(EDGES) == 48
    assert EDGES[2] / EDGES[0] == 2


def test_each_gap_fades_the_older_ones() -> None:
    state = taught(1.0, 100.0, 1.0)
    assert state.weights[0, 4] == pytest.approx(0.999**2 + 1)
    assert state.weight[0] == pytest.approx(0.999**2 + 0.999 + 1)
    assert state.longest[0] == pytest.approx(100 * 0.999)


def test_half_is_forgotten_in_seven_hundred_gaps() -> None:
    state = taught(100.0, *[1.0] * 693)
    assert state.weights[0, bins(np.array([100.0]))[0]] == pytest.approx(0.5, rel=1e-3)
    assert state.longest[0] == pytest.approx(50, rel=1e-3)


def test_who_has_learned_nothing_takes_no_room() -> None:
    state = LearnedTimeout().advance(Index.of([*"abc"]))
    before = state.learn(np.array([2]), np.array([1.0]), np.array([300.0]), CONSTANTS)
    after = before.learn(np.array([0]), np.array([8.0]), np.array([300.0]), CONSTANTS)
    assert (len(before.weights), len(after.weights)) == (1, 2)
    assert [bins_of(after, row) for row in range(3)] == [[10], [], [4]]
    assert (before.weights.shape, after.weights.shape) == (
        (1, 5),
        (2, 11),
    )  # no bin beyond the last that has a weight
    fewer, _ = after.index.advance(np.array([1, 2]), lambda _: [])
    moved = after.advance(fewer)
    assert len(moved.weights) == 1
    assert [bins_of(moved, row) for row in range(2)] == [[], [4]]
    assert moved.weights.shape == (1, 5)
    again, _ = fewer.advance(np.array([0, 1, 2]), lambda new: ["abc"[i] for i in new])
    assert [bins_of(moved.advance(again), row) for row in range(3)] == [[10], [], [4]]
    assert len(before.weights) == 1  # a state is never changed


def test_who_is_gone_and_taught_nothing_that_counts_is_forgotten() -> None:
    """Names that never come again are many: each would stay for nothing."""
    before = LearnedTimeout().advance(Index.of([*"abcd"]))
    for row, gap, times in ((0, 1.0, 3), (1, 60.0, 1), (2, 1.0, 60)):
        before = before.learn(
            np.full(times, row), np.full(times, gap), np.full(times, 300.0), CONSTANTS
        )
    before = before.learn(
        np.array([3]), np.array([400.0]), np.array([300.0]), CONSTANTS
    )
    gone = before.advance(before.index.advance(np.array([9]), lambda _: ["z"])[0])
    assert set(gone.dormant) == {"b", "c", "d"}
    assert set(before.laid_aside().dormant) >= {"a", "b", "c"}


def crowd(first: int, count: int) -> Index[str]:
    return Index.of([f"client-{i}" for i in range(first, first + count)])


def all_taught(state: LearnedTimeout) -> LearnedTimeout:
    rows = np.arange(len(state.index))
    return state.learn(
        rows, np.full(len(rows), 60.0), np.full(len(rows), 300.0), CONSTANTS
    )


def test_names_that_never_come_again_do_not_grow_for_ever() -> None:
    state = LearnedTimeout()
    index = crowd(0, 30)
    for first in range(30, 3000, 30):
        state = all_taught(state.advance(index))
        index, _ = index.advance(
            np.arange(first, first + 30),
            lambda new: [f"client-{first + at}" for at in new],  # noqa: B023 - at once
        )
    state = state.advance(index)
    assert len(state.dormant) == LEAST_DORMANT
    assert "client-2969" in state.dormant


def test_a_fleet_that_goes_and_comes_back_bit_by_bit_is_known_again() -> None:
    state = all_taught(LearnedTimeout().advance(crowd(0, 3000))).laid_aside()
    for count in (1, 50, 3000):
        state = state.advance(crowd(0, count))
    assert (state.longest == 60).all()
    assert not state.dormant


def bins_of(state: LearnedTimeout, row: int) -> list[int]:
    found: list[int] = np.flatnonzero(state.histograms(np.array([row]))[0]).tolist()
    return found


def test_gaps_of_one_poll_count_each() -> None:
    state = LearnedTimeout().advance(Index.of(["a", "b"]))
    state = state.learn(
        np.array([1, 1, 0]), np.array([2.0, 8.0, 1.0]), np.full(3, 300.0), CONSTANTS
    )
    assert state.weight.tolist() == [1, 2]
    assert state.longest.tolist() == [1, 8]
    assert [bins_of(state, row) for row in range(2)] == [[4], [6, 10]]


def test_what_was_learned_before_fades_once_for_each_of_them() -> None:
    state = taught(100.0).learn(
        np.array([0, 0]), np.array([2.0, 8.0]), np.full(2, 300.0), CONSTANTS
    )
    assert state.longest[0] == pytest.approx(100 * 0.999**2)
    assert state.weight[0] == pytest.approx(0.999**2 + 2)


def test_the_98th_percentile_is_the_upper_edge_of_its_bin_and_no_more_than_the_longest() -> (
    None
):
    weights = np.zeros((1, BINS), np.float32)
    weights[0, 10], weights[0, 20] = 98, 2
    assert quantile(weights, 0.98)[0] == EDGES[10]
    weights[0, 10] = 97.9
    assert quantile(weights, 0.98)[0] == EDGES[20]
    assert taught(*[1.1] * 20).q98[0] == 1.1


@given(st.lists(st.floats(0.3, 3000), min_size=1, max_size=200))
def test_the_same_by_plain_arithmetic(gaps: list[float]) -> None:
    weights = [0.0] * BINS
    longest = 0.0
    for gap in gaps:
        weights = [weight * 0.999 for weight in weights]
        weights[
            next(n for n in range(BINS) if gap <= 0.25 * 2 ** (n / 2) or n == BINS - 1)
        ] += 1
        longest = max(longest * 0.999, gap)
    total = sum(weights)
    reached = 0.0
    at = 0
    for at, weight in enumerate(weights):  # noqa: B007 - the bin where it is reached
        reached += weight
        if reached >= 0.98 * total - 1e-4:
            break
    q98 = min(0.25 * 2 ** (at / 2), longest)
    usual = longest if total < 50 else q98
    state = taught(*gaps)
    assert state.weight[0] == pytest.approx(total, rel=1e-4)
    assert seconds(state) == pytest.approx(
        min(max(300, 3 * usual, 30), 3600), rel=0.5 if total >= 50 else 1e-4
    )


# --- from weights to seconds


@pytest.mark.parametrize(
    ("weight", "longest", "q98", "expected"),
    [
        (0, 0, 0, 300),
        (49.9, 200, 20, 600),
        (50, 200, 20, 300),
        (50, 2000, 150, 450),
        (499.9, 200, 20, 300),
        (500, 200, 20, 60),
        (500, 200, 1, 30),
        (900, 2000, 1500, 3600),
    ],
)
def test_little_evidence_asks_for_a_long_patience(
    weight: float, longest: float, q98: float, expected: float
) -> None:
    assert weighing(weight, longest=longest, q98=q98) == expected


@pytest.mark.parametrize(
    ("interval", "floor"), [(5, 30), (10, 30), (15, 45), (60, 180)]
)
def test_below_three_polls_nothing_is_measured(interval: float, floor: float) -> None:
    state = LearnedTimeout(ONE, np.array([600.0]), np.array([1.0]), np.array([1.0]))
    assert seconds(state, interval) == floor


def test_what_is_configured_wins() -> None:
    state = LearnedTimeout().advance(Index.of(["a", "b"]))
    assert state.seconds(CONSTANTS, 15.0, np.array([7.0, np.nan])).tolist() == [7, 300]


# --- long gaps


def test_a_long_gap_teaches_nothing_until_the_third_then_their_median() -> None:
    state = taught(400.0, 1000.0, patience=300.0)
    assert state.weight[0] == 0
    assert seconds(state) == 300
    state = state.learn(np.array([0]), np.array([500.0]), np.array([300.0]), CONSTANTS)
    assert state.weight[0] == 1
    assert state.longest[0] == 500
    assert seconds(state) == 1500
    assert np.isnan(state.long_gaps).all()


def test_a_gap_of_exactly_the_patience_is_no_spell() -> None:
    assert taught(300.0, patience=300.0).weight[0] == 1
    assert taught(300.1, patience=300.0).weight[0] == 0


@pytest.mark.slow  # takes a second
def test_jobs_of_twenty_minutes_are_told_wrongly_for_the_first_only() -> None:
    world = World(step=30.0)
    queue = world.queue()
    queue.come(100)
    consumer = queue.join(window=1)
    live = every(1200, partial(queue.next, consumer))
    world.run(3660, live, tick=10.0)
    assert "stalled" in world.alarms
    world.first.clear()
    world.run(3600, live, tick=10.0)
    assert world.column("client", "patience") == 3600
    assert "stalled" not in world.alarms


# --- whose gaps


@pytest.mark.slow  # takes a second
def test_gaps_are_those_of_single_consumers() -> None:
    """Eight with jobs of 96 s settle every 12 s together; none of them is that fast."""
    world = World(step=5.0, constants=Constants(cold=30.0))
    queue = world.queue()
    queue.come(1000)
    pool = [queue.join("pool", window=1) for _ in range(8)]
    jobs = [
        every(96, partial(queue.next, consumer), phase=12.0 * n)
        for n, consumer in enumerate(pool)
    ]

    world.run(1000, together(*jobs))
    learned = world.state.judgement.patience
    assert learned.weight[0] > 40
    assert learned.longest[0] == pytest.approx(96, rel=0.1)
    assert learned.weights[0, : bins(np.array([60.0]))[0]].sum() == 0


@pytest.mark.slow  # takes a second
def test_a_gap_begins_with_the_hold_not_with_the_last_settlement() -> None:
    """Idle for 200 s between jobs of 40 s."""
    world = World(step=5.0)
    queue = world.queue()
    consumer = queue.join(window=1)

    def begin() -> None:
        queue.come()
        queue.take(consumer)

    world.run(
        1000,
        together(
            every(240, begin), every(240, lambda: queue.settle(consumer), phase=40)
        ),
    )
    assert world.state.judgement.patience.longest[0] == pytest.approx(40, abs=1)


@pytest.mark.slow  # many polls
def test_what_a_client_taught_survives_its_reconnects() -> None:
    world = World(constants=Constants(cold=30.0))
    queue = world.queue()
    queue.come(1000)
    consumer = queue.join(window=1)
    world.run(400, every(20, partial(queue.next, consumer)))
    patience = world.column("client", "patience")
    weight = world.state.judgement.patience.weight[0]
    assert patience > 55
    queue.close(consumer)
    world.run(60)
    assert not len(world.tables["client"])
    queue.join()
    world.run(15)
    assert world.column("client", "patience") == patience
    assert world.state.judgement.patience.weight[0] == pytest.approx(weight)


def test_rows_that_come_and_go_keep_what_they_taught() -> None:
    state = taught(20.0, 400.0, patience=300.0)
    other, _ = ONE.advance(np.array([7]), lambda _: ["other"])
    back, _ = other.advance(np.array([7, 9]), lambda _: ["client"])
    gone = state.advance(other)
    assert gone.weight.tolist() == [0]
    found = gone.advance(back)
    assert found.weight.tolist() == [0, 1]
    assert found.longest.tolist() == [0, 20]
    assert found.q98.tolist() == [0, 20]
    assert found.long_gaps[0, 1] == 400
    assert not found.dormant


# --- of queues


@pytest.mark.slow  # many polls
def test_a_rhythm_of_reads_is_learned_as_patience_for_absence() -> None:
    """A batch every ten minutes is missed at its first cycle only."""
    world = World(step=30.0)
    queue = world.queue()
    reads = every(600, partial(visit, queue), phase=605)
    comes = every(10, queue.come)
    world.run(1260, together(comes, reads), tick=5.0)
    assert "no_consumer" in world.alarms
    world.first.clear()
    world.last.clear()
    world.run(2400, together(comes, reads), tick=5.0)
    assert not world.alarms
    assert 850 < world.state.judgement.absence_seconds(CONSTANTS)[0] < 950


@pytest.mark.slow  # takes a second
def test_a_rhythm_of_receives_is_learned_as_patience_for_dispatch() -> None:
    judged = Judged(step=30.0)
    told = []
    taken = 0.0
    for n in range(200):
        taken += n % 14 == 13  # every 420 s
        busy = {"T": 0.0, "N": taken, "C": taken, "L": judged.now, "Ld": judged.now}
        judged.poll({"q": {"A": 500.0, "K": taken, "M": 500.0 - taken}}, {"c": busy})
        told.append("not_dispatching" in judged.names)
    assert any(told[:60])
    assert not any(told[80:])


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("how", ["paused", "absent"])
def test_a_queue_that_is_paused_or_unread_teaches_no_wait_for_a_delivery(
    how: str,
) -> None:
    """Four minutes of it made `not_dispatching` wait for twelve from then on, three long ones for an hour."""
    world = World()
    queue = world.queue()
    reader = [queue.join(window=100)]

    def comes(_: float) -> None:
        queue.come()

    def reads(_: float) -> None:
        queue.take(reader[0])
        queue.settle(reader[0])

    world.run(120, together(comes, reads), tick=5.0)
    if how == "absent":
        queue.close(reader[0])
    queue.said["paused"] = float(how == "paused")
    world.run(240, comes, tick=5.0)
    queue.said["paused"] = 0.0
    if how == "absent":
        reader[0] = queue.join(window=100)
    world.run(120, together(comes, reads), tick=5.0)
    begin = world.seconds
    world.run(330, comes, tick=5.0)
    assert (
        CONSTANTS.cold
        <= world.first["not_dispatching"] - begin
        <= CONSTANTS.cold + 2 * world.step
    )


def test_judged_constants_of_a_recording_may_be_below_the_floor() -> None:
    cold = Constants(cold=12.0)
    assert LearnedTimeout().advance(ONE).seconds(cold, 15.0).tolist() == [12]


def test_four_in_a_hundred_are_above_the_98th_percentile() -> None:
    assert taught(*[1.0] * 96, *[100.0] * 4).q98[0] == 100
    assert taught(*[1.0] * 99, 100.0).q98[0] == 1


@pytest.mark.slow  # many polls
def test_who_holds_nothing_at_the_polls_shows_no_gap() -> None:
    """It works between the polls: how long for is not known."""
    judged = Judged()
    for n in range(20):
        busy = {
            "T": 0.0,
            "N": 5.0 * n,
            "C": 5.0 * n,
            "L": judged.now + 7,
            "Ld": judged.now + 6,
        }
        judged.poll({"q": {"A": 5.0 * n, "K": 5.0 * n}}, {"c": busy})
    assert judged.state.judgement.patience.weight.tolist() == [0]
