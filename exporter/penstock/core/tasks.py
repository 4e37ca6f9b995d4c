"""Tasks: ended without losing one's own cancellation, and run one after the other until there shall be no more."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.core.errors import PenstockError

log = logging.getLogger(__name__)

END_SECONDS = 0.9
"""A task that swallows its cancellation gets it once more after this time; twice as long is waited in all."""


class Stopped(PenstockError):
    """There is no more work to be done."""


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel them and wait for 2 s at most; how they ended is theirs. Cancelled itself, it is over at once."""
    left = {task for task in tasks if not task.done()}
    for _ in range(2):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=END_SECONDS)
    if left:
        log.error(
            "does not end: %s; please report this",
            ", ".join(sorted(task.get_name() for task in left)),
        )


class Turns:
    """Work that is done one at a time, each in a task of its own, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Wait for one's turn, then for the work. Stopped: by `close`. A caller that is cancelled cancels the work."""
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
        """End the work under way and let none begin."""
        self._closed = True
        await end(*self._tasks)

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._lock:
            await work()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone
