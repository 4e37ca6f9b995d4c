"""The files of earlier versions are taken into the state database, once.

The files get another name and stay for a week, so that an earlier version goes on with them when they are renamed back.
"""

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path

from penstock.agent.earlier_files import FILES, EarlierState, read_earlier_files
from penstock.agent.saved_events import insert_missing_events
from penstock.agent.state_database import FILE as DATABASE
from penstock.agent.state_store import StateStore

log = logging.getLogger(__name__)

SUFFIX = ".before-sqlite"
KEPT_SECONDS = 7 * 86400.0


def has_state(directory: Path) -> bool:
    """Whether this or an earlier version has left its state there."""
    return any(os.path.lexists(directory / name) for name in (DATABASE, *FILES))


def take_in_earlier_files(directory: Path, store: StateStore) -> bool:
    """Take in what earlier versions left, where it is newer than what the database has, and rename their files.

    A file that an earlier version wrote after this one had run is taken in as well. When the agent is killed on the
    way, the next start repeats it, and adds nothing twice.

    Returns whether all of them could be used.
    """
    present = [path for name in FILES if os.path.lexists(path := directory / name)]
    if not present:
        return True
    earlier = read_earlier_files(directory)
    for problem in earlier.problems:
        log.warning(
            "%s; counters, conditions and events that only this file has start again",
            problem,
        )
    _take_in(earlier, store)
    if earlier.is_complete and store.database.is_file and store.database.flush():
        for path in present:
            _rename(path)
        counts = len(earlier.brokers), len(earlier.events)
        log.info(
            "%s: %d brokers and %d events of an earlier version's files are in the database now",
            directory,
            *counts,
        )
    return not earlier.problems


def remove_expired_files(directory: Path) -> None:
    """Delete the renamed files once a week has passed."""
    for name in FILES:
        path = directory / f"{name}{SUFFIX}"
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > KEPT_SECONDS:
                path.unlink()


def _take_in(earlier: EarlierState, store: StateStore) -> None:
    now = time.time()
    store.take_in(earlier.brokers, now)

    def work(connection: sqlite3.Connection) -> None:
        insert_missing_events(connection, earlier.events)

    store.database.write(work)


def _rename(path: Path) -> None:
    target = path.with_name(path.name + SUFFIX)
    try:
        path.replace(target)
        os.utime(target, follow_symlinks=False)  # the week begins now
    except OSError as error:
        log.warning("%s cannot be renamed: %s", path, error.strerror)
