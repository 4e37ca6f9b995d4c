"""What of the judgement outlives the agent: through the state file's bytes and back, on a broker that went on."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from agent.stored import as_read
from agent.world import World
from core.things import ACTIVE, by, producer, snapshot, table, temporary
from penstock.agent.checkpoint import Checkpoint, checkpoint_of, restore
from penstock.assessment.assess import State, Tables, assess
from penstock.conditions.condition import Severity
from penstock.model import Observation, Process, Role, Snapshot
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy

ORDERS = 1
RING = 2
FORGOTTEN = 3
BEHIND = 4
STUCK = 10
GOOD = 11
OPEN = 12


def busy() -> World:
    """A stalled and a good consumer, an open transaction, a ring that loses, a queue that nobody reads any more."""
    world = World(Policy("b1", constants=Constants(cold=60.0, trend=120.0)))
    world.queue(ORDERS, "orders", messages=200, delivering=100, added=200)
    world.consumer(
        STUCK, ORDERS, "stuck", buffered=100, delivered=100, last_delivery=world.now
    )
    world.consumer(GOOD, ORDERS, "good")
    world.consumer(OPEN, ORDERS, "open", last_delivery=world.now)
    world.queue(RING, "ring", messages=100, added=100, ring_limit=100)
    world.queue(FORGOTTEN, "forgotten", messages=5, added=9, acknowledged=4)
    world.queue(BEHIND, "behind", messages=10, added=10)
    world.consumer(20, BEHIND, "slow")
    return world


def work(world: World, polls: int) -> None:
    for _ in range(polls):
        work_once(world)
        world.poll()


def known_of_busy() -> Checkpoint:
    """What an agent knows of it after three polls."""
    world = busy()
    work(world, 3)
    found = checkpoint_of(world.state, world.snapshot(), world.policy)
    assert found is not None
    return found


def work_once(world: World) -> None:
    """What happens on the broker in 15 s, without a poll after it."""
    orders = world.queues[ORDERS]
    good = world.consumers[GOOD]
    taken = world.consumers[OPEN]
    orders["added"] += 30
    orders["acknowledged"] += 30
    good["delivered"] += 30
    good["acknowledged"] += 30
    good["buffered"] = 5
    good["last_delivery"] = good["last_acknowledgement"] = world.now + 14
    taken["delivered"] += 1
    taken["acknowledged"] += 1
    taken["awaiting_commit"] += 1
    ring = world.queues[RING]
    behind = world.queues[BEHIND]
    slow = world.consumers[20]
    ring["added"] += 20
    behind["added"] += 100
    behind["acknowledged"] += 50
    behind["messages"] += 50
    slow["delivered"] += 50
    slow["acknowledged"] += 50
    slow["last_delivery"] = slow["last_acknowledgement"] = world.now + 14


STANDING = {
    "stalled",
    "open_transaction",
    "ring_losing",
    "no_consumer",
    "falling_behind",
}


@pytest.fixture(scope="module")
def watched() -> World:
    world = busy()
    work(world, 20)
    assert world.names() == STANDING
    return world


def memory_of(world: World) -> Checkpoint:
    """As it comes back from the file."""
    checkpoint = checkpoint_of(world.state, world.snapshot(), world.policy)
    assert checkpoint is not None
    return as_read(checkpoint)


def resumed(
    world: World, seconds: float = 30.0, checkpoint: Checkpoint | None = None
) -> World:
    """A new agent that has not polled yet."""
    return world.restarted_agent(seconds, checkpoint or memory_of(world))


def of_an_earlier_process(checkpoint: Checkpoint) -> Checkpoint:
    process = checkpoint.process
    return replace(checkpoint, process=replace(process, uptime=process.uptime + 3600))


def test_what_stood_stands_at_the_first_poll_with_its_begin(watched: World) -> None:
    after = resumed(watched)
    before = {(c.name, c.queue, c.client): c.since for c in watched.conditions}
    work(after, 1)
    assert {(c.name, c.queue, c.client): c.since for c in after.conditions} == before
    work(after, 12)
    assert after.names() == STANDING


def test_without_the_file_it_takes_long(watched: World) -> None:
    after = watched.restarted_agent(30, None)
    work(after, 1)
    assert after.names() == set()


def test_what_ended_meanwhile_ends(watched: World) -> None:
    after = resumed(watched)
    stuck = after.consumers[STUCK]
    orders = after.queues[ORDERS]
    stuck |= {"buffered": 0, "acknowledged": 100, "last_acknowledgement": after.now - 5}
    orders |= {
        "acknowledged": orders["acknowledged"] + 100,
        "messages": 100,
        "delivering": 0,
    }
    work(after, 1)
    assert "stalled" in after.names(), "two polls to leave"
    work(after, 1)
    assert "stalled" not in after.names()


def test_a_gap_that_ended_unseen_teaches_nothing(watched: World) -> None:
    """Ten minutes without the agent are no ten minutes without a settlement."""
    learned = {row.client: watched.state.judgement.patience.longest[i]
               for i, row in enumerate(watched.state.judgement.patience.index)}  # fmt: skip
    after = resumed(watched, seconds=600)
    for _ in range(3):
        work(after, 1)
    patience = after.state.judgement.patience
    again = {row.client: patience.longest[i] for i, row in enumerate(patience.index)}
    assert again["good"] <= learned["good"] + 1
    assert np.isnan(patience.long_gaps).all()
    assert np.isnan(after.state.judgement.absences.lengths).all()


def test_a_long_pause_of_the_agent_is_no_longer_interval(watched: World) -> None:
    after = resumed(watched, seconds=600)
    work(after, 1)
    assert after.state.judgement.seen.times.interval == pytest.approx(15.0)


def test_what_was_learned_comes_back_also_after_a_restart_of_the_broker(
    watched: World,
) -> None:
    before = {row.client: watched.state.judgement.patience.weight[i]
              for i, row in enumerate(watched.state.judgement.patience.index)}  # fmt: skip
    assert before["good"] > 10
    checkpoint = memory_of(watched)
    after = resumed(watched, checkpoint=of_an_earlier_process(checkpoint))
    work(after, 1)
    patience = after.state.judgement.patience
    assert {
        row.client: patience.weight[i] for i, row in enumerate(patience.index)
    } == pytest.approx(before)
    assert after.names() == set(), "another process of the broker: nothing else"


def totals(world: World) -> dict[str, float]:
    table = world.tables["client"]
    return {
        row.client: value
        for row, value in zip(table.index, table["delivered"].tolist(), strict=True)
    }


def test_totals_of_clients_go_on(watched: World) -> None:
    before = totals(watched)
    after = resumed(watched)
    work(after, 1)
    assert totals(after) == before | {
        "good": before["good"] + 30, "open": before["open"] + 1, "slow": before["slow"] + 50
    }  # fmt: skip


def test_totals_go_on_when_the_broker_has_started_anew(watched: World) -> None:
    checkpoint = memory_of(watched)
    after = resumed(watched, checkpoint=of_an_earlier_process(checkpoint))
    before = totals(watched)
    after.consumers = {
        GOOD: {"buffered": 0, "delivered": 7, "acknowledged": 7, "awaiting_commit": 0}
    }
    after.poll()
    assert totals(after) == {"good": before["good"] + 7}


def sums(
    state: State, *polls: Snapshot, policy: Policy
) -> tuple[State, dict[str, float], dict[str, float]]:
    """After `polls`: what was added to the queues, what the clients produced."""
    tables: Tables = {}
    for one in polls:
        state, tables = assess(state, one, policy)
    return (
        state,
        by(tables["queue"], "added", "queue"),
        by(tables["producer"], "produced", "client"),
    )


def replies(
    stamp: float,
    queues: dict[str, float],
    producers: dict[str, float],
    started: float = 500.0,
) -> Snapshot:
    """Temporary queues and what was added to each; producers and what each produced. Their keys are the reader's."""
    broker = replace(ACTIVE, clock=stamp, uptime=stamp - started)
    return snapshot(
        stamp,
        broker,
        queues=table([temporary(name) for name in queues], added=list(queues.values())),
        consumers=table([]),
        producers=table(
            [producer(name, "a", name[0]) for name in producers],
            produced=list(producers.values()),
        ),
    )


def test_sums_of_queues_and_of_producers_go_on() -> None:
    policy = Policy("b1")
    first = replies(1000, {"t0": 5, "t1": 7}, {"x1": 10, "y1": 20})
    second = replies(1015, {"t0": 6}, {"x1": 10, "y1": 25})
    state, added, produced = sums(State(), first, second, policy=policy)
    assert (added, produced) == ({"(temporary)": 13}, {"x": 10, "y": 25})
    kept = checkpoint_of(state, second, policy)
    assert kept is not None
    checkpoint = as_read(kept)

    third = replies(1060, {"t0": 8}, {"y1": 26, "x2": 1})
    _, added, produced = sums(
        restore(checkpoint, State(), third, policy), third, policy=policy
    )
    assert (added, produced) == ({"(temporary)": 15}, {"x": 11, "y": 26})

    anew = replies(1060, {"t0": 8}, {"y1": 2}, started=1050.0)
    _, added, produced = sums(
        restore(checkpoint, State(), anew, policy), anew, policy=policy
    )
    assert (added, produced) == ({"(temporary)": 21}, {"y": 27})


def test_the_ledger_goes_on_where_epoch_and_queue_agree(watched: World) -> None:
    at = 1
    assert watched.state.judgement.account.books.evicted[at] == 380
    after = resumed(watched, seconds=60)
    after.queues[RING]["added"] += 1000  # while the agent was away
    work(after, 3)
    assert after.state.judgement.account.books.evicted[at] == 1440
    checkpoint = memory_of(watched)
    other = resumed(
        watched, checkpoint=replace(checkpoint, queue_keys=checkpoint.queue_keys + 100)
    )
    work(other, 1)
    assert np.isnan(other.state.judgement.account.books.evicted[at]), (
        "a queue of another id begins anew"
    )


def lacking(whole: Checkpoint) -> Iterator[tuple[str, Checkpoint]]:
    """A column, and the checkpoint without it."""
    for name in whole.queues:
        yield (
            name,
            replace(
                whole,
                queues={
                    one: column for one, column in whole.queues.items() if one != name
                },
            ),
        )
    for name in whole.consumers:
        yield (
            name,
            replace(
                whole,
                consumers={
                    one: column
                    for one, column in whole.consumers.items()
                    if one != name
                },
            ),
        )


@pytest.mark.nightly  # a restart for each column
def test_a_state_file_that_lacks_a_column_is_still_used(watched: World) -> None:
    """As one of another version: what rests on other columns stands at the first poll, and all is judged again."""
    checkpoints = list(lacking(memory_of(watched)))
    assert len(checkpoints) > 30
    for missing, checkpoint in checkpoints:
        after = resumed(watched, checkpoint=checkpoint)
        work(after, 1)
        assert len(after.names() & STANDING) >= 4, missing
        work(after, 12)
        assert after.names() == STANDING, missing


def test_counters_that_fell_begin_anew(watched: World) -> None:
    after = resumed(watched)
    after.consumers[STUCK] |= {
        "delivered": 3,
        "acknowledged": 0,
        "buffered": 3,
        "last_delivery": after.now,
    }
    work(after, 2)
    assert "stalled" not in after.names()


def test_a_broker_under_another_name_is_the_same_by_its_node(watched: World) -> None:
    after = resumed(watched)
    after.policy = replace(watched.policy, broker="renamed")
    work(after, 1)
    assert {condition.broker for condition in after.conditions} == {"renamed"}
    assert "stalled" in after.names()


def test_what_is_told_again_is_what_was_told(watched: World) -> None:
    told = {name: severity for name, severity, _ in memory_of(watched).told}
    assert told["stalled", "orders", "orders", "stuck"] is Severity.WARNING
    assert told["ring_losing", "ring", "ring", ""] is Severity.INFO


def test_new_labels_keep_what_each_client_taught() -> None:
    """A reload numbers the clients anew."""
    world = busy()
    work(world, 4)
    before = {row.client: w for row, w in zip(world.state.judgement.patience.index,
                                              world.state.judgement.patience.weight.tolist(), strict=True)}  # fmt: skip
    world.consumer(5, ORDERS, "another")  # a lower id: the first to be numbered
    world.state = world.state.with_new_labels()
    world.poll()
    patience = world.state.judgement.patience
    after = dict(
        zip(
            (row.client for row in patience.index),
            patience.weight.tolist(),
            strict=True,
        )
    )
    assert after == before | {"another": 0.0}


def test_of_a_broker_that_became_passive_what_was_learned_and_totals_are_kept(
    watched: World,
) -> None:
    snapshot = watched.snapshot()
    before = checkpoint_of(watched.state, snapshot, watched.policy)
    assert snapshot.broker is not None
    process = Process("n", 1.0, 1.0)
    passive = Snapshot(
        snapshot.stamp,
        replace(snapshot.broker, role=Role.PASSIVE),
        observation=Observation(process),
    )
    state, _ = assess(watched.state, passive, watched.policy)
    kept = checkpoint_of(state, passive, watched.policy)
    assert before is not None
    assert kept is not None
    assert (kept.role, kept.process) == (Role.PASSIVE, process)
    assert kept.clients.names == before.clients.names
    assert kept.consumer_totals.names == before.consumer_totals.names
    assert (kept.told, kept.queues, kept.consumers, kept.standing) == ([], {}, {}, {})
