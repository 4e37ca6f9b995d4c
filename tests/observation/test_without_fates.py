"""Kinds that count what leaves in one number, and of it what expired: the rest was settled, and never falls."""

import numpy as np
import pytest

from penstock.brokers.registry import KINDS
from penstock.core.table import Index, Table
from penstock.model import BrokerKind, QueueKind, QueueRow, RingSource
from penstock.observation.facts import SeenQueues, queue_changes

ROW = QueueRow(
    "q", "q", "anycast", True, False, "", QueueKind.USER, RingSource.NONE, "", ""
)
SETTLED = 1


@pytest.mark.parametrize(
    ("polls", "settled"),
    [
        ([(0, 0), (3, 0), (8, 0)], [3, 5]),
        (
            [(0, 0), (0, 5), (5, 5), (8, 5)],
            [0, 0, 3],
        ),  # counted as expired before it has left
        ([(0, 0), (5, 5), (5, 5)], [0, 0]),
        ([(9, 5), (9, 6), (10, 6), (12, 6)], [0, 0, 2]),
    ],
)
def test_what_expires_is_not_settled(
    polls: list[tuple[float, float]], settled: list[float]
) -> None:
    index = Index.of([ROW])
    seen = SeenQueues()
    found = []
    for removed, expired in polls:
        columns = {
            "added": 20.0,
            "removed": removed,
            "expired": expired,
            "messages": 1.0,
            "delivering": 0.0,
        }
        table = Table(
            index,
            {name: np.array([value], np.float64) for name, value in columns.items()},
        )
        _, changes, known, back, said = queue_changes(
            seen, table, KINDS["classic"].about
        )
        found.append(float(changes[SETTLED][0]))
        assert not back.any()
        seen = SeenQueues(index, said)
    assert known.all()
    assert found[1:] == settled


def test_a_counter_that_was_set_back_is_no_settlement() -> None:
    index = Index.of([ROW])
    seen = SeenQueues()
    for added, removed in ((20.0, 15.0), (2.0, 1.0)):
        columns = {"added": added, "removed": removed, "expired": 0.0, "messages": 1.0}
        table = Table(
            index,
            {name: np.array([value], np.float64) for name, value in columns.items()},
        )
        _, changes, known, _, said = queue_changes(seen, table, KINDS["classic"].about)
        seen = SeenQueues(index, said)
    assert not known.any()
    assert changes[SETTLED][0] == 0


def test_kinds_that_count_fates_are_asked_for_what_was_acknowledged() -> None:
    table = Table(
        Index.of([ROW]), {"acknowledged": np.array([4.0]), "removed": np.array([9.0])}
    )
    numbers = queue_changes(SeenQueues(), table, BrokerKind.ARTEMIS)[0]
    assert numbers[SETTLED][0] == 4
