import pytest

from findings.evaluated import idle, on_openmq

RULE = "connection_limit_advised"
VARIES = (2, 4, 2, 4)


@pytest.mark.parametrize(
    ("counts", "memory", "holds"),
    [
        (VARIES, 7_999_999, True),
        (VARIES, 8_000_000, False),
        (VARIES, None, False),  # nothing is configured, and they are few
        ((5, 10, 5, 10), None, True),
        ((5, 9, 5, 9), None, False),
        ((6, 10, 6, 10), None, False),  # less than twice as many
        ((5, 10, 10, 10), None, False),  # a start
        (VARIES[:3], 1, False),
    ],
)
def test_a_number_of_consumers_that_is_not_known_in_advance(
    counts: tuple[int, ...], memory: int | None, holds: bool
) -> None:
    rules = on_openmq(idle(*counts), len(counts), client_memory=memory)
    assert (RULE in rules) is holds
    if holds and memory:
        one = rules[RULE]
        assert (
            one.evidence["fewest"],
            one.evidence["consumers_most"],
            one.evidence["most_bytes"],
        ) == (2, 4, 8e6)
        # 3,999 messages fit, of which 100 less one may come on top of the limit.
        assert one.evidence["advised"] == 3900
        assert "flow_limit_exceeds_memory" not in rules


def test_a_connection_with_a_limit_is_not_advised_one() -> None:
    assert RULE not in on_openmq(
        idle(*VARIES), 4, client_memory=1, connection_flow_limit=1000
    )
