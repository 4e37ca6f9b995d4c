"""What outlives the agent: restored when a broker is first polled, saved now and then, and at the end."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from penstock.agent.assessor import Assessor
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.state_file import StateFile
from penstock.insight.events import Event

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""Between two saves, when nothing asks for one."""
SAVE_PAUSE = 5.0
"""Between two saves at least, however often one is asked for."""


class Checkpoints:
    """
    Saves what is known of all brokers to the state file, and gives it back by name and node id.

    The state file belongs to the worker thread, as the assessors do: `checkpoint` is called there, everything else in
    the event loop, which waits for the work it hands over.

    storage: the directory of the state file; None: nothing is kept, and every method does nothing.
    on_save: called in the event loop with whether a save succeeded.
    """

    def __init__(self, storage: Path | None, worker: Executor, on_save: Callable[[bool], None]) -> None:
        self._file = None if storage is None else StateFile(storage)
        self._worker = worker
        self._on_save = on_save
        self._wanted = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self) -> list[Event]:
        """
        Read the state file; to be called before there is work in the worker thread.

        Returns the last events that an earlier agent told, which it may not have written to the log of changes.
        """
        return [] if self._file is None else self._file.load()

    @property
    def success(self) -> bool:
        """Whether the files could be read and written; true where nothing is kept."""
        return self._file is None or self._file.success

    def of_node(self, node_id: str) -> Sequence[Checkpoint]:
        """What is known of it, under any name."""
        return () if self._file is None else self._file.of_node(node_id)

    def record(self, assessor: Assessor, events: Sequence[Event]) -> None:
        """In the worker thread, before what a poll means is shown: what no kill of the agent may take back."""
        file = self._file
        if file is None:
            return
        try:
            # While the files cannot be written a save is tried now and then, after which records go on.
            record, written = assessor.record(events, file.sequence + 1) if file.success else (None, None)
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
            await self._in_worker(_save, self._file, assessors)
        except Exception:  # what is kept for later must not end what is now
            log.exception("the state could not be saved; please report this")
            self._file.success = False
        self._on_save(self._file.success)

    def close(self) -> None:
        """Once there is no more work in the worker thread."""
        if self._file is not None:
            self._file.close()

    async def keep(self, assessors: Sequence[Assessor]) -> None:
        """Take in what is known now, to be written with the next save."""
        if self._file is not None:
            await self._in_worker(_keep, self._file, assessors)

    async def _in_worker(self, work: Callable[..., object], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._worker, work, *arguments)


def _keep(file: StateFile, assessors: Sequence[Assessor]) -> list[tuple[Assessor, Checkpoint]]:
    found = [(assessor, one) for assessor in assessors if (one := assessor.checkpoint()) is not None]
    file.keep([checkpoint for _, checkpoint in found], time.time())
    return found


def _save(file: StateFile, assessors: Sequence[Assessor]) -> None:
    """All in one go: no poll may be recorded between what is kept and the beginning of a new journal."""
    kept = _keep(file, assessors)
    success = file.save()
    for assessor in assessors:  # of those that were not kept, and where it is unsure what is in the file, all is due
        assessor.written = None
    for assessor, checkpoint in kept if success else ():
        assessor.saved_with(checkpoint, file.sequence)
