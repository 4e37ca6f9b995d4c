"""The state database, `state.db`: all that outlives the agent, in one SQLite file with a write-ahead log (WAL).

What is committed outlives the process at once, and a power cut after the next `flush`. While the file cannot be used,
a database in memory takes its place, so that callers see no error; `flush` returns to the file as soon as that works.
"""

import contextlib
import errno
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from penstock.agent.state_schema import (
    Damaged,
    WrittenByNewerVersion,
    copy_tables,
    create_or_check,
)
from penstock.core.errors import ConfigError
from penstock.core.safe_files import (
    Unfit,
    check_target,
    create,
    flush_to_disk,
    make_directory,
)

log = logging.getLogger(__name__)

FILE = "state.db"
WAL_MODE = "wal"
WAL_SUFFIX = "-wal"
COMPANION_SUFFIXES = (WAL_SUFFIX, "-shm")
"""Of the files that SQLite keeps beside the database while it is open."""
SET_ASIDE_SUFFIX = ".unusable"
"""Of a file that could not be used; a later one replaces it."""
BUSY_SECONDS = 1.0
"""How long a write waits for another program that has locked the database."""
PAGE_BYTES = 16_384
"""With SQLite's 4,096 the write of a large broker's poll takes half as long again."""
CACHE_KIB = 2000
MAX_IDLE_WAL_BYTES = 1 << 25
MAX_VALUE_BYTES = 1 << 28
"""A longer value is refused: the state of the largest brokers is far below it."""
SETTINGS = (
    "synchronous=NORMAL",
    "wal_autocheckpoint=0",  # `flush` does it: no poll waits for the disk
    f"journal_size_limit={MAX_IDLE_WAL_BYTES}",
    f"cache_size=-{CACHE_KIB}",
    "cell_size_check=ON",
    "trusted_schema=OFF",
)

ResultT = TypeVar("ResultT")
Work = Callable[[sqlite3.Connection], ResultT]


class StateDatabase:
    """The one connection of the process to its state; any thread may use it.

    Until `open` is called, and without a directory for ever, everything is kept in memory only.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.success = True
        """Whether the file could be used, and has all that was written. True where nothing is to be kept."""
        self._lock = threading.RLock()
        self._connection = _memory_database()
        self._is_file = False
        self._file_identity: tuple[int, int] | None = None
        """Of the file in use: SQLite goes on with one that was moved or deleted."""
        self._memory_is_complete = False
        """Whether the database in memory began with all that the file had."""

    @property
    def path(self) -> Path:
        """The file. Not to be asked for where there is no directory."""
        assert self.directory is not None  # noqa: S101 - as the docstring says
        return self.directory / FILE

    @property
    def is_file(self) -> bool:
        """Whether the file is in use, and not the database in memory."""
        return self._is_file

    def open(self) -> None:
        """Begin to use the file. One that is damaged is renamed, with a warning.

        Raises ConfigError: a newer version of Penstock wrote it.
        """
        if self.directory is None:
            return
        with self._lock:
            try:
                self._use_file()
            except Unfit as error:
                self._set_aside(f"cannot be used: {_reason(error)}")
                self._use_memory_until_file_works()
            except Damaged as error:
                self._set_aside(str(error))
                self._use_memory_until_file_works()
            except (OSError, sqlite3.Error) as error:
                self._warn(_reason(error))
                self._read_into_memory()

    def write(self, work: Work[ResultT]) -> ResultT:
        """Do the work in one transaction: all of it is kept, or nothing."""
        return self._do(lambda connection: _in_transaction(connection, work))

    def read(self, work: Work[ResultT]) -> ResultT:
        """Do work that changes nothing; it must not leave a cursor open."""
        return self._do(work)

    def flush(self) -> bool:
        """Have all that was written on the disk. False: the file cannot be written, which is logged once."""
        if self.directory is None:
            return True
        with self._lock:
            if self._is_file and _identity(self.path) != self._file_identity:
                self._fall_back_to_memory(
                    FileNotFoundError(errno.ENOENT, "it was moved or deleted")
                )
            if not self._is_file:
                self._return_to_file()
            if self._is_file:
                self._move_log_into_database()
            return self.success

    def set_aside(self, reason: str) -> None:
        """Rename a file whose content cannot be used, and begin without it."""
        with self._lock:
            if self._is_file:
                self._use_memory()
                self._set_aside(reason)
                self._use_memory_until_file_works()

    def close(self) -> None:
        """End the use of the file; what is written later is in memory only."""
        with self._lock:
            if self._is_file:
                self._use_memory()

    def remove(self) -> None:
        """Close and delete the file: another one has what it says."""
        self.close()
        for path in _with_companions(self.path):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _do(self, work: Work[ResultT]) -> ResultT:
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                if not self._is_file:
                    raise
                self._fall_back_to_memory(error)
                return work(self._connection)

    # --- from the file to memory

    def _fall_back_to_memory(self, error: OSError | sqlite3.Error) -> None:
        """Go on in memory with what the file has, as far as that can be read."""
        memory = _memory_database()
        self._memory_is_complete = not _is_damage(error) and _copied(
            self._connection, memory
        )
        self._replace_connection(memory, is_file=False)
        if _is_damage(error):
            self._set_aside(f"is damaged ({error})")
        else:
            self._warn(_reason(error))

    def _use_memory(self) -> None:
        self._replace_connection(_memory_database(), is_file=False)

    def _replace_connection(
        self, connection: sqlite3.Connection, *, is_file: bool
    ) -> None:
        _close(self._connection)
        self._connection = connection
        self._is_file = is_file
        self._file_identity = _identity(self.path) if is_file else None

    def _read_into_memory(self) -> None:
        """Take over what a file has that can be read only, as on a disk that is full or write-protected."""
        self._memory_is_complete = False
        if not self.path.is_file():
            self._memory_is_complete = True
            return
        try:
            file = _connect_read_only(self.path)
        except sqlite3.Error:
            return
        self._memory_is_complete = _copied(file, self._connection)
        _close(file)

    # --- from memory to the file

    def _use_file(self) -> None:
        """Raises ConfigError, OSError, Damaged, sqlite3.Error."""
        try:
            file = connect(self.path)
        except WrittenByNewerVersion as error:
            raise ConfigError(
                f"{self.path} was written by a newer version of Penstock ({error}): start that version again, or"
                " rename the file to begin without what it knows, or give another --storage.path"
            ) from None
        self._replace_connection(file, is_file=True)

    def _use_memory_until_file_works(self) -> None:
        """Try at once; else `flush` does."""
        self._memory_is_complete = True  # there is nothing to lose
        self._return_to_file()
        self.success = False  # until the next flush: something was lost

    def _return_to_file(self) -> None:
        """Write all that is in memory to the file, and use that again."""
        if not self._memory_is_complete and self.path.exists():
            self._set_aside("could not be read when it was needed")
        try:
            file = connect(self.path)
        except (OSError, Damaged, WrittenByNewerVersion, sqlite3.Error) as error:
            self._warn(_reason(error))
            return
        try:
            copy_tables(self._connection, file)
        except sqlite3.Error as error:
            _close(file)
            self._warn(_reason(error))
            return
        self._replace_connection(file, is_file=True)

    def _move_log_into_database(self) -> None:
        """Move the write-ahead log into the database, and both to the disk."""
        try:
            _, pages, moved = self._connection.execute(
                "PRAGMA wal_checkpoint(PASSIVE)"
            ).fetchone()
            if (
                moved < pages
            ):  # another program reads what was there before, and SQLite may have flushed nothing
                flush_to_disk(_write_ahead_log(self.path))
        except (OSError, sqlite3.Error) as error:
            self._fall_back_to_memory(error)
            return
        if not self.success:
            log.info("%s is written again", self.path)
        self.success = True

    # --- what is logged

    def _set_aside(self, reason: str) -> None:
        self.success = False
        aside = self.path.with_name(FILE + SET_ASIDE_SUFFIX)
        log.warning(
            "%s %s; it is set aside as %s: counters, conditions and events start again",
            self.path,
            reason,
            aside,
        )
        try:
            for path in _with_companions(self.path):
                _rename(
                    path,
                    path.with_name(path.name.replace(FILE, FILE + SET_ASIDE_SUFFIX)),
                )
        except OSError as error:
            log.warning("%s cannot be renamed: %s", self.path, error.strerror)

    def _warn(self, reason: str) -> None:
        """Only the first failure in a row is logged."""
        if self.success:
            log.warning(
                "%s cannot be used (%s): counters, conditions and events are in memory only, and lost when the agent"
                " ends; make the directory writable, on a local disk, or give another --storage.path",
                self.path,
                reason,
            )
        self.success = False


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, and create it where there is none.

    Raises OSError, sqlite3.Error; Unfit: it is no regular file; Damaged; WrittenByNewerVersion.
    """
    make_directory(path.parent)
    check_target(path)
    if not path.exists():
        create(
            path
        ).close()  # for its owner only; SQLite gives the files beside it the same mode
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _set_up(connection)
    except sqlite3.Error as error:
        _close(connection)
        if _is_damage(error):
            raise Damaged(f"is damaged ({error})") from None
        raise
    except (Damaged, WrittenByNewerVersion):
        _close(connection)
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
    _use_write_ahead_log(connection)
    for setting in SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    create_or_check(connection)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.Error: the file system does not support one."""
    with contextlib.suppress(sqlite3.OperationalError):
        if _journal_mode(connection) == "wal":
            return
    # Without shared memory a log is possible while no other program opens the database.
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    if _journal_mode(connection) != "wal":
        raise sqlite3.OperationalError(
            "this file system does not support a write-ahead log"
        )


def _journal_mode(connection: sqlite3.Connection) -> str:
    """Ask for a write-ahead log, and return the mode that is in force then."""
    (mode,) = connection.execute(f"PRAGMA journal_mode={WAL_MODE}").fetchone()
    return str(mode)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a file that cannot be written. Raises sqlite3.Error."""
    # Without a log the file is whole, and SQLite needs no file beside it to be sure of that.
    is_whole = not _write_ahead_log(path).exists()
    options = "mode=ro&immutable=1" if is_whole else "mode=ro"
    return sqlite3.connect(
        f"file:{quote(str(path))}?{options}", uri=True, isolation_level=None
    )


def _memory_database() -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False
    )
    create_or_check(connection)
    return connection


def _in_transaction(connection: sqlite3.Connection, work: Work[ResultT]) -> ResultT:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")  # SQLite may have done so itself
        raise
    return result


def _copied(source: sqlite3.Connection, target: sqlite3.Connection) -> bool:
    """Copy all tables; False when the source cannot be read."""
    try:
        copy_tables(source, target)
    except sqlite3.Error:
        return False
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file has the name, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _write_ahead_log(path: Path) -> Path:
    return path.with_name(path.name + WAL_SUFFIX)


def _close(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _with_companions(path: Path) -> list[Path]:
    return [
        path,
        *(path.with_name(path.name + suffix) for suffix in COMPANION_SUFFIXES),
    ]


def _rename(path: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.replace(target)


def _is_damage(error: Exception) -> bool:
    """Whether SQLite says that the content of the file is wrong, which no later attempt mends."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_TOOBIG,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
