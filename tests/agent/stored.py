"""State stores for tests: opened, and read as a later agent would."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection, connect
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from penstock.agent import state_database
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import Journal
from penstock.agent.packed import compressed, decompressed, unpack
from penstock.agent.state_database import FILE, StateDatabase
from penstock.agent.state_store import StateStore


def as_read(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint as a later agent reads it."""
    return unpack(decompressed(compressed(checkpoint)), Checkpoint)


def opened(directory: Path) -> StateStore:
    """The store of that directory, as the agent opens it at its start."""
    store = StateStore(StateDatabase(directory))
    store.database.open()
    store.load()
    return store


def opened_journal(directory: Path) -> Journal:
    database = StateDatabase(directory)
    database.open()
    return Journal(database)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has no room for what comes next: a database that may not grow is full at once."""
    monkeypatch.setattr(state_database, "PAGE_BYTES", 512)


@contextmanager
def full(database: StateDatabase) -> Iterator[None]:
    """The disk of the database, which has `small_pages`, is full: it cannot grow, and is not opened with more room."""
    with connections_with("PRAGMA max_page_count=1"):
        database.read(
            lambda connection: connection.execute("PRAGMA max_page_count=1").fetchall()
        )
        yield


@contextmanager
def connections_with(*settings: str) -> Iterator[None]:
    """Files that are opened until the block ends have these settings, too."""
    real: Callable[..., Any] = state_database.connect

    def connected(path: Path) -> Connection:
        connection: Connection = real(path)
        for setting in settings:
            connection.execute(setting).fetchall()
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_database, "connect", connected)
        yield


def known_in(directory: Path) -> list[Checkpoint]:
    """The brokers in the database of an agent that may run; without what it has recorded since its last save."""
    with TemporaryDirectory() as folder:
        for name in (FILE, f"{FILE}-wal"):
            if (directory / name).exists():
                Path(folder, name).write_bytes((directory / name).read_bytes())
        with closing(connect(Path(folder, FILE))) as connection:
            rows = connection.execute("SELECT body FROM broker").fetchall()
    return [unpack(decompressed(body), Checkpoint) for (body,) in rows]
