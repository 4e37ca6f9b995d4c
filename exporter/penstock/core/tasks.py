"""Asyncio tasks: `end` cancels some and waits for them; `Turns` runs work one after the other until it is closed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from penstock.core.errors import PenstockError

log = logging.getLogger(__name__)

END_SECONDS = 0.9
"""A task that swallows its cancellation gets it once more after this time; twice as long is waited in all."""


class Stopped(PenstockError):
    """The work was not done, or not to its end: `Turns` was closed."""


async def end(*tasks: asyncio.Task[object]) -> None:
    """Cancel the tasks and wait until they have ended, for 2 s at most.

    Their results and errors are ignored; one that does not end is logged. A caller that is cancelled while it waits
    returns at once, with CancelledError.
    """
    running = {task for task in tasks if not task.done()}
    for _ in range(2):
        for task in running:
            task.cancel()
        if running:
            _, running = await asyncio.wait(running, timeout=END_SECONDS)
    if running:
        log.error(
            "does not end: %s; please report this",
            ", ".join(sorted(task.get_name() for task in running)),
        )


class Turns:
    """Work that is done one at a time, each in a task of its own, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(
        self, name: str, work: Callable[[], Coroutine[object, None, None]]
    ) -> None:
        """Wait until all work before it is done, then do this work; its errors are raised here.

        Stopped is raised where `close` ended the work or came before it. A caller that is cancelled cancels the work.
        """
        if self._closed:
            raise Stopped(f"{name}: Penstock is stopping")
        task = asyncio.create_task(self._in_turn(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise Stopped(f"{name}: Penstock is stopping")
        task.result()

    async def close(self) -> None:
        """End the work that runs or waits, and let no more begin."""
        self._closed = True
        await end(*self._tasks)

    async def _in_turn(self, work: Callable[[], Coroutine[object, None, None]]) -> None:
        async with self._lock:
            await work()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Read it: otherwise asyncio logs an error that no caller waits for any more.
            task.exception()
