"""What outlives the agent: restored when a broker is first polled, saved now and then, and at the end."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from itertools import compress
from pathlib import Path

from penstock.agent.assessor import Assessor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.state_file import StateFile
from penstock.agent.workers import Workers
from penstock.insight.events import Event

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""Between two saves, when no event triggers one."""
SAVE_PAUSE = 5.0
"""Between two saves at least, however often one is triggered."""


class Checkpoints:
    """`record` is called in the worker threads, everything else in the event loop. storage: the directory of the state
    file; None: nothing is kept. on_save: called in the event loop with whether a save succeeded.
    """

    def __init__(self, storage: Path | None, workers: Workers, on_save: Callable[[bool], None]) -> None:
        self._file = None if storage is None else StateFile(storage)
        self._workers = workers
        self._on_save = on_save
        self._wanted = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self) -> list[Event]:
        """As `StateFile.load`; to be called before there is work in the worker threads."""
        return [] if self._file is None else self._file.load()

    @property
    def success(self) -> bool:
        """Whether the files could be read and written; true where nothing is kept."""
        return self._file is None or self._file.success

    def of_node(self, node_id: str) -> Sequence[Checkpoint]:
        return () if self._file is None else self._file.of_node(node_id)

    def of_name(self, name: str) -> Checkpoint | None:
        return None if self._file is None else self._file.of_name(name)

    def known(self) -> Sequence[Checkpoint]:
        return () if self._file is None else self._file.known()

    def of(self, names: Collection[str]) -> list[Checkpoint]:
        """What is known of these brokers, and of those with their node ids."""
        nodes = {one.node for one in self.known() if one.broker in names}
        return [one for one in self.known() if one.node in nodes]

    def take_over(self, directory: Path) -> list[Event]:
        """What a worker process of an earlier agent left there is this file's now; as `load`."""
        file = StateFile(directory)
        events = file.load()
        if self._file is not None and file.known():  # else it may be unreadable
            self._file.keep(self._file.newest(file.known()), time.time())
            if self._file.save():
                file.remove()
        return events

    async def take_in(self, checkpoints: Sequence[Checkpoint], assessors: Sequence[Assessor]) -> None:
        """Those that are newer than what is known, and write it."""
        if self._file is not None and checkpoints:
            loop, newest = asyncio.get_running_loop(), self._file.newest(checkpoints)
            await loop.run_in_executor(self._workers.small, self._file.keep, newest, time.time())
            await self.save(assessors)

    def drop(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Another process keeps them. In a thread of its own."""
        if self._file is not None and self._loop is not None and checkpoints:
            self._workers.small.submit(self._file.drop, checkpoints).result()
            self._loop.call_soon_threadsafe(self.save_soon)

    def record(self, assessor: Assessor, events: Sequence[Event]) -> None:
        """In the broker's thread, before what a poll means is shown: what no kill of the agent may take back."""
        file = self._file
        if file is None:
            return
        try:
            # While the files cannot be written a save is tried now and then, after which records go on.
            record, written = assessor.record(events, file.next_sequence()) if file.success else (None, None)
            assessor.written = written if record is None or file.record(record) else None
        except Exception:  # what is kept for later must not end what is now
            log.exception("broker %s: the poll could not be recorded; please report this", assessor.name)
            assessor.written, file.success = None, False
        if (file.journal_is_full or not file.success) and self._loop is not None:
            self._loop.call_soon_threadsafe(self.save_soon)

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
        """Write what is known now, and of brokers that are polled no longer what was known."""
        if self._file is None:
            return
        try:
            loop, small = asyncio.get_running_loop(), self._workers.small
            await loop.run_in_executor(self._workers.large, _save_in_both, self._file, small, assessors)
        except Exception:  # what is kept for later must not end what is now
            log.exception("the state could not be saved; please report this")
            self._file.success = False
        self._on_save(self._file.success)

    def close(self) -> None:
        """Once there is no more work in the worker threads."""
        if self._file is not None:
            self._file.close()

    async def keep(self, assessor: Assessor) -> None:
        """To be written with the next save."""
        if self._file is not None:
            lane = assessor.lane or self._workers.small
            await asyncio.get_running_loop().run_in_executor(lane, _keep, self._file, [assessor])


def _keep(file: StateFile, assessors: Sequence[Assessor]) -> list[tuple[Assessor, Checkpoint]]:
    found = [(assessor, one) for assessor in assessors if (one := assessor.checkpoint()) is not None]
    file.keep([checkpoint for _, checkpoint in found], time.time())
    return found


def _save_in_both(file: StateFile, small: Executor, assessors: Sequence[Assessor]) -> None:
    """In the thread of the large brokers, what takes long of it before that of all others has to wait, too.

    Both threads are taken at the end: no poll may be recorded between what is kept and the beginning of a new journal.
    """
    is_large = [assessor.lane is not None and assessor.lane.large for assessor in assessors]
    kept = _keep(file, list(compress(assessors, is_large)))
    file.prepare()
    others = [assessor for assessor, large in zip(assessors, is_large, strict=True) if not large]
    small.submit(lambda: _write(file, assessors, [*kept, *_keep(file, others)])).result()


def _write(file: StateFile, assessors: Sequence[Assessor], kept: Sequence[tuple[Assessor, Checkpoint]]) -> None:
    success = file.save()
    for assessor in assessors:  # of those that were not kept, and where it is unsure what is in the file, all is due
        assessor.written = None
    for assessor, checkpoint in kept if success else ():
        assessor.saved_with(checkpoint, file.sequence)
