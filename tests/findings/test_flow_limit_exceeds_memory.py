from typing import Any

import pytest

from findings.evaluated import idle, on_openmq, paused_at
from penstock.findings.rules.openmq import SURE

RULE = "flow_limit_exceeds_memory"


@pytest.mark.parametrize(
    ("memory", "holds"), [(3_999_999, True), (4_000_000, False), (None, False)]
)
def test_buffers_beyond_the_memory_of_a_client(memory: int | None, holds: bool) -> None:
    """Two consumers with 1,000 messages of 2,000 bytes each can take 4,000,000 bytes."""
    rules = on_openmq(idle(2), 2, client_memory=memory)
    assert (RULE in rules) is holds
    if holds:
        one = rules[RULE]
        assert (one.scope, one.object) == ("connection", "app")
        assert one.evidence == {
            "consumers": 2.0, "limit": 1000.0, "mean_bytes": 2000.0, "most_bytes": 4e6, "held_bytes": 20_000.0,
            "memory": 3_999_999.0, "advised": 999.0,
        }  # fmt: skip
        assert one.advice.startswith("set imqConsumerFlowLimit 999: ")


@pytest.mark.slow  # many polls
def test_the_measured_limit_counts_where_it_is_known() -> None:
    assert RULE in on_openmq(paused_at(100, 50), SURE + 1, client_memory=199_999)
    assert RULE not in on_openmq(paused_at(100, 50), SURE + 1, client_memory=200_000)


def test_the_connection_limit_caps_what_a_connection_takes() -> None:
    """200 - 1 + 100 messages of 2,000 bytes."""
    configured: dict[str, Any] = {"connection_flow_limit": 200}
    assert RULE not in on_openmq(idle(2), 2, client_memory=598_000, **configured)
    rules = on_openmq(idle(2), 2, client_memory=597_999, **configured)
    assert rules[RULE].evidence["most_bytes"] == 598_000
