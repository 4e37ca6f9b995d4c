"""A state database that is damaged, of another version, or cannot be written: nothing ends, all is said."""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.stored import full, opened, opened_journal, small_pages  # noqa: F401 - a fixture
from penstock.agent import state_database
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import Journal
from penstock.agent.packed import compressed
from penstock.agent.state_database import FILE, StateDatabase
from penstock.agent.state_schema import APPLICATION, VERSION
from penstock.agent.state_store import StateStore
from penstock.core.errors import ConfigError
from penstock.insight.events import Change, Event

NOW = 1_795_219_200.0
CHECKPOINT = Checkpoint("node-1 b1", now=NOW, broker="b1", interval=15.0)
UP = Event(NOW, Change.BROKER_UP, "b1")
START = Event(NOW, Change.AGENT_START)


def filled(directory: Path) -> StateStore:
    """With a broker and two events, and its log moved into the file."""
    store = opened(directory)
    store.keep(CHECKPOINT, store.next_sequence(), NOW)
    opened_journal(directory).add([UP, START])
    assert store.flush(NOW)
    return store


def names(store: StateStore) -> list[str]:
    return [checkpoint.node_id for checkpoint in store.known()]


def refuse(*_: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


# --- damage


def overwrite(path: Path, begin: float, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(int(begin * path.stat().st_size))
        file.write(b"\xa5" * length)


def flip(path: Path, body: bytes) -> None:
    """Change a byte that is shortly behind those."""
    content = bytearray(path.read_bytes())
    content[content.index(body) + len(body) + 20] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"nonsense" * 1000),
        lambda path: overwrite(path, 0.0, 50),
        lambda path: overwrite(path, 0.05, 20_000),
        lambda path: path.write_bytes(path.read_bytes()[:9_000]),
        lambda path: flip(path, compressed(CHECKPOINT)[:20]),
        lambda path: path.write_bytes(
            path.read_bytes().replace(b"broker_up", b"broker_\xff\xff")
        ),
    ],
    ids=["nonsense", "header", "pages", "cut", "within a broker", "within an event"],
)
def test_a_damaged_database_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    filled(tmp_path).database.close()
    damage(tmp_path / FILE)
    store = opened(tmp_path)
    Journal(store.database).verify()
    assert not store.database.success
    assert f"it is set aside as {tmp_path / FILE}.unusable" in caplog.text
    assert (tmp_path / f"{FILE}.unusable").exists()


def test_after_damage_all_is_written_to_a_new_file(tmp_path: Path) -> None:
    filled(tmp_path).database.close()
    overwrite(tmp_path / FILE, 0.0, 50)
    store = opened(tmp_path)
    assert not store.database.success
    assert names(store) == []
    store.keep(CHECKPOINT, store.next_sequence(), NOW)
    assert store.flush(NOW)
    assert names(opened(tmp_path)) == ["node-1 b1"]


def test_damage_that_shows_while_the_agent_runs_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(tmp_path)
    body = b"no zlib stream"
    store.database.write(
        lambda connection: connection.execute("UPDATE broker SET body = ?", (body,))
    )
    assert names(store) == []
    assert "is damaged" in caplog.text
    store.keep(CHECKPOINT, store.next_sequence(), NOW)
    assert names(store) == ["node-1 b1"]
    assert store.flush(NOW)


def test_another_programs_database_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("CREATE TABLE broker(key TEXT)")
        connection.commit()
    assert names(opened(tmp_path)) == []
    assert "is no state database of Penstock" in caplog.text


def test_a_file_that_cannot_be_set_aside_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_bytes(b"nonsense" * 100)
    monkeypatch.setattr(Path, "replace", refuse)
    store = opened(tmp_path)
    assert "state.db cannot be renamed: Permission denied" in caplog.text
    store.keep(CHECKPOINT, store.next_sequence(), NOW)
    assert names(store) == ["node-1 b1"]
    assert not store.flush(NOW)


# --- versions


def test_a_newer_versions_database_is_refused(tmp_path: Path) -> None:
    filled(tmp_path).database.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")
    expected = rf"newer version of Penstock \(it has schema {VERSION + 1}, .* start that version again, or rename"
    with pytest.raises(ConfigError, match=expected):
        opened(tmp_path)
    assert (tmp_path / FILE).exists()


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    filled(tmp_path).database.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert (application, version, mode) == (APPLICATION, VERSION, "wal")


# --- disks


@pytest.mark.usefixtures("small_pages")
def test_while_the_disk_is_full_all_is_kept_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(tmp_path)
    journal = Journal(store.database)
    events = [
        Event(NOW + number, Change.CONFIG_REFUSED, "b1", detail="x" * 3_000)
        for number in range(9)
    ]
    with full(store.database):
        for event in events:
            journal.add([event])
        assert journal.last(99, broker="b1") == [UP, *events]
        assert names(store) == ["node-1 b1"]
        assert [store.flush(NOW), store.flush(NOW)] == [False, False]
        assert not store.database.success
    assert caplog.text.count("cannot be used (database or disk is full)") == 1
    assert "--storage.path" in caplog.text
    with caplog.at_level(logging.INFO):
        assert store.flush(NOW)
    assert "is written again" in caplog.text
    assert opened_journal(tmp_path).last(99, broker="b1") == [UP, *events]


def test_a_directory_that_cannot_be_made_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").write_text("a file")
    store = opened(tmp_path / "data")
    store.keep(CHECKPOINT, store.next_sequence(), NOW)
    assert [store.flush(NOW), store.flush(NOW)] == [False, False]
    assert caplog.text.count("cannot be used") == 1
    (tmp_path / "data").unlink()
    assert store.flush(NOW)
    assert names(opened(tmp_path / "data")) == ["node-1 b1"]


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_went_is_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    store = filled(tmp_path)
    path = tmp_path / FILE
    if how == "deleted":
        for companion in tmp_path.iterdir():
            companion.unlink()
    else:
        path.rename(tmp_path / "elsewhere")
    if how == "replaced":
        filled(tmp_path / "other").database.close()
        (tmp_path / "other" / FILE).rename(path)
    Journal(store.database).add([Event(NOW + 1, Change.BROKER_DOWN, "b1")])
    assert store.flush(NOW)
    assert "it was moved or deleted" in caplog.text
    store.database.close()
    assert names(opened(tmp_path)) == ["node-1 b1"]
    assert len(opened_journal(tmp_path).last(9, broker="b1")) == 2


def read_only(path: Path) -> sqlite3.Connection:
    raise sqlite3.OperationalError(f"attempt to write a readonly database: {path.name}")


@pytest.mark.parametrize("closed", [True, False], ids=["ended", "killed"])
def test_what_can_only_be_read_is_used(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    closed: bool,
) -> None:
    before = filled(tmp_path)
    if closed:
        before.database.close()
    with monkeypatch.context() as patched:
        patched.setattr(state_database, "connect", read_only)
        store = opened(tmp_path)
        assert "cannot be used (attempt to write a readonly database" in caplog.text
        assert names(store) == ["node-1 b1"]
        assert not store.flush(NOW)
    before.database.close()
    assert store.flush(NOW)
    assert names(opened(tmp_path)) == ["node-1 b1"]
    assert opened_journal(tmp_path).last(9) == [UP, START]


def test_a_file_that_could_not_be_read_at_the_start_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path).database.close()
    with monkeypatch.context() as patched:
        patched.setattr(state_database, "connect", refuse)
        patched.setattr(state_database, "_connect_read_only", read_only)
        store = opened(tmp_path)
        assert names(store) == []
        assert (tmp_path / FILE).exists()
    assert store.flush(NOW)
    with closing(sqlite3.connect(tmp_path / f"{FILE}.unusable")) as connection:
        assert connection.execute("SELECT key FROM broker").fetchall() == [
            ("node-1 b1",)
        ]


def test_a_file_system_without_a_write_ahead_log_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite then answers with the mode that it keeps."""
    monkeypatch.setattr(state_database, "WAL_MODE", "delete")
    store = opened(tmp_path)
    assert "this file system does not support a write-ahead log" in caplog.text
    assert "on a local disk" in caplog.text
    store.keep(CHECKPOINT, store.next_sequence(), NOW)
    assert names(store) == ["node-1 b1"]


def test_a_file_system_without_shared_memory_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network file systems are: no other program may open the database while the agent runs."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def without_shared_memory(path: object, **options: Any) -> sqlite3.Connection:
        name = f"file:{path}?vfs=unix-dotfile" if isinstance(path, Path) else str(path)
        return connect(name, **{**options, "uri": True})

    monkeypatch.setattr(sqlite3, "connect", without_shared_memory)
    for _ in range(2):
        store = opened(tmp_path)
        store.keep(CHECKPOINT, store.next_sequence(), NOW)
        assert store.flush(NOW)
        assert store.database.is_file
        assert not (tmp_path / f"{FILE}-shm").exists()
        assert names(store) == ["node-1 b1"]
        store.database.close()


def test_another_program_that_locks_the_database_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state_database, "BUSY_SECONDS", 0.01)
    store = filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.keep(CHECKPOINT, store.next_sequence(), NOW)
        assert "database is locked" in caplog.text
        assert names(store) == ["node-1 b1"]
        other.execute("ROLLBACK")
    assert store.flush(NOW)
    assert opened_journal(tmp_path).last(9) == [UP, START]


# --- what is written


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM broker")
        raise KeyError("in between")

    with pytest.raises(KeyError):
        store.database.write(work)
    assert names(store) == ["node-1 b1"]


def test_no_poll_waits_for_the_disk(tmp_path: Path) -> None:
    """Only a flush moves the log into the database."""
    database = StateDatabase(tmp_path)
    database.open()
    size = (tmp_path / FILE).stat().st_size
    rows = [(f"broker {number}", NOW, number, bytes(100_000)) for number in range(100)]
    database.write(
        lambda connection: connection.executemany(
            "INSERT INTO broker VALUES (?, ?, ?, ?)", rows
        )
    )
    assert (tmp_path / FILE).stat().st_size == size
    database.flush()
    assert (tmp_path / FILE).stat().st_size > 10_000_000


def test_a_save_is_on_the_disk_while_another_program_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite then neither moves the log nor flushes it."""
    store = filled(tmp_path)
    flushed: list[int] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino)
    )
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM broker").fetchall()
        store.keep(CHECKPOINT, store.next_sequence(), NOW)
        assert store.flush(NOW)
        assert flushed == [(tmp_path / f"{FILE}-wal").stat().st_ino]
    assert store.flush(NOW)
    assert len(flushed) == 1, "SQLite itself does it"
