"""The stall threshold of a client as `explain` says it: where it comes from, in words."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.core.table import Index, Table
from penstock.insight.answers import StallThreshold
from penstock.insight.explain import stall_threshold
from penstock.learned.timeout import FEW, MANY
from penstock.settings.constants import Constants

NO_RULE: Any = SimpleNamespace(patience=None, given_by={})
BY_RULE: Any = SimpleNamespace(patience=600.0, given_by={"patience": 2})
BETWEEN = "; between 45 s and 1 h"
"""Three polls of 15 seconds."""


def threshold(
    *,
    weight: float = 0.0,
    given: Any = NO_RULE,
    seconds: float = 90.0,
    known: str = "client",
    row: int = 0,
) -> StallThreshold | None:
    """Of the client in a row of the table; known: of whom something is learned, beside another one."""
    index = Index.of(["another", known])
    patience = SimpleNamespace(
        index=index,
        weight=np.array([7.0, weight]),
        longest=np.array([1.0, 20.0]),
        q98=np.array([2.0, 10.0]),
    )
    view: Any = SimpleNamespace(
        state=SimpleNamespace(judgement=SimpleNamespace(patience=patience)),
        policy=SimpleNamespace(constants=Constants()),
        interval=15.0,
    )
    table: Any = Table(clients(index, known), {"patience": np.array([seconds, 1.0])})
    return stall_threshold(view, table, row, given)


def clients(learned: Index[Any], known: str) -> Index[Any]:
    """Two clients, the first with the key under which something was learned, where it is the known one."""
    first = int(learned.keys[1]) if known == "client" else 99
    found, _ = (
        Index[Any]
        .empty()
        .advance(np.array([first, 100]), lambda new: [("client", "b")[i] for i in new])
    )
    return found


def test_without_a_number_there_is_none() -> None:
    assert threshold(seconds=np.nan) is None


def test_a_rule_of_the_operator_goes_first() -> None:
    found = threshold(weight=MANY, given=BY_RULE)
    assert found == StallThreshold(90, "configured", 0, "rule 2")


@pytest.mark.parametrize(
    ("weight", "known"), [(0.0, "client"), (MANY, "somebody else")]
)
def test_nothing_was_learned(weight: float, known: str) -> None:
    found = threshold(weight=weight, known=known)
    assert found == StallThreshold(
        90, "cold", 0, "nothing learned yet: judgement.cold, 5 min"
    )


def test_the_first_client_of_whom_something_was_learned_counts_as_well() -> None:
    view: Any = SimpleNamespace(
        state=SimpleNamespace(
            judgement=SimpleNamespace(
                patience=SimpleNamespace(
                    index=Index.of(["client"]),
                    weight=np.array([1.0]),
                    longest=np.array([20.0]),
                    q98=np.array([10.0]),
                )
            )
        ),
        policy=SimpleNamespace(constants=Constants()),
        interval=15.0,
    )
    table: Any = Table(Index.of(["client"]), {"patience": np.array([90.0])})
    found = stall_threshold(view, table, 0, NO_RULE)
    assert found is not None
    assert (found.origin, found.gaps) == ("learned", 1)


@pytest.mark.parametrize("weight", [1.4, FEW - 1])
def test_of_few_gaps_the_longest_counts(weight: float) -> None:
    why = "3 times the longest gap of 20 s, at least judgement.cold, 5 min"
    assert threshold(weight=weight) == StallThreshold(
        90, "learned", round(weight), why + BETWEEN
    )


def test_of_some_gaps_what_most_of_them_stay_below() -> None:
    why = "3 times 10 s, which 98 % of the gaps stay below, at least judgement.cold, 5 min"
    assert threshold(weight=FEW) == StallThreshold(90, "learned", 50, why + BETWEEN)


def test_of_many_gaps_nothing_else_counts() -> None:
    why = "3 times 10 s, which 98 % of the gaps stay below"
    assert threshold(weight=MANY) == StallThreshold(90, "learned", 500, why + BETWEEN)


def test_it_is_of_the_row_that_is_asked_for() -> None:
    found = threshold(weight=MANY, row=1)
    assert found is not None
    assert (found.seconds, found.origin) == (1, "cold")
