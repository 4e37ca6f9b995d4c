"""What stands where the agent's files should be: it starts in time, says so, and goes on without."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.test_restart import busy
from agent.test_state_file import Reader, until_polled
from penstock.agent import Agent, supervisor
from penstock.agent.journal import FILE, MAX_BYTES, Journal
from penstock.agent.state_file import MAGIC, Saved, StateFile, encode
from penstock.agent.state_journal import FILE as JOURNAL
from penstock.agent.storage_lock import lock_storage
from penstock.core.errors import ConfigError
from penstock.exposition.syntax import Format
from penstock.insight.events import Change, Event

NOW = 1_795_219_200.0
GIB = 1 << 30


def link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse_gib(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(GIB)


ODD: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a link": link_to_zero,
    "a directory": lambda path: path.mkdir(),
    "1,073,741,824 bytes": sparse_gib,
}


def at_once(work: Callable[[], object]) -> None:
    """Fails when it hangs, as opening a FIFO does."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive(), "it hangs"


# --- the state file and its journal


@pytest.mark.parametrize("told", ODD)
@pytest.mark.parametrize("name", ["state.bin", JOURNAL])
def test_what_is_no_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, told: str) -> None:
    ODD[told](tmp_path / name)
    file = StateFile(tmp_path)
    at_once(file.load)
    assert told in caplog.text
    assert f"set aside as {tmp_path / name}.unusable" in caplog.text
    assert file.save()
    again = StateFile(tmp_path)
    again.load()
    assert caplog.text.count("set aside") == 1


@pytest.mark.slow  # takes a second
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """1 GiB that takes 1 MiB."""
    packer = zlib.compressobj(9)
    begin, again = (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = begin + 1023 * again
    (tmp_path / "state.bin").write_bytes(MAGIC + b"2\n" + bomb)
    limit = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20));"
        "from pathlib import Path; from penstock.agent.state_file import StateFile;"
        "StateFile(Path(sys.argv[1])).load()"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", limit, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=20,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "unpacks to more than" in done.stderr
    assert (tmp_path / "state.bin.unusable").exists()


def test_a_link_in_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / "state.bin.new").symlink_to(victim)
    assert StateFile(data).save()
    assert victim.read_text() == "precious"
    assert not (data / "state.bin").is_symlink()


def test_another_agents_new_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "state.bin.new").write_bytes(b"of an agent that was killed")
    assert StateFile(tmp_path).save()
    assert (tmp_path / "state.bin").read_bytes() == encode(Saved())


# --- the log of changes


def event(number: int) -> Event:
    return Event(NOW + number, Change.BROKER_UP, f"b{number}")


def test_a_line_torn_within_a_character_is_skipped_and_the_next_event_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add([event(1)])
    with (tmp_path / FILE).open("ab") as file:
        file.write('{"time": 1, "change": "broker_up", "broker": "Zürich'.encode()[:-5])
    again = Journal(tmp_path)
    again.load()
    again.add([event(2)])
    last = Journal(tmp_path)
    last.load()
    assert last.last(10) == [event(1), event(2)]


@pytest.mark.parametrize("told", ODD)
def test_a_log_of_changes_that_is_no_file(tmp_path: Path, caplog: pytest.LogCaptureFixture, told: str) -> None:
    ODD[told](tmp_path / FILE)
    journal = Journal(tmp_path)
    at_once(journal.load)
    assert told in caplog.text
    assert "events are kept in memory only; remove it" in caplog.text
    if told != "1,073,741,824 bytes":  # which is rotated away
        at_once(lambda: journal.add([event(1)]))
        assert not journal.success
        path = tmp_path / FILE
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with caplog.at_level(logging.INFO):
        journal.add([event(2)])
    assert journal.success
    assert "is written again" in caplog.text
    again = Journal(tmp_path)
    (tmp_path / f"{FILE}.1").unlink(missing_ok=True)
    again.load()
    assert again.last(10) == journal.last(10), "what waited is written"


def test_what_a_full_disk_cut_off_is_written_whole_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.add([event(1)])
    write = os.write

    def half(descriptor: int, content: bytes) -> int:
        write(descriptor, bytes(content)[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        journal.add([event(2)])
    journal.add([event(3)])
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert [json.loads(line)["broker"] for line in lines] == ["b1", "b2", "b3"]


def test_events_of_the_journal_are_told_once(tmp_path: Path) -> None:
    Journal(tmp_path).add([event(1), event(2)])
    again = Journal(tmp_path)
    again.load([event(2), event(3)])
    assert again.last(10) == [event(1), event(2), event(3)]
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 3


def test_a_file_that_grew_is_still_rotated(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"x" * MAX_BYTES + b"\n")
    journal = Journal(tmp_path)
    journal.load()
    journal.add([event(1)])
    assert (tmp_path / f"{FILE}.1").stat().st_size > MAX_BYTES
    assert journal.success


# --- the agent


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "p.yml"
    path.write_text("brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/'}]\nrules: []\n")
    return path


def release(lock: int | None) -> None:
    assert lock is not None
    os.close(lock)


def test_a_second_agent_is_refused(tmp_path: Path) -> None:
    first = lock_storage(tmp_path)
    with pytest.raises(ConfigError, match=rf"in use by another agent \(process {os.getpid()}\): stop that one, or"):
        lock_storage(tmp_path)
    release(first)
    release(lock_storage(tmp_path))


def test_a_lock_that_is_no_file_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / "lock")
    at_once(lambda: lock_storage(tmp_path))
    assert "cannot be locked (it is a FIFO): see that no other agent uses it" in caplog.text


async def test_the_second_agent_starts_once_the_first_has_stopped(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(busy()))
    first, second = Agent(configuration, tmp_path / "data"), Agent(configuration, tmp_path / "data")
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
    program = [sys.executable, "-c", "from penstock.cli.main import main; main()", "run"]
    options = ["--config.file", str(configuration), "--web.listen-address", "127.0.0.1:0"]
    done = subprocess.run(
        [*program, *options, "--storage.path", str(tmp_path / "data")], capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip
    release(lock)
    assert done.returncode == 2
    assert "in use by another agent" in done.stderr
    assert "--storage.path" in done.stderr
    assert "Traceback" not in done.stderr


async def test_an_agent_starts_among_odd_files(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "open_reader", lambda *_: Reader(busy()))
    data = tmp_path / "data"
    data.mkdir()
    os.mkfifo(data / "state.bin")
    os.mkfifo(data / JOURNAL)
    link_to_zero(data / FILE)
    agent = Agent(configuration, data)
    async with asyncio.timeout(30):
        await agent.start()
        (poller,) = agent.pollers()
        await until_polled(poller)
        body = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
        assert "penstock_state_save_success 0" in body
        await agent.stop()
    again = StateFile(data)
    again.load()
    assert [one.node_id for one in again.of_node("node-1")] == ["node-1 b1"]


async def test_an_agent_that_cannot_start_holds_nothing(
    tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConfigError("no such transport")

    monkeypatch.setattr(supervisor, "open_reader", refuse)
    with pytest.raises(ConfigError, match="no such transport"):
        await Agent(configuration, tmp_path).start()
    release(lock_storage(tmp_path))
