"""What is the same for every rule: queues that are not destructive or not judged, restarts, gaps and windows."""

from itertools import cycle

import numpy as np
import pytest

from conditions.scenarios import FAULTS, arrivals, together, working
from conditions.situations import FREE, HELD, HOLDER, WAIT, polls
from conditions.town import Town
from conditions.world import START, Judged, World
from penstock.core.table import Index
from penstock.core.windows import Window
from penstock.model import QueueKind, Role
from penstock.observation.activity import (
    FLOW_IN,
    RETURNED,
    SAMPLES,
    SETTLED,
    TREND_SAMPLES,
)
from penstock.observation.facts import JUDGED
from penstock.settings.constants import Constants

QUEUE = np.array([0])
"""The position of the only one."""


# --- queues that keep what is acknowledged


def test_what_waits_is_not_known_of_a_queue_that_its_address_makes_non_destructive() -> (
    None
):
    judged = Judged(constants=Constants(cold=60.0))
    keeps = {"A": 20.0, "K": 0.0, "M": 20.0, "ring": 10.0, "Att": 0.0}
    polls(
        judged, 10, keeps, {"c": {"T": 0.0, "N": 20.0, "C": 20.0}}, non_destructive=1.0
    )
    assert not judged.conditions
    assert np.isnan(
        [
            judged.column("queue", name)
            for name in ("ready", "ring_used_ratio", "ring_at_risk")
        ]
    ).all()
    assert np.isnan(judged.evicted())


def test_a_queue_that_settles_is_destructive_whatever_its_address_makes_of_new_ones() -> (
    None
):
    judged = Judged()
    polls(
        judged, 3, {"A": 20.0, "K": 5.0, "M": 15.0, "Att": 5.0}, {}, non_destructive=1.0
    )
    assert judged.column("queue", "ready") == 15.0


# --- whom nobody judges


NEVER = [QueueKind.TEMPORARY, QueueKind.INTERNAL, QueueKind.LINK, QueueKind.RETROACTIVE]


def test_kinds_that_belong_to_the_broker_or_to_one_client() -> None:
    assert set(QueueKind) - JUDGED == set(NEVER)


def test_kinds_that_are_never_judged() -> None:
    """Each fault on a queue of one of them."""
    town = Town({fault: setup for fault, (setup, _, _) in FAULTS.items()}, step=30.0)
    for queue, kind in zip(town.queues.values(), cycle(NEVER), strict=False):
        queue.said["kind"] = kind
    town.run(480, town.live, tick=5.0)
    assert town.queues.keys() == FAULTS.keys()
    assert not town.first


# --- starts, gaps, restarts


@pytest.mark.slow  # many polls
def test_a_restart_keeps_patience_and_drops_windows() -> None:
    world = World()
    queue = world.queue()
    live = together(arrivals(queue, 5), working(queue, per_second=3, window=20))
    world.run(600, live)
    before = world.column("client", "patience")
    assert "falling_behind" in world.names
    world.restart()
    working(queue, per_second=3, window=20)
    world.look()
    assert not world.conditions
    assert world.column("client", "patience") == before


@pytest.mark.slow  # many polls
def test_a_passive_broker_is_not_judged() -> None:
    judged = polls(Judged(), 30, HELD, {"c": HOLDER})
    assert judged.names
    judged.role = Role.PASSIVE
    polls(judged, 1, HELD, {"c": HOLDER})
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_a_queue_made_anew_is_another_but_for_patience() -> None:
    judged = polls(Judged(), 30, {**WAIT, "K": 1})
    assert judged.names == {"no_consumer"}
    judged._queues._keys["q"] = 99
    polls(judged, 5, {**WAIT, "K": 1})
    assert not judged.names


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("after", "stays"), [(60.0, True), (61.0, False)])
@pytest.mark.parametrize("part", ["queues", "consumers"])
def test_verdicts_stay_for_a_minute_without_the_part_they_need(
    part: str, after: float, stays: bool
) -> None:
    judged = polls(Judged(), 30, HELD, {"c": HOLDER})
    judged.poll({"q": HELD}, {"c": HOLDER}, after=30.0, failed=[part])
    assert judged.names == {"stalled"}
    judged.poll({"q": HELD}, {"c": HOLDER}, after=after - 30, failed=[part])
    shown = (
        []
        if part == "consumers"
        else [row.cause for row in judged.tables["queue_cause"].index]
    )
    if part == "queues":
        assert shown == (["stalled"] if stays else [])
    if not stays and part == "queues":
        assert not judged.conditions
    polls(judged, 2, HELD, {"c": HOLDER})
    assert judged.one("stalled").since == START


@pytest.mark.slow  # many polls
def test_three_polls_are_longer_than_a_minute_at_slow_polls() -> None:
    judged = polls(Judged(step=30.0), 30, HELD, {"c": HOLDER})
    judged.poll({"q": HELD}, {"c": HOLDER}, after=89.0, failed=["queues"])
    assert judged.names == {"stalled"}
    judged.poll({"q": HELD}, {"c": HOLDER}, after=2.0, failed=["queues"])
    assert not judged.names


def test_a_number_that_is_missing_for_a_poll_is_caught_up_at_the_next() -> None:
    """The progress of two polls is seen at the second."""
    judged = polls(Judged(), 3, {**WAIT, "K": 5}, {"c": {**FREE, "C": 5.0}})
    judged.poll({"q": {**WAIT, "K": np.nan}}, {"c": {**FREE, "C": np.nan}})
    judged.poll({"q": {**WAIT, "K": 9}}, {"c": {**FREE, "C": 9.0}})
    last = judged.state.judgement.activity.window.samples[-1]
    assert last.values[[RETURNED, SETTLED]].tolist() == [[0.0], [4.0]]


@pytest.mark.parametrize(
    ("stamps", "covered"),
    [
        ([0, 30, 60, 90, 120, 150], True),
        ([0, 30, 60, 90, 150], False),
        ([22.5, 60, 75, 90, 105, 150], True),
        ([22.6, 60, 75, 90, 105, 150], False),
    ],
)
def test_a_window_needs_six_in_ten_of_its_polls_and_its_whole_length(
    stamps: list[float], covered: bool
) -> None:
    """Of 150 s at polls of 15 s: six of ten, from the first 22.5 s on."""
    window = Window(Index.of(["q"]))
    for stamp in stamps:
        window = window.push(stamp, np.ones((1, 1), np.float32), 1000.0, 1.0)
    assert bool(window.covers(QUEUE, 0, 150.0, 15.0, 1)[0]) is covered
    assert not window.covers(QUEUE, 0, 150.0, 15.0, 7)[0]


def test_a_window_holds_what_is_not_older_than_its_length() -> None:
    window = Window(Index.of(["q"]))
    for stamp in range(0, 120, 15):
        window = window.push(
            float(stamp), np.full((1, 1), stamp, np.float32), 60.0, 1.0
        )
    assert [sample.stamp for sample in window.samples] == [45, 60, 75, 90, 105]
    assert window.of(0, QUEUE).ravel().tolist() == [45, 60, 75, 90, 105]
    assert window.seconds == 60


def test_polls_faster_than_a_window_needs_are_summed_up() -> None:
    """A change of 1 and a level of `stamp` at every second, in samples of 5 s."""
    window = Window(Index.of(["q"]))
    for stamp in range(63):
        window = window.push(
            float(stamp), np.array([[1], [stamp]], np.float32), 60.0, 5.0, levels=(1,)
        )
    changes = window.of(0, QUEUE).ravel().tolist()
    levels = window.of(1, QUEUE).ravel().tolist()
    assert (changes, levels) == (
        [5.0] * 12 + [2.0],
        [*map(float, range(5, 61, 5)), 62.0],
    )
    assert window.polls == 62
    assert window.rate(0).tolist() == [1.0]
    assert window.covers(QUEUE, 0, 60.0, 1.0, 60)[0]


@pytest.mark.slow  # takes a second
@pytest.mark.parametrize(
    ("step", "constants"),
    [
        (1.0, Constants()),
        (2.6, Constants()),
        (15.0, Constants(window_polls=1000.0, trend_polls=1000)),
        (1.0, Constants(window=3600.0, trend=3600.0)),
    ],
)
def test_however_fast_the_polls_and_long_the_windows_few_samples_are_held(
    step: float, constants: Constants
) -> None:
    judged = Judged(step=step, constants=constants)
    for n in range(250):
        judged.poll({"q": {"A": 10.0 * n, "K": 10.0 * n, "M": 10.0}})
    history = judged.state.judgement.activity
    assert len(history.window.samples) <= 2 * SAMPLES + 1
    assert len(history.trend.samples) <= 2 * TREND_SAMPLES + 1
    assert history.trend.rate(FLOW_IN).tolist() == pytest.approx([10 / step])


def test_what_is_missing_in_a_sample_is_that_of_the_polls_in_it_which_have_it() -> None:
    window = Window(Index.of(["q"]))
    for stamp, change in enumerate([1.0, np.nan, 2.0, np.nan, np.nan]):
        window = window.push(
            float(stamp),
            np.array([[change], [10 * change]], np.float32),
            60.0,
            2.0,
            levels=(1,),
        )
    assert window.of(0, QUEUE, np.nan).ravel().tolist() == pytest.approx(
        [1.0, 2.0, np.nan], nan_ok=True
    )
    assert window.of(1, QUEUE, np.nan).ravel().tolist() == pytest.approx(
        [10.0, 20.0, np.nan], nan_ok=True
    )
