"""Findings about flow control at their edges, from plain numbers, with the arithmetic they show."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from judge.openmq_world import OpenmqJudged
from judge.world import Judged, Numbers
from penstock.flow.explain import Sight, findings_of
from penstock.flow.findings.finding import UNITS, Finding
from penstock.flow.findings.flow_control import LOOKS, SURE
from penstock.flow.rules import Match, Rule, Rules, Said
from penstock.model import AcknowledgeMode

Polls = Callable[[int], tuple[Numbers, Mapping[str, Numbers]]]
"""Of poll n: the numbers of queue `q`, and its consumers."""
SIZE = {"consumer_flow_limit": 1000.0, "messages_added": 10.0, "added_bytes": 20_000.0}
"""Messages of 2,000 bytes."""


def judged(play: Polls, polls: int, address: Numbers = SIZE, **says: Any) -> OpenmqJudged:
    world = OpenmqJudged()
    world.policy = replace(world.policy, rules=Rules((Rule(Match(), Said(**says)),)))
    for n in range(polls):
        queue, consumers = play(n)
        world.poll({"q": queue}, consumers, {"q": address})
    return world


def found(play: Polls, polls: int, address: Numbers = SIZE, **says: Any) -> dict[str, Finding]:
    rules = {one.rule: one for one in judged(play, polls, address, **says).state.findings.found}
    for one in rules.values():
        assert one.says
        assert one.advice
        assert "unknown" not in one.says
        assert set(one.evidence) <= set(UNITS)
    return rules


# --- one consumer


def paused_at(limit: int, resume: int) -> Polls:
    """A consumer that is paused at every poll, a window later each time."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        sent = limit + n * (limit - resume)
        consumer = {"N": sent, "T": limit, "flow_paused": 1.0, "L": 1e9 + n, "connection": 7}
        return {"A": 1e6, "M": 1e5, "K": sent - limit, "D": limit}, {"c": consumer}

    return play


@pytest.mark.parametrize(
    ("limit", "resume", "polls", "effect"),
    [
        (100, 90, SURE + 1, "batches are small"),
        (100, 89, SURE + 1, ""),
        (100, 10, SURE + 1, "run dry"),
        (100, 11, SURE + 1, ""),
        (100, 50, SURE + 1, ""),
        (100, 90, SURE, ""),  # not sure yet
        (10, 1, SURE + 1, "run dry"),
        (9, 0, SURE + 1, ""),  # of so few there is no share to speak of
    ],
)
def test_a_threshold_at_either_end(limit: int, resume: int, polls: int, effect: str) -> None:
    rules = found(paused_at(limit, resume), polls)
    assert ("flow_threshold_extreme" in rules) is bool(effect)
    if effect:
        one = rules["flow_threshold_extreme"]
        assert (one.scope, one.object) == ("client", "q/app")
        assert effect in one.says
        assert one.evidence == {
            "limit": limit, "resume": resume, "threshold": 100 * resume / limit, "batch": limit - resume,
            "starved": 0.0, "at_limit": 1.0,
        }  # fmt: skip


# --- memory


def idle(*counts: int) -> Polls:
    """At each poll so many consumers of one connection, the last count for ever; they keep their names."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        count = counts[min(n, len(counts) - 1)]
        return {"A": 10, "M": 5, "D": 5}, {f"c{i}": {"N": 5, "T": 5, "connection": 7} for i in range(count)}

    return play


@pytest.mark.parametrize(("memory", "holds"), [(3_999_999, True), (4_000_000, False), (None, False)])
def test_buffers_beyond_the_memory_of_a_client(memory: int | None, holds: bool) -> None:
    """Two consumers with 1,000 messages of 2,000 bytes each can take 4,000,000 bytes."""
    rules = found(idle(2), 2, client_memory=memory)
    assert ("flow_limit_exceeds_memory" in rules) is holds
    if holds:
        one = rules["flow_limit_exceeds_memory"]
        assert (one.scope, one.object) == ("connection", "app")
        assert one.evidence == {
            "consumers": 2.0, "limit": 1000.0, "mean_bytes": 2000.0, "most_bytes": 4e6, "held_bytes": 20_000.0,
            "memory": 3_999_999.0, "advised": 999.0,
        }  # fmt: skip
        assert one.advice.startswith("set imqConsumerFlowLimit 999: ")


def test_the_measured_limit_counts_where_it_is_known() -> None:
    assert "flow_limit_exceeds_memory" in found(paused_at(100, 50), SURE + 1, client_memory=199_999)
    assert "flow_limit_exceeds_memory" not in found(paused_at(100, 50), SURE + 1, client_memory=200_000)


def test_the_connection_limit_caps_what_a_connection_takes() -> None:
    """200 - 1 + 100 messages of 2,000 bytes."""
    said: dict[str, Any] = {"connection_flow_limit": 200}
    assert "flow_limit_exceeds_memory" not in found(idle(2), 2, client_memory=598_000, **said)
    rules = found(idle(2), 2, client_memory=597_999, **said)
    assert rules["flow_limit_exceeds_memory"].evidence["most_bytes"] == 598_000


VARIES = (2, 4, 2, 4)


@pytest.mark.parametrize(
    ("counts", "memory", "holds"),
    [
        (VARIES, 7_999_999, True),
        (VARIES, 8_000_000, False),
        (VARIES, None, False),  # nothing is said, and they are few
        ((5, 10, 5, 10), None, True),
        ((5, 9, 5, 9), None, False),
        ((6, 10, 6, 10), None, False),  # less than twice as many
        ((5, 10, 10, 10), None, False),  # a start
        (VARIES[:3], 1, False),
    ],
)
def test_a_number_of_consumers_that_is_not_known_in_advance(
    counts: tuple[int, ...], memory: int | None, holds: bool
) -> None:
    rules = found(idle(*counts), len(counts), client_memory=memory)
    assert ("connection_limit_advised" in rules) is holds
    if holds and memory:
        one = rules["connection_limit_advised"]
        assert (one.evidence["fewest"], one.evidence["consumers_most"], one.evidence["most_bytes"]) == (2, 4, 8e6)
        # 3,999 messages fit, of which 100 less one may come on top of the limit.
        assert one.evidence["advised"] == 3900
        assert "flow_limit_exceeds_memory" not in rules


def test_who_has_a_connection_limit_is_not_advised_one() -> None:
    assert "connection_limit_advised" not in found(idle(*VARIES), 4, client_memory=1, connection_flow_limit=1000)


# --- what goes before an acknowledgement


def fed(rate: float, *modes: AcknowledgeMode, comes: int = 0) -> Polls:
    """Consumers of one connection that get `rate` messages a second together; at each poll `comes` more stay."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        each = rate * 15 * n / len(modes)
        consumers = {f"c{i}": {"N": each, "connection": 7, "acknowledge_mode": m} for i, m in enumerate(modes)}
        new = {f"n{i}": {"connection": 7, "acknowledge_mode": modes[0]} for i in range(comes * n)}
        return {"A": each * len(modes), "K": each * len(modes)}, {**consumers, **new}

    return play


LARGE = {**SIZE, "added_bytes": 10 * 2.0**20 / 99.5}
"""A hundred of these are more than a MiB, 99 are less."""
AUTO, CLIENT, DUPS, TRANSACTED = (
    AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT, AcknowledgeMode.DUPS_OK, AcknowledgeMode.TRANSACTED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("play", "address", "change", "why"),
    [
        (fed(1, AUTO), LARGE, "lower", "AUTO_ACKNOWLEDGE:"),
        (fed(1, CLIENT, TRANSACTED, DUPS), LARGE, "lower", "CLIENT_ACKNOWLEDGE and transactions:"),
        (fed(1, DUPS, comes=5), LARGE, "lower", "consumers that come and go:"),
        (fed(1, AUTO), {**SIZE, "added_bytes": 10 * 2.0**20 / 100.5}, "", ""),
        (fed(1, DUPS), LARGE, "", ""),
        (fed(100, DUPS), SIZE, "higher", "DUPS_OK_ACKNOWLEDGE, no transactions"),
        (fed(99, DUPS), SIZE, "", ""),
        (fed(200, DUPS, AUTO), SIZE, "", ""),
    ],
)
def test_the_count_of_a_connection(play: Polls, address: Numbers, change: str, why: str) -> None:
    rules = found(play, 3, address)
    assert ("connection_count_advised" in rules) is bool(change)
    if change:
        one = rules["connection_count_advised"]
        assert why in one.says
        assert one.advice == f"make it {change}, {99 if change == 'lower' else 100}"


# --- sessions


def behind(consumers: int, *, waiting: int = 50, taken: int = 1, of: str = "connection") -> Polls:
    """All of them hold 10 messages and take `taken` a poll."""

    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        said = {"N": 10 + taken * n, "T": 10, "C": taken * n, "connection": 7}
        held = 10 * consumers
        return {"A": 1e4, "M": held + waiting, "D": held}, {f"c{i}": said for i in range(consumers)}

    return play


@pytest.mark.parametrize(
    ("play", "looks", "holds"),
    [
        (behind(5), LOOKS, True),
        (behind(5), LOOKS - 1, False),
        (behind(4), LOOKS, False),
        (behind(5, waiting=0), LOOKS, False),
        (behind(5, taken=0), LOOKS, False),  # that is `stalled`
    ],
)
def test_consumers_of_a_connection_that_wait_for_one_another(play: Polls, looks: int, holds: bool) -> None:
    # The first look sees new consumers: they tell nothing yet.
    rules = found(play, looks + 1)
    assert ("session_overloaded" in rules) is holds
    if holds:
        one = rules["session_overloaded"]
        assert one.evidence == {"consumers": 5.0, "held": 50.0, "waiting": 50.0, "looks": LOOKS}
        assert "an estimate" in one.advice


def test_one_that_has_nothing_to_do_ends_it() -> None:
    def play(n: int) -> tuple[Numbers, Mapping[str, Numbers]]:
        queue, consumers = behind(5)(n)
        return queue, {**consumers, "idle": {"connection": 7}}

    assert "session_overloaded" not in found(play, LOOKS + 1)


def test_sessions_of_artemis() -> None:
    """Those are shown: consumers of one session, not of one client, wait for one another."""
    world, apart = Judged(), Judged()
    for n in range(LOOKS + 1):
        queue, consumers = behind(2)(n)
        world.poll({"q": queue}, {name: {**said, "session": "s"} for name, said in consumers.items()})
        apart.poll({"q": queue}, consumers)
    (one,) = [one for one in world.state.findings.found if one.rule == "session_overloaded"]
    assert one.evidence["consumers"] == 2
    assert one.advice.endswith("over more connections")
    assert "session_overloaded" not in {one.rule for one in apart.state.findings.found}


# --- how they are told


def test_a_connections_findings_are_told_of_its_queues_and_silenced_with_them() -> None:
    world = judged(idle(2), 2, client_memory=1)
    snapshot = world.snapshot({"q": {}}, {}, {})
    sight = Sight(world.state, world.tables, snapshot, world.policy, 15.0)
    (series,) = world.tables["queue"].index
    assert "flow_limit_exceeds_memory" in {one.rule for one in findings_of(sight, series)}
    shown = {(row.scope, row.object, row.rule) for row in world.tables["finding"].index}
    assert ("connection", "app", "flow_limit_exceeds_memory") in shown
    quiet = judged(idle(2), 2, client_memory=1, silence=True)
    assert not len(quiet.tables["finding"])
