import pytest

from conditions.things import Numbers
from findings.evaluated import on_artemis

RULE = "dead_letter_address_unbound"


@pytest.mark.parametrize(
    ("target", "address", "holds"),
    [
        ("DLQ", {}, True),
        ("q2", {}, False),
        ("DLQ", {"makes_dead_letter_queues": 1.0}, False),
    ],
)
def test_an_address_without_a_queue(target: str, address: Numbers, holds: bool) -> None:
    assert (
        RULE in on_artemis({"dead_letter_address": target}, address, others={"q2": {}})
    ) is holds


def test_what_unbound_addresses_got() -> None:
    others = {"q2": {"dead_letter_address": "DLQ", "X": 2.0}}
    one = on_artemis({"dead_letter_address": "DLQ", "X": 3.0}, others=others)[RULE]
    assert (one.object, one.scope, one.evidence) == (
        "DLQ",
        "address",
        {"sources": 2.0, "killed": 5.0},
    )
