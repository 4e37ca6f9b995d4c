"""The versions of Artemis on which a test runs: the usual one at each run, the others at night."""

import pytest
from _pytest.mark import ParameterSet

USUAL = "artemis"
"""Fixture of the version that most tests use."""


def versions(*fixtures: str) -> list[ParameterSet]:
    """Return the fixtures as parameters. The others than USUAL are rarely red, and each starts a broker of its own."""
    return [
        pytest.param(
            fixture,
            marks=[] if fixture == USUAL else [pytest.mark.nightly],
        )
        for fixture in fixtures
    ]
