from collections.abc import Mapping

import pytest

from conditions.things import Numbers
from findings.evaluated import SIZE, Polls, on_openmq
from penstock.model import AcknowledgeMode

RULE = "connection_count_advised"
LARGE = {**SIZE, "added_bytes": 10 * 2.0**20 / 99.5}
"""A hundred of these are more than a MiB, 99 are less."""
AUTO = AcknowledgeMode.AUTO
CLIENT = AcknowledgeMode.CLIENT
DUPS = AcknowledgeMode.DUPS_OK
TRANSACTED = AcknowledgeMode.TRANSACTED


def fed(rate: float, *modes: AcknowledgeMode, comes: int = 0) -> Polls:
    """Consumers of one connection that get `rate` messages a second together; at each poll `comes` more stay."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        each = rate * 15 * n / len(modes)
        consumers = {
            f"c{i}": {"N": each, "connection": 7, "acknowledge_mode": m}
            for i, m in enumerate(modes)
        }
        new = {
            f"n{i}": {"connection": 7, "acknowledge_mode": modes[0]}
            for i in range(comes * n)
        }
        return {"A": each * len(modes), "K": each * len(modes)}, {**consumers, **new}

    return play


@pytest.mark.parametrize(
    ("play", "address", "change", "why"),
    [
        (fed(1, AUTO), LARGE, "lower", "AUTO_ACKNOWLEDGE:"),
        (
            fed(1, CLIENT, TRANSACTED, DUPS),
            LARGE,
            "lower",
            "CLIENT_ACKNOWLEDGE and transactions:",
        ),
        (fed(1, DUPS, comes=5), LARGE, "lower", "consumers that come and go:"),
        (fed(1, AUTO), {**SIZE, "added_bytes": 10 * 2.0**20 / 100.5}, "", ""),
        (fed(1, DUPS), LARGE, "", ""),
        (fed(100, DUPS), SIZE, "higher", "DUPS_OK_ACKNOWLEDGE, no transactions"),
        (fed(99, DUPS), SIZE, "", ""),
        (fed(200, DUPS, AUTO), SIZE, "", ""),
    ],
)
def test_the_count_of_a_connection(
    play: Polls, address: Numbers, change: str, why: str
) -> None:
    rules = on_openmq(play, 3, address)
    assert (RULE in rules) is bool(change)
    if change:
        one = rules[RULE]
        assert why in one.says
        assert one.advice == f"make it {change}, {99 if change == 'lower' else 100}"
