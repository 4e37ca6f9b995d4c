import pytest

from conditions.things import Numbers
from conditions.world import Judged
from findings.evaluated import by_rule, on_artemis

RULE = "window_exceeds_ring"
FULL = {"T": 60.0, "N": 60.0}
WAITING = {"A": 200.0, "M": 200.0, "D": 60.0, "bytes": 200_000.0}


@pytest.mark.parametrize(
    ("queue", "consumer", "holds"),
    [
        (WAITING | {"ring_limit": 59.0}, FULL, True),
        (WAITING | {"ring_limit": 60.0}, FULL, False),
        # No message is ready: what the consumer buffers says nothing of its window.
        ({"A": 60.0, "M": 60.0, "D": 60.0, "ring_limit": 59.0}, FULL, False),
        (WAITING | {"ring_limit": 59.0, "paused": 1.0}, FULL, False),
        (WAITING, FULL, False),
    ],
)
def test_a_window_larger_than_the_ring(
    queue: Numbers, consumer: Numbers, holds: bool
) -> None:
    assert (RULE in on_artemis(queue, consumers={"c": consumer})) is holds


def test_the_windows_of_all_consumers_count() -> None:
    one = on_artemis(
        WAITING | {"ring_limit": 100.0, "D": 120.0}, consumers={"c": FULL, "d": FULL}
    )[RULE]
    assert one.object == "q/app"
    assert one.evidence == {
        "window": 60.0, "consumers": 2.0, "ring": 100.0, "held_most": 120.0, "at_risk": 120.0, "advised": 50.0,
        "advised_bytes": 50_000.0,
    }  # fmt: skip
    assert one.advice.startswith("a smaller consumerWindowSize: ")


def test_a_window_is_not_estimated_while_deliveries_go_on() -> None:
    judged = Judged()
    for n in range(1, 5):
        held = 10.0 * n
        judged.poll(
            {"q": {**WAITING, "D": held, "ring_limit": 5.0}},
            {"c": {"T": held, "N": held}},
        )
    assert RULE not in by_rule(judged)
