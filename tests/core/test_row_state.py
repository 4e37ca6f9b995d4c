"""State by row: carried from poll to poll, saved and restored, all as its fields declare."""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

import penstock
from penstock.core.state import (
    By,
    RowState,
    column,
    declared,
    mask,
    row_states,
    unindexed,
    with_restored,
)
from penstock.core.table import Column, Index, Mask

ABC = Index.of(["a", "b", "c"])
CBD = ABC.advance(np.array([1, 2, 7]), lambda _: ["d"])[0]
"""Without a; d is new, the last."""


@dataclass(frozen=True, slots=True)
class Weather(RowState):
    BY = By.QUEUE
    STORED_AS = "weather_"
    warmth: Column = column()
    rain: Column = column(0.0, outlives=True)
    days: Column = column(-1, dtype=np.int64, stored_as="days")
    winds: Column = column(lines=2)
    sunny: Mask = mask()
    today: Column = column(carried=False)
    noon: Column = column(5.0, saved=False)
    place: str = unindexed(lambda: "nowhere")


TYPES = ("warmth", "days", "winds", "sunny", "today")


@dataclass(frozen=True, slots=True)
class Almanac:
    weather: Weather = field(default_factory=Weather)
    pages: int = 0


def weather(index: Index[str] = ABC) -> Weather:
    numbers = np.arange(1.0, 4.0)
    winds = np.stack([numbers, -numbers])
    days = np.array([7, 8, 9])
    sunny = np.array([True, True, False])
    return Weather(
        index, numbers, 10 * numbers, days, winds, sunny, numbers, numbers, "here"
    )


def test_what_is_known_goes_on_with_its_row_and_a_new_row_is_filled() -> None:
    after = weather().reindexed(CBD)
    assert after.index is CBD
    np.testing.assert_equal(after.warmth, [2, 3, np.nan])
    np.testing.assert_equal(after.rain, [20, 30, 0])
    assert after.days.tolist() == [8, 9, -1]
    np.testing.assert_equal(after.winds, [[2, 3, np.nan], [-2, -3, np.nan]])
    assert after.sunny.tolist() == [True, False, False]
    np.testing.assert_equal(after.today, [np.nan] * 3, "made at each poll")
    assert after.place == "here"
    assert [getattr(after, name).dtype for name in TYPES] == [
        getattr(weather(), name).dtype for name in TYPES
    ]


@pytest.mark.parametrize("index", [ABC, CBD])
def test_a_row_in_a_new_life_keeps_only_what_outlives_it(index: Index[str]) -> None:
    before = weather()
    known = np.array([False, True, True])
    whole = before.reindexed(index)
    after = before.reindexed(index, known)
    np.testing.assert_equal(after.warmth, [np.nan, *whole.warmth[1:]])
    np.testing.assert_equal(after.rain, whole.rain)
    np.testing.assert_equal(after.winds[:, 0], [np.nan] * 2)
    assert after.days.tolist() == [-1, *whole.days[1:]]
    assert before.warmth.tolist() == [1, 2, 3], "what was is not written to"


def test_nothing_is_copied_while_nothing_comes_goes_or_begins_anew() -> None:
    before = weather()
    assert before.reindexed(ABC) is before
    assert before.reindexed(ABC, np.ones(3, np.bool_)) is before


def test_all_rows_can_begin_anew() -> None:
    after = weather().begun_anew()
    np.testing.assert_equal((after.warmth, after.rain), ([np.nan] * 3, [10, 20, 30]))


def test_what_is_saved_comes_back_under_its_names() -> None:
    stored = weather().saved()
    assert {*stored} == {"weather_warmth", "weather_rain", "days", "weather_winds_0", "weather_winds_1",
                         "weather_sunny", "weather_today"}  # fmt: skip
    assert {values.dtype for values in stored.values()} == {np.dtype(np.float64)}
    again = Weather().restored(ABC, stored)
    for name in ("warmth", "rain", "days", "winds", "sunny", "today"):
        values = getattr(again, name)
        wanted = getattr(weather(), name)
        np.testing.assert_equal(values, wanted)
        assert values.dtype == wanted.dtype
    assert (again.noon.tolist(), again.place) == ([5, 5, 5], "nowhere")


def test_a_column_or_a_number_that_is_missing_is_filled() -> None:
    stored = weather().saved()
    del stored["days"], stored["weather_winds_1"], stored["weather_sunny"]
    stored["weather_rain"] = np.array([1.0, np.nan, 3.0])
    again = Weather().restored(ABC, stored)
    assert again.days.tolist() == [-1] * 3
    np.testing.assert_equal(again.winds, [[1, 2, 3], [np.nan] * 3])
    assert (again.sunny.tolist(), again.rain.tolist()) == ([False] * 3, [1, 0, 3])


def test_state_of_which_the_file_says_nothing_is_as_new() -> None:
    assert len(Weather().restored(ABC, {"ledger_raw_0": np.ones(3)}).index) == 0


def test_all_state_within_is_found_and_restored() -> None:
    almanac = Almanac(weather(), pages=3)
    (found,) = row_states(almanac)
    again = with_restored(Almanac(pages=4), {By.QUEUE: (ABC, found.saved())})
    assert (again.pages, again.weather.rain.tolist()) == (4, [10, 20, 30])


# --- what is declared


def test_a_field_that_declares_nothing_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Careless(RowState):
        forgotten: Column = field(default_factory=lambda: np.empty(0))

    with pytest.raises(
        TypeError, match=r"Careless\.forgotten is neither column nor mask nor unindexed"
    ):
        Careless().reindexed(ABC)


def test_what_is_saved_says_by_which_rows() -> None:
    @dataclass(frozen=True, slots=True)
    class Homeless(RowState):
        kept: Column = column()

    with pytest.raises(
        TypeError, match=r"Homeless\.kept is saved, but BY does not say by which rows"
    ):
        Homeless().restored(ABC, {})


def kinds_of_state(kind: type[RowState] = RowState) -> Iterator[type[RowState]]:
    for one in kind.__subclasses__():
        # The decorator makes a class with slots of the first one, which lives on until it is collected.
        if one.__module__.startswith("penstock.") and "__slots__" in vars(one):
            yield one
        yield from kinds_of_state(one)


def kinds() -> list[type[RowState]]:
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if module.name.startswith(
            ("penstock.observation.", "penstock.learned.", "penstock.conditions.")
        ):
            importlib.import_module(module.name)
    return list(kinds_of_state())


def test_every_field_of_all_state_declares_how_it_goes_on() -> None:
    found = kinds()
    assert len(found) > 12
    for kind in found:
        assert declared(kind), kind


def test_no_two_columns_of_the_state_file_have_one_name() -> None:
    for by in By:
        names = [
            name
            for kind in kinds()
            if kind.BY is by
            for one in declared(kind).values()
            for name in one.names
        ]
        twice = {name: count for name, count in Counter(names).items() if count > 1}
        assert not twice, by
