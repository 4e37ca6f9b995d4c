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
    found: Any = SimpleNamespace(queues=INDEX, known=np.array([True]), now=now)
    return absences.advance(found, np.array([length]))


def limit(absences: Absences, now: float) -> float:
    return float(absences.seconds(now, 300.0)[0])


def test_nothing_known_is_the_cold_time() -> None:
    assert limit(after(Absences(), 0.0, np.nan), 0.0) == 300


def test_one_absence_teaches_at_once_and_is_forgotten_after_eight_times_its_length() -> None:
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
        ([[1, 1, 1], [60, 1, 1], [60, 60, 60], [1, 60, 1]], True),  # a poll or none: of no weight
        ([[3600] * 3, [3700] * 3, [0, 3600, 0], [0, 60, 0]], True),  # of two weeks a part is not known
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
