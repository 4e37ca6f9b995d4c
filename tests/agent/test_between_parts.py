"""What lies between identity, journal, last good parts and the stop: the first polls of an agent or a process."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import crashes
from agent.crashes import Agent, Traffic
from agent.test_restart import busy
from agent.world import World
from core.things import producer
from penstock.agent import Assessor, PollResult, Result
from penstock.agent.nodes import Nodes
from penstock.agent.packed import pack, unpack
from penstock.agent.supervisor import Agent as Whole
from penstock.core.errors import PenstockError
from penstock.core.table import Index
from penstock.model import Collector, Process, Snapshot
from penstock.series.last_good import LastGood, keep_last_good


def without(snapshot: Snapshot, part: str) -> Snapshot:
    """As if the part had timed out."""
    collector = "connections" if part == "producers" else part
    collectors = {
        **snapshot.collectors,
        collector: Collector(1.0, snapshot.stamp, "timed out"),
    }
    changes: dict[str, Any] = {part: None, "collectors": collectors}
    return replace(snapshot, **changes)


def test_a_process_that_was_never_seen_is_not_seen_after_it_was_kept() -> None:
    kept = unpack(pack(Process()), Process)
    assert not kept.seen
    assert not Process("amq", clock=10.0, uptime=5.0, session="n1").replaces(kept)


# Half a second each
@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "part",
    [
        "consumers",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("producers", "queues")),
    ],
)
def test_a_first_poll_that_is_partial_lowers_no_counter_and_loses_none(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        crashes, "producer", lambda key, address, _: producer(key, address, "shop")
    )
    traffic = Traffic()
    first = Agent(tmp_path / "a", traffic)
    undisturbed = Agent(tmp_path / "b", Traffic())
    for _ in range(8):
        first.poll()
    shown = dict(first.shown)
    again = Agent(tmp_path / "a", traffic)
    for number in range(4):
        snapshot = traffic.step()
        again.assessor.take(without(snapshot, part) if number == 0 else snapshot)
        again.assessor.publish(PollResult(Result.OK), {})
        assert {
            name: again.shown[name]
            for name in shown
            if again.shown.get(name, shown[name]) < shown[name]
        } == {}
    for _ in range(12):
        undisturbed.poll()
    assert again.shown == undisturbed.shown


@pytest.mark.parametrize("error", ["", "1 values could not be read and are left out"])
def test_a_part_with_values_left_out_stands_in_when_it_fails_next(error: str) -> None:
    world = busy()
    kept = LastGood()
    for number in range(6):
        world.now += 15
        snapshot = world.snapshot()
        read = Collector(0.1, snapshot.stamp, error, all_rows=bool(error))
        snapshot = replace(
            snapshot, collectors={**snapshot.collectors, "consumers": read}
        )
        kept, completed = keep_last_good(
            kept, snapshot if number < 5 else without(snapshot, "consumers"), 60
        )
    assert completed.consumers is not None


def test_what_a_process_said_does_not_stand_in_for_the_next_one() -> None:
    world = World()
    world.queue(1, "orders", messages=1000, added=5000, acknowledged=4000)
    assessor = Assessor(world.policy, 15.0, Nodes(lambda _: (), lambda: {"b1"}))

    def poll(*, failing: bool = False) -> float | None:
        world.now += 15
        snapshot = world.snapshot()
        assessor.take(without(snapshot, "queues") if failing else snapshot)
        table = assessor.tables.get("queue")
        return None if table is None else float(table["added"][0])

    assert [poll(), poll()] == [5000.0, 5000.0]
    world.started = world.now + 10
    world.queues[1] |= {"messages": 1000.0, "added": 1000.0, "acknowledged": 0.0}
    world._queues = Index.empty()
    assert [poll(failing=True), poll(), poll()] == [None, 0.0, 0.0], (
        "it reloaded a thousand, none was added"
    )


@pytest.mark.parametrize("turns", range(3))
async def test_a_stop_just_as_the_start_ends_leaves_nothing(
    turns: int, tmp_path: Path
) -> None:
    file = tmp_path / "penstock.yml"
    file.write_text(
        "brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/console/jolokia'}]\n"
    )
    agent = Whole(file, tmp_path / "data")
    start = agent._start
    stopping: list[asyncio.Task[None]] = []

    async def starts() -> None:
        await start()
        for _ in range(turns):
            await asyncio.sleep(0)
        stopping.append(asyncio.create_task(agent.stop()))

    agent._start = starts  # type: ignore[method-assign]
    before = asyncio.all_tasks()
    with contextlib.suppress(PenstockError):
        await agent.start()
    await agent.stop()
    await asyncio.gather(*stopping)
    assert asyncio.all_tasks() - before == set()
