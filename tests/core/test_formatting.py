"""Numbers and durations in texts: one form, no exponent, nothing below zero."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.formatting import duration, number_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-0.1, "0 s"),
        (0.25, "0.25 s"),
        (9.87654, "9.88 s"),
        (45.0, "45 s"),
        (59.7, "1 min"),
        (145.2, "2 min 25 s"),
        (3600.0, "1 h"),
        (93784.0, "1 d 2 h"),
        (float("inf"), "unknown"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (129_761_000.0, "129,761,000"),
        (0.1 + 0.2, "0.3"),
        (12.3456, "12.3"),
        (1e-9, "less than 0.001"),
        (-7.0, "-7"),
        (float("nan"), "unknown"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)
)
def test_no_number_has_an_exponent_or_many_digits(value: float) -> None:
    for text in (number_text(value), duration(value)):
        assert not re.search(r"\de[+-]?\d|\.\d{7}", text)
        assert not duration(value).startswith("-")
