"""Where the rows come from: a running agent, or one of our own that asks the brokers itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

import msgspec

from penstock.agent import Agent
from penstock.cli.terminal.levels import POINTS
from penstock.flow.explain import Plain
from penstock.flow.lists import Listed, Wanted

KEPT = ("queues", "clients")
"""Of these the agent keeps the last hour."""
Get = Callable[..., Awaitable[Any]]
"""(path, what the answer has, **parameters) -> the values of an agent's answer."""


class Source(Protocol):
    """What is known of brokers, as plain values. Every failure is a PenstockError."""

    async def brokers(self) -> list[Plain]: ...

    async def rows(self, level: str, broker: str, wanted: Wanted) -> Listed:
        """level: queues, clients or consumers; an empty broker means all."""

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Plain: ...

    async def events(self, broker: str, queue: str, limit: int) -> list[Plain]: ...


class Remote:
    """Of an agent, over its API."""

    def __init__(self, get: Get) -> None:
        self._get = get

    async def brokers(self) -> list[Plain]:
        found: list[Plain] = (await self._get("/api/v1/brokers", "brokers"))["brokers"]
        return found

    async def rows(self, level: str, broker: str, wanted: Wanted) -> Listed:
        given = {name: value for name, value in asdict(wanted).items() if value}
        if level in KEPT:
            given["points"] = POINTS
        answer = await self._get(f"/api/v1/{level}", level, broker=broker, **given)
        return answer[level], answer["total"]

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Plain:
        found: Plain = await self._get(
            "/api/v1/explain", "conditions", broker=broker, address=address, queue=queue, client=client or None
        )
        return found

    async def events(self, broker: str, queue: str, limit: int) -> list[Plain]:
        found: list[Plain] = (await self._get("/api/v1/events", "events", broker=broker, queue=queue, limit=limit))[
            "events"
        ]
        return found


class Local:
    """Of an agent in this process, which serves nobody."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def brokers(self) -> list[Plain]:
        return [msgspec.to_builtins(broker) for broker in self._agent.brokers()]

    async def rows(self, level: str, broker: str, wanted: Wanted) -> Listed:
        of: Mapping[str, Callable[[str, Wanted], Listed]] = {
            "queues": partial(self._agent.queues, points=POINTS),
            "clients": partial(self._agent.clients, points=POINTS),
            "consumers": self._agent.consumers,
        }
        return await asyncio.to_thread(of[level], broker, wanted)

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Plain:
        return await asyncio.to_thread(self._agent.explain, broker, queue, address, client or None)

    async def events(self, broker: str, queue: str, limit: int) -> list[Plain]:
        found = self._agent.events(since=0.0, limit=limit, broker=broker, queue=queue)
        return [msgspec.to_builtins(event) for event in found]
