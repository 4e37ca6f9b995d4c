"""Lessons of absences: one teaches, and is forgotten unless one of like size comes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.learned.absence import Absences
from penstock.learned.byte_tables import packed
from penstock.learned.normal import absence_limit

HOUR = 3600.0
INDEX: Index[Any] = Index.of(["q"])


def after(absences: Absences, now: float, length: float) -> Absences:
    result: Any = SimpleNamespace(queues=INDEX, known=np.array([True]), now=now)
    return absences.advance(result, np.array([length]))


def limit(absences: Absences, now: float) -> float:
    return float(absences.seconds(now, 300.0)[0])


def test_nothing_known_is_the_cold_time() -> None:
    assert limit(after(Absences(), 0.0, np.nan), 0.0) == 300


def test_one_absence_teaches_at_once_and_is_forgotten_after_eight_times_its_length() -> (
    None
):
    one = after(Absences(), 0.0, 2 * HOUR)
    assert limit(one, 1.0) == 3 * HOUR
    assert limit(one, 15.9 * HOUR) == 3 * HOUR
    assert limit(one, 16.1 * HOUR) == 300


def test_one_of_like_size_keeps_it_another_does_not() -> None:
    nightly = after(Absences(), 0.0, 23 * HOUR)
    for day in range(1, 12):
        nightly = after(nightly, day * 24 * HOUR, 23 * HOUR)
        nightly = after(nightly, day * 24 * HOUR + 600, 400.0)
    assert limit(nightly, 12 * 24 * HOUR) == 1.5 * 23 * HOUR
    assert np.isfinite(nightly.lengths).sum() == 2


def test_the_oldest_lesson_makes_room() -> None:
    many = Absences()
    for n, length in enumerate((400.0, 1000.0, 2500.0, 6000.0, 15000.0)):
        many = after(many, float(n), length)
    assert limit(many, 10.0) == 22500
    assert 400.0 not in many.lengths


@pytest.mark.parametrize(
    ("weeks", "known"),
    [
        (
            [[1, 1, 1], [60, 1, 1], [60, 60, 60], [1, 60, 1]],
            True,
        ),  # a poll or none: of no weight
        (
            [[3600] * 3, [3700] * 3, [0, 3600, 0], [0, 60, 0]],
            True,
        ),  # of two weeks a part is not known
        ([[3600] * 3, [3700] * 3, [900] * 3, [3600] * 3], False),
        ([[3600] * 3, [3700] * 3, [0] * 3, [0] * 3], False),
    ],
)
def test_absences_that_differ_or_are_known_of_few_weeks_say_nothing_of_an_hour(
    weeks: list[list[float]], known: bool
) -> None:
    seconds = np.array(weeks, np.float64)[..., None]
    limit = absence_limit(packed(np.where(seconds > 0, seconds, np.nan)), np.array([3]))
    assert (not np.isnan(limit[0])) is known


# --- several queues, several lessons

THREE: Index[Any] = Index.of([*"qrs"])


def taught(lengths: list[float], until: list[float]) -> Absences:
    """The second of three queues has these lessons."""
    columns = np.full((2, 4, 3), np.nan)
    columns[0, : len(lengths), 1] = lengths
    columns[1, : len(until), 1] = until
    return Absences(THREE, columns[0], columns[1])


def learns(
    before: Absences, length: float, *, now: float = 1000.0
) -> list[tuple[float, float]]:
    """The lessons of the second queue after its absence: lengths, and when each is forgotten."""
    result: Any = SimpleNamespace(queues=THREE, known=np.ones(3, np.bool_), now=now)
    after_it = before.advance(result, np.array([np.nan, length, 0.0]))
    others = after_it.lengths[:, [0, 2]]
    assert np.isnan(others).all()
    lessons = zip(
        after_it.lengths[:, 1].tolist(), after_it.until[:, 1].tolist(), strict=True
    )
    return [(lasted, until) for lasted, until in lessons if not np.isnan(lasted)]


@pytest.mark.parametrize(
    ("length", "kept"),
    [(1.0, HOUR), (450.0, HOUR), (451.0, 3608.0), (200_000.0, 15 * 86400.0)],
)
def test_a_lesson_lasts_eight_times_its_length_an_hour_at_least(
    length: float, kept: float
) -> None:
    assert learns(taught([], []), length) == [(length, 1000.0 + kept)]


@pytest.mark.parametrize(
    ("lesson", "length", "lengths"),
    [
        (500.0, 1000.0, [1000.0]),
        (500.0, 1001.0, [500.0, 1001.0]),
        (500.0, 250.0, [500.0]),
        (500.0, 249.0, [500.0, 249.0]),
    ],
)
def test_of_each_like_length_there_is_one_the_longest(
    lesson: float, length: float, lengths: list[float]
) -> None:
    result = learns(taught([lesson], [2000.0]), length)
    assert [lasted for lasted, _ in result] == lengths


def test_of_two_that_are_alike_the_first_is_used() -> None:
    result = learns(taught([100.0, 500.0, 600.0, 9000.0], [2000.0] * 4), 550.0)
    assert result == [(100, 2000), (550, 1000 + 8 * 550), (600, 2000), (9000, 2000)]


def test_the_one_that_ends_first_makes_room() -> None:
    result = learns(
        taught([100.0, 500.0, 2000.0, 9000.0], [2003.0, 2001.0, 2000.0, 2002.0]),
        30_000.0,
    )
    assert [lasted for lasted, _ in result] == [100, 500, 30_000, 9000]


def test_it_may_be_shorter_than_the_one_that_makes_room() -> None:
    result = learns(
        taught([100.0, 500.0, 2000.0, 9000.0], [2003.0, 2001.0, 2000.0, 2002.0]), 30.0
    )
    assert [lasted for lasted, _ in result] == [100, 500, 30, 9000]


def test_a_free_place_is_taken_before_that() -> None:
    result = learns(taught([100.0, 500.0, 2000.0], [1003.0, 1001.0, 1002.0]), 30_000.0)
    assert [lasted for lasted, _ in result] == [100, 500, 2000, 30_000]


@pytest.mark.parametrize(("ends", "length"), [(1000.0, 500.0), (999.0, 400.0)])
def test_a_lesson_that_has_ended_is_like_none(ends: float, length: float) -> None:
    result = learns(taught([500.0], [ends]), 400.0)
    assert [lasted for lasted, _ in result] == [length]


@pytest.mark.parametrize(("now", "seconds"), [(2000.0, 1.5 * 500), (2000.1, 300.0)])
def test_the_longest_that_is_not_forgotten_counts(now: float, seconds: float) -> None:
    known = taught([500.0, 400.0, 900.0], [2000.0, 1500.0, 100.0])
    assert known.seconds(now, 300.0).tolist() == [300, seconds, 300]


def test_a_queue_in_a_new_life_keeps_its_lessons() -> None:
    result: Any = SimpleNamespace(queues=THREE, known=np.zeros(3, np.bool_), now=1000.0)
    kept = taught([500.0], [2000.0]).advance(result, np.full(3, np.nan))
    assert kept.seconds(1000.0, 300.0).tolist() == [300, 750, 300]


def test_without_a_lesson_it_is_the_cold_time_however_short() -> None:
    assert taught([500.0], [2000.0]).seconds(3000.0, 0.5).tolist() == [0.5, 0.5, 0.5]


def test_without_queues_there_is_nothing() -> None:
    assert Absences().seconds(0.0, 300.0).tolist() == []
