"""Tables of bytes: what is packed, which queue has which column, and what an hour or a day leaves of those before."""

import numpy as np
import pytest

from penstock.learned.byte_tables import DAYS, WEEKS, ByteTables, packed, unpacked
from penstock.settings.calendar import HOURS

A, B, C, D = (("address", name) for name in "abcd")
WEEK = HOURS
MONTH = WEEKS * HOURS


def tables(*names: tuple[str, str]) -> ByteTables:
    """One kind of hours and one of days; the columns of the queues are 1, 2, ... everywhere."""
    empty = ByteTables.of(1, 1).with_columns_for(names)
    numbers = np.arange(1, len(names) + 1, dtype=np.uint8)
    hours = np.broadcast_to(numbers, empty.hours.shape).copy()
    days = np.broadcast_to(numbers, empty.days.shape).copy()
    return ByteTables(empty.names, hours, days)


# --- a byte


@pytest.mark.parametrize(
    ("value", "byte"),
    [
        (np.nan, 0),
        (0.0, 1),
        (1.0, 1),
        (2.0, 11),
        (4.0, 21),
        (2.0**0.1, 2),
        (2.0**25.4, 255),
        (1e30, 255),
    ],
)
def test_ten_steps_an_octave(value: float, byte: int) -> None:
    assert packed(value) == byte


def test_a_byte_is_unpacked_to_its_value() -> None:
    np.testing.assert_allclose(
        unpacked(np.array([0, 1, 11, 21], np.uint8)), [np.nan, 1, 2, 4]
    )


@pytest.mark.parametrize("value", [1.0, 3.0, 17.0, 1000.0, 123456.0])
def test_a_number_is_right_within_a_twentieth(value: float) -> None:
    assert unpacked(packed([value]))[0] == pytest.approx(value, rel=0.035)


# --- columns


def test_each_queue_has_a_column() -> None:
    made = tables(A, B)
    assert made.places([B, C, A]).tolist() == [1, -1, 0]
    assert made.hours.shape == (1, WEEKS, HOURS, 2)
    assert made.days.shape == (1, DAYS, 2)


def test_who_joins_gets_the_next_column_in_which_nothing_is_known() -> None:
    more = tables(A, B).with_columns_for([B, C, C])
    assert dict(more.names) == {A: 0, B: 1, C: 2}
    assert more.hours[0, 0, 0].tolist() == [1, 2, 0]
    assert more.days[0, 0].tolist() == [1, 2, 0]
    assert more.hours.dtype == more.days.dtype == np.uint8


def test_room_is_made_for_an_eighth_more() -> None:
    names = [("address", str(number)) for number in range(16)]
    some = tables(*names)
    one_more = some.with_columns_for([A])
    assert one_more.hours.shape[-1] == 18
    assert one_more.with_columns_for([B]).hours is one_more.hours
    assert len(one_more.stored()[0]) == 17


def test_a_queue_is_forgotten_when_nothing_is_known_of_it_or_there_are_too_many() -> (
    None
):
    made = tables(A, B, C, D)
    made.hours[..., 3] = 0
    assert [*made.without_unused([A], 9).names] == [A, C, B]
    assert [*made.without_unused([A], 2).names] == [A, C]
    assert made.without_unused([A, D], 1).names.keys() == {A, D}
    kept = made.without_unused([A], 2)
    assert kept.hours[0, 0, 0].tolist() == [1, 3]
    assert kept.days[0, 0].tolist() == [1, 3]
    assert dict(kept.names) == {A: 0, C: 1}


def test_where_all_are_used_nothing_changes() -> None:
    made = tables(A, B)
    assert made.without_unused([A, B], 2) is made
    assert made.without_unused([A], 2) is made


def test_what_is_stored_is_restored() -> None:
    made = tables(A, B).with_columns_for([C])
    names, hours, days = made.stored()
    back = ByteTables.of(1, 1).restored(names, hours.ravel(), days.ravel())
    assert back.names == made.names
    np.testing.assert_array_equal(back.hours, made.hours[..., :3])
    np.testing.assert_array_equal(back.days, made.days[..., :3])


def test_what_is_of_another_size_is_not_restored() -> None:
    names, hours, days = tables(A, B).stored()
    with pytest.raises(ValueError, match="reshape"):
        ByteTables.of(2, 1).restored(names, hours, days)


# --- hours and days

SECOND = np.array([1])
"""The column of the second of two queues."""
SEVEN = np.array([[7]], np.uint8)


def forgotten(before: np.ndarray, after: np.ndarray) -> list[int]:
    """The hours or days of the first queue of which nothing is known any more."""
    changed = (before[0, ..., 0] > 0) & (after[0, ..., 0] == 0)
    result: list[int] = np.flatnonzero(changed.ravel()).tolist()
    return result


@pytest.mark.parametrize(
    ("hour", "since", "gone"),
    [
        (5, 4, [5]),
        (5, 3, [4, 5]),
        (WEEK + 5, WEEK + 3, [WEEK + 4, WEEK + 5]),
        (MONTH + 5, MONTH + 4, [5]),
        (MONTH, MONTH - 2, [0, MONTH - 1]),
    ],
)
def test_an_hour_takes_the_place_of_the_one_four_weeks_ago(
    hour: int, since: int, gone: list[int]
) -> None:
    before = tables(A, B)
    after = before.with_hour(hour, SECOND, SEVEN, since=since)
    assert forgotten(before.hours, after.hours) == gone
    of_hour = after.hours[0, hour // HOURS % WEEKS, hour % HOURS]
    assert of_hour.tolist() == [0, 7]
    assert before.hours.all()
    assert after.days is before.days


def test_after_four_weeks_without_any_hour_only_this_one_is_known() -> None:
    after = tables(A, B).with_hour(2 * MONTH + 5, SECOND, SEVEN, since=3)
    assert np.count_nonzero(after.hours) == 1


def test_an_hour_of_long_ago_is_cleared_no_more_than_once() -> None:
    after = tables(A).with_hour(MONTH, np.array([0]), SEVEN, since=-5)
    assert np.count_nonzero(after.hours) == 1


@pytest.mark.parametrize(
    ("day", "since", "gone"),
    [
        (3, 2, [3]),
        (3, 1, [2, 3]),
        (DAYS + 3, DAYS + 2, [3]),
        (3, 3, []),
        (DAYS, DAYS - 2, [0, DAYS - 1]),
    ],
)
def test_a_day_takes_the_place_of_the_one_28_days_ago(
    day: int, since: int, gone: list[int]
) -> None:
    before = tables(A, B)
    after = before.with_day(day, SECOND, SEVEN, since=since)
    assert forgotten(before.days, after.days) == gone
    assert after.days[0, day % DAYS, 1] == 7
    assert before.days.all()
    assert after.hours is before.hours


def test_after_28_days_without_any_only_this_one_is_known() -> None:
    after = tables(A, B).with_day(2 * DAYS + 3, SECOND, SEVEN, since=1)
    assert np.count_nonzero(after.days) == 1


def test_hours_are_moved_and_all_others_forgotten() -> None:
    made = tables(A)
    made.hours[0, 0, 5], made.hours[0, 1, 6] = 50, 60
    moved = made.with_hours_moved(
        np.array([5, WEEK + 6]), np.array([2 * WEEK + 7, MONTH + 8])
    )
    assert moved.hours[0, 2, 7].tolist() == [50]
    assert moved.hours[0, 0, 8].tolist() == [60]
    assert np.count_nonzero(moved.hours) == 2
    assert moved.days is made.days


def test_an_hour_is_looked_at_with_the_one_before_and_after() -> None:
    made = tables(A, B)
    made.hours[0, :, :, 1] = np.arange(HOURS) % 100 + 100
    around = made.around(0, np.array([1, -1]))
    assert around.shape == (1, WEEKS, 3, 2)
    assert around.dtype == np.uint8
    last = (HOURS - 1) % 100 + 100
    assert around[0, 0].tolist() == [[last, 0], [100, 0], [101, 0]]


def test_the_highest_is_that_of_the_days_before() -> None:
    made = tables(A, B)
    made.days[0, 3, 1], made.days[0, 4, 1] = 90, 80
    assert made.highest(DAYS + 3, np.array([1, 0, -1])).tolist() == [[80, 1, 0]]
    assert made.highest(5, np.array([1])).tolist() == [[90]]
    assert ByteTables.of(1, 1).with_columns_for([A]).highest(
        5, np.array([0])
    ).tolist() == [[0]]
