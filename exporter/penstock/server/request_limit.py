"""How many look-ups, or reloads, run at once, and how much of a crowd's work is done before others have their turn."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Mapping
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
        self._turns = defaultdict[str, asyncio.Semaphore](
            lambda: asyncio.Semaphore(AT_ONCE)
        )
        self._under_way = Counter[str]()

    @asynccontextmanager
    async def turn(self, line: str = "") -> AsyncIterator[None]:
        """Wait for a turn among those of this line, and have it while the context lasts. Raises Busy."""
        if self._under_way[line] >= AT_ONCE + WAITING:
            raise Busy(
                f"{self._under_way[line]} requests are under way",
                "try again in a second",
            )
        self._under_way[line] += 1
        try:
            async with self._turns[line]:
                yield
        finally:
            self._under_way[line] -= 1


def line_of(arguments: Mapping[str, str]) -> str:
    """Where a request waits: none waits for those that read history, which may take seconds."""
    return "history" if "range" in arguments else ""


class FairScheduler:
    """At most `at_once` of the waiting tasks go on in one turn of the loop, in the order in which they came."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait until this request may go on."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self) -> None:
        """Let a few requests go on, and come again for the others."""
        for _ in range(min(self._at_once, len(self._waiting))):
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
