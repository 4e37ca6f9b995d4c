"""`orphaned`: a consumer whose connection is gone."""

import pytest

from conditions.situations import HELD, HOLDER, polls
from conditions.things import Numbers
from conditions.world import Judged


@pytest.mark.parametrize(
    ("consumer", "names"),
    [
        ({**HOLDER, "orphaned": 1.0}, {"orphaned"}),
        ({"T": 0.0, "N": 5.0, "C": 5.0, "orphaned": 1.0}, {"orphaned"}),
        ({**HOLDER, "orphaned": 0.0}, set()),
        (
            {"T": 0.0, "N": 0.0, "C": 0.0, "orphaned": 1.0},
            set(),
        ),  # a browser counts nothing
    ],
)
def test_orphaned(consumer: Numbers, names: set[str]) -> None:
    judged = Judged()
    polls(judged, 1, HELD, {"c": {**consumer, "Ld": judged.now}})
    assert judged.names == set()
    polls(judged, 1, HELD, {"c": {**consumer, "Ld": judged.now}})
    assert judged.names == names
    if names:
        assert judged.one("orphaned").consumers == 1
