"""Sources of made-up brokers, and what the view shows of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, UnsetType
from textual.pilot import Pilot

from agent.world import World
from penstock.core.errors import PenstockError
from penstock.insight import lists
from penstock.insight.answers import (
    BrokerList,
    BrokerState,
    EventList,
    Explanation,
    ListPage,
)
from penstock.insight.events import Event
from penstock.insight.explain import BrokerView, explain
from penstock.insight.lists import ListQuery
from penstock.insight.objects import known_broker
from penstock.tui.app import Top
from penstock.tui.grid import Grid

NARROW = (80, 24)
WIDE = (200, 60)
MADE: Mapping[str, Callable[[Sequence[BrokerView], ListQuery], ListPage]] = {
    "queues": lists.queue_list,
    "clients": lists.client_list,
    "consumers": lists.consumer_list,
}


@dataclass
class Made:
    """Brokers that are made up; `error` fails every look, `down` says why a broker does not answer."""

    worlds: Sequence[World]
    down: dict[str, str] = field(default_factory=dict)
    error: str = ""
    changes: list[Event] = field(default_factory=list)
    age: float = 3.0
    asked: list[ListQuery] = field(default_factory=list)

    def views(self, broker: str = "") -> list[BrokerView]:
        return [
            BrokerView(
                world.state,
                world.tables,
                world.snapshot(),
                world.policy,
                15.0,
                self._stale(world),
            )
            for world in self.worlds
            if broker in ("", world.policy.broker)
        ]

    def _stale(self, world: World) -> float | UnsetType:
        return world.now if world.policy.broker in self.down else UNSET

    async def get(self, path: str, _: type, **given: Any) -> Any:
        """As an agent answers."""
        match path.removeprefix("/api/v1/"):
            case "brokers":
                return BrokerList(await self.brokers())
            case "explain":
                return await self.explain(**given)
            case "events":
                return EventList(await self.events(**given))
            case level:
                broker = given.pop("broker")
                _ = given.pop("points", 0)
                return await self.rows(level, broker, ListQuery(**given))

    async def brokers(self) -> list[BrokerState]:
        if self.error:
            raise PenstockError(self.error)
        return [self._broker(view) for view in self.views()]

    def _broker(self, view: BrokerView) -> BrokerState:
        name = view.policy.broker
        return BrokerState(
            name=name,
            state="down" if name in self.down else known_broker(view, None).state,
            kind="artemis",
            version="2.44.0",
            role="active",
            up=name not in self.down,
            age=self.age,
            error=self.down.get(name, ""),
            numbers=lists.broker_numbers(view),
        )

    async def rows(self, level: str, broker: str, query: ListQuery) -> ListPage:
        self.asked.append(query)
        return MADE[level](self.views(broker), query)

    async def explain(
        self, broker: str, address: str, queue: str, client: str
    ) -> Explanation:
        return explain(
            self.views(broker)[0], queue, address=address, client=client or None
        )

    async def events(self, broker: str, queue: str, limit: int) -> list[Event]:
        mine = [
            one
            for one in self.changes
            if broker in ("", one.broker) and queue in ("", one.queue)
        ]
        return mine[-limit:]


def top(source: Made, **options: Any) -> Top:
    """A view that looks only when it is told to, or opens something."""
    return Top(source.get, "made up", 3600, **options)


async def settled(pilot: Pilot[None]) -> None:
    """Everything asked for has come, and is drawn."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> list[str]:
    """What the grid shows after each key had its effect."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)
    return grid(pilot)


def grid(pilot: Pilot[None]) -> list[str]:
    """The heading and the rows on the screen, as text."""
    found = pilot.app.screen_stack[0].query_one(Grid)
    return [
        line
        for y in range(found.size.height)
        if (line := found.render_line(y).text.rstrip())
    ]


def told(pilot: Pilot[None]) -> str:
    """The lines above the grid."""
    return "\n".join(
        str(pilot.app.screen_stack[0].query_one(name).render())
        for name in ("#title", "#told")
    )


def page(pilot: Pilot[None]) -> str:
    """The text of the page over it."""
    return str(pilot.app.screen.query_one("#lines").render())
