"""Where the rows come from: a running agent, or one of our own that asks the brokers itself."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from penstock.incidents.incident import Incident
from penstock.insight.answers import LISTS, BrokerList, BrokerState, EventList, Explanation, IncidentList, ListPage
from penstock.insight.events import Event
from penstock.insight.lists import ListQuery
from penstock.server.api import ROUTES
from penstock.server.view import AgentView
from penstock.tui.screens import POINTS

KEPT = ("queues", "clients")
"""Of these the agent keeps the last hour."""
Get = Callable[..., Awaitable[Any]]
"""(path, type of the answer, **parameters) -> an agent's answer."""


class StatusSource:
    """What is known of brokers, by the answers of the API. Every failure is a PenstockError."""

    def __init__(self, get: Get) -> None:
        self._get = get

    async def brokers(self) -> Sequence[BrokerState]:
        found: BrokerList = await self._get("/api/v1/brokers", BrokerList)
        return found.rows

    async def rows(self, level: str, broker: str, query: ListQuery) -> ListPage:
        """level: queues, clients or consumers; an empty broker means all."""
        given = {name: value for name, value in asdict(query).items() if value}
        if level in KEPT:
            given["points"] = POINTS
        found: ListPage = await self._get(f"/api/v1/{level}", LISTS[level], broker=broker, **given)
        return found

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Explanation:
        found: Explanation = await self._get(
            "/api/v1/explain", Explanation, broker=broker, address=address, queue=queue, client=client
        )
        return found

    async def incidents(self, broker: str) -> Sequence[Incident]:
        found: IncidentList = await self._get("/api/v1/incidents", IncidentList, broker=broker)
        return found.rows

    async def events(self, broker: str, queue: str, limit: int) -> Sequence[Event]:
        found: EventList = await self._get("/api/v1/events", EventList, broker=broker, queue=queue, limit=limit)
        return found.events


def asked_here(agent: AgentView) -> Get:
    """The answers of an agent in this process, which serves no one else."""
    look_ups = {route.path: route.look_up for route in ROUTES}

    async def get(path: str, _: type, **parameters: str | float) -> Any:
        given = {name: str(value) for name, value in parameters.items() if value != ""}
        return await asyncio.to_thread(look_ups[path], agent, given)

    return get
