"""How many look-ups, or reloads, run at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.core.errors import Hinted

AT_ONCE = 1
"""Two would share one interpreter lock and be done no sooner; but a poll would get a third of it in place of half."""
WAITING = 32
"""Look-ups that wait, beside those that run."""


class Busy(Hinted):
    """Too many wait already."""


class RequestLimit:
    """AT_ONCE at a time, WAITING more in line: polls need the threads, and the processor, too."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._under_way = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it while the context lasts. Raises Busy."""
        if self._under_way >= AT_ONCE + WAITING:
            raise Busy(f"{self._under_way} requests are under way", "try again in a second")
        self._under_way += 1
        try:
            async with self._turns:
                yield
        finally:
            self._under_way -= 1
