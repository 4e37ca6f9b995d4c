"""What of a listing in pages is only out of sight: rows come and go between the pages, at random."""

import weakref
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.things import patiently
from penstock.brokers.sight import MOST_ABSENCES, Sight

POLLS = MOST_ABSENCES - 1
"""A row may be hidden at each of so many polls, and is still not given up."""


class Moving:
    """A sorted listing of keys that never come again."""

    def __init__(self, dice: Random, size: int, *, by_key: bool) -> None:
        self.dice = dice
        self.by_key = by_key
        self.places: list[float] = []
        """By key, where it stands or stood."""
        self.there: set[int] = set()
        self.come(size)

    def come(self, number: int) -> None:
        for _ in range(number):
            self.there.add(len(self.places))
            self.places.append(len(self.places) if self.by_key else self.dice.random())

    def move(self, most: int) -> None:
        self.there -= set(
            self.dice.sample(
                sorted(self.there), min(self.dice.randint(0, most), len(self.there))
            )
        )
        self.come(self.dice.randint(0, most))

    def pages(self, rows: int, most: int) -> list[list[int]]:
        """Behind each page up to `most` rows go and come."""
        pages: list[list[int]] = []
        while True:
            listed = sorted(self.there, key=self.places.__getitem__)
            pages.append(listed[len(pages) * rows : (len(pages) + 1) * rows])
            self.move(most)
            if not pages[-1] or len(pages) * rows >= len(listed):
                return pages

    def rank(self, keys: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.array([self.places[key] for key in keys.tolist()])


def read(
    sight: Sight, pages: list[list[int]], gone: tuple[int, ...] = (), *, lost: int = 0
) -> list[int]:
    """What is known after a listing in which each row says its key."""
    keys = np.concatenate([np.array(page, np.int64) for page in pages])
    keys, numbers = sight.whole(
        [len(page) for page in pages],
        keys,
        keys[None].astype(np.float64),
        gone,
        lost=lost,
    )
    assert (numbers[0] == keys).all(), "each with the number that it said last"
    assert len(set(keys.tolist())) == len(keys), "each once"
    return list(map(int, keys))


def by_key(proofs: int = 1) -> Sight:
    return Sight(lambda keys, _: keys, proofs)


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(0, 40),
    rows=st.integers(1, 12),
    most=st.integers(0, 8),
    by_key=st.booleans(),
    proofs=st.integers(1, 2),
)
@patiently
def test_what_is_there_stays_and_what_is_gone_goes(
    seed: int, size: int, rows: int, most: int, by_key: bool, proofs: int
) -> None:
    moving = Moving(Random(seed), size, by_key=by_key)  # noqa: S311 - repeatable
    sight = Sight(moving.rank, proofs)
    known: set[int] = set()
    for _ in range(POLLS):
        there = set(moving.there)
        found = set(read(sight, moving.pages(sight.page_rows(rows), most)))
        assert known & there & moving.there <= found, (
            "a row that was known and was there all the time"
        )
        known = found
    for _ in range(
        MOST_ABSENCES
    ):  # such small pages may end at the same place for some time
        found = set(read(sight, moving.pages(sight.page_rows(rows), 0)))
    assert found == moving.there, "once nothing moves, what is gone goes"
    assert not sight.stayed


def test_a_row_between_two_pages_may_be_hidden_one_within_a_page_is_gone() -> None:
    sight = by_key()
    read(sight, [[1, 2, 3], [4, 5, 6, 7]])
    assert (read(sight, [[1, 3, 4], [6, 7]]), sight.stayed) == (
        [1, 3, 4, 6, 7, 5],
        True,
    )
    assert (read(sight, [[1, 3, 4], [5, 6, 7]]), sight.stayed) == (
        [1, 3, 4, 5, 6, 7],
        False,
    )
    assert read(sight, [[1, 3], [4, 7]]) == [1, 3, 4, 7]


def test_what_stood_between_two_pages_is_asked_for_within_one() -> None:
    sight = by_key()
    read(sight, [[1, 2, 3], [4, 5, 6]])
    assert sight.page_rows(5000) == 5000
    read(sight, [[1, 2, 3], [5, 6]])
    assert (sight.page_rows(5000), sight.page_rows(3)) == (5626, 4)
    assert read(sight, [[1, 2, 3, 5], [6]]) == [1, 2, 3, 5, 6]
    assert sight.page_rows(3) == 3


def test_the_first_page_begins_and_the_last_one_ends_the_listing() -> None:
    sight = by_key()
    read(sight, [[1, 2], [3, 4]])
    assert read(sight, [[2], [3]]) == [2, 3]


def test_a_listing_in_one_page_hides_nothing() -> None:
    sight = by_key(proofs=2)
    read(sight, [[1, 2], [3]])
    assert read(sight, [[1, 3]]) == [1, 3]


@pytest.mark.parametrize("pages", [[[1, 3]], [[1], [3]], [[1, 3], []]])
def test_a_row_that_could_not_be_read_is_not_gone(pages: list[list[int]]) -> None:
    sight = by_key()
    read(sight, [[1, 2, 3]])
    assert read(sight, pages, lost=1) == [1, 3, 2]
    assert sight.stayed
    assert read(sight, [[1, 3]]) == [1, 3]


def test_a_row_that_could_never_be_read_hides_none() -> None:
    sight = by_key()
    read(sight, [[1, 2, 3]], lost=1)
    assert read(sight, [[1, 3]], lost=1) == [1, 3]
    assert read(sight, [[1]], lost=2) == [1, 3]


def test_a_row_that_must_be_proven_gone_twice_is_leaving_in_between() -> None:
    sight = by_key(proofs=2)
    read(sight, [[1, 2, 3], [4, 5]])
    assert read(sight, [[1, 3, 4], [5]]) == [1, 3, 4, 5, 2]
    assert sight.leaving.tolist() == [2]
    assert read(sight, [[1, 3, 4], [5]]) == [1, 3, 4, 5]
    assert not len(sight.leaving)


@pytest.mark.parametrize("wrong", [[[1, 4, 3], [5]], [[1, 3], []]])
def test_a_listing_that_is_not_sorted_or_ends_early_proves_nothing(
    wrong: list[list[int]],
) -> None:
    sight = by_key()
    read(sight, [[1, 2, 3], [4, 5]])
    assert set(read(sight, wrong)) == {1, 2, 3, 4, 5}
    assert read(sight, [[1, 2, 3], [4, 5]]) == [1, 2, 3, 4, 5]


def test_a_row_that_no_listing_proves_gone_is_given_up_in_the_end() -> None:
    sight = by_key()
    read(sight, [[1, 2], [3, 4]])
    for _ in range(MOST_ABSENCES - 1):
        assert 2 in read(sight, [[1], [3, 4]])
    assert 2 not in read(sight, [[1], [3, 4]])


def test_what_is_known_to_be_gone_does_not_stay() -> None:
    sight = by_key()
    read(sight, [[1, 2], [3, 4]])
    assert read(sight, [[1], [3, 4]], gone=(2, -1)) == [1, 3, 4]


def test_a_row_on_two_pages_counts_once() -> None:
    assert read(by_key(), [[1, 2], [2, 3]]) == [1, 2, 3]


def test_the_numbers_of_a_listing_are_held_once_while_others_stay() -> None:
    sight = Sight(lambda keys, _: keys, proofs=2)
    sight.whole([3, 3], np.arange(6), np.arange(12.0).reshape(2, 6))
    listed = np.arange(10.0).reshape(2, 5) + 100
    keys, numbers = sight.whole([3, 2], np.array([0, 1, 2, 4, 5]), listed)
    assert (keys.tolist(), numbers[0].tolist()) == (
        [0, 1, 2, 4, 5, 3],
        [100, 101, 102, 103, 104, 3],
    )
    together = weakref.ref(numbers)
    del numbers
    assert together() is None  # of the listing the reader has them
    keys, numbers = sight.whole([3, 2], np.array([0, 1, 2, 4, 5]), listed + 100)
    assert (keys[-1], numbers[:, -1].tolist(), numbers[0, 0]) == (3, [3, 9], 200)
