"""The rules on OpenMQ: each fires, stays quiet on its counter-examples, and at its boundary."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judge.openmq_world import OpenmqJudged
from judge.world import START
from penstock.flow.judge.conditions import Severity
from penstock.flow.judge.constants import Constants
from penstock.flow.openmq_explain import connections_of, flow_of
from penstock.flow.rules import Match, Rule, Rules
from penstock.flow.rules import Said as Says
from penstock.model import AcknowledgeMode, QueueKind, TransactionState

COLD = Constants(cold=60.0)
Said = dict[str, Any]


def polls(judged: OpenmqJudged, count: int, said: Callable[[int], dict[str, Any]]) -> OpenmqJudged:
    """`said`: keyword arguments of `poll` by its number."""
    for i in range(count):
        judged.poll(**said(i))
    return judged


def judged(**options: Any) -> OpenmqJudged:
    return OpenmqJudged(constants=COLD, **options)


# --- progress


def test_paused_at_every_poll_with_progress_is_healthy() -> None:
    """Each poll half of the limit more was sent and acknowledged."""
    world = judged()
    polls(world, 40, lambda i: {
        "queues": {"q": {"A": 50_000, "K": 500 * i, "M": 50_000 - 500 * i, "D": 900}},
        "consumers": {"c": {"N": 900 + 500 * i, "T": 900, "L": world.now + 10, "flow_paused": 1}},
    })  # fmt: skip
    assert world.names == set()


def hung(world: OpenmqJudged, *, paused: float, arriving: int = 0, last: float = np.nan) -> OpenmqJudged:
    """A listener that took 10 and hangs; `arriving`: messages come and go out to it at each poll."""
    return polls(world, 12, lambda i: {
        "queues": {"q": {"A": 1000 + arriving * i, "K": 10, "M": 990 + arriving * i, "D": 490 + arriving * i}},
        "consumers": {"c": {"N": 500 + arriving * i, "T": 490 + arriving * i, "L": last, "flow_paused": paused}},
    })  # fmt: skip


@pytest.mark.parametrize(("paused", "arriving"), [(1, 0), (0, 5)])
def test_hung_listener_is_stalled_paused_or_not(paused: float, arriving: int) -> None:
    assert hung(judged(), paused=paused, arriving=arriving).names == {"stalled"}


def test_discarded_messages_that_a_client_settles_are_progress() -> None:
    """LastAckTime stands still when a limit has removed what is acknowledged; what left its hands left the queue."""
    world = judged()
    last = world.now - 1000
    polls(world, 12, lambda i: {
        "queues": {"q": {"A": 1000 + 50 * i, "K": 500 + 50 * i, "M": 500, "D": 10}},
        "consumers": {"c": {"N": 500 + 50 * i, "T": 10, "L": last}},
    })  # fmt: skip
    assert world.names == set()


def test_what_goes_out_alone_is_no_progress() -> None:
    """Sent more and more, nothing settled: CLIENT_ACKNOWLEDGE that never comes, never paused."""
    world = judged()
    polls(world, 12, lambda i: {
        "queues": {"q": {"A": 20_000, "K": 0, "M": 20_000, "D": 100 * (i + 1)}},
        "consumers": {"c": {"N": 100 * (i + 1), "T": 100 * (i + 1), "acknowledge_mode": AcknowledgeMode.CLIENT}},
    })  # fmt: skip
    assert world.names == {"stalled"}


def rollback_loop(world: OpenmqJudged, **consumer: Any) -> OpenmqJudged:
    return polls(world, 12, lambda i: {
        "queues": {"q": {"A": 20, "K": 0, "M": 20, "D": 20}},
        "consumers": {"c": {"N": 20 + 5000 * i, "T": 20, "acknowledge_mode": AcknowledgeMode.TRANSACTED, **consumer}},
    })  # fmt: skip


def test_rollback_loop_is_a_loop_and_no_stall() -> None:
    assert rollback_loop(judged()).names == {"redelivery_loop"}


def test_rollback_loop_in_a_transaction_is_no_open_one() -> None:
    world = judged(transactions={"t": {"connection": 7, "state": TransactionState.STARTED, "acknowledgements": 1}})
    assert rollback_loop(world, connection=7).names == {"redelivery_loop"}


def test_debt_of_a_limit_is_no_return() -> None:
    """Removed from a client's buffer first, settled by it later: one poll each, again and again."""
    world = judged()
    polls(world, 20, lambda i: {
        "queues": {"q": {"A": 1000 + 50 * i, "K": 500 + 50 * i, "M": 500, "D": 100}},
        "consumers": {"c": {"N": 600 + 50 * (i // 2 * 2), "T": 100, "L": world.now + 10}},
    })  # fmt: skip
    assert "redelivery_loop" not in world.names


# --- transactions


def with_transaction(state: TransactionState, count: int) -> OpenmqJudged:
    world = judged(transactions={"t": {"connection": 7, "state": state, "acknowledgements": 50, "messages": 0}})
    return polls(world, count, lambda _: {
        "queues": {"q": {"A": 100, "K": 0, "M": 100, "D": 100}},
        "consumers": {
            "c": {"N": 100, "T": 100, "acknowledge_mode": AcknowledgeMode.TRANSACTED, "connection": 7},
        },
    })  # fmt: skip


def test_open_transaction_after_the_patience() -> None:
    assert with_transaction(TransactionState.STARTED, 5).names == set()
    assert with_transaction(TransactionState.STARTED, 7).names == {"open_transaction"}
    assert with_transaction(TransactionState.STARTED, 7).one("open_transaction").evidence["uncommitted"] == 50


def test_failed_transaction_is_told_at_once() -> None:
    assert with_transaction(TransactionState.FAILED, 2).names == set()
    assert with_transaction(TransactionState.FAILED, 3).names == {"open_transaction"}


def test_transaction_of_another_connection_is_not_its() -> None:
    world = judged(transactions={"t": {"connection": 8, "state": TransactionState.FAILED, "acknowledgements": 50}})
    polls(world, 4, lambda _: {
        "queues": {"q": {"A": 100, "K": 0, "M": 100, "D": 100}},
        "consumers": {"c": {"N": 100, "T": 100, "acknowledge_mode": AcknowledgeMode.TRANSACTED, "connection": 7}},
    })  # fmt: skip
    assert world.names == set()


def uncommitted(world: OpenmqJudged, count: int, held: Callable[[int], float]) -> OpenmqJudged:
    return polls(world, count, lambda i: {"queues": {"q": {"A": 500, "K": 0, "M": 0, "uncommitted": held(i)}}})


def test_producers_transaction_that_stays_open() -> None:
    assert uncommitted(judged(), 7, lambda _: 500).names == {"producer_transaction_open"}
    assert uncommitted(judged(), 5, lambda _: 500).names == set()


def test_commits_between_polls_are_no_open_transaction() -> None:
    assert uncommitted(judged(), 20, lambda i: 500 * (i % 2)).names == set()


def test_old_transaction_of_a_connection_that_produces_here() -> None:
    world = judged(producers={"p": {"address": "q", "connection": 3}})
    world.transactions["t"] = {"connection": 3, "state": TransactionState.STARTED, "messages": 5, "created": world.now}
    held = uncommitted(world, 8, lambda i: 5 * (i % 2))
    assert held.names == {"producer_transaction_open"}
    assert held.one("producer_transaction_open").evidence["age"] == pytest.approx(8 * 15)


# --- connection limit


def shared_connection(
    victim: int, *, paused: float = 0, waiting: float = 40, moves: int = 0, limit: int | None = None
) -> OpenmqJudged:
    """A consumer that hangs on `hung`, connection 1, and one of `fed` on the connection `victim` that gets nothing."""
    world = judged()
    world.policy = replace(world.policy, rules=Rules((Rule(Match(), Says(connection_flow_limit=limit)),)))
    return polls(world, 14, lambda i: {
        "queues": {"hung": {"A": 500, "K": 100, "M": 400, "D": 200}, "fed": {"A": 200 + i, "K": 50, "M": 150 + i}},
        "consumers": {
            "h": {"queue": "hung", "N": 300 + moves * i, "T": 200 + moves * i, "waiting": waiting, "connection": 1,
                  "flow_paused": paused},
            "v": {"queue": "fed", "N": 50, "T": 0, "connection": victim},
        },
    })  # fmt: skip


def test_connection_paused_names_the_queue_and_replaces_not_dispatching() -> None:
    world = shared_connection(1)
    assert world.names == {"connection_paused", "stalled"}
    assert world.one("connection_paused").queue == "fed"
    assert world.one("connection_paused").evidence["held"] == 200


@pytest.mark.parametrize("options", [{"victim": 2}, {"victim": 1, "paused": 1}, {"victim": 1, "moves": 5}])
def test_not_dispatching_without_a_blocker_on_its_connection(options: Said) -> None:
    assert shared_connection(**options).names == {"not_dispatching", "stalled"}


@pytest.mark.parametrize(
    ("limit", "names"), [(200, {"connection_paused"}), (201, {"not_dispatching"}), (0, {"not_dispatching"})]
)
def test_a_connection_limit_that_the_operator_gives_must_be_reached(limit: int, names: set[str]) -> None:
    world = shared_connection(1, limit=limit)
    assert world.names == names | {"stalled"}
    if "connection_paused" in names:
        assert world.one("connection_paused").evidence["limit"] == limit


# --- limits


def full(policy: str, count: int, **said: Any) -> OpenmqJudged:
    numbers = {"limit_messages": 1000, "producers": 2, "max_producers": 100, "policy": policy, **said}
    return polls(judged(), count, lambda _: {
        "queues": {"q": {"A": 1000, "K": 0, "M": 1000, "D": 0}},
        "addresses": {"q": numbers},
    })  # fmt: skip


def test_producers_blocked_by_flow_control() -> None:
    assert full("flow_control", 3).names == {"producers_blocked"}
    assert full("flow_control", 2).names == set()
    for said in ({"producers": 0}, {"limit_messages": 2000}, {"limit_messages": np.nan}):
        assert full("flow_control", 4, **said).names == set()
    assert full("reject_newest", 4).names == set()


def test_close_to_the_limit_is_blocked_only_after_the_patience() -> None:
    """Two producers may send ten each before they are told to wait."""
    assert full("flow_control", 4, limit_messages=1015).names == set()
    assert "producers_blocked" in full("flow_control", 8, limit_messages=1015).names
    assert "producers_blocked" not in full("flow_control", 8, limit_messages=1030).names


def test_throttled_producers_are_not_blocked() -> None:
    world = judged()
    polls(world, 12, lambda i: {
        "queues": {"q": {"A": 2000 + 10 * i, "K": 1000 + 10 * i, "M": 1000, "D": 500}},
        "consumers": {"c": {"N": 1500 + 10 * i, "T": 500, "L": world.now + 10, "flow_paused": 1}},
        "addresses": {"q": {"limit_messages": 1000, "producers": 2, "max_producers": 100, "policy": "flow_control"}},
    })  # fmt: skip
    assert world.names == set()


def test_rejected_messages_are_counted_in_and_are_nowhere() -> None:
    world = judged()
    polls(world, 8, lambda i: {"queues": {"q": {"A": 1000 + 20 * i, "K": 0, "M": 1000, "D": 0}}})
    assert world.names == {"rejecting"}
    assert world.one("rejecting").evidence["rejected"] == 120  # seen twice


def test_reads_apart_are_no_rejects() -> None:
    """The depth is read a moment after the counters, at changing distance."""
    world = judged()
    apart = [0, 7, -4, 9, 0, -8, 6, 2, -5, 8, -3, 0]
    polls(world, 12, lambda i: {
        "queues": {"q": {"A": 1000 + 100 * i, "K": 1000 + 100 * i, "M": 20 + apart[i], "D": 0}},
        "consumers": {"c": {"N": 1000 + 100 * i, "T": 0, "L": world.now + 10}},
    })  # fmt: skip
    assert world.names == set()


def losing(policy: str, limit: float, kind: QueueKind = QueueKind.USER) -> OpenmqJudged:
    """30 come a poll, a consumer takes 10, the limit removes 20 unread."""
    world = judged()
    return polls(world, 8, lambda i: {
        "queues": {"q": {"A": 1000 + 30 * i, "K": 500 + 30 * i, "M": 500, "D": 10, "kind": kind}},
        "consumers": {"c": {"N": 110 + 10 * i, "T": 10, "L": world.now + 10}},
        "addresses": {"q": {"limit_messages": limit, "producers": 1, "policy": policy}},
    })  # fmt: skip


@pytest.mark.parametrize("policy", ["remove_oldest", "remove_low_priority"])
def test_limit_that_removes_unread(policy: str) -> None:
    world = losing(policy, 500)
    assert world.names == {"limit_losing"}
    assert world.one("limit_losing").evidence["evicted"] == 6 * 20
    assert world.evicted() == 6 * 20  # of seven polls the last was not seen twice


def test_below_the_limit_nothing_is_removed_by_it() -> None:
    world = losing("remove_oldest", 5000)
    assert "limit_losing" not in world.names | world.notices


def test_the_dead_message_queue_keeps_the_newest() -> None:
    world = losing("remove_oldest", 500, QueueKind.DEAD_LETTER)
    assert "limit_losing" not in world.names | world.notices


def test_expiry_informs() -> None:
    world = losing("reject_newest", 100_000)
    assert (world.names, world.notices) == (set(), {"removed_unsettled"})


def test_short_lived_consumers_are_no_expiry() -> None:
    """Each poll another consumer, whose predecessor settled all before it went."""
    world = judged()
    polls(world, 12, lambda i: {
        "queues": {"q": {"A": 30 * i, "K": 30 * i, "M": 0, "D": 0}},
        "consumers": {f"c{i}": {"N": 5, "T": 0, "L": world.now + 10}},
    })  # fmt: skip
    assert world.names | world.notices == set()


def growing(stuck: int) -> set[str]:
    """10 a poll come more than a consumer settles; `stuck` of them go to one that settles nothing."""
    world = judged()
    polls(world, 30, lambda i: {
        "queues": {"q": {"A": 1000 + 30 * i, "K": 800 + 20 * i, "M": 200 + 10 * i, "D": 100 + stuck * i}},
        "consumers": {
            "good": {"client": "good", "N": 810 + 20 * i, "T": 10, "L": world.now + 10},
            "stuck": {"client": "stuck", "N": 90 + stuck * i, "T": 90 + stuck * i},
        },
    })  # fmt: skip
    return world.names


def test_backlog_that_a_stalled_consumer_is_given_is_told_as_that() -> None:
    assert growing(stuck=10) == {"stalled"}


def test_backlog_beyond_what_a_stalled_consumer_holds_is_falling_behind_too() -> None:
    world = judged()
    polls(world, 30, lambda i: {
        "queues": {"q": {"A": 1000 + 60 * i, "K": 800 + 20 * i, "M": 200 + 40 * i, "D": 20}},
        "consumers": {
            "good": {"client": "good", "N": 810 + 20 * i, "T": 10, "L": world.now + 10},
            "stuck": {"client": "stuck", "N": 10, "T": 10},
        },
    })  # fmt: skip
    assert world.names == {"stalled", "falling_behind"}


# --- topics


def subscription(**said: Any) -> dict[str, Any]:
    kind = {"kind": QueueKind.SUBSCRIPTION, "address": "t", "routing_type": "multicast"}
    return {"A": np.nan, "K": np.nan, **kind, **said}


def test_members_of_a_subscription_are_judged_one_by_one() -> None:
    """One of two members hangs; the other's acknowledgements are the subscription's progress."""
    world = judged()
    polls(world, 10, lambda i: {
        "queues": {"s": subscription(M=1000, D=9)},
        "consumers": {
            "stuck": {"queue": "s", "client": "a", "N": 10, "T": 5, "L": world.now - 500, "flow_paused": 1},
            "good": {"queue": "s", "client": "b", "N": 100 * (i + 1), "T": 4, "L": world.now + 10, "flow_paused": 1},
        },
    })  # fmt: skip
    (condition,) = [one for one in world.conditions if one.severity is not Severity.INFO]
    assert (condition.name, condition.client, condition.severity) == ("stalled", "a", Severity.WARNING)


def test_durable_subscription_without_a_consumer() -> None:
    world = judged()
    polls(world, 8, lambda i: {"queues": {"s": subscription(M=100 + i, D=0, durable=True)}})
    assert world.names == {"no_consumer"}


def visited(i: int, settles: bool) -> dict[str, Any]:
    """A poll of a durable subscription that somebody never seen visits between every third poll and the next."""
    visits = i // 3
    at = START + 60.0 * visits if settles and visits else np.nan
    left = 40 * (i % 3)
    return subscription(M=left + 1 if settles else 40 * i, D=0, durable=True, K=120 * visits, last_acknowledgement=at)


@pytest.mark.parametrize(("settles", "told"), [(True, set()), (False, {"no_consumer"})])
def test_members_that_come_between_two_polls(settles: bool, told: set[str]) -> None:
    """What they acknowledge ends the absence; what they only took and gave back does not."""
    world = judged()
    polls(world, 30, lambda i: {"queues": {"s": visited(i, settles)}})
    assert world.names == told


def test_consumer_of_a_topic_that_gives_back() -> None:
    world = judged()
    polls(world, 10, lambda i: {
        "queues": {"s": subscription(M=5, D=5)},
        "consumers": {"c": {"queue": "s", "N": 1000 * (i + 1), "T": 5}},
    })  # fmt: skip
    assert world.names == {"redelivery_loop"}


# --- robustness


def test_restart_of_the_broker_begins_anew() -> None:
    world = losing("remove_oldest", 500)
    world.uptime = 0
    polls(world, 1, lambda _: {
        "queues": {"q": {"A": 0, "K": 0, "M": 400, "D": 0}},
        "addresses": {"q": {"limit_messages": 500, "policy": "remove_oldest"}},
    })  # fmt: skip
    assert world.names == set()
    assert world.evicted() == 0


def test_consumers_missing_every_fourth_poll() -> None:
    world = judged()
    for i in range(24):
        world.poll(
            {"q": {"A": 1000, "K": 10, "M": 990, "D": 490}},
            {"c": {"N": 500, "T": 490, "L": np.nan, "flow_paused": 1}},
            failed=("consumers",) if i % 4 == 3 else (),
        )
    assert world.names == {"stalled"}


@pytest.mark.parametrize("interval", [5.0, 30.0])
def test_other_intervals(interval: float) -> None:
    constants = replace(COLD, cold=90.0)
    world = OpenmqJudged(constants=constants, step=interval)
    polls(world, int(300 / interval), lambda _: {
        "queues": {"q": {"A": 1000, "K": 10, "M": 990, "D": 490}},
        "consumers": {"c": {"N": 500, "T": 490, "flow_paused": 1}},
    })  # fmt: skip
    assert world.names == {"stalled"}


# --- what is shown beside the conditions


def test_the_connection_and_the_client_that_fill_it_are_named() -> None:
    world = shared_connection(1)
    (row,) = world.tables["connection_cause"].index
    assert (row.connection, row.client, row.cause) == ("1", "app", "connection_paused")
    assert len(shared_connection(2).tables["connection_cause"]) == 0


def test_rejected_messages_are_a_counter_of_the_address() -> None:
    world = judged()
    shown = []
    for i in range(5):
        world.poll({"q": {"A": 1000 + 20 * i, "K": 0, "M": 1000, "D": 0}})
        shown.append(float(world.tables["address"]["messages_rejected"][0]))
    assert shown == [0, 0, 20, 40, 60]


def test_limit_and_resume_level_are_measured_between_pauses() -> None:
    """Limit 1000 at 50 %: a slow consumer, paused at each poll, of which some see two windows more."""
    world = judged()
    windows = np.cumsum([0, 1, 1, 2, 1, 1, 3, 1])
    for i, count in enumerate(windows.tolist()):
        world.poll(
            {"q": {"A": 50_000, "K": 500 * count, "M": 50_000 - 500 * count, "D": 700}},
            {"c": {"N": 1000 + 500 * count, "T": 700 + 30 * i, "L": world.now + 10, "flow_paused": 1}},
        )
    table = world.tables["consumer"]
    assert (table["flow_limit"].tolist(), table["flow_resume"].tolist()) == ([1000.0], [500.0])


def test_limits_are_absent_while_too_little_was_seen() -> None:
    world = judged()
    for i in range(5):
        world.poll(
            {"q": {"A": 50_000, "K": 500 * i, "M": 50_000 - 500 * i, "D": 700}},
            {"c": {"N": 1000 + 500 * i, "T": 700, "L": world.now + 10, "flow_paused": 1}},
        )
    assert np.isnan(world.tables["consumer"]["flow_limit"]).all()


def test_explain_shows_the_arithmetic_of_what_is_measured() -> None:
    world = judged()
    for i in range(8):
        world.poll(
            {"q": {"A": 50_000, "K": 500 * i, "M": 50_000 - 500 * i, "D": 700}},
            {"c": {"N": 1000 + 500 * i, "T": 700, "L": world.now + 10, "flow_paused": 1}},
        )
    (series,) = world.tables["queue"].index
    (flow,) = flow_of(world.state.judgement, world.tables["consumer"], series)
    assert (flow["limit"], flow["resume"], flow["batch"], flow["paused"]) == (1000, 500, [500, 1000], True)
    assert "holds 700, above its resume level; stops at 1,000, asks again at 500 (50%) for 500 to 1,000" in flow["told"]


@pytest.mark.parametrize("limit", [200, None])
def test_explain_sums_what_a_connection_holds_against_the_limit_that_a_rule_tells(limit: int | None) -> None:
    world = judged()
    consumers: dict[str, Said] = {
        "a": {"N": 250, "T": 250, "connection": 7},
        "b": {"queue": "p", "N": 49, "T": 49, "connection": 7},
        "c": {"N": 9, "T": 9, "connection": 8, "client": "other"},
    }
    rules = Rules((Rule(Match(client="app"), Says(connection_flow_limit=limit)),))
    queues = {"q": {"M": 500, "D": 259}, "p": {"M": 49, "D": 49}}
    series = next(row for row in world.poll(queues, consumers).tables["queue"].index if row.queue == "q")
    found = connections_of(world.snapshot(queues, consumers, {}), rules, series)
    assert [(one["client"], one["held"], one["limit"]) for one in found] == ([("app", 299, 200)] if limit else [])
    if limit:
        assert "goes on at 199" in found[0]["told"]
        assert "299 at most. Most are with consumer a of q: 250" in found[0]["told"]
