"""A large broker's long jobs delay no other broker; each broker's own jobs are done one by one, wherever."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.crashes import Counted, Traffic, counters
from penstock.agent import Assessor, PollResult, Result, workers
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.checkpoints import Checkpoints
from penstock.agent.nodes import Nodes
from penstock.agent.state_database import StateDatabase
from penstock.agent.state_store import StateStore
from penstock.agent.supervisor import Agent
from penstock.agent.workers import CALM, Lane, Workers
from penstock.brokers.artemis import reader
from penstock.brokers.cadence import Aged
from penstock.brokers.tables import NameJoin
from penstock.core.table import Index
from penstock.settings.policy import Policy
from penstock.transports.recording import RecordingTransport

SOON = 5.0


@pytest.fixture
def two() -> Iterator[Workers]:
    threads = Workers()
    yield threads
    threads.shutdown(wait=True)


def burn(seconds: float = 1.5 * workers.LONG) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return thread()


def thread() -> str:
    return threading.current_thread().name.rpartition("_")[0]


def test_who_had_a_long_job_delays_no_other(two: Workers) -> None:
    large = workers.Lane(two)
    small = workers.Lane(two)
    gate = threading.Event()
    large.submit(burn).result(SOON)
    held = large.submit(gate.wait, SOON)
    try:
        assert small.submit(thread).result(SOON / 2) == "penstock-work"
        assert not held.done()
    finally:
        gate.set()
    assert held.result(SOON)


@pytest.mark.slow  # many jobs
def test_large_brokers_take_turns(two: Workers) -> None:
    one = workers.Lane(two)
    other = workers.Lane(two)
    one.submit(burn).result(SOON)
    other.submit(burn).result(SOON)
    assert {lane.submit(thread).result(SOON) for lane in (one, other)} == {
        "penstock-large"
    }


def test_a_broker_that_became_small_is_with_the_small_ones_again(two: Workers) -> None:
    lane = workers.Lane(two)
    lane.submit(burn).result(SOON)
    found = [lane.submit(thread).result(SOON) for _ in range(CALM + 1)]
    assert found == ["penstock-large"] * CALM + ["penstock-work"]


def test_who_waited_only_is_not_large(two: Workers) -> None:
    """For a core of a busy machine, or for another thread."""
    lane = workers.Lane(two)
    lane.submit(time.sleep, 2 * workers.LONG).result(SOON)
    assert not lane.large


def test_a_job_that_fails_counts_as_any_other(two: Workers) -> None:
    def fails() -> None:
        burn()
        raise ValueError

    lane = workers.Lane(two)
    with pytest.raises(ValueError):  # noqa: PT011 - ours
        lane.submit(fails).result(SOON)
    assert lane.large


@pytest.mark.slow  # many jobs
def test_jobs_of_one_broker_never_run_at_once(two: Workers) -> None:
    """A poll that was cancelled leaves its job behind in the one thread while the next is done in the other."""
    lane = workers.Lane(two)
    running = [0]
    most = [0]

    def job(seconds: float) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        burn(seconds)
        running[0] -= 1

    jobs: list[Future[None]] = []
    for n in range(40):
        jobs.append(lane.submit(job, 1.5 * workers.LONG if n in (3, 20) else 0.001))
        time.sleep(0.005)
    for one in jobs:
        one.result(SOON)
    assert most == [1]
    assert lane.large


class Watched:
    """A broker of a part of an agent, polled in its own lane."""

    def __init__(
        self, kept: Checkpoints, lane: Lane, name: str, traffic: Traffic | None = None
    ) -> None:
        self.traffic = traffic or Traffic()
        self.traffic.world.policy = Policy(name)
        nodes = Nodes(kept.of_node, lambda: {name})
        self.assessor = Assessor(
            self.traffic.world.policy, 15.0, nodes, lane=lane, on_record=kept.record
        )

    def poll(self) -> None:
        self.assessor.take(self.traffic.step())
        self.assessor.publish(PollResult(Result.OK), {})

    def submit(self) -> Future[None]:
        assert self.assessor.lane is not None
        return self.assessor.lane.submit(self.poll)

    def shown(self) -> Counted:
        return counters(self.assessor.tables)


@pytest.mark.slow  # many jobs
async def test_what_is_shown_while_the_state_is_saved_is_in_it(
    two: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large broker, of a small one."""
    kept = Checkpoints(StateDatabase(tmp_path), two, lambda _: None)
    kept.load()
    brokers = [Watched(kept, workers.Lane(two), name) for name in ("large", "small")]
    for one in brokers:
        one.submit().result(SOON)
    large = brokers[0].assessor.lane
    assert large is not None
    late: list[Future[None]] = []

    def meanwhile() -> None:
        late.extend(one.submit() for one in brokers)
        time.sleep(0.2)

    keep = StateStore.keep
    flush = StateStore.flush

    def keeping(
        store: StateStore, checkpoint: Checkpoint, sequence: int, now: float
    ) -> bool:
        meanwhile()
        return keep(store, checkpoint, sequence, now)

    def flushing(store: StateStore, now: float) -> bool:
        meanwhile()
        return flush(store, now)

    monkeypatch.setattr(StateStore, "keep", keeping)
    monkeypatch.setattr(StateStore, "flush", flushing)
    for _ in range(3):
        large.submit(burn).result(SOON)
        await kept.save([one.assessor for one in brokers])
        for job in late:
            job.result(SOON)
        late.clear()
    kept.close()
    monkeypatch.undo()
    again = Checkpoints(StateDatabase(tmp_path), two, lambda _: None)
    again.load()
    for one in brokers:
        goes_on = Watched(again, workers.Lane(two), one.assessor.name, one.traffic)
        goes_on.poll()
        before = one.shown()
        after = goes_on.shown()
        both = before.keys() & after.keys()
        assert len(both) > len(before) / 2
        assert [
            (name, before[name], after[name])
            for name in both
            if after[name] < before[name]
        ] == []


async def test_the_event_loop_walks_no_queues(
    two: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What walks all queues is a job: of 100,000 it took 40 ms, in which no request was answered."""
    seen: dict[str, set[str]] = {}

    def noted(owner: type, name: str) -> None:
        work = getattr(owner, name)

        def call(*given: object, **named: object) -> object:
            seen.setdefault(f"{owner.__name__}.{name}", set()).add(thread())
            return work(*given, **named)

        monkeypatch.setattr(owner, name, call)

    for owner, name in (
        (Aged, "due"),
        (Aged, "note"),
        (NameJoin, "__call__"),
        (Index, "__iter__"),
    ):
        noted(owner, name)
    recording = Path(__file__).parent.parent / "recordings" / "artemis-2.44.0.jsonl.gz"
    source = reader.ArtemisReader(
        RecordingTransport(recording), executor=workers.Lane(two)
    )
    for _ in range(2):
        assert (await source.poll(5.0)).queues is not None
    assert seen.keys() >= {
        "Aged.due",
        "Aged.note",
        "NameJoin.__call__",
        "Index.__iter__",
    }
    assert {name: threads for name, threads in seen.items() if "" in threads} == {}


async def test_workers_that_cannot_be_looked_after_do_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise ValueError("an error that no one thought of")

    with suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            await Agent._spread_regularly(
                cast("Any", SimpleNamespace(_pool=SimpleNamespace(look=look)))
            )
    assert (len(looks), caplog.text.count("could not be looked after")) == (1, 1)
