"""Listings that move while they are read, for longer: larger, more polls, more often; and a crowd on a real broker."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.things import patiently
from penstock_demo.broker import Broker
from trust.crowd import right, watched
from trust.moving import play


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 120),
    rows=st.integers(1, 40),
    most=st.integers(0, 12),
)
@settings(patiently, max_examples=60)
async def test_totals_are_the_truth_and_what_is_known_and_there_stays(
    seed: int, size: int, rows: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        await play(seed, size, rows, most, 15, patch)


@pytest.mark.broker
async def test_a_crowd(artemis: Broker, tmp_path: Path) -> None:
    """The full size is `make soak-moving`."""
    found = await watched(
        artemis, tmp_path / "agent", 1_600, 60, interval=3.0, page_rows=300
    )
    assert right(found), found
