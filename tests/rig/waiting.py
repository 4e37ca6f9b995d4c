"""Waiting for what real parts do in their own time."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

PATIENCE = 60.0
"""Seconds that what must happen may take on a machine that is busy with other things."""


def eventually(
    get: Callable[[], object], expected: object, *, timeout: float = PATIENCE
) -> None:
    """Ask until `get` gives `expected`; fails with the last answer when it does not within `timeout` s."""
    deadline = time.monotonic() + timeout
    while (last := get()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert last == expected


async def until(holds: Callable[[], object], *, timeout: float = PATIENCE) -> None:
    """Let the other tasks of this event loop work until it holds; TimeoutError when it does not within `timeout` s."""
    async with asyncio.timeout(timeout):
        while not holds():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.005)


def rhythm(seconds: float, ending: threading.Event) -> Iterator[None]:
    """Yield every `seconds`, the first time after one of them, until `ending` is set; a late turn delays no other."""
    due = time.monotonic() + seconds
    while not ending.wait(max(due - time.monotonic(), 0)):
        yield
        due += seconds
