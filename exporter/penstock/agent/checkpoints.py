"""Checkpoints are restored when a broker is first polled, saved now and then, and at the end."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from penstock.agent.assessor import Assessor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.journal import Journal
from penstock.agent.migration import (
    has_state,
    remove_expired_files,
    take_in_earlier_files,
)
from penstock.agent.saved_events import KEPT
from penstock.agent.state_database import StateDatabase
from penstock.agent.state_store import StateStore
from penstock.agent.workers import Workers
from penstock.insight.events import Event

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""Between two saves, when no event triggers one."""
SAVE_PAUSE = 5.0
"""Between two saves at least, however often one is triggered."""


class Checkpoints:
    """`record` is called in the worker threads, everything else in the event loop.

    database: without a directory nothing is kept of brokers. on_save: called in the event loop with whether a save
    succeeded.
    """

    def __init__(
        self, database: StateDatabase, workers: Workers, on_save: Callable[[bool], None]
    ) -> None:
        self.journal = Journal(database)
        self._directory = database.directory
        self._store = StateStore(database)
        self._workers = workers
        self._on_save = on_save
        self._wanted = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def _nothing_is_kept(self) -> bool:
        return self._directory is None

    @property
    def success(self) -> bool:
        """Whether the database could be read and written; true where nothing is kept."""
        return self._store.database.success

    def load(self) -> None:
        """Open the database; to be called before there is work in the worker threads.

        Raises ConfigError: a newer version of Penstock wrote it.
        """
        if self._directory is None:
            return
        self._store.database.open()
        self._store.load()
        self.journal.verify()
        was_usable = self.success
        was_usable &= take_in_earlier_files(self._directory, self._store)
        remove_expired_files(self._directory)
        if not was_usable:  # until the next save
            self._store.database.success = False

    def of_node(self, node_id: str) -> Sequence[Checkpoint]:
        return () if self._nothing_is_kept else self._store.of_node(node_id)

    def of_name(self, name: str) -> Checkpoint | None:
        return None if self._nothing_is_kept else self._store.of_name(name)

    def known(self) -> Sequence[Checkpoint]:
        return () if self._nothing_is_kept else self._store.known()

    def of(self, names: Collection[str]) -> list[Checkpoint]:
        """Return the checkpoints of these brokers, and of those with their node ids."""
        checkpoints = self.known()
        nodes = {
            checkpoint.node for checkpoint in checkpoints if checkpoint.broker in names
        }
        return [checkpoint for checkpoint in checkpoints if checkpoint.node in nodes]

    def take_over(self, directory: Path) -> None:
        """Take in what a worker process of an earlier agent left in its directory. Raises ConfigError as `load`."""
        if self._nothing_is_kept or not has_state(directory):
            return
        left = Checkpoints(StateDatabase(directory), self._workers, self._on_save)
        left.load()
        checkpoints = left.known()
        self._store.take_in(checkpoints, time.time())
        self.journal.add_missing(left.journal.last(KEPT))
        if checkpoints and self._store.flush(
            time.time()
        ):  # else its database may be unreadable
            left._store.database.remove()
        left.close()

    async def take_in(
        self, checkpoints: Sequence[Checkpoint], assessors: Sequence[Assessor]
    ) -> None:
        """Keep those that are newer than what is known."""
        if checkpoints and not self._nothing_is_kept:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(
                self._workers.small, self._store.take_in, checkpoints, time.time()
            )
            await self.save(assessors)

    def drop(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Forget brokers that another process keeps. Called in a thread of its own."""
        if checkpoints and not self._nothing_is_kept:
            self._store.drop(checkpoints)

    def record(self, assessor: Assessor, events: Sequence[Event]) -> None:
        """Write what a poll means before it is shown, as no kill of the agent may take it back.

        Called in the broker's thread.
        """
        if self._nothing_is_kept:
            self.journal.add(events)
            return
        try:
            self._record(assessor, events)
        except Exception:  # what is kept for later must not end what is now
            log.exception(
                "broker %s: the poll could not be recorded; please report this",
                assessor.name,
            )
            assessor.written = None
            self._store.database.success = False
            self.journal.add_missing(events)
        if (self._store.is_full or not self.success) and self._loop is not None:
            self._loop.call_soon_threadsafe(self.save_soon)

    def _record(self, assessor: Assessor, events: Sequence[Event]) -> None:
        if not self.success:  # a save is tried now and then, after which records go on
            assessor.written = None
            self.journal.add(events)
            return
        record, written = assessor.record(self._store.next_sequence())
        if record is None:
            assessor.written = written
            self.journal.add(events)
        else:
            assessor.written = written if self._store.record(record, events) else None

    def save_soon(self) -> None:
        self._wanted.set()

    async def run(self, assessors: Callable[[], Sequence[Assessor]]) -> None:
        """Save for ever; ends by cancellation."""
        self._loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()
            await self.save(assessors())
            await asyncio.sleep(SAVE_PAUSE)

    async def save(self, assessors: Sequence[Assessor]) -> None:
        """Write what is known now, each broker in its own thread, and have it on the disk."""
        if self._nothing_is_kept:
            return
        try:
            for assessor in assessors:
                await self.keep(assessor)
            await asyncio.get_running_loop().run_in_executor(
                self._workers.small, self.flush
            )
        except Exception:  # what is kept for later must not end what is now
            log.exception("the state could not be saved; please report this")
            self._store.database.success = False
        self._on_save(self.success)

    async def keep(self, assessor: Assessor) -> None:
        """Write what is known of a broker, in its thread."""
        if not self._nothing_is_kept:
            lane = assessor.lane or self._workers.small
            await asyncio.get_running_loop().run_in_executor(
                lane, self.keep_now, assessor
            )

    def keep_now(self, assessor: Assessor) -> None:
        """Write what is known of a broker; its next records rest on that. Called in its thread."""
        checkpoint = assessor.checkpoint()
        if checkpoint is None:  # what was recorded of it stays
            return
        assessor.written = None
        sequence = self._store.next_sequence()
        if self._store.keep(checkpoint, sequence, time.time()):
            assessor.kept_as(checkpoint, sequence)

    def flush(self) -> None:
        """Have all that was written on the disk."""
        self._store.flush(time.time())
        if self._directory is not None:
            remove_expired_files(self._directory)

    def close(self) -> None:
        """End the use of the database, once there is no more work in the worker threads."""
        self._store.database.close()
