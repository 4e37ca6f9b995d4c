"""`no_consumer`: messages wait and nobody reads; when an absence begins and ends."""

from typing import Any

import numpy as np
import pytest

from agent.stored import as_read
from conditions.openmq_world import openmq, openmq_polls, subscription
from conditions.rules_world import rule, ruled_polls, unread
from conditions.scenarios import arrivals, consumer_gone
from conditions.situations import FREE, WAIT, polls
from conditions.world import START, Judged, World
from penstock.agent.checkpoint import checkpoint_of, restore
from penstock.assessment.assess import State, Tables
from penstock.causes.verdict import CauseState
from penstock.conditions.condition import Severity
from penstock.model import QueueKind
from penstock.settings.constants import Constants


@pytest.mark.slow  # many polls
def test_absence_begins_when_somebody_was_last_there() -> None:
    judged = polls(Judged(), 4, {**WAIT, "K": 1}, {"c": FREE})
    last = judged.now
    polls(judged, 20, {**WAIT, "K": 1})
    assert not judged.names
    polls(judged, 1, {**WAIT, "K": 1})
    assert judged.names == {"no_consumer"}
    assert judged.one("no_consumer").since == last + 15


@pytest.mark.slow  # many polls
def test_an_absence_ends_when_something_is_settled_between_two_polls() -> None:
    judged = Judged()
    for n in range(60):
        judged.poll({"q": {**WAIT, "A": WAIT["A"] + n // 10, "K": n // 10}})
    assert not judged.conditions


@pytest.mark.slow  # many polls
def test_a_queue_that_was_deleted_and_made_again_had_its_consumer() -> None:
    """As the broker does with a queue that it made itself, once it is empty and no one reads it."""
    judged = Judged()
    polls(judged, 2, {"A": 50.0, "K": 50.0}, {"c": FREE})
    judged.poll({"other": {}})
    judged._queues.forget("q")
    polls(judged, 23, WAIT)
    condition = judged.one("no_consumer")
    assert condition.severity is not Severity.INFO
    assert condition.verdicts["meant_for_nobody"].state is CauseState.EXCLUDED


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("broker_too", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_that_it_had_its_consumer_outlives_the_agent(
    gone: bool, broker_too: bool
) -> None:
    judged = Judged()
    polls(judged, 2, {"A": 50.0, "K": 50.0}, {"c": FREE})
    if gone:
        judged.poll({"other": {}})
        judged._queues.forget("q")
    snapshot = judged.snapshot(
        {"other": {}} if gone else {"q": {"A": 50.0, "K": 50.0}}, {}, {}
    )
    memory = checkpoint_of(judged.state, snapshot, judged.policy)
    assert memory is not None
    memory = as_read(memory)
    if broker_too:
        judged.uptime = 300.0
        snapshot = judged.snapshot({}, {}, {})
    judged.state = restore(memory, State(), snapshot, judged.policy)
    polls(judged, 23, {**WAIT, "A": 1.0})
    assert judged.one("no_consumer").severity is not Severity.INFO


@pytest.mark.slow  # many polls
def test_scheduled_messages_come_when_they_fall_due() -> None:
    """To a queue that nobody ever read."""
    world = World(step=60.0)
    queue = world.queue()
    queue.schedule(4000)
    world.run(1200, lambda _: queue.due())
    assert world.notices == {"no_consumer"}
    assert world.one("no_consumer").evidence["rate"] == pytest.approx(1.0)


@pytest.mark.slow  # many polls
def test_messages_that_all_expire_unread_miss_their_consumer() -> None:
    """None is ready for longer than 30 s: for hours there was a notice at most, that consumers should be faster."""
    world = World(step=30.0)
    queue = world.queue()
    reader = queue.join()

    def live(_: float) -> None:
        queue.come(3 * (world.seconds % 600 == 1))
        if reader in queue.consumers.values():
            queue.take(reader)
            queue.settle(reader)
        elif world.seconds % 600 == 31:
            queue.E = queue.E + queue.waiting
            queue.waiting = 0

    world.run(300, live)
    queue.close(reader)
    world.run(2400, live)
    assert world.first["no_consumer"] == world.last["no_consumer"] - 1770
    assert world.one("no_consumer").severity is Severity.CRITICAL
    queue.consumers["again"] = reader
    world.run(60, live)
    assert not world.conditions


@pytest.mark.slow  # many polls
def test_what_expired_before_the_consumer_went_is_not_missed() -> None:
    world = World(step=30.0)
    queue = world.queue()
    reader = queue.join(window=0)
    queue.come(3)
    world.run(30)
    queue.E = 3
    queue.waiting = 0
    world.run(60)
    queue.close(reader)
    world.run(1200)
    assert not world.alarms


@pytest.mark.slow  # many polls
def test_a_single_message_that_expired_unread_is_not_missed_for_ever() -> None:
    world = World(step=60.0)
    queue = world.queue()
    reader = queue.join()
    world.run(120)
    queue.close(reader)
    queue.come()
    world.run(60)
    queue.E = 1
    queue.waiting = 0
    world.run(2 * 3600)
    assert world.alarms == {"no_consumer"}
    assert world.last["no_consumer"] < 4000


@pytest.mark.nightly  # hours of polls
def test_consumers_that_live_between_two_polls_teach_no_short_absence() -> None:
    judged = Judged()
    for n in range(1000):
        judged.poll({"q": {"A": 50.0 + n, "M": 50.0, "K": float(n)}})
    for _ in range(18):  # and then none for less than the cold patience
        judged.poll({"q": {"A": 1049.0, "M": 50.0, "K": 999.0}})
        assert not judged.conditions


UNREAD: list[tuple[dict[str, Any], int, set[str], set[str]]] = [
    ({"K": 1}, 0, {"no_consumer"}, set()),
    ({}, 0, set(), set()),
    ({}, 1, set(), {"no_consumer"}),
    ({"kind": QueueKind.SUBSCRIPTION, "durable": True}, 0, {"no_consumer"}, set()),
    ({"K": 1, "kind": QueueKind.DEAD_LETTER}, 1, set(), set()),
    ({"K": 1, "kind": QueueKind.EXPIRY}, 1, set(), set()),
    ({"K": 1, "consumers": np.nan}, 1, set(), set()),
]
"""What is said of a queue that nobody reads, how many come with each poll; conditions and notices after 30 polls."""


@pytest.mark.slow  # many polls
def test_no_consumer() -> None:
    """Each of them a queue of its own."""
    judged = Judged()
    for n in range(30):
        depths = [50 + comes * n for _, comes, _, _ in UNREAD]
        judged.poll(
            {
                f"{i}": {**said, "A": depths[i], "M": depths[i]}
                for i, (said, *_) in enumerate(UNREAD)
            }
        )
    found = {
        i: (judged.names_of(f"{i}"), judged.notices_of(f"{i}"))
        for i in range(len(UNREAD))
    }
    assert found == {
        i: (names, notices) for i, (_, _, names, notices) in enumerate(UNREAD)
    }


@pytest.mark.slow  # many polls
def test_a_subscription_that_is_not_durable_is_missed_least() -> None:
    """Its series is that of all of its kind."""
    judged = Judged()
    for n in range(30):
        judged.poll(
            {
                "q": {
                    "kind": QueueKind.SUBSCRIPTION,
                    "durable": False,
                    "A": 50 + n,
                    "M": 50 + n,
                }
            }
        )
    assert (judged.names, judged.notices) == (set(), {"no_consumer"})


@pytest.mark.slow  # many polls
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


@pytest.mark.slow  # many polls
def test_a_count_of_consumers_that_is_missing_for_a_poll_neither_begins_nor_ends_an_absence() -> (
    None
):
    judged = polls(Judged(), 2, {**WAIT, "K": 1}, {"c": FREE})
    for n in range(30):
        judged.poll({"q": {**WAIT, "K": 1, "consumers": np.nan if n % 7 == 3 else 0.0}})
    assert judged.one("no_consumer").since == START + 45


@pytest.mark.slow  # many polls
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


@pytest.mark.slow  # many polls
def test_after_a_crash_of_a_young_broker_clients_get_time_to_come_back() -> None:
    """Last polled at an uptime of 95 s, next at one of 100 s of the process after it: the uptime never falls."""
    world = World(step=5.0, constants=Constants(cold=1.0, floor=1.0, floor_polls=0.1))
    world.uptime = 5.0
    world.run(90, consumer_gone(world))
    world.restart(95.0)
    world.first.clear()
    begin = world.now
    world.run(200, lambda _: None)
    assert world.begin + world.first["no_consumer"] - begin >= 60


@pytest.mark.slow  # many polls
def test_who_read_before_the_restart_is_missed_after_it() -> None:
    world = World()
    world.run(90, consumer_gone(world))
    world.restart()
    world.run(500, arrivals(world.queues["q"], 1))
    assert "no_consumer" in world.names


@pytest.mark.slow  # many polls
def test_messages_that_have_only_come_have_not_waited() -> None:
    """Nobody was there for ten minutes; what came then waits as long as patience lasts."""
    judged = polls(Judged(), 40, {"A": 5, "K": 5})
    polls(judged, 20, {"A": 55, "K": 5, "M": 50})
    assert not judged.names
    polls(judged, 2, {"A": 55, "K": 5, "M": 50})
    assert judged.one("no_consumer").since == START + 41 * 15


@pytest.mark.slow  # many polls
def test_an_absence_that_cannot_be_counted_any_more_is_not_told() -> None:
    judged = polls(Judged(), 30, {**WAIT, "K": 1})
    assert judged.names == {"no_consumer"}
    polls(judged, 2, {**WAIT, "K": 1, "consumers": np.nan})
    assert not judged.names
    polls(judged, 2, {**WAIT, "K": 1})
    assert judged.one("no_consumer").since == START + 15


# --- OpenMQ


def test_durable_subscription_without_a_consumer() -> None:
    world = openmq()
    openmq_polls(
        world,
        8,
        lambda i: {"queues": {"s": subscription(M=100 + i, D=0, durable=True)}},
    )
    assert world.names == {"no_consumer"}


def visited(i: int, settles: bool) -> dict[str, Any]:
    """A poll of a durable subscription that somebody never seen visits between every third poll and the next."""
    visits = i // 3
    at = START + 60.0 * visits if settles and visits else np.nan
    left = 40 * (i % 3)
    return subscription(
        M=left + 1 if settles else 40 * i,
        D=0,
        durable=True,
        K=120 * visits,
        last_acknowledgement=at,
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("settles", "told"), [(True, set()), (False, {"no_consumer"})])
def test_members_that_come_between_two_polls(settles: bool, told: set[str]) -> None:
    """What they acknowledge ends the absence; what they only took and gave back does not."""
    world = openmq()
    openmq_polls(world, 30, lambda i: {"queues": {"s": visited(i, settles)}})
    assert world.names == told


# --- what the operator says


def causes(tables: Tables) -> dict[str, float]:
    table = tables["queue_cause"]
    return {
        row.cause: value
        for row, value in zip(table.index, table["unhealthy"].tolist(), strict=True)
    }


@pytest.mark.slow  # many polls
def test_nobody_where_consumers_are_expected_is_a_warning_at_least() -> None:
    expected = unread(rule(expected_consumers=2))
    ruled_polls(expected, 8)
    assert expected.condition("no_consumer").severity is not Severity.INFO
    assert causes(expected.tables)["no_consumer"] in (1.0, 2.0)
    unsaid = unread()
    ruled_polls(unsaid, 8, added=1)
    assert unsaid.condition("no_consumer").severity is Severity.INFO
    silent = unread()
    ruled_polls(silent, 8)
    assert silent.names() == set()


def test_nobody_where_none_is_expected_is_no_condition() -> None:
    none = unread(rule(expected_consumers=0))
    ruled_polls(none, 8, added=1)
    assert none.names() == set()


@pytest.mark.slow  # many polls
def test_what_a_non_destructive_queue_lets_expire_is_not_missed() -> None:
    """It is its retention."""
    world = World(step=30.0)
    queue = world.queue(address={"non_destructive": 1.0})
    reader = queue.join(window=0)

    def live(_: float) -> None:
        queue.come()
        if queue.waiting > 60:
            queue.E = queue.E + 1
            queue.waiting = queue.waiting - 1

    world.run(300, live)
    queue.close(reader)
    world.run(1200, live)
    assert not world.alarms
