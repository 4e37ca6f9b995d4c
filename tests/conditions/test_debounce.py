"""Two polls to come, two to leave; the beginning is the rule's, and is kept over a short absence."""

from collections.abc import Sequence

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.rule_engine.engine import Debounce
from penstock.settings.constants import Constants

ONE = Index.of(["thing"])
T = True
F = False


def judged(
    holds: Sequence[bool],
    *,
    step: float = 15.0,
    begins: float = np.nan,
    event: bool = False,
) -> list[Debounce]:
    stand = Debounce().advance(ONE)
    found = []
    for n, hold in enumerate(holds):
        at = np.flatnonzero([hold])
        stand = stand.judge(
            at, np.full(len(at), begins), n * step, Constants(event=0.0), event=event
        )
        found.append(stand)
    return found


def on(holds: Sequence[bool], *, event: bool = False) -> list[bool]:
    return [len(stand.active()[0]) > 0 for stand in judged(holds, event=event)]


def since(stand: Debounce) -> float:
    (begin,) = stand.active()[1].tolist()
    return float(begin)


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
    assert on([T, F, T], event=True) == [T, F, T]


def test_it_begins_with_the_first_of_the_polls_that_agree() -> None:
    stands = judged([F, T, T, T, F, T])
    assert [since(stand) for stand in stands[2:]] == [15.0] * 4


def test_it_begins_when_the_rule_says() -> None:
    assert since(judged([T, T], begins=-400.0)[-1]) == -400.0


def test_where_it_does_not_stand_it_has_no_beginning() -> None:
    assert np.isnan(judged([T, T, F, F])[-1].since).all()


def test_what_ended_long_ago_is_forgotten() -> None:
    stands = judged([T, T, *[F] * 10])
    # It ends at the 4th poll, and may come back for 60 s.
    assert [len(stand.at) for stand in stands] == [1] * 8 + [0] * 4


def test_an_event_is_shown_for_a_while() -> None:
    stand = Debounce().advance(ONE)
    shown = []
    for now in range(0, 500, 50):
        at = np.flatnonzero([now == 50])
        stand = stand.judge(
            at, np.full(len(at), np.nan), float(now), Constants(), event=True
        )
        shown.append(len(stand.active()[0]) > 0)
    assert shown == [F, *[T] * 7, F, F]  # for 300 s


@pytest.mark.parametrize(("step", "kept"), [(15.0, True), (20.0, True), (20.1, False)])
def test_what_returns_within_a_minute_goes_on(step: float, kept: bool) -> None:
    stands = judged(
        [T, T, F, F, F, T, T], step=step
    )  # left at the 4th poll, back at the 7th
    assert since(stands[-1]) == (0 if kept else 5 * step)


def test_what_came_before_is_forgotten_once_it_went_on_anew() -> None:
    stands = judged([T, T, F, F, *[F] * 6, T, T, F, F, T, T])
    assert since(stands[-1]) == 10 * 15.0


def test_things_that_come_and_go_keep_their_own() -> None:
    none: Index[str] = Index.empty()
    first, _ = none.advance(np.array([1, 2]), lambda _: ["a", "b"])
    then, _ = first.advance(np.array([2, 3]), lambda _: ["c"])
    stand = Debounce().advance(first)
    one = np.array([1])
    both = np.array([0, 1])
    for now in (0.0, 15.0):
        stand = stand.judge(one, np.full(1, np.nan), now, Constants())
    stand = stand.advance(then).judge(both, np.full(2, np.nan), 30.0, Constants())
    assert stand.at.tolist() == [0, 1]
    assert stand.on.tolist() == [True, False]
    assert stand.since.tolist() == [0.0, 30.0]


def test_what_returns_may_have_begun_even_earlier() -> None:
    stand = judged([T, T, F, F])[-1]
    for now in (60.0, 75.0):
        stand = stand.judge(np.array([0]), np.array([-400.0]), now, Constants())
    assert since(stand) == -400.0
