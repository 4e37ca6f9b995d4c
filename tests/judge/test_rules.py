"""Each rule at its edges, from plain numbers; beginnings, severity, who is silent beside whom, starts and gaps."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from judge.scenarios import FAULTS, arrivals, consumer_gone, every, together, working
from judge.world import START, Judged, Numbers, World
from penstock.flow.judge import rules
from penstock.flow.judge.conditions import Severity
from penstock.flow.judge.constants import Constants
from penstock.flow.judge.facts import JUDGED, Seen, facts
from penstock.flow.judge.history import FLOW_IN, RETURNED, SAMPLES, SETTLED, TREND_SAMPLES
from penstock.flow.judge.judge import CLIENT_KINDS
from penstock.flow.judge.spans import Window
from penstock.model import QueueKind, Role
from penstock.table import Index

FOREVER = 1_000_000.0
QUEUE = np.array([0])
"""The position of the only one."""


def polls(
    judged: Judged, count: int, queue: Numbers, consumers: Mapping[str, Numbers] | None = None, **address: float
) -> Judged:
    """The same numbers at so many polls."""
    for _ in range(count):
        judged.poll({"q": queue}, consumers, {"q": address})
    return judged


# --- stalled, open transaction


HOLDER = {"T": 10.0, "N": 10.0, "C": 0.0, "Ld": START}
HELD = {"A": 10.0, "M": 10.0, "D": 10.0}


def test_a_stall_older_than_the_agent_shows_at_the_second_poll() -> None:
    judged = Judged(now=START + 5000)
    polls(judged, 1, HELD, {"c": HOLDER})
    assert not judged.conditions
    polls(judged, 1, HELD, {"c": HOLDER})
    assert judged.one("stalled").since == START
    assert judged.one("stalled").evidence["age"] == 5030


@pytest.mark.parametrize(("age", "told"), [(299.9, False), (300.0, True)])
def test_a_stall_is_told_from_patience_on(age: float, told: bool) -> None:
    judged = Judged(now=START + age - 45)
    polls(judged, 1, HELD, {"c": HOLDER})
    polls(judged, 1, HELD, {"c": HOLDER})  # age - 15: one poll before patience is over it may agree
    assert not judged.conditions
    polls(judged, 1, HELD, {"c": HOLDER})
    assert ("stalled" in judged.names) is told
    polls(judged, 1, HELD, {"c": HOLDER})
    assert "stalled" in judged.names


def test_deliveries_do_not_reset_a_stall_and_settlements_do() -> None:
    judged = Judged()
    for n in range(24):
        judged.poll({"q": HELD}, {"c": {**HOLDER, "T": 10 + n, "N": 10 + n, "Ld": judged.now}})
    assert judged.names == {"stalled"}
    for n in range(2):
        judged.poll({"q": {**HELD, "K": n + 1}}, {"c": {**HOLDER, "T": 40, "N": 42, "C": n + 1.0, "L": judged.now}})
    assert not judged.names


def test_a_commit_that_was_not_seen_is_a_settlement() -> None:
    """W falls to 0 and rises again between two polls: the acknowledged rose by more."""
    judged = Judged()
    for n in range(40):
        consumer = {"T": 0.0, "W": 5.0, "N": 5.0 + 20 * n, "C": 5.0 + 20 * n, "L": judged.now + 14}
        judged.poll({"q": {"A": 1000, "K": 20.0 * n, "M": 900, "D": 5}}, {"c": consumer})
    assert not judged.conditions


def test_acknowledged_and_uncommitted_is_an_open_transaction_and_no_stall() -> None:
    judged = Judged()
    for n in range(24):
        consumer = {"T": 0.0, "W": 5.0 + n, "N": 5.0 + n, "C": 5.0 + n, "L": judged.now + 14}
        judged.poll({"q": {"A": 100, "M": 100, "D": 5 + n}}, {"c": consumer})
    assert judged.names == {"open_transaction"}
    assert judged.one("open_transaction").evidence["uncommitted"] == 28


def test_times_ahead_of_the_brokers_clock_begin_nothing_in_the_future() -> None:
    judged = polls(Judged(), 30, HELD, {"c": {**HOLDER, "Ld": START + 15.02}})
    assert judged.one("stalled").since == START + 15


def test_times_are_told_by_the_agents_clock() -> None:
    judged = polls(Judged(skew=100.0), 30, HELD, {"c": HOLDER})
    assert judged.one("stalled").since == START - 100
    assert judged.column("client", "blocked_since") == START - 100


def test_a_client_is_one_condition_with_the_longest_of_its_consumers() -> None:
    two = {"c": HOLDER, "d": {**HOLDER, "Ld": START - 500, "T": 7.0}}
    judged = polls(Judged(), 30, {"A": 17, "M": 17, "D": 17}, two)
    condition = judged.one("stalled")
    assert (condition.consumers, condition.since, condition.evidence["held"]) == (2, START - 500, 7)
    assert judged.column("queue", "unhealthy_consumers") == 2


# --- severity


@pytest.mark.parametrize(
    ("waiting", "settles", "severity"),
    [(90, False, Severity.CRITICAL), (0, False, Severity.WARNING), (90, True, Severity.WARNING)],
)
def test_critical_only_without_true_progress_while_messages_wait(
    waiting: int, settles: bool, severity: Severity
) -> None:
    judged = Judged()
    for n in range(30):
        judged.poll({"q": {"A": 10 + waiting, "M": 10 + waiting, "D": 10, "K": n if settles else 0}}, {"c": HOLDER})
    assert judged.one("stalled").severity is severity


def test_messages_that_come_are_as_bad_as_those_that_wait() -> None:
    judged = Judged()
    for n in range(30):
        judged.poll({"q": {"A": 10 + n, "M": 10 + n, "D": 10 + n}}, {"c": {**HOLDER, "T": 10 + n, "N": 10 + n}})
    assert judged.one("stalled").severity is Severity.CRITICAL


# --- orphaned


@pytest.mark.parametrize(
    ("consumer", "names"),
    [
        ({**HOLDER, "orphaned": 1.0}, {"orphaned"}),
        ({"T": 0.0, "N": 5.0, "C": 5.0, "orphaned": 1.0}, {"orphaned"}),
        ({**HOLDER, "orphaned": 0.0}, set()),
        ({"T": 0.0, "N": 0.0, "C": 0.0, "orphaned": 1.0}, set()),  # a browser counts nothing
    ],
)
def test_orphaned(consumer: Numbers, names: set[str]) -> None:
    judged = Judged()
    polls(judged, 1, HELD, {"c": {**consumer, "Ld": judged.now}})
    assert judged.names == set()
    polls(judged, 1, HELD, {"c": {**consumer, "Ld": judged.now}})
    assert judged.names == names
    if names:
        assert judged.one("orphaned").consumers == 1


# --- max-delivery-attempts


@pytest.mark.parametrize(
    ("attempts", "names"), [(10.0, set()), (2.0, {"redelivery_loop"}), (-1.0, {"redelivery_loop"}), (np.nan, set())]
)
def test_what_comes_back_is_lawful_as_far_as_it_ends_in_the_dead_letters(attempts: float, names: set[str]) -> None:
    """Of a hundred deliveries 20 come back and two are given up: at ten attempts each that is 18 of them."""
    judged = Judged()
    for n in range(12):
        queue = {"A": 1000.0 + 80 * n, "K": 78.0 * n, "X": 2.0 * n, "M": 500.0, "Att": 100.0 * n}
        consumer = {"T": 10.0, "N": 100.0 * n + 10, "C": 100.0 * n, "L": judged.now + 14}
        judged.poll({"q": queue}, {"c": consumer}, {"q": {"max_delivery_attempts": attempts}})
    assert judged.names == names
    assert ("redelivery_loop" in judged.notices) is not bool(names)


# --- queues that keep what is acknowledged


def test_what_waits_is_not_known_of_a_queue_that_its_address_makes_non_destructive() -> None:
    judged = Judged(constants=Constants(cold=60.0))
    keeps = {"A": 20.0, "K": 0.0, "M": 20.0, "ring": 10.0, "Att": 0.0}
    polls(judged, 10, keeps, {"c": {"T": 0.0, "N": 20.0, "C": 20.0}}, non_destructive=1.0)
    assert not judged.conditions
    assert np.isnan([judged.column("queue", name) for name in ("ready", "ring_used_ratio", "ring_at_risk")]).all()
    assert np.isnan(judged.evicted())


def test_a_queue_that_settles_is_destructive_whatever_its_address_makes_of_new_ones() -> None:
    judged = Judged()
    polls(judged, 3, {"A": 20.0, "K": 5.0, "M": 15.0, "Att": 5.0}, {}, non_destructive=1.0)
    assert judged.column("queue", "ready") == 15.0


@pytest.mark.parametrize(
    ("queue", "delivered", "names"),
    [
        ({"K": 0.0, "Att": 0.0}, 20.0, set()),  # read by all, and kept
        ({"K": 0.0, "Att": 0.0}, 21.0, {"not_dispatching"}),  # came back: it counts
        ({"K": 0.0, "Att": 1.0}, 20.0, {"not_dispatching"}),
        ({"K": 1.0, "Att": 0.0}, 20.0, {"not_dispatching"}),
    ],
)
def test_a_queue_whose_messages_stay_though_acknowledged_may_be_non_destructive(
    queue: Numbers, delivered: float, names: set[str]
) -> None:
    judged = Judged(constants=Constants(cold=60.0))
    polls(judged, 10, {"A": 20.0, "M": 20.0, **queue}, {"c": {"T": 0.0, "N": delivered, "C": delivered}})
    assert judged.names == names


# --- not_dispatching


WAIT = {"A": 50.0, "M": 50.0}
FREE: Numbers = {"T": 0.0, "N": 0.0, "C": 0.0}


def told(queue: Numbers, consumers: Mapping[str, Numbers], *, comes: float = 0.0, **address: float) -> set[str]:
    judged = Judged()
    for n in range(30):
        more = comes * n
        queues = {"q": {**queue, "A": queue["A"] + more, "M": queue["M"] + more}}
        judged.poll(queues, consumers, {"q": address})
    return judged.names


@pytest.mark.parametrize(
    ("queue", "consumers", "comes", "names"),
    [
        (WAIT, {"c": FREE}, 0, {"not_dispatching"}),
        (WAIT, {"c": {**FREE, "filter": "x"}}, 0, set()),
        (WAIT, {"c": {**FREE, "filter": "x"}}, 1, {"not_dispatching"}),
        (WAIT, {"c": {**FREE, "filter": "x"}, "d": FREE}, 0, {"not_dispatching"}),
        ({**WAIT, "D": 10}, {"c": HOLDER, "d": FREE}, 0, {"not_dispatching", "stalled"}),
        ({**WAIT, "D": 10, "exclusive": 1}, {"c": HOLDER, "d": FREE}, 0, {"stalled"}),
        ({**WAIT, "D": 10, "grouped": 1}, {"c": HOLDER, "d": FREE}, 0, {"stalled"}),
        ({**WAIT, "exclusive": 1}, {"c": FREE, "d": FREE}, 0, {"not_dispatching"}),
        ({**WAIT, "exclusive": 1, "D": 3}, {"c": {**FREE, "W": 3.0, "L": START}, "d": FREE}, 0, {"open_transaction"}),
        ({**WAIT, "D": 10}, {"c": HOLDER}, 0, {"stalled"}),
        ({"A": 50.0, "M": 0.0}, {"c": FREE}, 0, set()),
        ({**WAIT, "consumers": 0}, {"c": FREE}, 0, set()),
        ({**WAIT, "S": 50}, {"c": FREE}, 0, set()),
    ],
)
def test_not_dispatching(queue: Numbers, consumers: Mapping[str, Numbers], comes: float, names: set[str]) -> None:
    assert told(queue, consumers, comes=comes) == names


def test_not_dispatching_waits_for_both_patience_and_a_consumer_old_enough() -> None:
    judged = polls(Judged(), 20, WAIT, {"c": FREE})  # still since the second poll: 285 s before the next but one
    assert not judged.names
    polls(judged, 1, WAIT, {"d": FREE})  # another consumer: it has only come
    polls(judged, 10, WAIT, {"d": FREE})
    assert not judged.names
    polls(judged, 11, WAIT, {"d": FREE})
    assert judged.names == {"not_dispatching"}
    assert judged.one("not_dispatching").since == START + 15


@pytest.mark.parametrize("silencer", ["paused", "depaging_frozen"])
def test_what_explains_it_silences_not_dispatching(silencer: str) -> None:
    paused = {"paused": 1.0} if silencer == "paused" else {"delivering_bytes": 95.0}
    address = {} if silencer == "paused" else {"paging": 1.0, "page_read_limit_bytes": 100.0}
    assert told({**WAIT, **paused}, {"c": FREE}, **address) == {silencer}


# --- no_consumer


def test_absence_begins_when_somebody_was_last_there() -> None:
    judged = polls(Judged(), 4, {**WAIT, "K": 1}, {"c": FREE})
    last = judged.now
    polls(judged, 20, {**WAIT, "K": 1})
    assert not judged.names
    polls(judged, 1, {**WAIT, "K": 1})
    assert judged.names == {"no_consumer"}
    assert judged.one("no_consumer").since == last + 15


def test_an_absence_ends_when_something_is_settled_between_two_polls() -> None:
    judged = Judged()
    for n in range(60):
        judged.poll({"q": {**WAIT, "K": n // 10}})
    assert not judged.conditions


def test_consumers_that_live_between_two_polls_teach_no_short_absence() -> None:
    judged = Judged()
    for n in range(1000):
        judged.poll({"q": {"A": 50.0 + n, "M": 50.0, "K": float(n)}})
    for _ in range(18):  # and then none for less than the cold patience
        judged.poll({"q": {"A": 1049.0, "M": 50.0, "K": 999.0}})
        assert not judged.conditions


@pytest.mark.parametrize(
    ("said", "comes", "names", "notices"),
    [
        ({"K": 1}, 0, {"no_consumer"}, set()),
        ({}, 0, set(), set()),
        ({}, 1, set(), {"no_consumer"}),
        ({"kind": QueueKind.SUBSCRIPTION, "durable": True}, 0, {"no_consumer"}, set()),
        ({"kind": QueueKind.SUBSCRIPTION, "durable": False}, 1, set(), {"no_consumer"}),
        ({"K": 1, "kind": QueueKind.DEAD_LETTER}, 1, set(), set()),
        ({"K": 1, "kind": QueueKind.EXPIRY}, 1, set(), set()),
        ({"K": 1, "consumers": np.nan}, 1, set(), set()),
    ],
)
def test_no_consumer(said: dict[str, Any], comes: int, names: set[str], notices: set[str]) -> None:
    judged = Judged()
    for n in range(30):
        judged.poll({"q": {**said, "A": 50 + comes * n, "M": 50 + comes * n}})
    assert (judged.names, judged.notices) == (names, notices)


def test_the_first_consumer_that_ever_comes_makes_an_absence_no_worse() -> None:
    judged = Judged()
    for n in range(30):
        judged.poll({"q": {"A": 50 + n, "M": 50 + n}})
    judged.poll({"q": {"A": 80, "M": 80}}, {"c": FREE})
    assert (judged.names, judged.notices) == (set(), {"no_consumer"})
    judged.poll({"q": {"A": 80, "M": 80}}, {"c": FREE})
    assert not judged.conditions
    for n in range(30):
        judged.poll({"q": {"A": 80 + n, "M": 80 + n}})
    assert judged.names == {"no_consumer"}


def test_a_count_of_consumers_that_is_missing_for_a_poll_neither_begins_nor_ends_an_absence() -> None:
    judged = polls(Judged(), 2, {**WAIT, "K": 1}, {"c": FREE})
    for n in range(30):
        judged.poll({"q": {**WAIT, "K": 1, "consumers": np.nan if n % 7 == 3 else 0.0}})
    assert judged.one("no_consumer").since == START + 45


# --- limits of the address and the broker


FULL = {"limit_percent": 100.0, "paging": 0.0}
PAGING = {"paging": 1.0, "page_read_limit_bytes": 100.0}


@pytest.mark.parametrize(
    ("queue", "address", "names"),
    [
        ({}, FULL, {"producers_blocked"}),
        ({}, {**FULL, "limit_percent": 99.0}, set()),
        ({}, {**FULL, "paging": 1.0, "pages": 3.0}, set()),
        ({}, {**FULL, "paging": 1.0, "pages": 0.0}, {"rejecting"}),
        ({}, {"limit_percent": 99.0, "paging": 1.0, "pages": 0.0}, set()),
        ({}, {"producers_paused": 1.0}, {"producers_blocked"}),
        ({"delivering_bytes": 90.0}, PAGING, {"depaging_frozen"}),
        ({"delivering_bytes": 89.9}, PAGING, set()),
        ({"delivering_bytes": 90.0}, {**PAGING, "paging": 0.0}, set()),
        ({"delivering_bytes": 0.0}, {**PAGING, "page_read_limit_bytes": -1.0}, set()),
        ({"D": 8.0}, {"paging": 1.0, "page_read_limit_messages": 8.0}, {"depaging_frozen"}),
        ({"D": 8.0}, {"paging": 1.0, "page_read_limit_messages": 9.0}, set()),
        ({"D": 8.0}, {"paging": 1.0, "page_read_limit_messages": 0.0}, set()),
        ({"D": 50.0, "delivering_bytes": 99.0}, PAGING, set()),
        ({"paused": 1.0}, {}, {"paused"}),
        ({}, {"paused": 1.0}, {"paused"}),
    ],
)
def test_limits(queue: Numbers, address: dict[str, float], names: set[str]) -> None:
    """All with a consumer that holds something, for two minutes: nothing else is due."""
    judged = polls(Judged(), 8, {**WAIT, "D": 10, **queue}, {"c": HOLDER}, **address)
    assert judged.names == names
    for condition in judged.conditions:
        assert all(np.isfinite(value) for value in condition.evidence.values())


@pytest.mark.parametrize(
    ("about", "blocked"),
    [
        ({"disk_used_ratio": 0.9, "disk_limit_ratio": 0.9}, True),
        ({"disk_used_ratio": 0.89, "disk_limit_ratio": 0.9}, False),
        ({"memory_used_bytes": 100.0, "memory_limit_bytes": 100.0}, True),
        ({"memory_used_bytes": 99.0, "memory_limit_bytes": 100.0}, False),
        ({"disk_used_ratio": 0.9}, False),
    ],
)
def test_a_full_broker_blocks_all_producers(about: dict[str, float], blocked: bool) -> None:
    judged = polls(Judged(about=about), 8, {**WAIT, "D": 10}, {"c": HOLDER})
    assert judged.names == ({"producers_blocked"} if blocked else set())


@pytest.mark.parametrize(("step", "polls_needed"), [(5.0, 4), (15.0, 3)])
def test_nothing_comes_in_for_15_s_and_two_polls(step: float, polls_needed: int) -> None:
    """The second poll knows that nothing came since the first: 15 s from there on, one poll before it may agree."""
    judged = polls(Judged(step=step), polls_needed - 1, WAIT, {"c": HOLDER}, **FULL)
    assert not judged.names
    polls(judged, 1, WAIT, {"c": HOLDER}, **FULL)
    assert judged.names == {"producers_blocked"}


def test_paused_without_a_backlog_only_informs() -> None:
    judged = polls(Judged(), 3, {"paused": 1.0})
    assert (judged.names, judged.notices) == (set(), {"paused"})
    assert judged.one("paused").since == START + 15


def test_too_few_consumers_by_expectation() -> None:
    judged = Judged()
    names = ["few", "enough", "none", "unexpected", "quiet"]
    queues = {name: {"A": 1.0, "M": 0.0 if name == "quiet" else 1.0, "consumers": 2.0} for name in names}
    queues["none"]["consumers"] = 0.0
    found = facts(Seen(), judged.snapshot(queues, {}, {}), Constants())
    assert found is not None
    expected = np.array([3, 2, 3, np.nan, 3.0])
    assert rules.too_few_consumers(found[1], expected).tolist() == [True, False, False, False, False]


# --- windows


def loop(
    returned: list[float], *, settled: float = 0.0, killed: float = 0.0, delivered: float = 100.0, **said: Any
) -> Judged:
    """A consumer of which so many messages come back at each poll, beside those it settles."""
    judged, numbers = Judged(), {"N": 0.0, "C": 0.0}
    queue = {"A": 1000.0, "K": 0.0, "X": 0.0, "M": 20.0, "Att": 1.0}
    for back in [0.0, *returned]:
        numbers = {"N": numbers["N"] + delivered, "C": numbers["C"] + max(back, 0.0) + settled + killed}
        settled_more = settled + max(0.0, -back)  # read later than the consumers: settled and not seen to leave
        queue = {**queue, "K": queue["K"] + settled_more, "X": queue["X"] + killed, **said}
        judged.poll({"q": queue}, {"c": {**numbers, "T": 20.0, "L": judged.now, "Ld": judged.now}})
    return judged


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ([5] * 6, True),
        ([1.5] * 6, True),
        ([1] * 5, True),
        ([1] * 4, False),  # at the first of the two polls: 2 beside its largest, below the margin
        ([1000, 0, 0, 0, 0, 0], False),
        ([1000, 0, 0, 1, 0, 0], False),
        ([0, 0, 0, 0, 9, 9], False),
        ([3, 0, 0, 3, 3, 0], True),
        ([40, -10, 40, -10, 40, -10], True),
        ([40, -20, 40, -20, 40, -20], False),
        ([20, -5, 20, -6, 20, 8, 8, 8], True),
        ([20, -5, 20, -11, 20, 8, 8, 8], False),
    ],
)
def test_redelivery_is_persistent(returned: list[float], found: bool) -> None:
    assert ("redelivery_loop" in loop(returned).names) is found


def test_redelivery_needs_deliveries() -> None:
    assert "redelivery_loop" not in loop([5.0] * 6, delivered=0.0).names


@pytest.mark.parametrize(
    ("back", "settled", "killed", "names", "notices"),
    [
        (1.9, 98, 0, set(), {"redelivery_loop"}),
        (3.6, 98, 0, set(), {"redelivery_loop"}),  # of few failures: still within what varies by chance
        (3.7, 98, 0, {"redelivery_loop"}, set()),
        (1.9, 0, 0, {"redelivery_loop"}, set()),
        (10.0, 89, 1.0, set(), {"redelivery_loop", "dead_lettering"}),  # nine of ten returns each end as a dead letter
        (12.6, 87, 1.0, set(), {"redelivery_loop", "dead_lettering"}),
        (12.8, 87, 1.0, {"redelivery_loop"}, {"dead_lettering"}),
    ],
)
def test_a_small_share_of_returns_only_informs(
    back: float, settled: float, killed: float, names: set[str], notices: set[str]
) -> None:
    judged = loop([back] * 8, settled=settled, killed=killed)
    assert (judged.names, judged.notices) == (names, notices)


@pytest.mark.parametrize(
    ("said", "known"),
    [({"Att": 0}, False), ({"Att": 0, "A": 600.0}, False), ({"Att": 0, "A": 599.0}, True), ({"Att": 1}, True)],
)
def test_redelivery_of_a_non_destructive_queue_is_unknown(said: dict[str, float], known: bool) -> None:
    """It settles and attempts nothing; a loop would deliver more than was added."""
    assert ("redelivery_loop" in loop([5.0] * 6, **said).names) is known


@pytest.mark.parametrize(("counter", "name"), [("E", "expiring"), ("X", "dead_lettering")])
@pytest.mark.parametrize(("at", "found"), [({2, 6}, True), ({6}, False), ({2}, False)])
def test_expiring_and_dead_lettering_in_both_halves(counter: str, name: str, at: set[int], found: bool) -> None:
    judged = Judged()
    gone = 0.0
    for n in range(8):
        gone += 5 if n in at else 0
        judged.poll({"q": {"A": 1000.0, "M": 500.0 - gone, counter: gone}}, {"c": {**HOLDER, "Ld": judged.now}})
    assert (name in judged.notices) is found
    assert not judged.names


def behind(depths: list[float], *, step: float = 15.0, each: float = 50.0, settled: float = 50.0, **said: Any) -> bool:
    judged = Judged(step=step)
    for n, depth in enumerate(depths):
        queue = {"A": each * n, "K": settled * n, "M": depth, **said}
        busy = {"T": 1.0, "N": settled * n, "C": settled * n, "L": judged.now, "Ld": judged.now}
        judged.poll({"q": queue}, {"c": busy})
    return "falling_behind" in judged.names


RISES = [10.0 * n for n in range(24)]


@pytest.mark.parametrize(
    ("depths", "said", "found"),
    [
        (RISES, {}, True),
        (RISES[:20], {}, False),
        ([100.0 + depth for depth in RISES], {}, True),
        ([0.5 * n for n in range(24)], {"each": 0.0}, False),
        ([n / 1.4 for n in range(24)], {"each": 0.0}, True),
        (RISES, {"settled": 0.0}, False),
        ([7.0 * n for n in range(24)], {"each": 51.0}, True),
        ([7.0 * n for n in range(24)], {"each": 52.0}, False),
        ([200.0 - depth for depth in RISES], {}, False),
        ([depth if n % 6 else 0.0 for n, depth in enumerate(RISES)], {}, False),
        ([100.0] * 12 + [200.0] * 12, {}, False),
        (RISES, {"ring": 1000.0}, False),
        (RISES, {"S": 500.0}, True),
        ([0.1 * n for n in range(14)] + [20.0 * n for n in range(1, 11)], {}, False),  # a spike
        ([*RISES[:19], 175.0, 170.0, 168.0, 166.0, 164.0], {}, False),  # it has turned
    ],
)
def test_falling_behind(depths: list[float], said: dict[str, Any], found: bool) -> None:
    assert behind(depths, **said) is found


def test_scheduled_messages_are_no_backlog() -> None:
    judged = Judged()
    for n in range(24):
        busy = {"T": 1.0, "N": 50.0 * n, "C": 50.0 * n, "L": judged.now, "Ld": judged.now}
        judged.poll({"q": {"A": 50.0 * n, "K": 50.0 * n, "M": 10.0 * n, "S": 10.0 * n}}, {"c": busy})
    assert "falling_behind" not in judged.names


@pytest.mark.parametrize("step", [30.0, 60.0, 120.0])
def test_falling_behind_is_found_at_any_interval(step: float) -> None:
    assert behind(RISES, step=step)


# --- hoarding


@pytest.mark.parametrize(
    ("most", "other", "pace", "idle", "said", "found"),
    [
        (40, 0, 1, True, {}, True),
        (10, 0, 1 / 4, True, {}, True),
        (9, 0, 1 / 5, True, {}, False),
        (40, 10, 1, True, {}, True),
        (40, 11, 1, True, {}, False),
        (40, 0, 2, True, {}, False),
        (40, 0, 0, True, {}, False),
        (40, 1, 1, False, {}, False),
        (40, 0, 1, True, {"M": 60}, False),
        (40, 0, 1, True, {"exclusive": 1}, False),
        (40, 0, 1, True, {"grouped": 1}, False),
        (40, 0, 1, True, {"filter": "x"}, False),
    ],
)
def test_hoarding(most: int, other: int, pace: float, idle: bool, said: dict[str, Any], found: bool) -> None:
    judged = Judged()
    selector = {"filter": said["filter"]} if "filter" in said else {}
    for n in range(5):
        gone = pace * 15 * n
        queue = {
            "A": 1000,
            "K": gone,
            "M": most + other,
            "D": most + other,
            **{k: v for k, v in said.items() if k != "filter"},
        }
        now = judged.now + 15
        pool = {
            "c": {"T": most, "N": most + gone, "C": gone, "L": now if pace else np.nan, "Ld": now},
            "d": {"T": other, "N": other, "Ld": now},
            "e": {"T": 0.0 if idle or n % 2 else 1.0, "N": n, "Ld": now, **selector},
        }
        judged.poll({"q": queue}, pool)
    assert ("hoarding" in judged.names) is found


# --- churn, vanished holders


def reconnecting(world: World, seconds: float, *, consumers: int = 1) -> World:
    queue = world.queue()
    queue.come(50)

    def again() -> None:
        for consumer in [*queue.consumers.values()]:
            queue.close(consumer)
        for _ in range(consumers):
            queue.take(queue.join(window=10))

    return world.run(seconds, every(20, again))


def test_churn_is_critical_and_ends_two_polls_after_progress() -> None:
    world = reconnecting(World(), 500)
    condition = world.one("churn_without_progress")
    assert condition.severity is Severity.CRITICAL
    assert condition.evidence["consumers_seen"] >= 20
    queue = world.queues["q"]
    queue.settle(next(iter(queue.consumers.values())))
    world.run(15)
    assert "churn_without_progress" in world.names
    world.run(15)
    assert "churn_without_progress" not in world.names


def test_churn_takes_its_patience() -> None:
    """The spell begins at the second poll: at the first nothing is known to stand."""
    world = reconnecting(World(), 500)
    assert world.first["churn_without_progress"] == 30 + 300


def test_churn_ends_with_its_queue() -> None:
    world = reconnecting(World(), 500)
    del world.queues["q"]
    world.run(30)
    assert not world.conditions


def test_one_reconnect_is_an_accident() -> None:
    judged = Judged()
    for n in range(60):
        judged.poll({"q": {**WAIT, "D": 5}}, {f"c{n // 30}": {"T": 5.0, "N": 5.0, "Ld": judged.now}})
    assert "churn_without_progress" not in judged.names


@pytest.mark.parametrize(
    ("settled", "age", "kind", "told"),
    [
        (0, 60, QueueKind.USER, True),
        (4, 60, QueueKind.USER, True),
        (5, 60, QueueKind.USER, False),
        (0, 30, QueueKind.USER, True),
        (0, 29, QueueKind.USER, False),
        (0, 60, QueueKind.TEMPORARY, False),
        (0, 60, QueueKind.INTERNAL, False),
    ],
)
def test_a_holder_that_vanished(settled: float, age: float, kind: QueueKind, told: bool) -> None:
    judged = Judged()
    judged.poll({"q": {"A": 5, "M": 5, "D": 5, "kind": kind}}, {"c": {"T": 5.0, "N": 5.0, "Ld": START + 15 - age}})
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


# --- whom nobody judges


NEVER = [QueueKind.TEMPORARY, QueueKind.INTERNAL, QueueKind.LINK, QueueKind.RETROACTIVE]


def test_kinds_that_belong_to_the_broker_or_to_one_client() -> None:
    assert set(QueueKind) - JUDGED == set(QueueKind) - CLIENT_KINDS == set(NEVER)


@pytest.mark.parametrize(("fault", "kind"), [*zip(FAULTS, cycle(NEVER), strict=False)])
def test_kinds_that_are_never_judged(fault: str, kind: QueueKind) -> None:
    world = World(step=30.0)
    live = FAULTS[fault][0](world)
    world.queues["q"].said["kind"] = kind
    world.run(480, live, tick=5.0)
    assert not world.first


# --- starts, gaps, restarts


def test_a_restart_keeps_patience_and_drops_windows() -> None:
    world = World()
    queue = world.queue()
    live = together(arrivals(queue, 5), working(queue, per_second=3, window=20))
    world.run(600, live)
    before = world.column("client", "patience")
    assert "falling_behind" in world.names
    world.restart()
    working(queue, per_second=3, window=20)
    world.look()
    assert not world.conditions
    assert world.column("client", "patience") == before


@pytest.mark.parametrize("step", [5.0, 15.0, 30.0])
def test_after_a_restart_absence_waits_for_clients_to_return(step: float) -> None:
    """Absences of 10 s were learned, so the patience is at its floor; it still waits for a minute or four polls."""
    world = World(step=step, constants=Constants(cold=1.0, floor=1.0, floor_polls=0.1))
    world.run(90, consumer_gone(world))
    world.restart(0.0)
    world.first.clear()
    begin = world.now
    world.run(400, lambda _: None)
    assert "no_consumer" in world.names
    first = world.begin + world.first["no_consumer"] - begin
    assert max(60, 4 * step) <= first <= max(60, 4 * step) + 3 * step


def test_who_read_before_the_restart_is_missed_after_it() -> None:
    world = World()
    world.run(90, consumer_gone(world))
    world.restart()
    world.run(500, arrivals(world.queues["q"], 1))
    assert "no_consumer" in world.names


def test_a_counter_that_fell_drops_the_window_of_its_queue() -> None:
    judged = loop([5.0] * 6)
    assert "redelivery_loop" in judged.names
    numbers = {"T": 20.0, "N": 700.0, "C": 30.0, "L": judged.now}
    queue = {"A": 0.0, "K": 0.0, "M": 20.0, "Att": 1.0}
    polls(judged, 2, queue, {"c": numbers})
    assert "redelivery_loop" not in judged.names


def test_a_passive_broker_is_not_judged() -> None:
    judged = polls(Judged(), 30, HELD, {"c": HOLDER})
    assert judged.names
    judged.role = Role.PASSIVE
    polls(judged, 1, HELD, {"c": HOLDER})
    assert not judged.conditions


def test_a_queue_made_anew_is_another_but_for_patience() -> None:
    judged = polls(Judged(), 30, {**WAIT, "K": 1})
    assert judged.names == {"no_consumer"}
    judged._queues._keys["q"] = 99
    polls(judged, 5, {**WAIT, "K": 1})
    assert not judged.names


@pytest.mark.parametrize(("after", "stays"), [(60.0, True), (61.0, False)])
@pytest.mark.parametrize("part", ["queues", "consumers"])
def test_verdicts_stay_for_a_minute_without_the_part_they_need(part: str, after: float, stays: bool) -> None:
    judged = polls(Judged(), 30, HELD, {"c": HOLDER})
    judged.poll({"q": HELD}, {"c": HOLDER}, after=30.0, failed=[part])
    assert judged.names == {"stalled"}
    judged.poll({"q": HELD}, {"c": HOLDER}, after=after - 30, failed=[part])
    shown = [] if part == "consumers" else [row.cause for row in judged.tables["queue_cause"].index]
    if part == "queues":
        assert shown == (["stalled"] if stays else [])
    if not stays and part == "queues":
        assert not judged.conditions
    polls(judged, 2, HELD, {"c": HOLDER})
    assert judged.one("stalled").since == START


def test_three_polls_are_longer_than_a_minute_at_slow_polls() -> None:
    judged = polls(Judged(step=30.0), 30, HELD, {"c": HOLDER})
    judged.poll({"q": HELD}, {"c": HOLDER}, after=89.0, failed=["queues"])
    assert judged.names == {"stalled"}
    judged.poll({"q": HELD}, {"c": HOLDER}, after=2.0, failed=["queues"])
    assert not judged.names


def test_a_number_that_is_missing_for_a_poll_is_caught_up_at_the_next() -> None:
    """The progress of two polls is seen at the second."""
    judged = polls(Judged(), 3, {**WAIT, "K": 5}, {"c": {**FREE, "C": 5.0}})
    judged.poll({"q": {**WAIT, "K": np.nan}}, {"c": {**FREE, "C": np.nan}})
    judged.poll({"q": {**WAIT, "K": 9}}, {"c": {**FREE, "C": 9.0}})
    last = judged.state.judgement.history.window.samples[-1]
    assert last.values[[RETURNED, SETTLED]].tolist() == [[0.0], [4.0]]


@pytest.mark.parametrize(
    ("stamps", "covered"),
    [
        ([0, 30, 60, 90, 120, 150], True),
        ([0, 30, 60, 90, 150], False),
        ([22.5, 60, 75, 90, 105, 150], True),
        ([22.6, 60, 75, 90, 105, 150], False),
    ],
)
def test_a_window_needs_six_in_ten_of_its_polls_and_its_whole_length(stamps: list[float], covered: bool) -> None:
    """Of 150 s at polls of 15 s: six of ten, from the first 22.5 s on."""
    window = Window(Index.of(["q"]))
    for stamp in stamps:
        window = window.push(stamp, np.ones((1, 1), np.float32), 1000.0, 1.0)
    assert bool(window.covers(QUEUE, 0, 150.0, 15.0, 1)[0]) is covered
    assert not window.covers(QUEUE, 0, 150.0, 15.0, 7)[0]


def test_a_window_holds_what_is_not_older_than_its_length() -> None:
    window = Window(Index.of(["q"]))
    for stamp in range(0, 120, 15):
        window = window.push(float(stamp), np.full((1, 1), stamp, np.float32), 60.0, 1.0)
    assert [sample.stamp for sample in window.samples] == [45, 60, 75, 90, 105]
    assert window.of(0, QUEUE).ravel().tolist() == [45, 60, 75, 90, 105]
    assert window.seconds == 60


def test_polls_faster_than_a_window_needs_are_summed_up() -> None:
    """A change of 1 and a level of `stamp` at every second, in samples of 5 s."""
    window = Window(Index.of(["q"]))
    for stamp in range(63):
        window = window.push(float(stamp), np.array([[1], [stamp]], np.float32), 60.0, 5.0, levels=(1,))
    changes, levels = window.of(0, QUEUE).ravel().tolist(), window.of(1, QUEUE).ravel().tolist()
    assert (changes, levels) == ([5.0] * 12 + [2.0], [*map(float, range(5, 61, 5)), 62.0])
    assert window.polls == 62
    assert window.rate(0).tolist() == [1.0]
    assert window.covers(QUEUE, 0, 60.0, 1.0, 60)[0]


@pytest.mark.parametrize(
    ("step", "constants"),
    [
        (1.0, Constants()),
        (2.6, Constants()),
        (15.0, Constants(window_polls=1000.0, trend_polls=1000)),
        (1.0, Constants(window=3600.0, trend=3600.0)),
    ],
)
def test_however_fast_the_polls_and_long_the_windows_few_samples_are_held(step: float, constants: Constants) -> None:
    judged = Judged(step=step, constants=constants)
    for n in range(1200):
        judged.poll({"q": {"A": 10.0 * n, "K": 10.0 * n, "M": 10.0}})
    history = judged.state.judgement.history
    assert len(history.window.samples) <= 2 * SAMPLES + 1
    assert len(history.trend.samples) <= 2 * TREND_SAMPLES + 1
    assert history.trend.rate(FLOW_IN).tolist() == pytest.approx([10 / step])


def test_a_loop_is_found_at_polls_of_a_second() -> None:
    """The same loop that polls of 15 s find: the samples of 5 s hold what came back in them."""
    judged, numbers = Judged(step=1.0), {"N": 0.0, "C": 0.0}
    for _ in range(90):
        numbers = {"N": numbers["N"] + 3, "C": numbers["C"] + 3}
        holder = {**numbers, "T": 3.0, "L": judged.now, "Ld": judged.now}
        judged.poll({"q": {"A": 9.0, "M": 9.0, "Att": 1.0}}, {"c": holder})
    assert "redelivery_loop" in judged.names


def test_what_is_missing_in_a_sample_is_that_of_the_polls_in_it_which_have_it() -> None:
    window = Window(Index.of(["q"]))
    for stamp, change in enumerate([1.0, np.nan, 2.0, np.nan, np.nan]):
        window = window.push(float(stamp), np.array([[change], [10 * change]], np.float32), 60.0, 2.0, levels=(1,))
    assert window.of(0, QUEUE, np.nan).ravel().tolist() == pytest.approx([1.0, 2.0, np.nan], nan_ok=True)
    assert window.of(1, QUEUE, np.nan).ravel().tolist() == pytest.approx([10.0, 20.0, np.nan], nan_ok=True)


def test_hoarding_outlives_its_consumers_by_a_poll_without_an_error() -> None:
    world = World()
    world.run(60, FAULTS["hoarding"][0](world))
    assert "hoarding" in world.names
    for consumer in [*world.queues["q"].consumers.values()]:
        world.queues["q"].close(consumer)
    world.run(15)
    assert world.one("hoarding").evidence["most"] == 0
    world.run(15)
    assert "hoarding" not in world.names


def test_messages_that_have_only_come_have_not_waited() -> None:
    """Nobody was there for ten minutes; what came then waits as long as patience lasts."""
    judged = polls(Judged(), 40, {"A": 5, "K": 5})
    polls(judged, 20, {"A": 55, "K": 5, "M": 50})
    assert not judged.names
    polls(judged, 2, {"A": 55, "K": 5, "M": 50})
    assert judged.one("no_consumer").since == START + 41 * 15


def test_an_absence_that_cannot_be_counted_any_more_is_not_told() -> None:
    judged = polls(Judged(), 30, {**WAIT, "K": 1})
    assert judged.names == {"no_consumer"}
    polls(judged, 2, {**WAIT, "K": 1, "consumers": np.nan})
    assert not judged.names
    polls(judged, 2, {**WAIT, "K": 1})
    assert judged.one("no_consumer").since == START + 15


def test_with_something_uncommitted_a_settlement_is_as_late_as_the_poll() -> None:
    """The last acknowledgement may be of the open transaction, or older than the commit."""
    judged = Judged()
    for n in range(40):
        consumer = {"T": 0.0, "W": 5.0, "N": 5.0 + 20 * n, "C": 5.0 + 20 * n, "L": START}
        judged.poll({"q": {"A": 1000, "K": 20.0 * n, "M": 900, "D": 5}}, {"c": consumer})
    assert not judged.conditions


def test_a_pool_of_which_a_few_reconnect_is_no_churn() -> None:
    """Nine came in 450 s, of which five are there: not more than twice as many."""
    world = World()
    queue = world.queue()
    queue.come(100)
    for _ in range(5):
        queue.take(queue.join(window=10))

    def one_again() -> None:
        queue.close(next(iter(queue.consumers.values())))
        queue.take(queue.join(window=10))

    world.run(450, every(100, one_again, phase=100))
    ((_, spell),) = world.state.judgement.churn.spells.items()
    assert (spell.ids, spell.polls) == (9, 5)
    assert "churn_without_progress" not in world.alarms


def test_churn_waits_for_clients_to_return_after_the_brokers_start() -> None:
    world = World(step=5.0, constants=Constants(cold=10.0, floor=1.0, floor_polls=0.1))
    world.uptime = 0.0
    queue = world.queue()
    queue.come(50)

    def again() -> None:
        for consumer in [*queue.consumers.values()]:
            queue.close(consumer)
        queue.take(queue.join(window=10))

    world.run(120, every(5, again))
    assert 60 <= world.first["churn_without_progress"] <= 70


def test_churn_whose_clients_stay_takes_two_polls_to_leave() -> None:
    world = reconnecting(World(), 500)
    for _ in range(30):
        world.queues["q"].join()
    world.run(15)
    assert "churn_without_progress" in world.names
    world.run(15)
    assert "churn_without_progress" not in world.names
