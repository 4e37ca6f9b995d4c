"""A test of many cases names those that fail."""

import pytest

from rig.each import of_each


def test_all_that_fail_are_named() -> None:
    @of_each({"one": 1, "two": 2, "three": 3})
    def is_even(number: int) -> None:
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as failed:
        is_even()
    assert [error.__notes__ for error in failed.value.exceptions] == [
        ["case: one"],
        ["case: three"],
    ]


def test_it_is_called_with_each() -> None:
    seen: list[int] = []

    @of_each({"one": 1, "two": 2})
    def see(number: int) -> None:
        seen.append(number)

    see()
    assert (seen, see.__name__) == ([1, 2], "see")
