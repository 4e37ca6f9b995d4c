"""What is set for the whole process is set by `penstock run`, never by an agent inside another program."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.agent import Agent, process
from penstock.cli import main
from penstock.core import allocator


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """As they were, before and after."""
    before = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(0.007)
    gc.set_threshold(777, 7, 7)
    yield
    sys.setswitchinterval(before[0])
    gc.set_threshold(*before[1])


def set_now() -> tuple[float, tuple[int, int, int]]:
    return round(sys.getswitchinterval(), 6), gc.get_threshold()


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "p.yml"
    path.write_text(
        "brokers: []\ndiscovery: {profiles: {p: {kind: artemis, url: 'http://{host}/'}},"
        " files: [{files: [found-*.yml], profiles: [p]}]}\n"
    )
    return path


async def test_an_agent_leaves_the_process_as_it_is(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arenas: list[int] = []
    monkeypatch.setattr(allocator, "one_arena", lambda: arenas.append(1))
    agent = Agent(configuration)
    await agent.start()
    try:
        assert set_now() == (0.007, (777, 7, 7))
    finally:
        await agent.stop()
    assert arenas == []


def test_the_command_run_sets_it(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    class Ending(Agent):
        async def start(self) -> None:
            await super().start()
            seen.append(set_now())
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("penstock.cli.run.Agent", Ending)
    monkeypatch.setattr(allocator, "one_arena", lambda: seen.append("one arena"))
    monkeypatch.setattr(
        process, "last_resort", lambda: threading.Timer(0.0, bool)
    )  # it would end the tests
    arguments = [
        "run",
        "--config.file",
        configuration,
        "--web.listen-address",
        "127.0.0.1:0",
    ]
    found = CliRunner().invoke(
        main,
        [*map(str, arguments), "--storage.path", str(configuration.parent / "data")],
    )
    assert found.exit_code == 0, found.output
    assert seen == [
        "one arena",
        (process.SWITCH_SECONDS, (process.YOUNG, process.OLDER, process.ALL)),
    ]
