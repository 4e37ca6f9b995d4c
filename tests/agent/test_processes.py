"""Large brokers in worker processes: as if one process polled all, whatever ends, hangs or is reloaded."""

import asyncio
import gzip
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from bench.broker import Broker, running

from penstock.agent import Agent, Result
from penstock.agent.journal import Journal
from penstock.agent.processes import handle, pool
from penstock.agent.processes.blocks import NOTHING, applied, changed
from penstock.agent.state_database import StateDatabase
from penstock.agent.tables import PollSeries
from penstock.core.errors import ConfigError
from penstock.core.table import Index, Table
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format
from penstock.insight.events import Change
from penstock.insight.lists import ListQuery
from penstock.server.request_limit import Busy

COMMAND = (sys.executable, "-P", "-m", "penstock.cli.worker", "info", "logfmt")


POLLED = "interval: 3s\ntimeout: 2.9s\n"
"""As often as the tests can bear: the shorter it is, the sooner a busy machine fails to read a part in time."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with running(60, 60, churn=0.0) as one, running(40, 40, churn=0.0) as two:
        yield {"one": one, "two": two}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.agent.fleet.SPREAD_SECONDS", 0.0)
    monkeypatch.setattr("penstock.agent.supervisor.LOOK_SECONDS", 0.1)
    monkeypatch.setattr(pool, "POLLS", 1_000_000)  # a test says itself who is large
    monkeypatch.setattr(handle, "PAUSE", 0.1)


def written(file: Path, brokers: dict[str, Broker], more: str = "") -> Path:
    lines = [
        f"  - {{name: {name}, kind: artemis, url: '{broker.url}'}}\n"
        for name, broker in brokers.items()
    ]
    file.write_text(POLLED + "brokers:\n" + "".join(lines) + more)
    return file


@asynccontextmanager
async def running_agent(
    file: Path, storage: Path, processes: int = 1
) -> AsyncIterator[Agent]:
    agent = Agent(file, storage, worker=COMMAND, processes=processes)
    await agent.start()
    try:
        await until(lambda: agent.lookups.ready()[0])
        yield agent
    finally:
        await agent.stop()


async def until(holds: Callable[[], Any], seconds: float = 180.0) -> None:
    """Generous: the machine may be busy."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.02)


async def moved(agent: Agent, *names: str) -> None:
    """They are large from now on, and were polled by a worker process."""
    for name in names:
        agent._pool._shares[name] = 1.0
    await until(lambda: all(name in agent._pool.assigned for name in names))
    since = time.time()
    await until(lambda: all(stamp(agent, name) > since for name in names))


def stamp(agent: Agent, broker: str) -> float:
    return samples(agent, broker)[
        f'penstock_poll_timestamp_seconds{{broker="{broker}"}}'
    ]


def samples(agent: Agent, broker: str) -> dict[str, float]:
    """What `/metrics` shows of it, which is never nothing."""
    text = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
    of_it = (line for line in text.splitlines() if f'broker="{broker}"' in line)
    lines = [
        line.rpartition(" ")
        for line in of_it
        if not line.startswith("penstock_broker_expected")
    ]
    return {name: float(value) for name, _, value in lines}


def steady(found: dict[str, float]) -> dict[str, float]:
    """What does not change while the broker does nothing, and is no time."""
    left_out = (
        "penstock_",
        "mq_broker_clock_skew",
        "mq_queue_oldest",
        "mq_address_info",
        "mq_queue_consumer_capacity_ratio",  # of rates, which go on with each poll
    )
    return {
        name: value
        for name, value in found.items()
        if not name.startswith(left_out) and "seconds" not in name
    }


def all_judged(found: dict[str, float]) -> bool:
    """Every object was seen at as many polls as it takes, and the settings, of which more is read at each poll."""
    unknown = [
        value
        for name, value in found.items()
        if name.startswith("mq_object_") and 'state="unknown"' in name
    ]
    has_findings = any('rule="ring_on_paging_address"' in name for name in found)
    return has_findings and not any(unknown)


def all_read(found: dict[str, float]) -> bool:
    """The last poll missed no part."""
    return all(
        value == 1.0
        for name, value in found.items()
        if name.startswith("penstock_collector_success{")
    )


async def settled(agent: Agent, broker: str) -> dict[str, float]:
    """Return what is shown steadily, once it was the same at three polls in a row, and these missed no part.

    What a poll could not read is absent for a while, and the account is uncertain about it.
    """
    alike: list[dict[str, float]] = []
    while len(alike) < 3:
        last = stamp(agent, broker)
        await until(lambda: stamp(agent, broker) > last)  # noqa: B023
        found = samples(agent, broker)
        shown = steady(found)
        if not all_read(found) or not all_judged(found):
            alike = []
        elif alike and shown != alike[-1]:
            alike = [shown]
        else:
            alike.append(shown)
    return alike[-1]


def counters(found: dict[str, float]) -> dict[str, float]:
    return {
        name: value
        for name, value in found.items()
        if "_added_total{" in name or "_delivered_total{" in name
    }


def pid(agent: Agent) -> int:
    (worker,) = agent._pool.workers
    assert worker._process is not None
    return worker._process.pid


ASKED: list[tuple[str, tuple[Any, ...]]] = [
    ("queues", ("", ListQuery(limit=7, offset=3))),
    ("queues", ("", ListQuery(sort="-queue", limit=50))),
    ("queues", ("", ListQuery(sort="messages", text="step"), 3)),
    ("queues", ("", ListQuery(sort="-oldest_message"))),
    ("queues", ("", ListQuery(condition="unknown"))),
    ("clients", ("", ListQuery(sort="-delivered", limit=20))),
    ("clients", ("", ListQuery(sort="client", offset=30))),
    ("consumers", ("", ListQuery(sort="consumer"))),
    ("consumers", ("", ListQuery(sort="-worst"))),
    ("conditions", ("", ListQuery())),
    ("queues", ("one", ListQuery(limit=5), 3)),
    ("explain", ("one", "orders.region-01.step-000001", None, None)),
    ("account", ("one", "orders.region-01.step-000001")),
    ("client", ("one", "worker-000001.site-1")),
    ("recent", ("one", "orders.region-01.step-000001", None)),
    ("brokers", ()),
    ("masked_config", ()),
]


def answered(agent: Agent) -> list[str]:
    """As text, without what differs from poll to poll: times, and how long was watched."""
    found = [
        msgspec.json.encode(getattr(agent.lookups, what)(*given)).decode()
        for what, given in ASKED
    ]
    volatile = r'"(age|completeness|course|recent)":({[^}]*}|[^,}]*)|after .*?"|[0-9]+ polls|[0-9]{10}[.][0-9]+'
    return [re.sub(volatile, "", text) for text in found]


@pytest.mark.slow  # starts processes
async def test_one_process_or_two_give_the_same(
    tmp_path: Path, brokers: dict[str, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "p.yml", brokers)
    async with running_agent(file, tmp_path / "alone", processes=0) as alone:
        monkeypatch.setattr(pool.WorkerPool, "large_by", lambda *_: ["one"])
        async with running_agent(file, tmp_path / "spread") as spread:
            assert list(alone._fleet.polled) == ["one", "two"]
            assert list(spread._fleet.polled) == ["two"]
            for name in brokers:
                assert await settled(alone, name) == await settled(spread, name)
            await until(lambda: answered(alone) == answered(spread))
        first, second = (
            b"".join(alone.exposition.chunks(Format.TEXT, gzip=zipped))
            for zipped in (False, True)
        )
        assert len(gzip.decompress(second)) == pytest.approx(len(first), rel=0.01)


@pytest.mark.nightly  # a minute
async def test_a_broker_that_moves_goes_on(
    tmp_path: Path, brokers: dict[str, Broker]
) -> None:
    """What it shows is the same before and after, and it is shown at any time between."""
    file = written(tmp_path / "p.yml", brokers)
    async with running_agent(file, tmp_path / "data") as agent:
        for _ in range(2):
            brokers["one"].step()
            last = stamp(agent, "one")
            await until(lambda: stamp(agent, "one") > last)  # noqa: B023
        before = await settled(agent, "one")
        await moved(agent, "one")
        assert list(agent._fleet.polled) == ["two"]
        await until(lambda: steady(samples(agent, "one")) == before)
        assert len(counters(before)) > 50
        brokers["one"].step()
        now = counters(await settled(agent, "one"))
        assert not {
            name: (value, now.get(name))
            for name, value in counters(before).items()
            if now[name] < value
        }
        assert now != counters(before)
    # The next one goes on in one process with what both knew, knows the events, and publishes what was not yet.
    spool = tmp_path / "data" / "worker-1" / "spool"
    for left in ("0a-000001", "_damaged"):
        (spool / left).mkdir(parents=True)
    (spool / "lives.arrow").touch()
    async with running_agent(file, tmp_path / "data", processes=0) as agent:
        await until(lambda: counters(samples(agent, "one")) == now)
        assert not (tmp_path / "data" / "worker-1" / "state.db").exists()
        assert [one.name for one in (tmp_path / "data" / "spool").iterdir()] == [
            "worker-1-0a-000001"
        ]
        assert sorted(one.name for one in spool.iterdir()) == [
            "_damaged",
            "lives.arrow",
        ], "the worker's own"


@pytest.mark.nightly  # a minute of processes that are killed
async def test_a_worker_that_is_killed_or_hangs_is_started_again(
    tmp_path: Path, brokers: dict[str, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "p.yml", brokers)
    async with running_agent(file, tmp_path / "data") as agent:
        await moved(agent, "one")
        assert len(counters(await settled(agent, "one"))) > 50
        (worker,) = agent._pool.workers
        command = worker._command
        worker._command = (
            "/does/not/exist",
        )  # until the test has seen what is shown meanwhile
        before = await at_rest(agent, "one")
        os.kill(pid(agent), signal.SIGKILL)
        await until(lambda: samples(agent, "one")['mq_up{broker="one"}'] == 0)
        assert steady(samples(agent, "one")) == {**before, 'mq_up{broker="one"}': 0}, (
            "stays for a while"
        )
        worker._command = command
        await until(lambda: samples(agent, "one")['mq_up{broker="one"}'] == 1)
        await until(lambda: steady(samples(agent, "one")) == before)
        event, *_ = [
            one for one in agent._journal.last(100) if one.change is Change.WORKER_END
        ]
        assert event.detail == "worker-1: killed by signal 9"
        await hangs(agent, monkeypatch)
        await reloads(agent, file, brokers)
        # One that does not come back: what it showed goes.
        agent._pool.workers[0]._command = ("/does/not/exist",)
        monkeypatch.setattr(pool, "keep_seconds", lambda _: 0.0)
        os.kill(pid(agent), signal.SIGKILL)
        await until(lambda: samples(agent, "one") == {'mq_up{broker="one"}': 0})
        with pytest.raises(Busy, match="worker-1"):
            await asyncio.to_thread(agent.lookups.explain, "one", "q", None, None)
        states = {
            one.name: one for one in await asyncio.to_thread(agent.lookups.brokers)
        }
        assert (states["one"].up, states["two"].up) == (False, True)
        assert "worker-1" in states["one"].error
        assert (
            await asyncio.to_thread(agent.lookups.queues, "", ListQuery())
        ).total == 40, "of the other broker"


@pytest.mark.slow  # starts processes
async def test_a_worker_polls_what_the_agent_has_in_force(
    tmp_path: Path, brokers: dict[str, Broker]
) -> None:
    """Not what the file says by now: it is refused when the broker moves, and names another broker later."""
    file = written(tmp_path / "p.yml", brokers, "rules: [{owner: me}]\n")
    async with running_agent(file, tmp_path / "data") as agent:
        written(file, brokers, "rules: [{owner: [}]\n")
        with pytest.raises(ConfigError):
            await agent.reload()
        await moved(agent, "one")
        written(file, {"two": brokers["two"]})
        os.kill(pid(agent), signal.SIGKILL)
        await until(lambda: samples(agent, "one")['mq_up{broker="one"}'] == 0)
        await until(lambda: samples(agent, "one")['mq_up{broker="one"}'] == 1)
        assert any('owner="me"' in name for name in samples(agent, "one"))


@pytest.mark.nightly  # a process that hangs
async def test_one_that_hangs_while_it_is_sent_something_is_killed(
    tmp_path: Path, brokers: dict[str, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(handle, "HUNG_SECONDS", 3.0)
    async with running_agent(
        written(tmp_path / "p.yml", brokers), tmp_path / "data"
    ) as agent:
        await moved(agent, "one")
        (worker,) = agent._pool.workers
        starts = worker.starts
        os.kill(pid(agent), signal.SIGSTOP)
        sending = asyncio.create_task(
            asyncio.to_thread(worker.ask, "status", b"x" * 5_000_000, seconds=60.0)
        )
        await until(worker._sending.locked)
        with pytest.raises(Busy):
            await asyncio.to_thread(agent.lookups.queues, "one", ListQuery())
        assert not sending.done(), "does not wait for the other to be sent"
        async with asyncio.timeout(30):  # of the sixty seconds that it would wait
            with pytest.raises(Busy, match="has ended"):
                await sending
        await until(lambda: worker.starts > starts)
        last = stamp(agent, "one")
        await until(lambda: stamp(agent, "one") > last)


async def at_rest(agent: Agent, broker: str) -> dict[str, float]:
    """What is shown steadily of a broker once its worker process is stopped, and all that it sent was taken."""
    os.kill(pid(agent), signal.SIGSTOP)
    shown = [{"": 0.0}, steady(samples(agent, broker))]
    while shown[-1] != shown[-2]:
        await asyncio.sleep(0.1)
        shown.append(steady(samples(agent, broker)))
    return shown[-1]


async def hangs(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """It delays nobody, and is killed."""
    with monkeypatch.context() as patched:
        patched.setattr(handle, "ANSWER_SECONDS", 0.3)
        starts = agent._pool.workers[0].starts
        os.kill(pid(agent), signal.SIGSTOP)
        with pytest.raises(Busy, match=r"did not answer in time|does not answer"):
            await asyncio.to_thread(agent.lookups.queues, "one", ListQuery())
        assert (
            await asyncio.to_thread(agent.lookups.queues, "", ListQuery())
        ).total == 40, "of the other broker"
        assert agent._pool.workers[0].starts == starts, (
            "both were answered while it still hangs"
        )
        assert samples(agent, "one")['mq_up{broker="one"}'] == 1
        await until(lambda: agent._pool.workers[0].unanswered > 0)
        patched.setattr(pool, "HUNG_SECONDS", 0.5)
        await until(lambda: agent._pool.workers[0].starts > starts)
    last = stamp(agent, "one")
    await until(lambda: stamp(agent, "one") > last)


async def reloads(agent: Agent, file: Path, brokers: dict[str, Broker]) -> None:
    """They reach the worker."""
    written(file, brokers, "rules: [{owner: me}]\n")
    await agent.reload()
    await until(lambda: any('owner="me"' in name for name in samples(agent, "one")))
    shown = agent.lookups.masked_config()
    written(file, brokers, "rules: [{owner: [}]\n")
    with pytest.raises(ConfigError):
        await agent.reload()
    assert agent.lookups.masked_config() == shown
    written(file, {"two": brokers["two"]})
    await agent.reload()
    assert samples(agent, "one") == {}
    assert [one.name for one in await asyncio.to_thread(agent.lookups.brokers)] == [
        "two"
    ]
    written(file, brokers)
    await agent.reload()
    await until(lambda: len(counters(samples(agent, "one"))) > 50)
    assert list(agent._fleet.polled) == ["two"], "large until the agent starts again"


@dataclass
class Polled:
    """A poller, as far as the pool looks at it."""

    name: str
    node: str
    interval: float = 15.0
    used: float = 0.0
    done: int = 1

    @property
    def assessor(self) -> Any:
        return SimpleNamespace(node=self.node, lane=self, snapshot=None)

    @property
    def polls(self) -> dict[Result, int]:
        return {Result.OK: self.done, Result.PARTIAL: 0}

    def polled(self, times: int, seconds: float) -> None:
        self.done = self.done + times
        self.used = self.used + times * seconds


@pytest.fixture
def idle_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pool.WorkerPool:
    """Its processes are never started."""
    monkeypatch.setattr(pool, "POLLS", 3)
    monkeypatch.setattr("threading.Thread.start", lambda _: None)
    found = pool.WorkerPool(tmp_path, (), 2, None, None, Journal(StateDatabase(None)))  # type: ignore[arg-type]
    found._intervals = dict.fromkeys("abcd", 15.0)
    return found


def test_who_takes_much_is_large(idle_pool: Any) -> None:
    """Above 0.03 of a processor over three polls; the first poll, which reads every text, does not count."""
    a = Polled("a", "n1", used=9.0)
    b = Polled("b", "n2", used=0.1)
    assert idle_pool.large_of([a, b]) == []
    a.polled(2, 0.5)
    b.polled(3, 0.4)
    assert idle_pool.large_of([a, b]) == []
    a.polled(1, 0.5)
    b.polled(3, 0.4)
    assert idle_pool.large_of([a, b]) == ["a"]
    idle_pool._intervals = {"a": 15.0}
    assert idle_pool.large_of([a]) == [], "alone it keeps nobody waiting"


def test_no_processes_no_large_ones(idle_pool: Any) -> None:
    idle_pool.most = 0
    idle_pool._shares = {"a": 1.0}
    assert idle_pool.large_of([Polled("a", "n1"), Polled("b", "n2")]) == []


def test_who_serves_one_node_id_goes_together(idle_pool: Any) -> None:
    pollers = [
        Polled("a", "n1"),
        Polled("b", "n1"),
        Polled("c", "n3"),
        Polled("d", "n4"),
    ]
    idle_pool._shares = {"a": 0.5, "c": 0.4, "d": 0.2}
    assert idle_pool.large_of(pollers) == ["a", "c", "d", "b"]
    idle_pool.assign(["a", "c", "d"], {})
    names = {name: worker.name for name, worker in idle_pool.assigned.items()}
    assert names == {"a": "worker-1", "c": "worker-2", "d": "worker-2"}, (
        "to the one that has least to do"
    )
    # A backup learns its node id when it has copied: it follows then.
    assert idle_pool.large_of([pollers[1]]) == ["b"]
    idle_pool.assign(["b"], {})
    assert idle_pool.assigned["b"] is idle_pool.assigned["a"]


def test_a_broker_that_its_process_does_not_poll_is_withdrawn(
    idle_pool: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a while, and told once; one that is polled, and has not said its node id, stays."""
    idle_pool.most = 1
    idle_pool.assign(["a", "b"], {})
    (worker,) = {idle_pool.assigned[name] for name in "ab"}
    worker.ended = np.inf
    polled = {"a": ""}
    monkeypatch.setattr(worker, "ask", lambda *_: (polled, {}, 0.0, 0.0))
    monkeypatch.setattr(pool.WorkerPool, "_give", lambda *_: None)
    idle_pool.look()
    assert worker.blocks["b"].published is NOTHING
    monkeypatch.setattr(pool, "keep_seconds", lambda _: 0.0)
    for _ in range(3):
        idle_pool.look()
    assert (
        list(worker.blocks["b"].published.families),
        worker.blocks["a"].published,
    ) == (["mq_up"], NOTHING)
    assert [
        one.getMessage()[:33] for one in caplog.records if one.levelname == "ERROR"
    ] == ["worker-1 does not poll broker b ("]


@pytest.mark.slow  # starts processes
def test_how_a_worker_ended_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, though its socket closed before it had ended."""
    monkeypatch.setattr(handle, "PAUSE", 60.0)
    code = (
        "import os, sys, time; os.close(int(sys.argv[2])); time.sleep(0.1); sys.exit(3)"
    )
    journal = Journal(StateDatabase(None))
    handle.WorkerProcess(tmp_path / "worker-1", (sys.executable, "-c", code), journal)
    until_true(lambda: journal.last(1))
    assert journal.last(1)[0].detail == "worker-1: exit status 3; the log says why"


def test_only_what_changed_is_sent() -> None:
    blocks = BrokerBlocks()
    rows = Index.of([PollSeries("b", str(n)) for n in range(5000)])
    columns = [np.arange(5000.0), np.arange(5000.0), np.arange(5000.0)]
    columns[1][4999] = 7.0
    before = shown = NOTHING
    sizes = []
    for column in columns:
        blocks.update({"poll": Table(rows, {"polls": column})})
        parts = changed(before, blocks.published)
        sizes.append(len(pickle.dumps(parts)))
        before, shown = (
            blocks.published,
            applied(shown, pickle.loads(pickle.dumps(parts))),  # noqa: S301 - as it is sent
        )
        assert [one.fragments for one in shown.families.values()] == [
            one.fragments for one in before.families.values()
        ]
        assert shown.samples == before.samples == 5000
    assert sizes[1] < sizes[0] / 2, "one block of three"
    assert applied(shown, changed(before, NOTHING)).families == {}


def children(of: int) -> list[int]:
    return [
        int(one)
        for file in Path(f"/proc/{of}/task").glob("*/children")
        for one in file.read_text().split()
    ]


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_agent(
    tmp_path: Path, brokers: dict[str, Broker], ending: int
) -> None:
    file = written(tmp_path / "p.yml", brokers)
    file.write_text(
        file.read_text().replace(
            "artemis,", "artemis, username: me, password: '${SECRET}',"
        )
    )
    large = "pool.LARGE, pool.POLLS = 1e-9, 1"
    code = f"from penstock.agent.processes import pool; {large}; from penstock.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "run",
        "--config.file",
        str(file),
        "--storage.path",
        str(tmp_path / "data"),
    ]
    environment = {**os.environ, "PENSTOCK_PROCESSES": "1", "SECRET": "hunter2"}
    with subprocess.Popen(
        [*command, "--web.listen-address", "127.0.0.1:0"], env=environment
    ) as process:
        try:
            until_true(
                lambda: (
                    children(process.pid)
                    and (tmp_path / "data" / "worker-1" / "state.db").exists()
                )
            )
            (worker,) = children(process.pid)
            assert "hunter2" not in Path(f"/proc/{worker}/cmdline").read_text()
            process.send_signal(ending)
            assert process.wait(60) == (0 if ending == signal.SIGTERM else -9)
            until_true(lambda: not running_process(worker))
        finally:
            process.kill()


def running_process(number: int) -> bool:
    try:
        return (
            Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False


def until_true(holds: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
