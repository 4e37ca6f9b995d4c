"""What is known of each broker, over restarts of the agent: its checkpoint, and what the polls after it changed."""

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence

from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import insert_events
from penstock.agent.packed import checksummed, compressed, decompressed, pack, unpack
from penstock.agent.record import Record, applied
from penstock.agent.state_database import StateDatabase
from penstock.insight.events import Event

log = logging.getLogger(__name__)

FORGET_SECONDS = 30 * 86400.0
"""A broker that was not seen for so long is forgotten."""
FULL_BYTES = 1 << 25
"""So much may be recorded between two saves; beyond it the write-ahead log takes too much room."""


class StateStore:
    """Any thread may use it; what is recorded and kept of one broker must not overlap."""

    def __init__(self, database: StateDatabase) -> None:
        self.database = database
        self.sequence = 0
        """Of the last record or checkpoint, ascending over all brokers and runs of the agent."""
        self._recorded_bytes = 0
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether brokers should be saved, which removes what was recorded of them."""
        return self._recorded_bytes > FULL_BYTES

    def load(self) -> None:
        """Read all that is known once, so that damage is found at the start, and go on with the sequence."""
        self.known()
        self.sequence = self.database.read(_last_sequence)

    def next_sequence(self) -> int:
        with self._lock:
            self.sequence += 1
            return self.sequence

    # --- what is written

    def record(self, record: Record, events: Sequence[Event]) -> bool:
        """Write what a poll changed together with its events; False where they are in memory only."""
        content = record if record.whole is None else record.whole
        body = checksummed(pack(content))

        def work(connection: sqlite3.Connection) -> None:
            if record.whole is None:
                _insert_change(connection, record, body)
            else:
                _replace_broker(connection, record.key, record.sequence, time.time(), body)
            insert_events(connection, events)

        self.database.write(work)
        with self._lock:
            self._recorded_bytes += len(body)
        return self.database.is_file

    def keep(self, checkpoint: Checkpoint, sequence: int, now: float) -> bool:
        """Write all that is known of a broker; False where it is in memory only.

        sequence: a new one, on which the next records rest. now: when the broker was seen, by the agent's clock.
        """
        body = compressed(checkpoint)

        def work(connection: sqlite3.Connection) -> None:
            _replace_broker(connection, checkpoint.node_id, sequence, now, body)
            if checkpoint.was_active and checkpoint.node != checkpoint.node_id:
                _delete_broker(connection, checkpoint.node)  # as an older version had it

        self.database.write(work)
        return self.database.is_file

    def take_in(self, checkpoints: Iterable[Checkpoint], now: float) -> None:
        """Keep those of which nothing newer is known."""
        seen = {checkpoint.node_id: _seen(checkpoint) for checkpoint in self.known()}
        for checkpoint in checkpoints:
            if _seen(checkpoint) > seen.get(checkpoint.node_id, -math.inf):
                self.keep(checkpoint, self.next_sequence(), now)

    def drop(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Forget brokers that another process keeps, unless more is known of them since."""
        given = {checkpoint.node_id: _seen(checkpoint) for checkpoint in checkpoints}
        gone = [known.node_id for known in self.known() if _seen(known) <= given.get(known.node_id, -math.inf)]

        def work(connection: sqlite3.Connection) -> None:
            for key in gone:
                _delete_broker(connection, key)

        self.database.write(work)

    def flush(self, now: float) -> bool:
        """Have all of it on the disk, without brokers that were not seen for a month. False when that failed."""
        self.database.write(lambda connection: _forget(connection, now - FORGET_SECONDS))
        self._recorded_bytes = 0
        return self.database.flush()

    # --- what is read

    def known(self) -> list[Checkpoint]:
        """All brokers."""
        return self._checkpoints(self.database.read(_keys))

    def of_node(self, node: str) -> list[Checkpoint]:
        """What is known of a node id, under any name."""
        keys = [key for key in self.database.read(_keys) if key == node or key.startswith(f"{node} ")]
        return [checkpoint for checkpoint in self._checkpoints(keys) if checkpoint.node == node]

    def of_name(self, name: str) -> Checkpoint | None:
        """What is known of a broker under its own name, the newest of it."""
        endings = (f"name:{name}", f" {name}")
        keys = [key for key in self.database.read(_keys) if key.endswith(endings)]
        checkpoints = [checkpoint for checkpoint in self._checkpoints(keys) if checkpoint.broker == name]
        return max(checkpoints, key=_seen, default=None)

    def _checkpoints(self, keys: Iterable[str]) -> list[Checkpoint]:
        """Return what is known of the brokers. Where it is damaged, the database is set aside, and nothing is known."""
        try:
            read = [self._read(key) for key in keys]
        except ValueError as error:
            self.database.set_aside(f"has a broker whose state {error}")
            return []
        return [checkpoint for checkpoint in read if checkpoint is not None]

    def _read(self, key: str) -> Checkpoint | None:
        """None: it was deleted meanwhile. Raises ValueError: it is damaged."""
        row, changes = self.database.read(lambda connection: _rows_of(connection, key))
        if row is None:
            return None
        sequence, body = row
        checkpoint = unpack(decompressed(body), Checkpoint)
        records = [unpack(decompressed(change), Record) for change in changes]
        return with_records(checkpoint, sequence, records)


def with_records(checkpoint: Checkpoint, base: int, records: Iterable[Record]) -> Checkpoint:
    """Return the checkpoint with what its later records say, as far as they rest on it. base: its sequence."""
    for record in records:
        if record.base != base:
            continue
        try:
            checkpoint = applied(checkpoint, record)
        except (ValueError, LookupError, TypeError) as error:
            log.warning(
                "a record of %s in the state database does not fit (%s): it and later ones are not used",
                checkpoint.node_id,
                error,
            )
            return checkpoint
    return checkpoint


def _seen(checkpoint: Checkpoint) -> float:
    """When a poll saw the broker last; `recorded` may be NaN."""
    return max(checkpoint.now, checkpoint.recorded)


# --- the tables


def _insert_change(connection: sqlite3.Connection, record: Record, body: bytes) -> None:
    connection.execute("REPLACE INTO change(sequence, key, body) VALUES (?, ?, ?)", (record.sequence, record.key, body))


def _replace_broker(connection: sqlite3.Connection, key: str, sequence: int, seen: float, body: bytes) -> None:
    """The changes before it are in it."""
    connection.execute(
        "REPLACE INTO broker(key, seen, sequence, body) VALUES (?, ?, ?, ?)", (key, seen, sequence, body)
    )
    connection.execute("DELETE FROM change WHERE key = ?", (key,))


def _delete_broker(connection: sqlite3.Connection, key: str) -> None:
    connection.execute("DELETE FROM broker WHERE key = ?", (key,))
    connection.execute("DELETE FROM change WHERE key = ?", (key,))


def _forget(connection: sqlite3.Connection, before: float) -> None:
    """Delete brokers that were seen last before that time, by the agent's clock."""
    keys = connection.execute("SELECT key FROM broker WHERE seen < ?", (before,)).fetchall()
    for (key,) in keys:
        _delete_broker(connection, key)


def _keys(connection: sqlite3.Connection) -> list[str]:
    return [key for (key,) in connection.execute("SELECT key FROM broker ORDER BY sequence").fetchall()]


def _rows_of(connection: sqlite3.Connection, key: str) -> tuple[tuple[int, bytes] | None, list[bytes]]:
    """Return sequence and body of a broker, and the bodies of its changes, oldest first."""
    row = connection.execute("SELECT sequence, body FROM broker WHERE key = ?", (key,)).fetchone()
    changes = connection.execute("SELECT body FROM change WHERE key = ? ORDER BY sequence", (key,)).fetchall()
    return row, [body for (body,) in changes]


def _last_sequence(connection: sqlite3.Connection) -> int:
    """Return the highest that was used; 0 where none was."""
    query = "SELECT max(sequence) FROM (SELECT sequence FROM broker UNION ALL SELECT sequence FROM change)"
    (sequence,) = connection.execute(query).fetchone()
    return int(sequence or 0)
