"""The store keeps the checkpoint of each broker, and what the polls after it changed, over restarts of the agent."""

import logging
import math
import threading
import time
from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from penstock.agent import saved_brokers
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.packed import checksummed, compressed, decompressed, pack, unpack
from penstock.agent.record import Record, applied
from penstock.agent.saved_brokers import SavedBroker
from penstock.agent.saved_events import insert_events
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
        self.recorded_bytes = 0
        """Since the last flush."""
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Whether brokers should be kept and flushed, which removes what was recorded of them."""
        return self.recorded_bytes > FULL_BYTES

    def load(self) -> None:
        """Read all that is known once, so that damage is found at the start, and go on with the sequence."""
        self.known()
        self.sequence = self.database.read(saved_brokers.last_sequence)

    def next_sequence(self) -> int:
        with self._lock:
            self.sequence += 1
            return self.sequence

    # --- what is written

    def record(self, record: Record, events: Sequence[Event]) -> bool:
        """Write what a poll changed together with its events; False where they are in memory only."""
        is_base = record.whole is not None
        body = compressed(record.whole) if is_base else checksummed(pack(record))

        def work(connection: Connection) -> None:
            if is_base:
                saved_brokers.replace_broker(
                    connection, record.key, record.sequence, time.time(), body
                )
            else:
                saved_brokers.insert_change(
                    connection, record.key, record.sequence, body
                )
            insert_events(connection, events)

        self.database.write(work)
        with self._lock:
            self.recorded_bytes += len(body)
        return self.database.is_file

    def keep(self, checkpoint: Checkpoint, sequence: int, now: float) -> bool:
        """Write all that is known of a broker; False where it is in memory only.

        sequence: a new one, on which the next records rest. now: when the broker was seen, by the agent's clock.
        """
        body = compressed(checkpoint)
        key = checkpoint.node_id
        key_of_earlier_version = checkpoint.node

        def work(connection: Connection) -> None:
            if checkpoint.was_active:
                saved_brokers.delete_broker(connection, key_of_earlier_version)
            saved_brokers.replace_broker(connection, key, sequence, now, body)

        self.database.write(work)
        return self.database.is_file

    def take_in(self, checkpoints: Iterable[Checkpoint], now: float) -> None:
        """Keep those of which nothing newer is known."""
        last_seen = {
            checkpoint.node_id: seen(checkpoint) for checkpoint in self.known()
        }
        for checkpoint in checkpoints:
            if seen(checkpoint) > last_seen.get(checkpoint.node_id, -math.inf):
                self.keep(checkpoint, self.next_sequence(), now)

    def drop(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Forget brokers that another process keeps, unless more is known of them since."""
        last_seen = {checkpoint.node_id: seen(checkpoint) for checkpoint in checkpoints}
        keys = [
            checkpoint.node_id
            for checkpoint in self.known()
            if seen(checkpoint) <= last_seen.get(checkpoint.node_id, -math.inf)
        ]

        def work(connection: Connection) -> None:
            for key in keys:
                saved_brokers.delete_broker(connection, key)

        self.database.write(work)

    def flush(self, now: float) -> bool:
        """Have all of it on the disk, without brokers that were not seen for a month. False when that failed."""
        forgotten = now - FORGET_SECONDS
        self.database.write(
            lambda connection: saved_brokers.delete_brokers_seen_before(
                connection, forgotten
            )
        )
        with self._lock:
            self.recorded_bytes = 0
        return self.database.flush()

    # --- what is read

    def known(self) -> list[Checkpoint]:
        """Return what is known of all brokers."""
        return self._checkpoints(self._keys())

    def of_node(self, node: str) -> list[Checkpoint]:
        """Return what is known of a node id, under any name."""
        keys = [
            key for key in self._keys() if key == node or key.startswith(f"{node} ")
        ]
        return [
            checkpoint
            for checkpoint in self._checkpoints(keys)
            if checkpoint.node == node
        ]

    def of_name(self, name: str) -> Checkpoint | None:
        """Return what is known of a broker under its own name, the newest of it."""
        endings = (f"name:{name}", f" {name}")
        keys = [key for key in self._keys() if key.endswith(endings)]
        checkpoints = [
            checkpoint
            for checkpoint in self._checkpoints(keys)
            if checkpoint.broker == name
        ]
        return max(checkpoints, key=seen, default=None)

    def _keys(self) -> list[str]:
        return self.database.read(saved_brokers.broker_keys)

    def _checkpoints(self, keys: Iterable[str]) -> list[Checkpoint]:
        """Return what is known of the brokers. Where it is damaged, the database is set aside, and nothing is known."""
        checkpoints = []
        try:
            for key in keys:
                saved = self._saved(key)
                if saved is not None:  # else it was deleted meanwhile
                    checkpoints.append(newest_checkpoint(saved))
        except (ValueError, TypeError) as error:
            self.database.set_aside(f"has a broker whose state {error}")
            return []
        return checkpoints

    def _saved(self, key: str) -> SavedBroker | None:
        return self.database.read(
            lambda connection: saved_brokers.broker_of(connection, key)
        )


def newest_checkpoint(saved: SavedBroker) -> Checkpoint:
    """Return the checkpoint with what later polls changed, as far as that fits. Raises ValueError: it is damaged."""
    checkpoint = unpack(decompressed(saved.body), Checkpoint)
    for change in saved.changes:
        record = unpack(decompressed(change), Record)
        if record.base != saved.sequence:
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


def seen(checkpoint: Checkpoint) -> float:
    """Return when a poll saw the broker last; `recorded` may be NaN."""
    return max(checkpoint.now, checkpoint.recorded)
