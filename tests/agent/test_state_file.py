"""What is known of brokers, and the log of changes: kept in the state database, and read back."""

import asyncio
import gc
import os
import sqlite3
import stat
import weakref
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.stored import opened, opened_journal
from agent.test_restart import busy, known_of_busy
from agent.world import World
from penstock.agent import Agent, Poller, supervisor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import Journal
from penstock.agent.saved_events import AGENT_KEPT, KEPT
from penstock.agent.state_database import StateDatabase
from penstock.agent.state_store import FORGET_SECONDS, StateStore
from penstock.conditions.condition import Severity
from penstock.exposition.syntax import Format
from penstock.insight.events import Change, Event, StatusSummary, changes
from penstock.model import Process

NOW = 1_795_219_200.0


@pytest.fixture
def checkpoint() -> Checkpoint:
    return known_of_busy()


def saved(directory: Path, checkpoint: Checkpoint) -> StateStore:
    store = opened(directory)
    assert store.keep(checkpoint, store.next_sequence(), NOW)
    assert store.flush(NOW)
    return store


def test_it_is_written_for_its_owner_only(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    folder = tmp_path / "a" / "data"
    before = os.umask(0)
    try:
        store = saved(folder, checkpoint)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {
        "state.db",
        "state.db-wal",
        "state.db-shm",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    (found,) = opened(folder).of_node("node-1")
    assert found.node_id == "node-1 b1"
    assert (
        found.queues["seen_added"].tolist() == checkpoint.queues["seen_added"].tolist()
    )
    assert store.of_node("another") == []


def test_one_file_is_left_when_the_agent_has_ended(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = saved(tmp_path, checkpoint)
    store.database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]
    assert [one.node_id for one in opened(tmp_path).known()] == ["node-1 b1"]


def test_what_was_kept_is_in_no_memory_and_can_be_recalled(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    gc.freeze()  # what was there before need not be looked through
    # A column of its own: nothing but the database holds it.
    column = np.arange(50_000.0)
    mine = weakref.ref(column)
    store = saved(tmp_path, replace(checkpoint, consumers={"buffered": column}))
    del column
    gc.collect()
    assert mine() is None
    for one in (*store.of_node("node-1"), *opened(tmp_path).of_node("node-1")):
        assert one.consumers["buffered"].tolist() == list(range(50_000))
        assert (
            one.queues["seen_added"].tolist()
            == checkpoint.queues["seen_added"].tolist()
        )


def test_a_broker_is_known_by_its_node_id_and_by_its_name(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = opened(tmp_path)
    for node_id, broker in (
        ("node-1 b1", "b1"),
        ("node-1 b2", "b2"),
        ("node-10 b1", "b1"),
        ("name:b3", "b3"),
    ):
        store.keep(
            replace(checkpoint, node_id=node_id, broker=broker),
            store.next_sequence(),
            NOW,
        )
    assert {one.node_id for one in store.of_node("node-1")} == {
        "node-1 b1",
        "node-1 b2",
    }
    assert [one.node_id for one in store.of_node("name:b3")] == ["name:b3"]
    for name, node_id in (("b2", "node-1 b2"), ("b3", "name:b3")):
        found = store.of_name(name)
        assert found is not None
        assert found.node_id == node_id
    assert store.of_name("b") is None


def test_a_broker_that_is_gone_for_a_month_is_forgotten(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = saved(tmp_path, checkpoint)
    store.flush(NOW + FORGET_SECONDS - 1)
    assert [one.node_id for one in store.of_node("node-1")] == ["node-1 b1"]
    store.flush(NOW + FORGET_SECONDS + 1)
    assert store.of_node("node-1") == []


def test_what_another_process_keeps_is_dropped_unless_more_is_known_since(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = saved(tmp_path, checkpoint)
    store.drop([replace(checkpoint, now=checkpoint.now - 1)])
    assert len(store.known()) == 1
    store.drop([checkpoint])
    assert store.known() == []


def test_only_what_is_newer_is_taken_in(tmp_path: Path, checkpoint: Checkpoint) -> None:
    store = saved(tmp_path, checkpoint)
    store.take_in([replace(checkpoint, now=checkpoint.now - 1, interval=7.0)], NOW)
    assert store.known()[0].interval == checkpoint.interval
    store.take_in([replace(checkpoint, now=checkpoint.now + 1, interval=7.0)], NOW)
    assert store.known()[0].interval == 7.0


def test_without_a_directory_all_is_in_memory(checkpoint: Checkpoint) -> None:
    store = StateStore(StateDatabase(None))
    store.database.open()
    assert store.flush(NOW)
    journal = Journal(store.database)
    journal.add([Event(NOW, Change.BROKER_UP, "b")])
    store.database.close()
    assert len(journal.last(10)) == 1


# --- changes


def test_changes_of_a_broker() -> None:
    up = StatusSummary("b", up=True, role="active", start=100.0)
    down = StatusSummary("b", up=False, error="no answer", role="active", start=100.0)

    def told(before: StatusSummary, after: StatusSummary) -> list[tuple[Change, str]]:
        return [(event.change, event.detail) for event in changes(before, after, NOW)]

    assert told(StatusSummary("b"), up) == []
    assert (
        told(StatusSummary("b"), down)
        == told(up, down)
        == [(Change.BROKER_DOWN, "no answer")]
    )
    assert told(down, down) == []
    assert told(down, up) == [(Change.BROKER_UP, "")]
    assert told(up, StatusSummary("b", up=True, role="passive", start=100.5)) == [
        (Change.ROLE, "active to passive")
    ]


def test_a_broker_that_crashes_young_has_restarted() -> None:
    """Its uptime never falls from poll to poll."""
    before = StatusSummary(
        "b", up=True, start=NOW, process=Process("n", NOW + 20, 20.0)
    )
    after = StatusSummary(
        "b", up=True, start=NOW + 10, process=Process("n", NOW + 35, 25.0)
    )
    (event,) = changes(before, after, NOW + 35)
    assert (event.change, event.since) == (Change.BROKER_RESTART, NOW + 10)


def test_a_step_of_the_agents_clock_is_no_restart_of_the_broker() -> None:
    before = StatusSummary(
        "b", up=True, start=100.0, process=Process("n", 1000.0, 900.0)
    )
    for uptime, told in ((915.0, []), (5.0, [Change.BROKER_RESTART])):
        after = StatusSummary(
            "b", up=True, start=4000.0, process=Process("n", 1015.0, uptime)
        )
        assert [event.change for event in changes(before, after, NOW)] == told


def test_changes_of_conditions() -> None:
    name = ("stalled", "a", "q", "c")
    calm, warned, worse = (
        StatusSummary("b", up=True, conditions=conditions)
        for conditions in (
            {},
            {name: (Severity.WARNING, 50.0)},
            {name: (Severity.CRITICAL, 50.0)},
        )
    )
    (on,) = changes(calm, warned, NOW)
    assert on == Event(
        NOW, Change.CONDITION_ON, "b", "a", "q", "c", "stalled", "warning", 50.0
    )
    (severer,) = changes(warned, worse, NOW)
    assert (severer.change, severer.severity, severer.detail) == (
        Change.SEVERITY,
        "critical",
        "warning to critical",
    )
    (off,) = changes(worse, calm, NOW)
    assert (off.change, off.condition) == (Change.CONDITION_OFF, "stalled")
    assert list(changes(worse, worse, NOW)) == []


@pytest.mark.slow  # many polls or events
def test_the_journal_is_bounded(tmp_path: Path) -> None:
    journal = opened_journal(tmp_path)
    for begin in range(0, KEPT + 1_000, 1_000):
        journal.add(
            Event(NOW + number, Change.BROKER_UP, f"b{number}")
            for number in range(begin, begin + 1_000)
        )
    journal.add([Event(NOW + KEPT + 1_000, Change.BROKER_UP, "the last")])
    assert len(journal.last(KEPT * 2)) == KEPT
    assert journal.last(1)[0].broker == "the last"
    assert opened_journal(tmp_path).last(KEPT * 2) == journal.last(KEPT * 2)
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (KEPT,)


def test_an_event_that_is_told_late_hides_no_other() -> None:
    """A large broker tells its events when it has rendered them; a small one told later ones before."""
    journal = Journal(StateDatabase(None))
    for at in (100.0, 102.0, 104.0, 106.0, 108.0):
        journal.add([Event(at, Change.BROKER_UP, "small")])
    journal.add([Event(101.0, Change.BROKER_UP, "large")])
    assert [event.time for event in journal.last(100, since=103.0)] == [
        104.0,
        106.0,
        108.0,
    ]
    assert [event.time for event in journal.last(100)] == [
        100.0,
        101.0,
        102.0,
        104.0,
        106.0,
        108.0,
    ]
    assert [event.time for event in journal.last(2)] == [106.0, 108.0]


@pytest.mark.slow  # many polls or events
def test_what_operators_and_clients_cause_pushes_no_condition_out(
    tmp_path: Path,
) -> None:
    """And the other way round."""
    journal = opened_journal(tmp_path)
    on = Event(NOW, Change.CONDITION_ON, "b", "a", "q", "c", "stalled", "warning", 50.0)
    start = Event(NOW + 1, Change.AGENT_START, detail="version 1")
    journal.add([on, start])
    journal.add(
        Event(NOW + 2 + i, Change.CONFIG_REFUSED, detail="x" * 1_500)
        for i in range(KEPT + 5)
    )
    for one in (journal, opened_journal(tmp_path)):
        assert one.last(KEPT, broker="b") == [on]
        assert one.last(KEPT * 3)[0] == on
        assert len(one.last(KEPT * 3)) == 1 + AGENT_KEPT
    journal = Journal(StateDatabase(None))
    journal.add([start])
    journal.add(
        Event(NOW + 2 + i, Change.CONDITION_ON, "b", condition="stalled")
        for i in range(KEPT + 5)
    )
    assert journal.last(KEPT * 3)[0] == start


def test_both_kinds_of_changes_are_told_in_their_order(tmp_path: Path) -> None:
    journal = opened_journal(tmp_path)
    mixed = [
        Event(NOW + i, Change.ROLE, "b" * (i % 3 != 0), detail=str(i))
        for i in range(10)
    ]
    journal.add(mixed)
    journal.add_missing(mixed[:3])
    for one in (journal, opened_journal(tmp_path)):
        assert one.last(100) == mixed
        assert one.last(4) == mixed[-4:]
        assert one.last(100, since=NOW + 5) == mixed[5:]


def test_the_journal_is_asked_by_time_broker_and_queue() -> None:
    journal = Journal(StateDatabase(None))
    assert journal.add([]) is False
    journal.add(
        Event(NOW + i, Change.CONDITION_ON, f"b{i % 2}", queue=f"q{i}")
        for i in range(6)
    )
    assert [event.queue for event in journal.last(10, since=NOW + 3)] == [
        "q3",
        "q4",
        "q5",
    ]
    assert [event.queue for event in journal.last(2, broker="b1")] == ["q3", "q5"]
    assert [event.queue for event in journal.last(9, queue="q2")] == ["q2"]


# --- the agent


class Reader:
    """Polls a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def poll(self, timeout: float) -> Any:  # noqa: ARG002 - as the real one
        self.world.now += 15
        return self.world.snapshot()

    async def close(self) -> None:
        pass


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "p.yml"
    path.write_text(
        "brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/'}]\nrules: []\n"
    )
    return path


@pytest.mark.slow  # many polls or events
async def test_a_condition_goes_on_over_a_restart_of_the_agent(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = busy()
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(world))
    data = tmp_path / "data"

    async def run(polls: int) -> tuple[list[str], float, Agent]:
        running = Agent(configuration, data)
        await running.start()
        (poller,) = running.pollers()
        await until_polled(poller)
        for _ in range(polls - 1):
            world.queues[2]["added"] += 20
            await poller.poll()
        found = poller.assessor.state.judgement.conditions
        since = min(
            [condition.since for condition in found if condition.name == "stalled"],
            default=0.0,
        )
        await running.stop()
        return sorted(condition.name for condition in found), since, running

    first, since, one = await run(25)
    assert set(first) == {"stalled", "ring_losing", "no_consumer", "not_dispatching"}
    body = b"".join(one.exposition.chunks(Format.TEXT, gzip=False))
    assert (
        b"penstock_state_save_success 1.0\n" in body
        or b"penstock_state_save_success 1\n" in body
    )
    world.queues[2]["added"] += 20
    second, still_since, _ = await run(1)
    assert (second, still_since) == (first, since)
    told = opened_journal(data).last(KEPT)
    counts = [event.condition for event in told if event.change is Change.CONDITION_ON]
    assert sorted(counts) == first, "what goes on is not told again"
    assert [event.change for event in told].count(Change.AGENT_START) == 2


async def until_polled(poller: Poller) -> None:
    async with asyncio.timeout(30):
        while poller.last is None:  # noqa: ASYNC110 - the loop is the agent's
            await asyncio.sleep(0.01)


async def test_an_agent_goes_on_without_a_place_to_save(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = busy()
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(world))
    (tmp_path / "data").write_text("a file")
    running = Agent(configuration, tmp_path / "data")
    await running.start()
    (poller,) = running.pollers()
    await until_polled(poller)
    await running.stop()
    body = b"".join(running.exposition.chunks(Format.TEXT, gzip=False)).decode()
    assert "penstock_state_save_success 0" in body
