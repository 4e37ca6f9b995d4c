"""Which rows were listed once, are not now, and come back."""

import numpy as np
import pytest

from penstock.core import gone_rows
from penstock.core.gone_rows import MOST_LISTINGS, GoneRows
from penstock.core.table import Index
from penstock.model import ConsumerRow


def listing(before: Index[ConsumerRow], *keys: int) -> Index[ConsumerRow]:
    def rows(new: list[int]) -> list[ConsumerRow]:
        return [
            ConsumerRow(str(keys[i]), "app", "q", "q", "", "", "", "", "") for i in new
        ]

    return before.advance(np.array(keys, np.int64), rows)[0]


def played(*listings: tuple[int, ...]) -> tuple[GoneRows, list[list[int]]]:
    """What is remembered after these listings, and the keys that came back at each."""
    gone = GoneRows()
    before = listing(Index.empty(), *listings[0])
    back = []
    for keys in listings[1:]:
        now = listing(before, *keys)
        back.append(now.keys[gone.come_back(before, now)[0]].tolist())
        gone = gone.after(before, now)
        before = now
    return gone, back


def test_one_that_a_listing_lacked_comes_back() -> None:
    gone, back = played((1, 2, 3), (1, 3), (1, 2, 3), (1, 2, 3, 4))
    assert back == [[], [2], []]
    assert gone.keys.tolist() == []


def test_every_second_half_of_a_listing_comes_back() -> None:
    _, back = played((1, 2, 3, 4), (1, 3), (2, 4), (1, 3))
    assert back == [[], [2, 4], [1, 3]]


def came_back_after(others: int) -> list[int]:
    """The keys that come back where row 1 is gone for so many listings, each with another new row."""
    listings = [(9, 100 + number) for number in range(others)]
    _, back = played((1, 9), *listings, (1, 9))
    return back[-1]


def test_few_rows_are_remembered_however_long_they_are_gone() -> None:
    assert came_back_after(3 * MOST_LISTINGS) == [1]


def test_of_many_rows_it_is_forgotten_after_many_other_listings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gone_rows, "FEW", MOST_LISTINGS)
    assert came_back_after(MOST_LISTINGS + 1) == [1]
    assert came_back_after(MOST_LISTINGS + 2) == []


def test_of_too_many_the_last_ones_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gone_rows, "MOST", 2)
    gone, back = played((5, 6, 7, 8), (6, 7, 8), (7, 8), (8,), (5, 6, 7, 8))
    assert back[-1] == [6, 7]
    assert gone.keys.tolist() == []


def test_what_each_said_last_is_remembered() -> None:
    first = listing(Index.empty(), 1, 2, 3, 4)
    second = listing(first, 3, 4)
    third = listing(second, 4)
    gone = GoneRows().after(
        first, second, np.array([[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]])
    )
    gone = gone.after(second, third, np.array([[31.0, 41.0], [3.1, 4.1]]))
    assert gone.keys.tolist() == [1, 2, 3]
    assert gone.values.tolist() == [[10.0, 20.0, 31.0], [1.0, 2.0, 3.1]]
    fourth = listing(third, 0, 2, 3)
    here, remembered = gone.come_back(third, fourth)
    assert fourth.keys[here].tolist() == [2, 3]
    assert gone.values[:, remembered].tolist() == [[20.0, 31.0], [2.0, 3.1]]
