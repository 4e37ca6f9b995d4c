"""For each column that a rule reads, a poll at which it makes the rule true, and one at which it makes it false.

The columns are found by running the rule, so that one that is read and has no such pair fails a test.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from conditions import test_falling_behind_edges, test_redelivery_loop_edges, test_slowed_held_up, test_stalled_hangs
from conditions.columns import columns_read, mask_of
from conditions.inputs import changed, column, kept_inputs, mask, positions
from conditions.world import Judged
from penstock.conditions import (
    dead_letters_full,
    depaging_frozen,
    falling_behind,
    orphaned,
    paused,
    redelivery_loop,
    slowed,
    stalled,
    unheld,
)
from penstock.observation.poll import RuleInputs

Rule = Callable[[RuleInputs], Any]
Values = Mapping[str, Any]


@cache
def plain() -> RuleInputs:
    """One queue with a consumer that holds something; no condition is near."""
    world = Judged()
    with kept_inputs() as kept:
        for _ in range(3):
            world.poll({"q": {"A": 20.0, "M": 20.0, "D": 10.0}}, {"c": {"T": 10.0, "N": 10.0, "Ld": world.now}})
    return kept[-1]


LONG_AGO = column(0.0)
NEVER = column(np.nan)
FROZEN = {
    "timers__still": LONG_AGO,
    "found__address__paging": column(1),
    "found__address__page_read_limit_bytes": column(100),
    "found__delivering_bytes": column(90),
    "found__address__page_read_limit_messages": column(0),
    "found__delivering": column(10),
    "found__ready": column(5),
}
FROZEN_BY_NUMBER = FROZEN | {
    "found__address__page_read_limit_bytes": column(0),
    "found__address__page_read_limit_messages": column(10),
}
NOT_JUDGED = mask(False)

CASES: list[tuple[Rule, Callable[[], RuleInputs], Values, Values]] = [
    (paused.rule, plain, {"found__paused": column(1)}, {"found__paused": column(0), "found__judged": NOT_JUDGED}),
    (paused.rule, plain, {"found__address__paused": column(1)}, {"found__address__paused": column(0)}),
    (depaging_frozen.rule, plain, FROZEN, {
        "timers__still": column(2e9),
        "found__judged": NOT_JUDGED,
        "found__address__paging": column(0),
        "found__address__page_read_limit_bytes": column(101),
        "found__delivering_bytes": column(89),
        "found__ready": column(0),
    }),
    (depaging_frozen.rule, plain, FROZEN_BY_NUMBER, {
        "found__address__page_read_limit_messages": column(11),
        "found__delivering": column(9),
    }),
    (unheld.rule, plain, {"losses__unheld_since": LONG_AGO},
     {"losses__unheld_since": NEVER, "found__judged": NOT_JUDGED}),
    (orphaned.rule, plain, {"found__consumer__orphaned": mask(True)}, {
        "found__consumer__orphaned": mask(False),
        "client_patience": NEVER,
    }),
    (orphaned.rule, plain, {"found__consumer__orphaned": mask(True), "found__consumer__delivered": column(0)},
     {"found__consumer__held": column(0)}),
    (orphaned.rule, plain, {"found__consumer__orphaned": mask(True), "found__consumer__held": column(0)},
     {"found__consumer__delivered": column(0)}),
    (dead_letters_full.rule, plain,
     {"found__parked": mask(True), "found__address__limit_percent": column(100), "snapshot__addresses": None}, {
        "found__parked": mask(False),
        "found__address__limit_percent": column(99),
        "found__judged": NOT_JUDGED,
    }),
    (stalled.hangs, test_stalled_hangs.polled, {}, {
        "unacked__unacked_since": column(2e9, 2e9),
        "unacked__settled": column(np.nan, np.nan),
        "service_rate": column(0, 0),
        "timers__ready": NEVER,
        "groups__clients__member": positions(-1, -1),
        "snapshot__consumer_connection": positions(-1, -1),
        "found__consumer__last_delivery": column(2e9, 2e9),
        "found__consumer__queue": positions(-1, -1),
    }),
    (stalled.hangs, test_stalled_hangs.polled,
     {"evictions__grew": column(1), "snapshot__consumer_connection": positions(-1, -1)},
     {"evictions__grew": column(0)}),
    (redelivery_loop.loops, test_redelivery_loop_edges.polled, {}, {
        "found__judged": mask(False, False),
        "returns__persistent": mask(False, False),
        "returns__delivered": column(0, 0),
    }),
    (redelivery_loop.loops, test_redelivery_loop_edges.polled,
     {"found__attempts": column(0, 0), "found__consumer__delivered": column(0, 0)}, {"found__settled": column(0, 0)}),
    (redelivery_loop.loops, test_redelivery_loop_edges.polled,
     {"found__settled": column(0, 0), "found__attempts": column(0, 1), "found__consumer__delivered": column(0, 0)},
     {"found__attempts": column(0, 0)}),
    (redelivery_loop.loops, test_redelivery_loop_edges.polled,
     {"found__settled": column(0, 0), "found__attempts": column(0, 0), "found__consumer__delivered": column(101, 101)},
     {"found__consumer__delivered": column(0, 0), "found__added": column(200, 200),
      "found__consumer__queue": positions(0, 0)}),
    (falling_behind.rule, test_falling_behind_edges.polled, {}, {
        "found__judged": mask(False, False),
        "trend__behind": mask(False, False),
        "found__ring": column(10, 10),
    }),
]  # fmt: skip
"""A rule, a poll, the values with which it is true, and for each column one with which it is false."""
DECIDES_NOTHING = {
    "unacked__unacked_since": {orphaned.rule},
    "losses__unheld_since": set(),
    "timers__still": set(),
    "trend__growth_rate": {falling_behind.rule},
}
"""Columns that only say since when it is so, by the rules that read them for that."""


def test_the_pairs_make_each_rule_true_and_false() -> None:
    for rule, poll, true, false in CASES:
        assert any(mask_of(rule(changed(poll(), **true)))), rule
        for path, value in false.items():
            assert not any(mask_of(rule(changed(poll(), **{**true, path: value})))), (rule, path)


@pytest.mark.parametrize("rule", {rule: None for rule, *_ in CASES}, ids=lambda rule: rule.__module__)
def test_each_column_that_a_rule_reads_has_a_pair(rule: Rule) -> None:
    read, decided = set[str](), set[str]()
    for one, poll, true, false in CASES:
        if one is rule:
            read |= columns_read(rule, changed(poll(), **true))
            decided |= false.keys()
    only_since = {path for path, rules in DECIDES_NOTHING.items() if rule in rules}
    assert read - only_since == decided


def test_a_stalled_or_leaking_consumer_is_seen_by_columns_as_well() -> None:
    """`held_up` has its pairs in a test of its own; what it reads is known here."""
    read = columns_read(lambda poll: slowed.held_up(poll, test_slowed_held_up.ASKED), test_slowed_held_up.backlog())
    assert read == {
        "unacked__unacked_since", "usual__service", "found__consumer__held", "found__consumer__queue",
        "found__messages", "found__consumers", "buffers__at", "buffers__rows",
    }  # fmt: skip
