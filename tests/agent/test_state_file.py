"""The state file and the log of changes: written whole, read back, set aside when they cannot be used."""

import asyncio
import gc
import json
import logging
import os
import stat
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.test_restart import busy, known_of_busy
from agent.world import World
from penstock.agent import Agent, Poller, supervisor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import AGENT_FILE, AGENT_KEPT, FILE, KEPT, Journal
from penstock.agent.state_file import FORGET_SECONDS, MAGIC, StateFile
from penstock.conditions.condition import Severity
from penstock.exposition.syntax import Format
from penstock.insight.events import Change, Event, StatusSummary, changes
from penstock.model import Process

NOW = 1_795_219_200.0


@pytest.fixture
def checkpoint() -> Checkpoint:
    return known_of_busy()


def saved(directory: Path, checkpoint: Checkpoint) -> StateFile:
    file = StateFile(directory)
    file.keep([checkpoint], NOW)
    assert file.save()
    return file


def test_it_is_written_whole_for_its_owner_only(tmp_path: Path, checkpoint: Checkpoint) -> None:
    folder = tmp_path / "a" / "data"
    file = saved(folder, checkpoint)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert os.listdir(folder) == ["state.bin"]  # noqa: PTH208
    again = StateFile(folder)
    again.load()
    (found,) = again.of_node("node-1")
    assert found.node_id == "node-1 b1"
    assert found.queues["seen_added"].tolist() == checkpoint.queues["seen_added"].tolist()
    assert again.of_node("another") == []


def test_what_was_saved_is_kept_packed_and_can_be_recalled_and_written_again(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    gc.freeze()  # what was there before need not be looked through
    # A column of its own: nothing but the state file holds it.
    column = np.arange(50_000.0)
    mine = weakref.ref(column)
    file = saved(tmp_path, replace(checkpoint, consumers={"held": column}))
    del column
    gc.collect()
    assert mine() is None
    assert file.save()  # of a broker that could not be read meanwhile
    again = StateFile(tmp_path)
    again.load()
    for one in (*file.of_node("node-1"), *again.of_node("node-1")):
        assert one.consumers["held"].tolist() == list(range(50_000))
        assert one.queues["seen_added"].tolist() == checkpoint.queues["seen_added"].tolist()
    assert file.of_node("another") == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is no state file of Penstock"),
        (b"{}", "is no state file of Penstock"),
        (MAGIC + b"1\nabc", "has format 1, this version reads 2"),
        (MAGIC + b"2\nabc", "is damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, told: str
) -> None:
    (tmp_path / "state.bin").write_bytes(content)
    file = StateFile(tmp_path)
    file.load()
    assert told in caplog.text
    assert f"set aside as {tmp_path / 'state.bin.unusable'}" in caplog.text
    assert (tmp_path / "state.bin.unusable").read_bytes() == content
    assert not file.path.exists()
    assert file.of_node("node-1") == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_set_aside(tmp_path: Path, checkpoint: Checkpoint, share: float) -> None:
    file = saved(tmp_path, checkpoint)
    content = file.path.read_bytes()
    file.path.write_bytes(content[: int(len(content) * share)])
    again = StateFile(tmp_path)
    again.load()
    assert again.of_node("node-1") == []
    assert (tmp_path / "state.bin.unusable").exists()


def test_a_directory_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, checkpoint: Checkpoint
) -> None:
    (tmp_path / "data").write_text("a file")
    file = StateFile(tmp_path / "data")
    file.keep([checkpoint], NOW)
    assert [file.save(), file.save()] == [False, False]
    assert caplog.text.count("cannot be written") == 1
    assert "--storage.path" in caplog.text
    (tmp_path / "data").unlink()
    with caplog.at_level(logging.INFO):
        assert file.save()
    assert "is written again" in caplog.text


def test_a_broker_that_is_gone_for_a_month_is_forgotten(tmp_path: Path, checkpoint: Checkpoint) -> None:
    file = saved(tmp_path, checkpoint)
    file.keep([], NOW + FORGET_SECONDS - 1)
    assert [one.node_id for one in file.of_node("node-1")] == ["node-1 b1"]
    file.keep([], NOW + FORGET_SECONDS + 1)
    assert file.of_node("node-1") == []


# --- changes


def test_changes_of_a_broker() -> None:
    up = StatusSummary("b", up=True, role="active", start=100.0)
    down = StatusSummary("b", up=False, error="no answer", role="active", start=100.0)

    def told(before: StatusSummary, after: StatusSummary) -> list[tuple[Change, str]]:
        return [(event.change, event.detail) for event in changes(before, after, NOW)]

    assert told(StatusSummary("b"), up) == []
    assert told(StatusSummary("b"), down) == told(up, down) == [(Change.BROKER_DOWN, "no answer")]
    assert told(down, down) == []
    assert told(down, up) == [(Change.BROKER_UP, "")]
    assert told(up, StatusSummary("b", up=True, role="passive", start=100.5)) == [(Change.ROLE, "active to passive")]


def test_a_broker_that_crashes_young_has_restarted() -> None:
    """Its uptime never falls from poll to poll."""
    before = StatusSummary("b", up=True, start=NOW, process=Process("n", NOW + 20, 20.0))
    after = StatusSummary("b", up=True, start=NOW + 10, process=Process("n", NOW + 35, 25.0))
    (event,) = changes(before, after, NOW + 35)
    assert (event.change, event.since) == (Change.BROKER_RESTART, NOW + 10)


def test_a_step_of_the_agents_clock_is_no_restart_of_the_broker() -> None:
    before = StatusSummary("b", up=True, start=100.0, process=Process("n", 1000.0, 900.0))
    for uptime, told in ((915.0, []), (5.0, [Change.BROKER_RESTART])):
        after = StatusSummary("b", up=True, start=4000.0, process=Process("n", 1015.0, uptime))
        assert [event.change for event in changes(before, after, NOW)] == told


def test_changes_of_conditions() -> None:
    name = ("stalled", "a", "q", "c")
    calm, warned, worse = (
        StatusSummary("b", up=True, conditions=conditions)
        for conditions in ({}, {name: (Severity.WARNING, 50.0)}, {name: (Severity.CRITICAL, 50.0)})
    )
    (on,) = changes(calm, warned, NOW)
    assert on == Event(NOW, Change.CONDITION_ON, "b", "a", "q", "c", "stalled", "warning", 50.0)
    (severer,) = changes(warned, worse, NOW)
    assert (severer.change, severer.severity, severer.detail) == (Change.SEVERITY, "critical", "warning to critical")
    (off,) = changes(worse, calm, NOW)
    assert (off.change, off.condition) == (Change.CONDITION_OFF, "stalled")
    assert list(changes(worse, worse, NOW)) == []


@pytest.mark.slow  # many polls or events
def test_the_journal_is_bounded_in_memory_and_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.agent.journal.MAX_BYTES", 10_000)
    journal = Journal(tmp_path)
    for number in range(KEPT + 5):
        journal.add([Event(NOW + number, Change.BROKER_UP, f"b{number}")])
    assert len(journal.last(KEPT * 2)) == KEPT
    assert journal.last(1)[0].broker == f"b{KEPT + 4}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, f"{FILE}.1"]
    assert all(path.stat().st_size <= 10_000 for path in tmp_path.iterdir())
    again = Journal(tmp_path)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"time": 1, "cut o\xff')
    again.load()
    assert again.last(5) == journal.last(5)


def test_an_event_that_is_told_late_hides_no_other() -> None:
    """A large broker tells its events when it has rendered them; a small one told later ones before."""
    journal = Journal()
    for at in (100.0, 102.0, 104.0, 106.0, 108.0):
        journal.add([Event(at, Change.BROKER_UP, "small")])
    journal.add([Event(101.0, Change.BROKER_UP, "large")])
    assert [event.time for event in journal.last(100, since=103.0)] == [104.0, 106.0, 108.0]
    assert [event.time for event in journal.last(100)] == [100.0, 101.0, 102.0, 104.0, 106.0, 108.0]
    assert [event.time for event in journal.last(2)] == [106.0, 108.0]


@pytest.mark.slow  # many polls or events
def test_what_operators_and_clients_cause_pushes_no_condition_out(tmp_path: Path) -> None:
    """Neither out of memory nor out of the files; and the other way round."""
    journal = Journal(tmp_path)
    on = Event(NOW, Change.CONDITION_ON, "b", "a", "q", "c", "stalled", "warning", 50.0)
    start = Event(NOW + 1, Change.AGENT_START, detail="version 1")
    journal.add([on, start])
    for i in range(KEPT + 5):
        journal.add([Event(NOW + 2 + i, Change.CONFIG_REFUSED, detail="x" * 1_500)])
    again = Journal(tmp_path)
    again.load()
    for one in (journal, again):
        assert one.last(KEPT, broker="b") == [on]
        assert one.last(KEPT * 3)[0] == on
        assert 100 < len(one.last(KEPT * 3)) <= 1 + AGENT_KEPT
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2**20
    journal = Journal()
    journal.add([start])
    journal.add(Event(NOW + 2 + i, Change.CONDITION_ON, "b", condition="stalled") for i in range(KEPT + 5))
    assert journal.last(KEPT * 3)[0] == start


def test_both_kinds_of_changes_are_told_in_their_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    mixed = [Event(NOW + i, Change.ROLE, "b" * (i % 3 != 0), detail=str(i)) for i in range(10)]
    journal.add(mixed)
    again = Journal(tmp_path)
    again.load(mixed[:3])
    for one in (journal, again):
        assert one.last(100) == mixed
        assert one.last(4) == mixed[-4:]
        assert one.last(100, since=NOW + 5) == mixed[5:]


def test_the_journal_is_asked_by_time_broker_and_queue() -> None:
    journal = Journal()
    assert journal.add([]) is False
    journal.add(Event(NOW + i, Change.CONDITION_ON, f"b{i % 2}", queue=f"q{i}") for i in range(6))
    assert [event.queue for event in journal.last(10, since=NOW + 3)] == ["q3", "q4", "q5"]
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
    path.write_text("brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/'}]\nrules: []\n")
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
        since = min([condition.since for condition in found if condition.name == "stalled"], default=0.0)
        await running.stop()
        return sorted(condition.name for condition in found), since, running

    first, since, one = await run(25)
    assert set(first) == {"stalled", "ring_losing", "no_consumer", "not_dispatching"}
    body = b"".join(one.exposition.chunks(Format.TEXT, gzip=False))
    assert b"penstock_state_save_success 1.0\n" in body or b"penstock_state_save_success 1\n" in body
    world.queues[2]["added"] += 20
    second, still_since, _ = await run(1)
    assert (second, still_since) == (first, since)
    files = data / FILE, data / AGENT_FILE
    told = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    counts = [event["condition"] for event in told if event["change"] == "condition_on"]
    assert sorted(counts) == first, "what goes on is not told again"
    assert [event["change"] for event in told].count("agent_start") == 2


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
