"""When the numbers of a window changed: of counts, of balances that reading blurs, of levels."""

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.core.windows import Window
from penstock.observation.onset import balance_onset, first_rise, growth_onset

ROW = np.zeros(1, np.intp)
STEP = 10.0


def window_of(*values: float, resolution: float = 1.0) -> Window:
    """A poll each 10 s, from 10 on, of one variable of one row; NaN: not read."""
    window = Window(Index.of(["q"]))
    for n, value in enumerate(values, 1):
        window = window.push(
            STEP * n, np.array([[value]], np.float32), 10_000.0, resolution
        )
    return window


@pytest.mark.parametrize(
    ("values", "at"),
    [
        ((0, 0, 0, 2, 0, 5), 40.0),
        ((3, 1, 1), 10.0),
        ((0, np.nan, 4, 1), 30.0),
        ((0, 0, 0, 1), 40.0),
    ],
)
def test_a_count_begins_with_the_first(values: tuple[float, ...], at: float) -> None:
    assert first_rise(window_of(*values), 0, ROW).tolist() == [at]


def test_polls_that_are_held_as_one_sample_say_the_last_of_them_so_that_it_is_never_too_early() -> (
    None
):
    window = window_of(0, 0, 0, 0, 3, 3, resolution=25.0)
    (began,) = first_rise(window, 0, ROW)
    assert 50.0 <= began <= 60.0


def test_a_balance_that_reading_blurs_begins_where_it_grows() -> None:
    blurred = (4, -4, 3, -3, 20, 24, 17, 22)
    assert balance_onset(window_of(*blurred), 0, ROW).tolist() == [50.0]


def test_a_level_begins_to_grow_at_its_bend() -> None:
    levels = (20, 5, 25, 10, 60, 110, 165, 210, 260)
    rate = np.array([(260 - 20) / 80])
    assert growth_onset(window_of(*levels), 0, ROW, rate).tolist() == [50.0]


def test_a_level_that_was_not_read_stays_as_it_was() -> None:
    levels = (0, 0, np.nan, 0, 50, np.nan, 150, 200)
    assert growth_onset(window_of(*levels), 0, ROW, np.array([200 / 70])).tolist() == [
        50.0
    ]
