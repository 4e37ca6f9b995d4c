"""Each rule at its edges, from plain numbers, with the arithmetic it shows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from judge.world import Judged, Numbers
from penstock.flow.findings.finding import KINDS, UNITS, Finding
from penstock.flow.findings.flow_control import OF_FLOW, session_overloaded
from penstock.flow.findings.rules import LEAST_POLLS, MOST, RULES
from penstock.flow.findings.scene import SECONDS
from penstock.flow.policy import Policy
from penstock.flow.rules import Match, Rule, Rules, Said
from penstock.model import QueueKind


def found(
    queue: Numbers,
    address: Numbers | None = None,
    consumers: Mapping[str, Numbers] | None = None,
    *,
    polls: int = 3,
    others: Mapping[str, Numbers] | None = None,
    **about: float,
) -> dict[str, Finding]:
    """By rule, what is found of queue `q` when the same numbers are polled so often."""
    judged = Judged(about=dict(about))
    for _ in range(polls):
        judged.poll({"q": queue, **(others or {})}, consumers, {"q": address or {}})
    return {one.rule: one for one in reversed(judged.state.findings.found)}


# --- settings

NO_DEAD = {"has_dead_letter_address": 0.0, "killed": 3.0}
RING = {"ring_limit": 100.0, "M": 10.0, "bytes": 5000.0}


@pytest.mark.parametrize(
    ("queue", "address", "rule", "holds"),
    [
        (RING, {}, "ring_on_paging_address", True),
        ({"M": 10.0}, {}, "ring_on_paging_address", False),
        (RING | {"kind": QueueKind.RETROACTIVE}, {}, "ring_on_paging_address", False),
        (NO_DEAD, {"max_delivery_attempts": 10.0}, "no_dead_letter_address", True),
        (NO_DEAD, {}, "no_dead_letter_address", True),
        (NO_DEAD, {"max_delivery_attempts": -1.0}, "no_dead_letter_address", False),
        (NO_DEAD | {"has_dead_letter_address": 1.0}, {}, "no_dead_letter_address", False),
        ({"killed": 3.0}, {}, "no_dead_letter_address", False),  # not known
        (NO_DEAD | {"kind": QueueKind.DEAD_LETTER}, {}, "no_dead_letter_address", False),
        (NO_DEAD | {"kind": QueueKind.INTERNAL}, {}, "no_dead_letter_address", False),
        ({"has_expiry_address": 0.0, "E": 1.0}, {}, "no_expiry_address", True),
        ({"has_expiry_address": 0.0, "E": 0.0}, {}, "no_expiry_address", False),
        ({"has_expiry_address": 1.0, "E": 1.0}, {}, "no_expiry_address", False),
        ({}, {"max_delivery_attempts": -1.0}, "unlimited_delivery_attempts", True),
        ({}, {"max_delivery_attempts": 0.0}, "unlimited_delivery_attempts", True),
        ({}, {"max_delivery_attempts": 1.0}, "unlimited_delivery_attempts", False),
        ({"kind": QueueKind.LINK}, {"max_delivery_attempts": -1.0}, "unlimited_delivery_attempts", False),
        ({"dead_letter_address": "DLQ"}, {}, "dead_letter_address_unbound", True),
        ({"dead_letter_address": "q2"}, {}, "dead_letter_address_unbound", False),
        ({"dead_letter_address": "DLQ"}, {"makes_dead_letter_queues": 1.0}, "dead_letter_address_unbound", False),
        ({"expiry_address": "EXP"}, {}, "expiry_address_unbound", True),
        ({"expiry_address": "EXP"}, {"makes_expiry_queues": 1.0}, "expiry_address_unbound", False),
    ],
)
def test_settings(queue: Numbers, address: Numbers, rule: str, holds: bool) -> None:
    assert (rule in found(queue, address, others={"q2": {}})) is holds


def test_a_ring_says_whether_its_address_fits_in_memory() -> None:
    others = {"q2": {**RING, "address": "q", "ring_limit": 50.0}}
    one = found(RING, {"limit_bytes": 60_000.0}, others=others)["ring_on_paging_address"]
    # 500 bytes a message, 100 and 50 of them.
    assert one.evidence == {
        "ring": 100.0, "rings": 2.0, "mean_bytes": 500.0, "needed_bytes": 75_000.0, "limit_bytes": 60_000.0
    }  # fmt: skip
    assert "2 rings with 75000 bytes when full, against a limit of 60000" in one.advice
    whole = found(RING, {}, memory_limit_bytes=1e6)["ring_on_paging_address"]
    assert whole.evidence["limit_bytes"] == 1e6
    assert "an unknown number of" in found(RING)["ring_on_paging_address"].advice


def test_what_unbound_addresses_got() -> None:
    others = {"q2": {"dead_letter_address": "DLQ", "X": 2.0}}
    one = found({"dead_letter_address": "DLQ", "X": 3.0}, others=others)["dead_letter_address_unbound"]
    assert (one.object, one.scope, one.evidence) == ("DLQ", "address", {"sources": 2.0, "killed": 5.0})


# --- use

FULL = {"T": 60.0, "N": 60.0}
WAITING = {"A": 200.0, "M": 200.0, "D": 60.0, "bytes": 200_000.0}


@pytest.mark.parametrize(
    ("queue", "consumer", "holds"),
    [
        (WAITING | {"ring_limit": 59.0}, FULL, True),
        (WAITING | {"ring_limit": 60.0}, FULL, False),
        # Nothing waits: what it holds says nothing of its window.
        ({"A": 60.0, "M": 60.0, "D": 60.0, "ring_limit": 59.0}, FULL, False),
        (WAITING | {"ring_limit": 59.0, "paused": 1.0}, FULL, False),
        (WAITING, FULL, False),
    ],
)
def test_a_window_larger_than_the_ring(queue: Numbers, consumer: Numbers, holds: bool) -> None:
    assert ("window_exceeds_ring" in found(queue, consumers={"c": consumer})) is holds


def test_the_windows_of_all_consumers_count() -> None:
    one = found(
        WAITING | {"ring_limit": 100.0, "D": 120.0}, consumers={"c": FULL, "d": FULL}
    )["window_exceeds_ring"]  # fmt: skip
    assert one.object == "q/app"
    assert one.evidence == {
        "window": 60.0, "consumers": 2.0, "ring": 100.0, "held_most": 120.0, "at_risk": 120.0, "advised": 50.0,
        "advised_bytes": 50_000.0,
    }  # fmt: skip
    assert one.advice.startswith("a smaller consumerWindowSize: ")


def test_a_window_is_not_sighted_while_deliveries_go_on() -> None:
    judged = Judged()
    for n in range(1, 5):
        held = 10.0 * n
        judged.poll({"q": {**WAITING, "D": held, "ring_limit": 5.0}}, {"c": {"T": held, "N": held}})
    assert "window_exceeds_ring" not in {one.rule for one in judged.state.findings.found}


SLOW = {"slow_consumer_rate": 1.0, "slow_consumer_kills": 1.0, "slow_consumer_period": 5.0}


@pytest.mark.parametrize(
    ("address", "gap", "holds"),
    [
        (SLOW, 20.0, True),
        (SLOW | {"slow_consumer_kills": 0.0}, 20.0, False),
        ({"slow_consumer_kills": 1.0}, 20.0, False),
        (SLOW | {"slow_consumer_rate": 1 / 20}, 20.0, False),
        (SLOW | {"slow_consumer_rate": 1 / 19}, 20.0, True),
        (SLOW, None, False),  # nothing learned: nothing is known of its jobs
    ],
)
def test_a_policy_that_kills_the_healthy(address: Numbers, gap: float | None, holds: bool) -> None:
    judged = Judged(step=20.0)
    done = judged.now
    for n in range(4):
        settled = n if gap is not None else 0
        times = {"L": done + 20.0 * (n + 1), "Ld": done + 20.0 * (n + 1)} if gap is not None else {"Ld": done}
        judged.poll(
            {"q": {"A": 10.0, "M": 10.0 - settled, "K": float(settled), "D": 1.0}},
            {"c": {"T": 1.0, "N": settled + 1.0, "C": float(settled), **times}},
            {"q": address},
        )
    rules = {one.rule: one for one in judged.state.findings.found}
    assert ("slow_consumer_policy" in rules) is holds
    if holds:
        assert rules["slow_consumer_policy"].evidence["gap"] == pytest.approx(gap, rel=0.01)


@pytest.mark.parametrize(
    ("each", "stays", "polls", "holds"),
    [
        (1.0, 0, 10, True),
        (2.0, 0, 10, True),
        (3.0, 0, 10, False),
        (1.0, 0, LEAST_POLLS - 1, False),
        (1.0, 4, 10, False),  # a pool that stays, and a few that come and go
    ],
)
def test_a_consumer_for_each_message(each: float, stays: int, polls: int, holds: bool) -> None:
    judged = Judged()
    held = {"C": 0.0, "T": 1.0, "N": 1.0}
    for n in range(polls + 1):
        come = {f"c{n}.{i}": {"T": 0.0, "N": each, "C": each} for i in range(2)}
        stay = {f"s{i}": held for i in range(stays)}
        judged.poll({"q": {"A": 100.0, "K": 2.0 * n * each}}, {**come, **stay})
    rules = {one.rule: one for one in judged.state.findings.found}
    assert ("consumer_per_message" in rules) is holds
    if holds:
        assert rules["consumer_per_message"].evidence == {"new": 20.0, "seconds": 135.0, "each": each}


PREFETCHED = {"T": 18.0, "N": 18.0}


@pytest.mark.parametrize(
    ("queue", "consumers", "holds"),
    [
        ({"A": 20.0, "M": 20.0}, {"c": PREFETCHED, "d": {}}, True),
        ({"A": 36.0, "M": 36.0}, {"c": PREFETCHED, "d": {}}, False),
        ({"A": 20.0, "M": 20.0}, {"c": PREFETCHED}, False),  # alone it may have all
        ({"A": 9.0, "M": 9.0}, {"c": {"T": 9.0, "N": 9.0}, "d": {}}, False),
        ({"A": 20.0, "M": 20.0, "exclusive": 1.0}, {"c": PREFETCHED, "d": {}}, False),
        ({"A": 20.0, "M": 20.0, "grouped": 1.0}, {"c": PREFETCHED, "d": {}}, False),
    ],
)
def test_a_prefetch_that_takes_all(queue: Numbers, consumers: Mapping[str, Numbers], holds: bool) -> None:
    rules = found(queue, consumers=consumers)
    assert ("prefetch_exceeds_queue" in rules) is holds
    if holds:
        assert rules["prefetch_exceeds_queue"].evidence == {
            "prefetch": 18.0, "consumers": 2.0, "taken_most": 36.0, "deepest": 20.0, "advised": 10.0
        }  # fmt: skip


# --- the broker


@pytest.mark.parametrize(("unguarded", "holds"), [(1.0, True), (0.0, False), (float("nan"), False)])
def test_the_guard(unguarded: float, holds: bool) -> None:
    rules = found({}, unguarded=unguarded)
    assert ("management_guard_off" in rules) is holds
    if holds:
        assert (rules["management_guard_off"].scope, rules["management_guard_off"].object) == ("broker", "b")


# --- how they are told


def test_no_more_than_the_most_of_one_rule() -> None:
    judged = Judged()
    judged.poll({f"q{i:03}": NO_DEAD for i in range(MOST + 5)})
    assert len(judged.tables["finding"]) == MOST


def rule(**says: Any) -> Rules:
    return Rules((Rule(Match(queue="q"), Said(**says)),))


@pytest.mark.parametrize(("says", "left"), [({"silence": True}, 0), ({"ignore": True}, 0), ({"owner": "me"}, 1)])
def test_what_the_operator_does_not_want_is_not_exported(says: Mapping[str, Any], left: int) -> None:
    judged = Judged()
    judged.policy = replace(Policy("b"), rules=rule(**says))
    judged.poll({"q": NO_DEAD})
    assert len(judged.tables["finding"]) == left


def test_findings_go_when_their_cause_does_and_the_series_stay_while_it_lasts() -> None:
    judged = Judged()
    judged.poll({"q": NO_DEAD})
    before = judged.tables["finding"].index
    judged.poll({"q": NO_DEAD})
    assert judged.tables["finding"].index is before
    judged.poll({"q": {"has_dead_letter_address": 1.0}}, after=SECONDS - 1)
    assert len(judged.tables["finding"]) == 1
    judged.poll({"q": {"has_dead_letter_address": 1.0}}, after=1)
    assert len(judged.tables["finding"]) == 0


def test_every_rule_has_words_and_units() -> None:
    assert {one.__name__ for one in (*RULES, *OF_FLOW, session_overloaded)} == set(KINDS)
    texts = dict.fromkeys(("knob", "effect", "why", "change", "what", "remark"), "k")
    for kind in KINDS.values():
        text = Finding(kind.rule, "queue", "q", evidence=dict.fromkeys(UNITS, 1.0), texts=texts)  # type: ignore[arg-type]
        assert "unknown" not in text.says + text.advice
