"""What a new agent starts with: tables of no rows, of the types that the next poll goes on with."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from penstock.learned.byte_tables import DAYS, WEEKS, ByteTables
from penstock.learned.prefetch import ConsumerArrivals
from penstock.learned.saturation import Saturation
from penstock.learned.timeout import LearnedTimeout
from penstock.learned.warm_up import SeenBefore, SeenPolls
from penstock.settings.calendar import HOURS

HOURS_OF_NONE = (0, WEEKS, HOURS, 0)
DAYS_OF_NONE = (0, DAYS, 0)


def no_tables() -> ByteTables:
    return ByteTables.of(0, 0)


@pytest.mark.parametrize(
    ("made", "table", "shape", "kind"),
    [
        (LearnedTimeout, "weights", (0, 0), np.float32),
        (ByteTables, "hours", HOURS_OF_NONE, np.uint8),
        (ByteTables, "days", DAYS_OF_NONE, np.uint8),
        (no_tables, "hours", HOURS_OF_NONE, np.uint8),
        (no_tables, "days", DAYS_OF_NONE, np.uint8),
        (SeenBefore, "keys", (0,), np.int64),
        (SeenPolls, "keys", (0,), np.int64),
        (SeenPolls, "polls", (0,), np.intp),
        (SeenPolls, "since", (0,), np.float64),
        (ConsumerArrivals, "keys", (0,), np.int64),
        (ConsumerArrivals, "clients", (0,), np.object_),
        (ConsumerArrivals, "numbers", (6, 0), np.float64),
        (Saturation, "starved", (0,), np.float64),
        (Saturation, "at_limit", (0,), np.float64),
        (Saturation, "capacity", (0,), np.float64),
    ],
)
def test_a_table_has_no_rows_and_its_type(
    made: Callable[[], Any], table: str, shape: Sequence[int], kind: Any
) -> None:
    column = getattr(made(), table)
    assert column.shape == shape
    assert column.dtype == kind
