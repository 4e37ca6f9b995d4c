"""One number that cannot be ends no poll, no history and no report: it is left out, counted and named."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.brokers import rows
from penstock.observation.measures import sorted_pairs
from trust.impossible import (
    KEEP,
    SUBJECTS,
    VALUES,
    Watched,
    analysed,
    fields_of,
    largest,
    unflushed,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # as the agent has it (`agent.interpreter`)
HALF = 0.5
EXACT = 2**53
"""No count of messages or bytes gets there."""


@pytest.mark.slow  # polls for each number
@pytest.mark.parametrize("kind", SUBJECTS)
async def test_any_number_of_a_broker_may_be_any_that_java_has(
    kind: str, tmp_path: Path
) -> None:
    """Half of all numbers are another one, at each of some polls; `make fuzz` tries more."""
    chance = random.Random(kind)  # noqa: S311 - chooses examples
    with unflushed():
        watched = Watched(kind, tmp_path)
        good = await watched.poll()
        for value in VALUES:
            await watched.poll(
                lambda *_, value=value: value if chance.random() < HALF else KEEP
            )
        assert watched.shown()
        assert largest(watched.seen) < 2 * EXACT
        await watched.poll()
        assert await watched.poll() == good
        assert analysed(watched.store())


@pytest.mark.parametrize("value", [-1, 2**53, 2**53 + 1, 2**63 - 1])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("artemis", "messagesInTransit"),
        ("openmq", "NumMsgsIn"),
        ("classic", "EnqueueCount"),
    ],
)
async def test_what_is_left_out_is_counted_and_named(
    kind: str, name: str, value: int
) -> None:
    watched = Watched(kind)
    assert name in fields_of(kind, rows.Count)
    assert await watched.poll() == ""
    error = await watched.poll(
        lambda field, number: value if (field, number) == (name, 0) else KEEP
    )
    assert f"1 values could not be read and are left out: {name}" in error
    left_out = [
        line
        for line in watched.shown()
        if line.startswith("penstock_collector_left_out_values")
    ]
    assert sorted(line.rpartition(" ")[2] for line in left_out)[-2:] == ["0", "1"]
    assert largest(watched.seen) < EXACT


@pytest.mark.parametrize("value", [2**53 - 1, 2**42, 2**42 + 1, 2**31, 1])
def test_any_number_of_any_consumers_sorts_exactly(value: int) -> None:
    at = np.repeat(np.arange(5000), 2)[::-1]
    held = np.tile([float(value), float(value - 1)], 5000)
    found, sorted_held = sorted_pairs(at, held)
    assert found.tolist() == np.sort(at).tolist()
    assert sorted_held.tolist() == [float(value - 1), float(value)] * 5000


def test_no_limit_is_none() -> None:
    """Some brokers say so by the largest number there is."""
    said: list[Any] = [2.0**63, 2.0**53, -1.0, 0.0, 7.0, np.nan]
    np.testing.assert_array_equal(
        rows.positive(said), [np.nan, np.nan, np.nan, np.nan, 7.0, np.nan]
    )
    np.testing.assert_array_equal(
        [rows.limit(one) for one in said], rows.positive(said)
    )
