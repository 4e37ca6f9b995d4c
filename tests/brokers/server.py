"""The broker of the toy kind, and its server."""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

HOUR = 3600.0


class Toy:
    """Two queues; the client `billing` reads `orders`. refused: what is answered by 403. asked: how often each was."""

    def __init__(self) -> None:
        self.started = time.time() - HOUR
        self.buffered = 0
        self.refused: set[str] = set()
        self.asked: Counter[str] = Counter()

    def respond(self, request: Any) -> dict[str, Any]:
        what = request["what"]
        self.asked[what] += 1
        if what in self.refused:
            return {"status": 403, "error": f"{what} may not be read"}
        return {"status": 200, "value": getattr(self, f"_{what}")()}

    def _about(self) -> Any:
        now = time.time()
        return {
            "node": "toy-1",
            "version": "1.0",
            "clock": now,
            "uptime": now - self.started,
        }

    def _queues(self) -> Any:
        numbers = {
            "messages": 25,
            "delivering": self.buffered,
            "consumers": 1,
            "added": 125,
            "acknowledged": 100,
        }
        return [
            {"id": 1, "name": "orders", **numbers},
            {"id": 2, "name": "audit", "messages": 0, "consumers": 0},
        ]

    def _consumers(self) -> Any:
        numbers = {
            "buffered": self.buffered,
            "delivered": 100 + self.buffered,
            "acknowledged": 100,
        }
        return [
            {"id": 11, "queue": 1, "connection": 21, "client": "billing", **numbers}
        ]

    def _connections(self) -> Any:
        return [{"id": 21, "client": "billing"}]

    def _settings(self) -> Any:
        return {"limit": 1000}


@asynccontextmanager
async def serving(broker: Toy) -> AsyncIterator[str]:
    """The broker's URL."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            body=json.dumps(
                [broker.respond(one) for one in await request.json()]
            ).encode()
        )

    app = web.Application()
    app.router.add_post("/toy", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/toy"
    finally:
        await runner.cleanup()
