from collections.abc import Mapping

import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis

RULE = "prefetch_exceeds_queue"
PREFETCHED = {"T": 18.0, "N": 18.0}


@pytest.mark.parametrize(
    ("queue", "consumers", "holds"),
    [
        ({"A": 20.0, "M": 20.0}, {"c": PREFETCHED, "d": {}}, True),
        ({"A": 36.0, "M": 36.0}, {"c": PREFETCHED, "d": {}}, False),
        ({"A": 20.0, "M": 20.0}, {"c": PREFETCHED}, False),  # alone it may have all
        ({"A": 9.0, "M": 9.0}, {"c": {"T": 9.0, "N": 9.0}, "d": {}}, False),
        ({"A": 20.0, "M": 20.0, "exclusive": 1.0}, {"c": PREFETCHED, "d": {}}, False),
        ({"A": 20.0, "M": 20.0, "grouped": 1.0}, {"c": PREFETCHED, "d": {}}, False),
    ],
)
def test_a_prefetch_that_takes_all(
    queue: Numbers, consumers: Mapping[str, Numbers], holds: bool
) -> None:
    rules = on_artemis(queue, consumers=consumers)
    assert (RULE in rules) is holds
    if holds:
        assert rules[RULE].evidence == {
            "prefetch": 18.0, "consumers": 2.0, "taken_most": 36.0, "deepest": 20.0, "advised": 10.0
        }  # fmt: skip
