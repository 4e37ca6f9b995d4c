"""When a message came, by its number and what had been added at each poll."""

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.observation.measures import Arrivals

NAN = np.nan


@pytest.mark.parametrize(
    ("added", "number", "came"),
    [
        ([0.0, 10.0, 20.0, 30.0], 15.0, 15.0),
        ([0.0, 10.0, 20.0, 30.0], 30.0, 30.0),
        ([5.0, 10.0, 20.0, 30.0], 5.0, 0.0),
        ([5.0, 10.0, 20.0, 30.0], 4.0, NAN),
        ([0.0, 10.0, 20.0, 30.0], 31.0, NAN),
        ([0.0, 10.0, NAN, 30.0], 20.0, 20.0),
        ([0.0, NAN, NAN, 30.0], 10.0, 10.0),
        ([0.0, 10.0, 20.0, NAN], 15.0, 15.0),
        ([NAN, NAN, 20.0, 30.0], 15.0, NAN),
    ],
)
def test_time_of(added: list[float], number: float, came: float) -> None:
    """Polls at 0, 10, 20 and 30 s; one that did not say the number hides nothing."""
    arrivals = Arrivals(Index.of(["q"]), np.array([0.0, 10.0, 20.0, 30.0]), tuple(np.array([one]) for one in added))
    found = arrivals.time_of(np.array([number]), np.array([0]))
    assert found.tolist() == pytest.approx([came], nan_ok=True)
