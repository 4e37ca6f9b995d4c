"""What many conditions share: their numbers, for how long a rule must be true, and what goes on over a window."""

from typing import Any

import numpy as np
import pytest

from conditions.pairs import (
    NEVER,
    NOW,
    lines,
    openmq,
    plain,
    recent,
    two_consumers,
    two_queues,
    with_values,
)
from conditions.pairs_of_losses import goes_on as loss
from penstock.conditions import evidence
from penstock.conditions.condition import Evidence
from penstock.core.windows import Window
from penstock.observation.activity import KILLED
from penstock.observation.losses import LINES, PURGED, UNWANTED

STEP = 15.0
SECOND = np.array([1])
ONLY = np.array([0])


def said(numbers: Evidence, poll: Any, at: Any) -> dict[str, list[float]]:
    return {name: column.tolist() for name, column in numbers(poll, at).items()}


# --- numbers


def test_the_numbers_of_a_queue() -> None:
    poll = with_values(two_queues(), {"found.ready": [5, 7], "found.consumers": [1, 2]})
    assert said(evidence.ready_and_consumers, poll, SECOND) == {
        "ready": [7],
        "consumers": [2],
    }


def test_a_number_is_a_column_or_worked_out() -> None:
    numbers = evidence.numbers(
        ready="found.ready", twice=lambda poll: 2 * poll.found.ready
    )
    poll = with_values(two_queues(), {"found.ready": [5, 7]})
    assert said(numbers, poll, SECOND) == {"ready": [7], "twice": [14]}


def test_the_numbers_of_a_consumer() -> None:
    poll = with_values(two_consumers(), {
        "found.consumer.held": [3, 4],
        "found.consumer.uncommitted": [5, 6],
        "unacked.unacked_since": [NOW - 7, NOW - 8],
        "client_patience": [9, 10],
        "at_risk": 11,
    })  # fmt: skip
    numbers = {
        "held": [4],
        "uncommitted": [6],
        "age": [8],
        "patience": [10],
        "at_risk": [11],
    }
    assert said(evidence.buffered, poll, SECOND) == numbers
    unplaced = with_values(poll, {"found.consumer.queue": [0, -1]})
    assert np.isnan(said(evidence.buffered, unplaced, SECOND)["at_risk"][0])


def test_the_numbers_of_a_queue_from_which_nothing_is_delivered() -> None:
    poll = with_values(two_queues(), {
        "found.ready": [1, 2],
        "found.consumers": [3, 4],
        "timers.ready": [NEVER, NOW - 50],
        "timers.still": [NEVER, NOW - 40],
        "queue_patience": [60, 70],
        "dispatch": [60, 80],
    })  # fmt: skip
    numbers = {"ready": [2], "consumers": [4], "age": [40], "patience": [80]}
    assert said(evidence.undelivered, poll, SECOND) == numbers


FULL_DESTINATION = {
    "found.ready": 1,
    "openmq.said.limit_messages": 2,
    "openmq.said.producers": 3,
    "accounted.refused": np.array([4]),
    "accounted.removed": np.array([5]),
    "openmq.said.dead_letters": True,
    "found.d_settled": 9,
    "found.d_left": 2,
}


def test_the_numbers_of_a_full_destination() -> None:
    numbers = evidence.full_destination(with_values(openmq(), FULL_DESTINATION), ONLY)
    assert {name: column.tolist() for name, column in numbers.items()} == {
        "ready": [1],
        "limit": [2],
        "producers": [3],
        "rejected": [4],
        "evicted": [5],
        "dead_letters": [1],
        "removed": [7],
    }
    assert {column.dtype.kind for column in numbers.values()} == {"f"}


def test_without_an_account_what_was_refused_is_not_known() -> None:
    poll = with_values(openmq(), {"accounted": {}})
    assert np.isnan(said(evidence.full_destination, poll, ONLY)["rejected"][0])
    refused = evidence.accounted("refused")
    np.testing.assert_equal(refused(poll), [np.nan])
    in_whole_numbers = refused(
        with_values(openmq(), {"accounted.refused": np.array([4])})
    )
    assert in_whole_numbers.tolist() == [4]
    assert in_whole_numbers.dtype == np.float64


# --- losses


def test_what_was_lost_in_all_and_its_share_of_the_spell() -> None:
    poll = with_values(
        plain(),
        loss(UNWANTED)
        | {"losses.came": 40, "losses.began": lines(LINES, {UNWANTED: 2})},
    )
    assert said(evidence.lost(UNWANTED), poll, ONLY) == {"lost": [10]}
    assert said(evidence.lost(UNWANTED, share=True), poll, ONLY) == {
        "lost": [10],
        "share": [20],
    }


def test_a_spell_began_when_it_was_first_seen() -> None:
    poll = with_values(plain(), loss(PURGED))
    raised = evidence.spell(poll, PURGED)
    assert raised.since is not None
    assert (raised.mask.tolist(), raised.since.tolist()) == ([True], [NOW - 100])
    assert evidence.spell(poll, PURGED, also=False).mask.tolist() == [False]


# --- for how long


@pytest.mark.parametrize(
    ("interval", "seconds"), [(15.0, 85), (0.5, 99.5), (np.nan, 100), (-1.0, 100)]
)
def test_one_poll_before_its_time_a_rule_may_begin_to_agree(
    interval: float, seconds: float
) -> None:
    poll = with_values(plain(), {"found.interval": interval})
    assert evidence.nearly(poll, 100.0) == seconds
    assert evidence.nearly(poll, np.array([100.0])).tolist() == [seconds]


def test_proof_is_the_same_for_each_queue() -> None:
    poll = two_queues()
    assert evidence.proof(poll).tolist() == [poll.constants.proof] * 2


# --- what goes on


def killed(*changes: list[float]) -> Window:
    """Of two queues, at the last polls."""
    window = Window(two_queues().found.queues)
    polls = len(changes[0])
    for poll in range(polls):
        values = np.zeros((KILLED + 1, len(changes)), np.float32)
        values[KILLED] = [of[poll] for of in changes]
        values[:, np.isnan(values[KILLED])] = np.nan
        window = window.push(NOW - STEP * (polls - 1 - poll), values, 1000.0, 0.0)
    return window


ALWAYS = [0.25] * 6
"""A message in a minute, as a mean."""
GAP = np.nan


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (ALWAYS, True),
        ([0.0, 0.0, 0.5, 0.5, 0.0, 0.0], True),
        ([9.0, 9.0, 9.0, 0.0, 0.0, 0.0], False),
        ([0.0, 0.0, 0.0, 9.0, 9.0, 9.0], False),
        ([0.0] * 6, False),
        ([9.0, GAP, GAP, GAP, 9.0, 9.0], False),
    ],
)
def test_it_happens_in_both_halves_of_the_window(
    changes: list[float], expected: bool
) -> None:
    """Whatever happens to another queue."""
    poll = with_values(two_queues(), {"activity.window": killed(ALWAYS, changes)})
    assert evidence.goes_on(poll, KILLED).mask.tolist() == [True, expected]


def test_it_began_when_it_first_happened() -> None:
    changes = [0.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    poll = with_values(two_queues(), {"activity.window": killed(changes, [0.0] * 6)})
    np.testing.assert_equal(
        evidence.goes_on(poll, KILLED).since, [NOW - 4 * STEP, NEVER]
    )


def test_its_rate_is_that_of_the_window() -> None:
    poll = with_values(
        plain(), {"activity.window": recent(KILLED + 1, {KILLED: [0, 3, 3, 6]})}
    )
    assert said(evidence.rate(KILLED), poll, ONLY) == {"rate": [12 / (3 * STEP)]}
