"""The tables `broker` and `change` of the state database, as SQL. Each function raises sqlite3.Error.

The row of a broker has a checkpoint of it; its changes are the records of later polls, which rest on that checkpoint.
"""

from dataclasses import dataclass
from sqlite3 import Connection


@dataclass(frozen=True, slots=True)
class SavedBroker:
    """The saved state of one broker.

    Attributes:
        sequence: The number of the checkpoint.
        changes: Bodies of the records, the oldest first.
    """

    sequence: int
    body: bytes
    changes: list[bytes]


def replace_broker(
    connection: Connection, key: str, sequence: int, seen: float, body: bytes
) -> None:
    """Write a checkpoint, and delete the changes before it. seen: when, by the agent's clock."""
    connection.execute(
        "REPLACE INTO broker(key, seen, sequence, body) VALUES (?, ?, ?, ?)",
        (key, seen, sequence, body),
    )
    connection.execute("DELETE FROM change WHERE key = ?", (key,))


def insert_change(connection: Connection, key: str, sequence: int, body: bytes) -> None:
    """Write the record of a poll."""
    connection.execute(
        "REPLACE INTO change(sequence, key, body) VALUES (?, ?, ?)",
        (sequence, key, body),
    )


def delete_broker(connection: Connection, key: str) -> None:
    """Delete all that is saved of it."""
    connection.execute("DELETE FROM broker WHERE key = ?", (key,))
    connection.execute("DELETE FROM change WHERE key = ?", (key,))


def delete_brokers_seen_before(connection: Connection, time: float) -> None:
    """Delete those that were seen last before that time, by the agent's clock."""
    rows = connection.execute(
        "SELECT key FROM broker WHERE seen < ?", (time,)
    ).fetchall()
    for (key,) in rows:
        delete_broker(connection, key)


def broker_keys(connection: Connection) -> list[str]:
    """Return the keys of all brokers."""
    rows = connection.execute("SELECT key FROM broker ORDER BY sequence").fetchall()
    return [key for (key,) in rows]


def broker_of(connection: Connection, key: str) -> SavedBroker | None:
    """Return what is saved of a broker, None where nothing is."""
    row = connection.execute(
        "SELECT sequence, body FROM broker WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    sequence, body = row
    change_rows = connection.execute(
        "SELECT body FROM change WHERE key = ? ORDER BY sequence", (key,)
    ).fetchall()
    changes = [change for (change,) in change_rows]
    return SavedBroker(sequence, body, changes)


def last_sequence(connection: Connection) -> int:
    """Return the highest sequence that was used, 0 where none was."""
    row = connection.execute(
        "SELECT coalesce(max(sequence), 0) FROM (SELECT sequence FROM broker UNION ALL SELECT sequence FROM change)"
    ).fetchone()
    (sequence,) = row
    return int(sequence)
