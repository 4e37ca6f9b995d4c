import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis
from penstock.model import QueueKind

RULE = "ring_on_paging_address"
RING = {"ring_limit": 100.0, "M": 10.0, "bytes": 5000.0}


@pytest.mark.parametrize(
    ("queue", "holds"),
    [
        (RING, True),
        ({"M": 10.0}, False),
        (RING | {"kind": QueueKind.RETROACTIVE}, False),
    ],
)
def test_rings_of_applications(queue: Numbers, holds: bool) -> None:
    assert (RULE in on_artemis(queue, others={"q2": {}})) is holds


def test_whether_its_address_fits_in_memory() -> None:
    others = {"q2": {**RING, "address": "q", "ring_limit": 50.0}}
    one = on_artemis(RING, {"limit_bytes": 60_000.0}, others=others)[RULE]
    # 500 bytes a message, 100 and 50 of them.
    assert one.evidence == {
        "ring": 100.0, "rings": 2.0, "mean_bytes": 500.0, "needed_bytes": 75_000.0, "limit_bytes": 60_000.0
    }  # fmt: skip
    assert (
        "when full its rings have 75,000 bytes, against a limit of 60,000" in one.advice
    )


def test_the_brokers_memory_is_the_limit_where_the_address_has_none() -> None:
    assert (
        on_artemis(RING, {}, memory_limit_bytes=1e6)[RULE].evidence["limit_bytes"]
        == 1e6
    )
    assert "an unknown number of" in on_artemis(RING)[RULE].advice
