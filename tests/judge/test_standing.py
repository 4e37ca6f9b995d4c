"""Two polls to come, two to leave; the beginning is the rule's, and is kept over a short absence."""

from collections.abc import Sequence

import numpy as np
import pytest

from penstock.flow.judge.standing import Standing
from penstock.table import Index

ONE = Index.of(["thing"])
T, F = True, False


def judged(
    holds: Sequence[bool], *, step: float = 15.0, begins: float = np.nan, at_once: bool = False
) -> list[Standing]:
    stand, found = Standing().follow(ONE), []
    for n, hold in enumerate(holds):
        stand = stand.judge(np.array([hold]), np.array([begins]), n * step, 60.0, at_once=at_once)
        found.append(stand)
    return found


def on(holds: Sequence[bool], *, at_once: bool = False) -> list[bool]:
    return [bool(stand.on[0]) for stand in judged(holds, at_once=at_once)]


@pytest.mark.parametrize(
    ("holds", "stands"),
    [
        ([T], [F]),
        ([T, T], [F, T]),
        ([T, F, T, F], [F, F, F, F]),
        ([T, T, F, T], [F, T, T, T]),
        ([T, T, F, F], [F, T, T, F]),
        ([T, T, F, F, T], [F, T, T, F, F]),
        ([T, T, F, T, F, F], [F, T, T, T, T, F]),
    ],
)
def test_two_polls_to_enter_two_to_leave(holds: list[bool], stands: list[bool]) -> None:
    assert on(holds) == stands


def test_an_event_comes_and_goes_at_once() -> None:
    assert on([T, F, T], at_once=True) == [T, F, T]


def test_it_begins_with_the_first_of_the_polls_that_agree() -> None:
    stands = judged([F, T, T, T, F, T])
    assert [stand.since[0] for stand in stands[2:]] == [15.0] * 4


def test_it_begins_when_the_rule_says() -> None:
    assert judged([T, T], begins=-400.0)[-1].since[0] == -400.0


def test_where_it_does_not_stand_it_has_no_beginning() -> None:
    assert np.isnan(judged([T, T, F, F])[-1].since[0])


@pytest.mark.parametrize(("step", "kept"), [(15.0, True), (20.0, True), (20.1, False)])
def test_what_returns_within_a_minute_goes_on(step: float, kept: bool) -> None:
    stands = judged([T, T, F, F, F, T, T], step=step)  # left at the 4th poll, back at the 7th
    assert stands[-1].on[0]
    assert bool(stands[-1].since[0] == 0) is kept
    assert kept or stands[-1].since[0] == 5 * step


def test_what_came_before_is_forgotten_once_it_went_on_anew() -> None:
    stands = judged([T, T, F, F, *[F] * 6, T, T, F, F, T, T])
    assert stands[-1].since[0] == 10 * 15.0


def test_things_that_come_and_go_keep_their_own() -> None:
    none: Index[str] = Index.empty()
    first, _ = none.follow(np.array([1, 2]), lambda _: ["a", "b"])
    then, _ = first.follow(np.array([2, 3]), lambda _: ["c"])
    stand = Standing().follow(first)
    for now in (0.0, 15.0):
        stand = stand.judge(np.array([F, T]), np.full(2, np.nan), now, 60.0)
    stand = stand.follow(then).judge(np.array([T, T]), np.full(2, np.nan), 30.0, 60.0)
    assert stand.on.tolist() == [True, False]
    assert stand.since.tolist() == [0.0, 30.0]


def test_what_returns_may_have_begun_even_earlier() -> None:
    stand = judged([T, T, F, F])[-1]
    for now in (60.0, 75.0):
        stand = stand.judge(np.array([T]), np.array([-400.0]), now, 60.0)
    assert stand.since[0] == -400.0
