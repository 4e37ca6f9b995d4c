"""A crowd does a little in each turn of the event loop, so that others are answered in between."""

import asyncio
from collections import deque


class FairScheduler:
    """
    At most `at_once` of the waiting tasks go on in one turn of the loop, in the order in which they came.

    A new connection takes some seven turns to its answer: what all others do in one turn it waits for seven times.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for one."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self) -> None:
        for _ in range(min(self._at_once, len(self._waiting))):
            one = self._waiting.popleft()
            if not one.done():
                one.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
