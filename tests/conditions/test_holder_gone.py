"""`holder_gone`: a consumer went that had held messages for long."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from conditions.situations import polls
from conditions.world import START, Judged
from penstock.causes.verdict import CauseState
from penstock.core.table import Index, Table
from penstock.model import ConnectionRow, QueueKind, Snapshot


@pytest.mark.parametrize(
    ("settled", "age", "kind", "told"),
    [
        pytest.param(0, 60, QueueKind.USER, True, marks=pytest.mark.slow),  # many polls
        (4, 60, QueueKind.USER, True),
        (5, 60, QueueKind.USER, False),
        pytest.param(0, 30, QueueKind.USER, True, marks=pytest.mark.slow),  # many polls
        (0, 29, QueueKind.USER, False),
        (0, 60, QueueKind.TEMPORARY, False),
        (0, 60, QueueKind.INTERNAL, False),
    ],
)
def test_a_holder_that_vanished(
    settled: float, age: float, kind: QueueKind, told: bool
) -> None:
    judged = Judged()
    judged.poll(
        {"q": {"A": 5, "M": 5, "D": 5, "kind": kind}},
        {"c": {"T": 5.0, "N": 5.0, "Ld": START + 15 - age}},
    )
    judged.poll({"q": {"A": 5, "M": 5, "K": settled, "kind": kind}})
    assert ("holder_gone" in judged.notices) is told
    if told:
        condition = judged.one("holder_gone")
        assert condition.since == START + 15 - age
        assert condition.evidence == {"held": 5, "age": age, "returned": 5 - settled}
        polls(judged, 20, {"A": 5, "M": 5, "K": settled})
        assert "holder_gone" in judged.notices
        polls(judged, 1, {"A": 5, "M": 5, "K": settled})
        assert "holder_gone" not in judged.notices


@pytest.mark.parametrize("listed", [True, False])
def test_whether_its_connection_is_listed_says_how_it_went(listed: bool) -> None:
    judged = Judged()
    judged.poll(
        {"q": {"A": 5, "M": 5, "D": 5}}, {"c": {"T": 5.0, "N": 5.0, "Ld": START - 45}}
    )
    app = ConnectionRow("8520ed91", "app" if listed else "other", "", "u", "10.0.0.7")
    judged.snapshot = partial(connected, judged.snapshot, app)  # type: ignore[method-assign]
    judged.poll({"q": {"A": 5, "M": 5}})
    found = judged.one("holder_gone").verdicts
    assert found["connection_died"].state is CauseState.POSSIBLE
    assert (found["consumer_closed"].state is CauseState.POSSIBLE) is listed


def connected(
    snapshot: Callable[..., Snapshot], row: ConnectionRow, *said: Any
) -> Snapshot:
    return replace(snapshot(*said), connections=Table(Index.of([row]), {}))
