"""`dead_letters_full`: the next dead letter has no room; told before it is stuck or lost."""

from typing import Any

import pytest

from conditions.world import Judged
from penstock.conditions.condition import Severity
from penstock.model import QueueKind

LIMIT = {"limit_percent": 100.0, "limit_bytes": 1e6}


def dead_letters(
    address: dict[str, Any],
    *,
    target: str = "dlq",
    kind: QueueKind = QueueKind.DEAD_LETTER,
) -> Judged:
    """A healthy queue whose dead letters go to `target`, for five polls."""
    judged = Judged()
    for n in range(5):
        source = {
            "A": 10.0 * n,
            "K": 10.0 * n - 1 if n else 0.0,
            "X": float(n > 0),
            "dead_letter_address": target,
        }
        queues = {"q": source, "dlq": {"A": 90.0, "M": 90.0, "kind": kind}}
        judged.poll(queues, {"c": {"N": 10.0 * n, "C": 10.0 * n}}, {"dlq": address})
    return judged


@pytest.mark.parametrize("policy", ["fail", "drop", "block"])
def test_it_is_told_before_the_next_one_comes(policy: str) -> None:
    pages = {"paging": 0.0 if policy == "block" else 1.0, "pages": 0.0}
    judged = dead_letters({**LIMIT, **pages, "policy": policy})
    found = judged.one("dead_letters_full")
    assert (found.severity, found.queue, found.evidence["limit_percent"]) == (
        Severity.WARNING,
        "dlq",
        100,
    )
    assert "producers_blocked" not in judged.names


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ({"policy": "page", "paging": 1.0, "pages": 2.0}, {}),
        ({"policy": "fail", "limit_percent": 99.0}, {}),
        (
            {"policy": "fail", "limit_bytes": float("nan")},
            {},
        ),  # the percent is then of the whole broker
        ({"policy": "fail"}, {"target": "other"}),
        ({"policy": "fail"}, {"kind": QueueKind.USER}),
    ],
)
def test_what_has_room_or_is_no_target(
    address: dict[str, Any], options: dict[str, Any]
) -> None:
    assert (
        "dead_letters_full"
        not in dead_letters(
            {**LIMIT, "paging": 1.0, "pages": 0.0, **address}, **options
        ).names
    )


@pytest.mark.slow  # many polls
def test_what_is_lost_already_is_told_as_that() -> None:
    judged = Judged()
    for n in range(12):
        place = {**LIMIT, "policy": "drop", "paging": 1.0, "pages": 0.0, "messages_added": 50.0 + 3 * n,
                 "messages_unrouted": 0.0}  # fmt: skip
        dlq = {"A": 50.0, "M": 50.0, "kind": QueueKind.DEAD_LETTER}
        judged.poll(
            {"q": {"dead_letter_address": "dlq"}, "dlq": dlq}, {}, {"dlq": place}
        )
    assert "dead_letters_lost" in judged.names
    assert "dead_letters_full" not in judged.names
