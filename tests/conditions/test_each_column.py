"""For each column that a rule reads, a poll at which it makes the rule true, and one at which it makes it false.

The columns are found by running the rule, so that one that is read and has no such pair fails a test. A new rule needs
an entry in one of the `CASES`.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from conditions import (
    pairs_of_consumers,
    pairs_of_flow,
    pairs_of_losses,
    pairs_of_waiting,
    test_slowed_held_up,
)
from conditions.columns import Read, columns_read, mask_of
from conditions.pairs import Pairs, Rule, Values, with_values
from penstock.conditions import slowed
from penstock.conditions.catalogue import for_kind
from penstock.model import BROKER_KINDS

CASES = [
    *pairs_of_consumers.CASES,
    *pairs_of_waiting.CASES,
    *pairs_of_flow.CASES,
    *pairs_of_losses.CASES,
]
WINDOWS = ("activity.window", "activity.trend", "service_window")
"""Not columns, but their values at the last polls."""
OF_RULE: dict[Rule, list[Pairs]] = {}
for _case in CASES:
    OF_RULE.setdefault(_case.rule, []).append(_case)


@pytest.mark.parametrize("pairs", CASES, ids=lambda pairs: pairs.name)
def test_the_pairs_make_each_rule_true_and_false(pairs: Pairs) -> None:
    assert holds(pairs, {})
    still_true = [
        column for column, value in pairs.false.items() if holds(pairs, {column: value})
    ]
    assert still_true == []


def holds(pairs: Pairs, other: Values) -> bool:
    """Whether the rule is true for a row, with these values in place of the others."""
    values = {**pairs.true, **other}
    poll = with_values(pairs.poll(), values)
    return any(mask_of(pairs.rule(poll)))


@pytest.mark.parametrize(
    "rule", OF_RULE, ids=[cases[0].name for cases in OF_RULE.values()]
)
def test_each_column_that_a_rule_reads_has_a_pair(rule: Rule) -> None:
    cases = OF_RULE[rule]
    decided = decided_by(cases)
    for case in cases:
        for part in case.parts:
            decided |= decided_by(OF_RULE[part])
    assert read_by(cases) - decided == set()


def read_by(cases: Iterable[Pairs]) -> Read:
    read: Read = set()
    for case in cases:
        poll = with_values(case.poll(), case.true)
        read |= columns_read(case.rule, poll)
    return read


def decided_by(cases: Iterable[Pairs]) -> Read:
    decided: Read = set()
    for case in cases:
        decided |= {*case.false, *case.only_since}
    return decided


def test_each_rule_has_pairs() -> None:
    missing = [name for name, rule in rules() if rule not in OF_RULE]
    assert missing == []


def rules() -> Iterator[tuple[str, Rule]]:
    """By `kind/condition`."""
    for kind in BROKER_KINDS:
        for condition in for_kind(kind).values():
            if condition.rule is not None:
                yield f"{kind}/{condition.name}", condition.rule


@pytest.mark.parametrize(
    ("pairs", "column"),
    [
        pytest.param(one, column, id=f"{one.name} {column}")
        for one in CASES
        for column in one.only_since
    ],
)
def test_a_column_that_only_says_since_when_decides_nothing(
    pairs: Pairs, column: str
) -> None:
    if column not in WINDOWS:
        assert holds(pairs, {column: np.nan})


def test_a_stalled_or_leaking_consumer_is_seen_by_columns_as_well() -> None:
    """`held_up` has its pairs in a test of its own; what it reads is known here."""
    poll = test_slowed_held_up.backlog()
    read = columns_read(lambda of: slowed.held_up(of, test_slowed_held_up.ASKED), poll)
    columns = {one for one in read if isinstance(one, str)}
    assert columns == {
        "unacked.unacked_since",
        "usual.service",
        "found.consumer.held",
        "found.consumer.queue",
        "found.messages",
        "found.consumers",
        "buffers.at",
        "buffers.rows",
    }
