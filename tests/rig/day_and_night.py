"""Which parameters of a test run by day, and which at night.

Those of the night are rarely red, and slow.
"""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

USUAL = "artemis"
"""Fixture of the version that most tests use."""


def versions(*fixtures: str) -> list[ParameterSet]:
    """Return fixtures of brokers as parameters: USUAL by day; each of the others starts a broker of its own."""
    return [
        pytest.param(
            fixture,
            marks=[] if fixture == USUAL else [pytest.mark.nightly],
        )
        for fixture in fixtures
    ]


def by_day_and_night(values: Iterable[object]) -> list[ParameterSet]:
    """Return the values as parameters: the first at each run, the others at night."""
    first, *others = values
    at_night = [pytest.param(value, marks=pytest.mark.nightly) for value in others]
    return [pytest.param(first), *at_night]
