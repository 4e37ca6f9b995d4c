"""Conditions and measures of addresses."""

import numpy as np
import pytest

from conditions.things import Numbers
from conditions.world import Judged

FULL = {"limit_percent": 100.0, "paging": 1.0, "pages": 0.0}


def of_address(judged: Judged, column: str, address: str = "q") -> float:
    table = judged.tables["address"]
    (at,) = [i for i, row in enumerate(table.index) if row.address == address]
    return float(table[column][at])


def causes(judged: Judged) -> dict[tuple[str, str], float]:
    table = judged.tables["address_cause"]
    rows = zip(table.index, table["unhealthy"].tolist(), strict=True)
    return {(row.address, row.cause): how for row, how in rows}


def twice(judged: Judged, **address: float) -> Judged:
    for _ in range(2):
        judged.poll({"q": {"A": 5.0, "M": 5.0}}, {}, {"q": address})
    return judged


def test_a_paused_address_is_told_of_the_address() -> None:
    assert causes(twice(Judged(), paused=1.0)) == {("q", "paused"): 1.0}


def test_a_paused_queue_is_not_its_address() -> None:
    judged = Judged()
    for _ in range(2):
        judged.poll(
            {"q": {"A": 5.0, "M": 5.0, "paused": 1.0}}, {}, {"q": {"paused": 0.0}}
        )
    assert judged.names == {"paused"}
    assert causes(judged) == {}


@pytest.mark.parametrize(
    ("by", "condition", "gauge"),
    [
        ({"limit_percent": 100.0, "paging": 0.0}, "producers_blocked", 1.0),
        ({"producers_paused": 1.0}, "blocked_by_operator", 0.0),
    ],
)
def test_producers_wait_for_a_limit_and_fail_by_an_operator(
    by: Numbers, condition: str, gauge: float
) -> None:
    judged = Judged()
    for _ in range(3):
        judged.poll(
            {"q": {"A": 5.0, "M": 5.0}, "other": {}},
            {},
            {"q": {"producers_paused": 0.0, **by}},
        )
    assert causes(judged) == {("q", condition): 1.0}
    assert of_address(judged, "producers_blocked") == gauge
    assert of_address(judged, "producers_blocked", "other") == 0.0


def test_producers_are_not_blocked_while_another_queue_of_the_address_gets_messages() -> (
    None
):
    judged = Judged()
    for n in range(5):
        queues: dict[str, Numbers] = {
            "q": {"A": 5.0 * n, "M": 5.0, "K": 5.0 * (n - 1)},
            "filtered": {"address": "q"},
        }
        judged.poll(queues, {}, {"q": {"limit_percent": 100.0, "paging": 0.0}})
    assert not judged.names
    assert of_address(judged, "producers_blocked") == 0.0


# --- dropped and refused


@pytest.mark.parametrize(
    ("policy", "column"), [("drop", "messages_dropped"), ("fail", "messages_rejected")]
)
def test_what_a_full_address_throws_away_is_what_it_routed_and_its_queue_did_not_add(
    policy: str, column: str
) -> None:
    judged = Judged()
    for n in (0, 0, 1, 2, 3, 3, 3):  # exact when nothing comes
        judged.poll(
            {"q": {"A": 50.0, "M": 50.0}},
            {},
            {"q": {**FULL, "policy": policy, "messages_added": 50.0 + 7 * n}},
        )
    assert of_address(judged, column) == 21.0
    other = "messages_rejected" if column == "messages_dropped" else "messages_dropped"
    assert np.isnan(of_address(judged, other))
    assert causes(judged) == {("q", "rejecting"): 1.0}


@pytest.mark.slow  # many polls
def test_routed_lags_behind_added_and_is_no_drop() -> None:
    """The address is read first: 30 of the last messages are in the queue's count only; then it is full and idle."""
    judged = Judged()
    added = 0.0
    for n in range(6):
        added = 100.0 * n
        address = {
            "policy": "drop",
            "messages_added": max(added - 30, 0.0),
            "limit_percent": 50.0,
            "paging": 0.0,
        }
        judged.poll({"q": {"A": added, "M": added}}, {}, {"q": address})
    for _ in range(3):
        judged.poll(
            {"q": {"A": added, "M": added}},
            {},
            {"q": {**FULL, "policy": "drop", "messages_added": added}},
        )
    assert of_address(judged, "messages_dropped") == 0.0
    for _ in range(2):
        judged.poll(
            {"q": {"A": added, "M": added}},
            {},
            {"q": {**FULL, "policy": "drop", "messages_added": added + 5}},
        )
    assert of_address(judged, "messages_dropped") == 5.0


def test_drops_of_an_address_with_two_queues_count_once() -> None:
    judged = Judged()
    for n in (0, 0, 1, 2, 2, 2):
        queues: dict[str, Numbers] = {
            "q": {"A": 0.0, "M": 0.0},
            "second": {"address": "q", "A": 50.0, "M": 50.0},
        }
        judged.poll(
            queues,
            {},
            {"q": {**FULL, "policy": "drop", "messages_added": 50.0 + 7 * n}},
        )
    assert of_address(judged, "messages_dropped") == 14.0
