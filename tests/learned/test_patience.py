"""The patience of clients, consumers and queues: what each gap teaches whom, and who is judged."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.world import QUEUE
from penstock.core.table import Index
from penstock.learned.timeout import (
    FEW,
    LearnedTimeout,
    advance_patience,
    consumer_patience,
    eager_patience,
    queue_patience,
)
from penstock.model import QueueKind
from penstock.observation.facts import JUDGED
from penstock.series.labels import HIDDEN, Grouping
from penstock.settings.constants import Constants

CONSTANTS = Constants()
NO_GAP = np.nan
UNKNOWN = np.nan


def clients(member: list[int], *configured: float | None) -> Any:
    """One client for each patience that the operator gives, None of one without. member: of each consumer."""
    series = [
        SimpleNamespace(said=SimpleNamespace(patience=seconds))
        for seconds in configured
    ]
    return Grouping(index=Index.of(series), member=np.array(member))


def learned(gaps: list[float], of: Any) -> tuple[LearnedTimeout, list[float]]:
    unacked: Any = SimpleNamespace(gaps=np.array(gaps))
    result: Any = SimpleNamespace(interval=15.0)
    state, seconds = advance_patience(LearnedTimeout(), unacked, of, result, CONSTANTS)
    return state, seconds.tolist()


def test_each_gap_teaches_the_client_of_its_consumer() -> None:
    state, seconds = learned(
        [200.0, NO_GAP, 8.0, 20.0], clients([0, 1, 1, 0], None, None)
    )
    assert state.weight.tolist() == [2, 1]
    assert state.longest.tolist() == [200, 8]
    assert seconds == [600, 300]


def test_a_hidden_client_learns_nothing() -> None:
    state, _ = learned([200.0, 8.0], clients([HIDDEN, 1], None, None))
    assert state.weight.tolist() == [0, 1]


def test_what_is_configured_wins_and_gaps_are_compared_with_it() -> None:
    state, seconds = learned([8.0, 8.0], clients([0, 1], 7.0, 9.0))
    assert seconds == [7, 9]
    assert state.weight.tolist() == [0, 1]


# --- a full buffer


def eager(
    full: list[bool], usual: list[float], *, constants: Constants = CONSTANTS
) -> list[float]:
    """Of four clients with a consumer each: the first has learned little, the second more; two are configured."""
    index: Any = clients([0, 1, 2, 3], None, None, 7.0, 8.0)
    weight = np.array([FEW - 1, FEW, FEW - 1, FEW])
    longest = np.full(4, 200.0)
    state = LearnedTimeout(index.index, weight, longest, longest)
    groups: Any = SimpleNamespace(clients=index)
    seconds: list[float] = eager_patience(
        state, groups, np.array(usual), np.array(full), 15.0, constants
    ).tolist()
    return seconds


USUAL = [600.0, 601.0, 602.0, 603.0]


def test_with_a_full_buffer_the_longest_of_few_gaps_counts_twice() -> None:
    assert eager([True] * 4, USUAL) == [400, 600, 7, 8]


def test_where_it_is_not_full_all_stays_as_usual() -> None:
    assert eager([False] * 4, USUAL) == USUAL
    assert eager([True, False, False, False], USUAL) == [400, 601, 602, 603]


def test_who_is_not_judged_stays_so() -> None:
    np.testing.assert_equal(
        eager([True] * 4, [UNKNOWN, 601.0, UNKNOWN, UNKNOWN]),
        [UNKNOWN, 600, UNKNOWN, UNKNOWN],
    )


def test_a_smaller_factor_of_the_operator_stays() -> None:
    assert eager([True] * 4, USUAL, constants=Constants(factor=1.6))[:2] == [320, 320]


# --- consumers and queues


def found(queue: list[int], *kinds: QueueKind) -> Any:
    rows = [replace(QUEUE, kind=kind) for kind in kinds]
    at = np.array(queue)

    def at_queue(values: Any, unknown: Any) -> Any:
        return np.append(values, unknown)[at]

    return SimpleNamespace(
        queues=Index.of(rows), consumer=SimpleNamespace(queue=at, at_queue=at_queue)
    )


@pytest.mark.parametrize("kind", QueueKind)
def test_consumers_of_queues_that_are_not_judged_have_none(kind: QueueKind) -> None:
    groups: Any = SimpleNamespace(clients=clients([0, 1], None, None))
    poll = found([0, 1], kind, QueueKind.USER)
    seconds = consumer_patience(groups, poll, np.array([100.0, 200.0]))
    np.testing.assert_equal(seconds, [100 if kind in JUDGED else UNKNOWN, 200])


def test_nor_hidden_ones_and_those_of_an_unknown_queue() -> None:
    groups: Any = SimpleNamespace(clients=clients([HIDDEN, 0, 1], None, None))
    poll = found([0, -1, 0], QueueKind.USER)
    np.testing.assert_equal(
        consumer_patience(groups, poll, np.array([100.0, 200.0])),
        [UNKNOWN, UNKNOWN, 200],
    )


def test_a_queue_has_the_longest_of_its_consumers() -> None:
    poll = found([0, 0, 0, -1, 1], *[QueueKind.USER] * 3)
    seconds = queue_patience(
        poll, np.array([100.0, 200.0, UNKNOWN, 900.0, UNKNOWN]), CONSTANTS
    )
    assert seconds.tolist() == [200, CONSTANTS.cold, CONSTANTS.cold]
