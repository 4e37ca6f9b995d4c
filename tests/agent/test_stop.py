"""The agent is told to stop in the very moment in which something else happens to it."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.interleavings import World, world
from penstock.agent import Agent, Assessor, Result, supervisor
from penstock.cli import run
from penstock.core.errors import PenstockError
from penstock.exposition.self_metrics import SelfMetrics
from penstock.model import Snapshot
from rig.waiting import until

__all__ = ["world"]

BROKER = "{name: one, kind: artemis, url: 'http://127.0.0.1:1/'}"
CONFIG = f"interval: 1s\nbrokers: [{BROKER}]\n"
RECORDING = Path(__file__).parent.parent / "recordings" / "demo-artemis.jsonl.gz"
PROFILE = "{kind: artemis, url: 'http://{host}:1/'}"
DNS = (
    CONFIG
    + f"discovery: {{profiles: {{p: {PROFILE}}}, dns: [{{dns: _x._tcp.y, profile: p}}]}}\n"
)


@pytest.mark.parametrize("steps", range(5))
async def test_stops_while_a_change_asks_for_a_save(
    tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.agent.checkpoints.SAVE_PAUSE", 0.0)
    file = tmp_path / "penstock.yml"
    file.write_text(
        "brokers: [{name: b, kind: artemis, url: 'http://127.0.0.1:1/jolokia/'}]\n"
    )
    agent = Agent(file, tmp_path / "data")
    await agent.start()
    (poller,) = agent.pollers()
    await until(lambda: poller.polls[Result.FAILED] > 0)

    async def change() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        agent._checkpoints.save_soon()

    changing = asyncio.create_task(change())
    stopping = asyncio.create_task(agent.stop())
    _, pending = await asyncio.wait([changing, stopping], timeout=10)
    assert not pending
    await stopping


async def in_time(work: Coroutine[Any, Any, None]) -> None:
    """It does not wait for the time after which a stop leaves behind what has not ended (of `world` five minutes)."""
    async with asyncio.timeout(60):
        await work


@pytest.fixture
def dns_hangs(world: World, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No name server answers; set when it is asked."""
    asked = asyncio.Event()

    async def resolve(_: object) -> list[Any]:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    world.file.write_text(DNS)
    monkeypatch.setattr("penstock.agent.discovery.resolve", resolve)
    return asked


async def test_a_stop_ends_a_start_that_waits_for_dns(
    world: World, dns_hangs: asyncio.Event
) -> None:
    agent = world.agent()
    starting = asyncio.create_task(agent.start())
    await dns_hangs.wait()
    await in_time(agent.stop())
    with pytest.raises(PenstockError, match="Penstock is stopping"):
        await starting
    world.left_nothing()
    assert world.readers == []


async def test_the_command_stops_before_it_has_started(
    world: World, dns_hangs: asyncio.Event
) -> None:
    stopping = asyncio.Event()
    watching = asyncio.create_task(run._watch(world.agent(), stopping))
    await dns_hangs.wait()
    stopping.set()
    await in_time(watching)  # type: ignore[arg-type]
    world.left_nothing()


async def test_a_reload_under_way_starts_nothing_after_a_stop(
    world: World, dns_hangs: asyncio.Event
) -> None:
    world.file.write_text(CONFIG)
    agent = world.agent()
    await agent.start()
    world.file.write_text(DNS.replace("one", "two"))
    reloading = asyncio.create_task(agent.reload())
    await dns_hangs.wait()
    late = asyncio.create_task(agent.reload())
    await asyncio.sleep(0)
    await in_time(agent.stop())
    for one in (reloading, late):
        with pytest.raises(PenstockError, match="Penstock is stopping"):
            await one
    with pytest.raises(PenstockError, match="Penstock is stopping"):
        await agent.reload()
    world.left_nothing()
    assert [reader.name for reader in world.readers] == ["one"]


async def test_who_is_cancelled_while_it_stops_is_cancelled_and_the_stop_goes_on(
    world: World,
) -> None:
    world.file.write_text(CONFIG)
    agent = world.agent()
    await agent.start()
    stopping = asyncio.create_task(agent.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await in_time(agent.stop())
    await agent.stop()
    world.left_nothing()


async def test_what_was_not_begun_leaves_what_an_earlier_agent_saved(
    world: World,
) -> None:
    world.file.write_text(CONFIG)
    await world.agent().stop()
    assert not (world.folder / "data").exists()


@pytest.mark.slow  # takes a second
async def test_one_thread_writes_what_the_agent_shows_of_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads that write would lose what one of them wrote."""
    threads: set[str] = set()

    def noted(metrics: SelfMetrics, name: str, value: object) -> None:
        threads.add(threading.current_thread().name)
        object.__setattr__(metrics, name, value)

    monkeypatch.setattr(SelfMetrics, "__setattr__", noted)
    world.file.write_text(CONFIG + "history: {enabled: true}\n")
    agent = world.agent()
    await agent.start()
    await until(lambda: world.readers[0].polls >= 2)
    await agent.reload()
    await agent.stop()
    assert threads == {"MainThread"}


class Gate(threading.Event):
    """A poll is assessed when it is set, and after two minutes."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()
        """Set when a poll has come so far."""

    def pass_through(self) -> None:
        self.waits.set()
        self.wait(120)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    take = Assessor.take

    def take_behind_it(assessor: Assessor, snapshot: Snapshot) -> None:
        gate.pass_through()
        take(assessor, snapshot)

    monkeypatch.setattr(Assessor, "take", take_behind_it)
    yield gate
    gate.set()


async def assessing(world: World, gate: Gate) -> Agent:
    world.file.write_text(CONFIG)
    agent = world.agent()
    await agent.start()
    await until(gate.waits.is_set)
    return agent


async def test_a_stop_does_not_wait_for_a_long_job(
    world: World,
    gate: Gate,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = await assessing(world, gate)
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.1)
    async with asyncio.timeout(60):
        await agent.stop()
    assert "did not end within 0.1 s" in caplog.text
    assert agent._lock is not None
    with pytest.raises(
        PenstockError, match="another"
    ):  # the job under way may still write
        await world.agent().start()
    gate.set()


async def test_a_stop_waits_for_a_job_that_ends_soon(
    world: World, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    agent = await assessing(world, gate)
    asyncio.get_running_loop().call_later(0.1, gate.set)
    await agent.stop()
    world.left_nothing()
    assert (world.folder / "data" / "state.db").exists()
    assert "did not end" not in caplog.text


RUN = """
from penstock.cli.main import main
main(["run", "--config.file", sys.argv[1], "--web.listen-address", "127.0.0.1:0", "--storage.path", sys.argv[2]])
"""
WORKING = """
import sys, time
from penstock.agent import Assessor
Assessor.take = lambda *_: print("here", flush=True) or time.sleep(60)
"""
RESOLVING = """
import socket, sys, time
numbers = socket.getaddrinfo
def hang(host, *more, **named):
    if str(host).startswith("127."):
        return numbers(host, *more, **named)
    print("here", flush=True)
    time.sleep(60)
socket.getaddrinfo = hang
"""


@pytest.mark.slow  # takes five seconds
@pytest.mark.parametrize(
    ("hangs", "broker"),
    [
        (WORKING, f'transport: recording, url: "recording:{RECORDING}"'),
        (RESOLVING, "url: 'http://broker.example:8161/console/jolokia/'"),
    ],
    ids=["a job", "a name server"],
)
def test_the_process_ends_whatever_hangs(
    tmp_path: Path, hangs: str, broker: str
) -> None:
    file = tmp_path / "p.yml"
    file.write_text(f"brokers: [{{name: b, kind: artemis, {broker}}}]\n")
    with subprocess.Popen(
        [sys.executable, "-c", hangs + RUN, str(file), str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            process.terminate()
            _, said = process.communicate(
                timeout=45
            )  # the job and the name server hang for a minute
            assert process.returncode == 0
            assert "ERROR" not in said
            assert "Traceback" not in said
        finally:
            process.kill()
