"""What stands where the agent's files should be: it starts in time, says so, and goes on without."""

import asyncio
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.stored import known_in, opened, opened_journal
from agent.test_restart import busy
from agent.test_state_file import Reader, until_polled
from penstock.agent import Agent, supervisor
from penstock.agent.earlier_files import FILES as EARLIER_FILES
from penstock.agent.migration import take_in_earlier_files
from penstock.agent.state_database import FILE
from penstock.agent.storage_lock import lock_storage
from penstock.core.errors import ConfigError
from penstock.exposition.self_metrics import SelfMetrics
from penstock.insight.events import Change, Event

NOW = 1_795_219_200.0
GIB = 1 << 30


def link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse_gib(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(GIB)


ODD: dict[str, Callable[[Path], None]] = {
    "it is a FIFO": os.mkfifo,
    "it is a link": link_to_zero,
    "it is a directory": lambda path: path.mkdir(),
    "file is not a database": sparse_gib,
}


def at_once(work: Callable[[], object]) -> None:
    """Fails when it hangs, as opening a FIFO does."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive(), "it hangs"


# --- the state database


@pytest.mark.parametrize("told", ODD)
def test_what_is_no_database_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, told: str
) -> None:
    ODD[told](tmp_path / FILE)
    stores = []
    at_once(lambda: stores.append(opened(tmp_path)))
    assert told in caplog.text
    assert f"it is set aside as {tmp_path / FILE}.unusable" in caplog.text
    assert stores[0].flush(NOW)
    opened(tmp_path)
    assert caplog.text.count("set aside") == 1


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_link_beside_the_database_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str
) -> None:
    victim = tmp_path / "victim"
    data = tmp_path / "data"
    victim.write_text("precious")
    data.mkdir()
    (data / f"{FILE}{suffix}").symlink_to(victim)
    opened_journal(data).add([Event(NOW, Change.BROKER_UP, "b1")])
    assert victim.read_text() == "precious"
    assert (
        suffix == "-wal" or "cannot be used" in caplog.text
    )  # a log without a database is removed


@pytest.mark.slow  # takes a second
@pytest.mark.parametrize(
    "told",
    [
        "it is a FIFO",
        "it is a link",
        "it is a directory",
        "at most 268,435,456 are read",
    ],
)
@pytest.mark.parametrize("name", ["state.bin", "state.journal", "events.jsonl"])
def test_what_is_in_the_place_of_an_earlier_versions_file_is_renamed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, told: str
) -> None:
    {**ODD, "at most 268,435,456 are read": sparse_gib}[told](tmp_path / name)
    store = opened(tmp_path)
    at_once(lambda: take_in_earlier_files(tmp_path, store))
    assert f"{tmp_path / name}: {told}" in caplog.text or told in caplog.text
    assert not os.path.lexists(tmp_path / name)
    assert store.known() == []


@pytest.mark.slow  # takes a second
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """1 GiB that takes 1 MiB."""
    packer = zlib.compressobj(9)
    begin, again = (
        packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
        for _ in range(2)
    )
    store = opened(tmp_path)
    row = "node-1 b1", NOW, 1, begin + 1023 * again
    store.database.write(
        lambda connection: connection.execute(
            "INSERT INTO broker VALUES (?, ?, ?, ?)", row
        )
    )
    store.database.close()
    limit = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20));"
        "from pathlib import Path; from penstock.agent.state_database import StateDatabase;"
        "from penstock.agent.state_store import StateStore;"
        "store = StateStore(StateDatabase(Path(sys.argv[1]))); store.database.open(); store.load()"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", limit, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=20,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "unpacks to more than" in done.stderr
    assert (tmp_path / f"{FILE}.unusable").exists()


# --- the agent


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "p.yml"
    path.write_text(
        "brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/'}]\nrules: []\n"
    )
    return path


def release(lock: int | None) -> None:
    assert lock is not None
    os.close(lock)


def test_a_second_agent_is_refused(tmp_path: Path) -> None:
    first = lock_storage(tmp_path)
    with pytest.raises(
        ConfigError,
        match=rf"in use by another agent \(process {os.getpid()}\): stop that one, or",
    ):
        lock_storage(tmp_path)
    release(first)
    release(lock_storage(tmp_path))


def test_a_lock_that_is_no_file_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "lock")
    at_once(lambda: lock_storage(tmp_path))
    assert (
        "cannot be locked (it is a FIFO): see that no other agent uses it"
        in caplog.text
    )


async def test_the_second_agent_starts_once_the_first_has_stopped(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(busy()))
    first = Agent(configuration, tmp_path / "data")
    second = Agent(configuration, tmp_path / "data")
    await first.start()
    with pytest.raises(ConfigError, match="in use by another agent"):
        await second.start()
    await second.stop()
    await first.stop()
    third = Agent(configuration, tmp_path / "data")
    await third.start()
    await third.stop()


@pytest.mark.slow  # takes a second
def test_the_command_says_what_to_do(tmp_path: Path, configuration: Path) -> None:
    lock = lock_storage(tmp_path / "data")
    program = [
        sys.executable,
        "-c",
        "from penstock.cli.main import main; main()",
        "run",
    ]
    options = [
        "--config.file",
        str(configuration),
        "--web.listen-address",
        "127.0.0.1:0",
    ]
    done = subprocess.run(
        [*program, *options, "--storage.path", str(tmp_path / "data")], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    release(lock)
    assert done.returncode == 2
    assert "in use by another agent" in done.stderr
    assert "--storage.path" in done.stderr
    assert "Traceback" not in done.stderr


async def test_an_agent_starts_among_odd_files(
    tmp_path: Path,
    configuration: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    saves: list[bool] = []
    monkeypatch.setattr(
        SelfMetrics, "state_saved", lambda _, *, success: saves.append(success)
    )
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(busy()))
    data = tmp_path / "data"
    data.mkdir()
    os.mkfifo(data / FILE)
    for name in EARLIER_FILES:
        link_to_zero(data / name)
    agent = Agent(configuration, data)
    async with asyncio.timeout(30):
        await agent.start()
        (poller,) = agent.pollers()
        await until_polled(poller)
        await agent.stop()
    assert saves[0] is False
    assert saves[-1] is True
    assert f"{data / FILE} cannot be used: it is a FIFO; it is set aside" in caplog.text
    assert [one.node_id for one in known_in(data)] == ["node-1 b1"]


async def test_an_agent_that_cannot_start_holds_nothing(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConfigError("no such transport")

    monkeypatch.setattr(supervisor, "open_reader", refuse)
    with pytest.raises(ConfigError, match="no such transport"):
        await Agent(configuration, tmp_path).start()
    release(lock_storage(tmp_path))
