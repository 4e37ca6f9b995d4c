"""What of the judgement outlives the agent: through the state file's bytes and back, on a broker that went on."""

from dataclasses import replace

import numpy as np
import pytest

from judgement_edges.world import World
from penstock.agent.state import Saved, decode, encode
from penstock.flow.assess import State, Tables, assess
from penstock.flow.judge.conditions import Severity
from penstock.flow.judge.constants import Constants
from penstock.flow.memory import Memory, recall, remember
from penstock.flow.policy import Policy
from penstock.model import Role, Snapshot
from unit.things import ACTIVE, by, producer, snapshot, table, temporary

ORDERS, RING, FORGOTTEN, BEHIND = 1, 2, 3, 4
STUCK, GOOD, OPEN = 10, 11, 12


def busy() -> World:
    """A stalled and a good consumer, an open transaction, a ring that loses, a queue that nobody reads any more."""
    world = World(Policy("b1", constants=Constants(cold=60.0, trend=120.0)))
    world.queue(ORDERS, "orders", messages=200, delivering=100, added=200)
    world.consumer(STUCK, ORDERS, "stuck", buffered=100, delivered=100, last_delivery=world.now)
    world.consumer(GOOD, ORDERS, "good")
    world.consumer(OPEN, ORDERS, "open", last_delivery=world.now)
    world.queue(RING, "ring", messages=100, added=100, ring_limit=100)
    world.queue(FORGOTTEN, "forgotten", messages=5, added=9, acknowledged=4)
    world.queue(BEHIND, "behind", messages=10, added=10)
    world.consumer(20, BEHIND, "slow")
    return world


def work(world: World, polls: int) -> None:
    for _ in range(polls):
        orders, good, taken = world.queues[ORDERS], world.consumers[GOOD], world.consumers[OPEN]
        orders["added"] += 30
        orders["acknowledged"] += 30
        good["delivered"] += 30
        good["acknowledged"] += 30
        good["buffered"] = 5
        good["last_delivery"] = good["last_acknowledgement"] = world.now + 14
        taken["delivered"] += 1
        taken["acknowledged"] += 1
        taken["awaiting_commit"] += 1
        ring, behind, slow = world.queues[RING], world.queues[BEHIND], world.consumers[20]
        ring["added"] += 20
        behind["added"] += 100
        behind["acknowledged"] += 50
        behind["messages"] += 50
        slow["delivered"] += 50
        slow["acknowledged"] += 50
        slow["last_delivery"] = slow["last_acknowledgement"] = world.now + 14
        world.poll()


STANDING = {"stalled", "open_transaction", "ring_losing", "no_consumer", "falling_behind"}


@pytest.fixture(scope="module")
def watched() -> World:
    world = busy()
    work(world, 20)
    assert world.names() == STANDING
    return world


def memory_of(world: World) -> Memory:
    """As it comes back from the file."""
    memory = remember(world.state, world.snapshot(), world.policy)
    assert memory is not None
    return decode(encode(Saved({"n": memory}, {"n": 1.0}))).brokers["n"]


def resumed(world: World, seconds: float = 30.0, memory: Memory | None = None) -> World:
    """A new agent that has not polled yet."""
    return world.restarted_agent(seconds, memory or memory_of(world))


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
    stuck, orders = after.consumers[STUCK], after.queues[ORDERS]
    stuck |= {"buffered": 0, "acknowledged": 100, "last_acknowledgement": after.now - 5}
    orders |= {"acknowledged": orders["acknowledged"] + 100, "messages": 100, "delivering": 0}
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
    assert np.isnan(patience.spells).all()
    assert np.nanmax(after.state.judgement.absence.longest, initial=0) == 0


def test_a_long_pause_of_the_agent_is_no_longer_interval(watched: World) -> None:
    after = resumed(watched, seconds=600)
    work(after, 1)
    assert after.state.judgement.seen.times.interval == pytest.approx(15.0)


def test_what_was_learned_comes_back_also_after_a_restart_of_the_broker(watched: World) -> None:
    before = {row.client: watched.state.judgement.patience.weight[i]
              for i, row in enumerate(watched.state.judgement.patience.index)}  # fmt: skip
    assert before["good"] > 10
    memory = memory_of(watched)
    after = resumed(watched, memory=replace(memory, start=memory.start - 3600))
    work(after, 1)
    patience = after.state.judgement.patience
    assert {row.client: patience.weight[i] for i, row in enumerate(patience.index)} == pytest.approx(before)
    assert after.names() == set(), "another process of the broker: nothing else"


def totals(world: World) -> dict[str, float]:
    table = world.tables["client"]
    return {row.client: value for row, value in zip(table.index, table["delivered"].tolist(), strict=True)}


def test_totals_of_clients_go_on(watched: World) -> None:
    before = totals(watched)
    after = resumed(watched)
    work(after, 1)
    assert totals(after) == before | {
        "good": before["good"] + 30, "open": before["open"] + 1, "slow": before["slow"] + 50
    }  # fmt: skip


def test_totals_go_on_when_the_broker_has_started_anew(watched: World) -> None:
    memory = memory_of(watched)
    after = resumed(watched, memory=replace(memory, start=memory.start - 3600))
    before = totals(watched)
    after.consumers = {GOOD: {"buffered": 0, "delivered": 7, "acknowledged": 7, "awaiting_commit": 0}}
    after.poll()
    assert totals(after) == {"good": before["good"] + 7}


def sums(state: State, *polls: Snapshot, policy: Policy) -> tuple[State, dict[str, float], dict[str, float]]:
    """After `polls`: what was added to the queues, what the clients produced."""
    tables: Tables = {}
    for one in polls:
        state, tables = assess(state, one, policy)
    return state, by(tables["queue"], "added", "queue"), by(tables["producer"], "produced", "client")


def replies(stamp: float, queues: dict[str, float], producers: dict[str, float], started: float = 500.0) -> Snapshot:
    """Temporary queues and what was added to each; producers and what each produced. Their keys are the reader's."""
    broker = replace(ACTIVE, clock=stamp, uptime=stamp - started)
    return snapshot(
        stamp,
        broker,
        queues=table([temporary(name) for name in queues], added=list(queues.values())),
        consumers=table([]),
        producers=table([producer(name, "a", name[0]) for name in producers], produced=list(producers.values())),
    )


def test_sums_of_queues_and_of_producers_go_on() -> None:
    policy = Policy("b1")
    first, second = (
        replies(1000, {"t0": 5, "t1": 7}, {"x1": 10, "y1": 20}),
        replies(1015, {"t0": 6}, {"x1": 10, "y1": 25}),
    )
    state, added, produced = sums(State(), first, second, policy=policy)
    assert (added, produced) == ({"(temporary)": 13}, {"x": 10, "y": 25})
    kept = remember(state, second, policy)
    assert kept is not None
    memory = decode(encode(Saved({"n": kept}, {"n": 1.0}))).brokers["n"]

    third = replies(1060, {"t0": 8}, {"y1": 26, "x2": 1})
    _, added, produced = sums(recall(memory, State(), third, policy), third, policy=policy)
    assert (added, produced) == ({"(temporary)": 15}, {"x": 11, "y": 26})

    anew = replies(1060, {"t0": 8}, {"y1": 2}, started=1050.0)
    _, added, produced = sums(recall(memory, State(), anew, policy), anew, policy=policy)
    assert (added, produced) == ({"(temporary)": 21}, {"y": 27})


def test_the_ledger_goes_on_where_epoch_and_queue_agree(watched: World) -> None:
    at = 1
    assert watched.state.judgement.ledger.evicted[at] == 380
    after = resumed(watched, seconds=60)
    after.queues[RING]["added"] += 1000  # while the agent was away
    work(after, 3)
    assert after.state.judgement.ledger.evicted[at] == 1440
    memory = memory_of(watched)
    other = resumed(watched, memory=replace(memory, queue_keys=memory.queue_keys + 100))
    work(other, 1)
    assert np.isnan(other.state.judgement.ledger.evicted[at]), "a queue of another id begins anew"


def test_counters_that_fell_begin_anew(watched: World) -> None:
    after = resumed(watched)
    after.consumers[STUCK] |= {"delivered": 3, "acknowledged": 0, "buffered": 3, "last_delivery": after.now}
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
    after = dict(zip((row.client for row in patience.index), patience.weight.tolist(), strict=True))
    assert after == before | {"another": 0.0}


def test_nothing_is_remembered_of_a_passive_broker(watched: World) -> None:
    snapshot = watched.snapshot()
    assert snapshot.broker is not None
    passive = replace(snapshot, broker=replace(snapshot.broker, role=Role.PASSIVE))
    assert remember(watched.state, passive, watched.policy) is None
