"""Where the rows come from: a running agent, or one of our own that asks the brokers itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

from penstock.insight.answers import LISTS, BrokerList, BrokerState, EventList, Explanation, ListPage
from penstock.insight.events import Event
from penstock.insight.lists import ListQuery
from penstock.server.view import AgentView
from penstock.tui.screens import POINTS

KEPT = ("queues", "clients")
"""Of these the agent keeps the last hour."""
Get = Callable[..., Awaitable[Any]]
"""(path, type of the answer, **parameters) -> an agent's answer."""


class StatusSource(Protocol):
    """What is known of brokers. Every failure is a PenstockError."""

    async def brokers(self) -> Sequence[BrokerState]: ...

    async def rows(self, level: str, broker: str, query: ListQuery) -> ListPage:
        """level: queues, clients or consumers; an empty broker means all."""

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Explanation: ...

    async def events(self, broker: str, queue: str, limit: int) -> Sequence[Event]: ...


class Remote:
    """Of an agent, over its API."""

    def __init__(self, get: Get) -> None:
        self._get = get

    async def brokers(self) -> Sequence[BrokerState]:
        found: BrokerList = await self._get("/api/v1/brokers", BrokerList)
        return found.rows

    async def rows(self, level: str, broker: str, query: ListQuery) -> ListPage:
        given = {name: value for name, value in asdict(query).items() if value}
        if level in KEPT:
            given["points"] = POINTS
        found: ListPage = await self._get(f"/api/v1/{level}", LISTS[level], broker=broker, **given)
        return found

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Explanation:
        found: Explanation = await self._get(
            "/api/v1/explain", Explanation, broker=broker, address=address, queue=queue, client=client or None
        )
        return found

    async def events(self, broker: str, queue: str, limit: int) -> Sequence[Event]:
        found: EventList = await self._get("/api/v1/events", EventList, broker=broker, queue=queue, limit=limit)
        return found.events


class Local:
    """Of an agent in this process, which serves no one else."""

    def __init__(self, agent: AgentView) -> None:
        self._agent = agent

    async def brokers(self) -> Sequence[BrokerState]:
        return self._agent.brokers()

    async def rows(self, level: str, broker: str, query: ListQuery) -> ListPage:
        of: Mapping[str, Callable[[str, ListQuery], ListPage]] = {
            "queues": partial(self._agent.queues, points=POINTS),
            "clients": partial(self._agent.clients, points=POINTS),
            "consumers": self._agent.consumers,
        }
        return await asyncio.to_thread(of[level], broker, query)

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Explanation:
        return await asyncio.to_thread(self._agent.explain, broker, queue, address, client or None)

    async def events(self, broker: str, queue: str, limit: int) -> Sequence[Event]:
        return self._agent.events(since=0.0, limit=limit, broker=broker, queue=queue)
