"""The tables of the state database, and which version of them a file has.

`broker` holds a checkpoint of each broker, `change` what the polls after it changed, `event` and `agent_event` the log
of changes: events of the agent have a table of their own, so that what operators cause pushes out no condition.
Every `body` is a zlib stream, because SQLite itself does not notice bytes that are damaged within a value.
"""

import sqlite3

VERSION = 1
"""Increased when a later version changes the tables; that version then also reads the earlier ones."""
APPLICATION = 0x50454E53
"""Marks the file as Penstock's: "PENS"."""
TABLES = {
    "broker": "key TEXT PRIMARY KEY, seen REAL NOT NULL, sequence INTEGER NOT NULL, body BLOB NOT NULL",
    "change": "sequence INTEGER PRIMARY KEY, key TEXT NOT NULL, body BLOB NOT NULL",
    "event": (
        "id INTEGER PRIMARY KEY, time REAL NOT NULL, broker TEXT NOT NULL, queue TEXT NOT NULL, body BLOB NOT NULL"
    ),
    "agent_event": "id INTEGER PRIMARY KEY, time REAL NOT NULL, body BLOB NOT NULL",
}


class Damaged(Exception):
    """The file is no state database that can be used; the text says why."""


class WrittenByNewerVersion(Exception):
    """A later version of Penstock wrote the file; the text names both versions of the tables."""


def create_or_check(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty database, and check those of another.

    Raises Damaged, WrittenByNewerVersion, sqlite3.Error.
    """
    version = _number(connection, "user_version")
    if version == 0 and _number(connection, "schema_version") == 0:
        _create(connection)
        return
    if _number(connection, "application_id") != APPLICATION:
        raise Damaged("is no state database of Penstock")
    if version > VERSION:
        raise WrittenByNewerVersion(
            f"it has schema {version}, this version reads up to {VERSION}"
        )
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise Damaged(f"is damaged ({verdict})")


def copy_tables(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Make the tables of `target` equal to those of `source`. Raises sqlite3.Error; `target` is then as before."""
    target.execute("BEGIN IMMEDIATE")
    try:
        for table in TABLES:
            _copy_table(table, source, target)
        target.execute("COMMIT")
    except sqlite3.Error:
        if target.in_transaction:
            target.execute("ROLLBACK")
        raise


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {table}({columns})")
    connection.execute("CREATE INDEX event_time ON event(time)")
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("COMMIT")


def _copy_table(
    table: str, source: sqlite3.Connection, target: sqlite3.Connection
) -> None:
    rows = source.execute(f"SELECT * FROM {table}")  # noqa: S608 - the names above
    places = ", ".join("?" for _ in rows.description)
    target.execute(f"DELETE FROM {table}")  # noqa: S608
    target.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(value)
