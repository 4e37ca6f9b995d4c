import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis


@pytest.mark.parametrize(
    ("address", "holds"), [({}, True), ({"makes_expiry_queues": 1.0}, False)]
)
def test_an_address_without_a_queue(address: Numbers, holds: bool) -> None:
    found = on_artemis({"expiry_address": "EXP"}, address, others={"q2": {}})
    assert ("expiry_address_unbound" in found) is holds
