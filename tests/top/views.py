"""Sources of made-up brokers, and what the view shows of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from textual.pilot import Pilot

from judgement_edges.world import World
from penstock.cli.terminal.app import Top
from penstock.cli.terminal.grid import Grid
from penstock.errors import PenstockError
from penstock.flow import lists
from penstock.flow.explain import Plain, Sight, explain
from penstock.flow.lists import Listed, Wanted

NARROW, WIDE = (80, 24), (200, 60)
MADE = {"queues": lists.queue_list, "clients": lists.client_list, "consumers": lists.consumer_list}


@dataclass
class Made:
    """Brokers that are made up; `error` fails every look, `down` says why a broker does not answer."""

    worlds: Sequence[World]
    down: dict[str, str] = field(default_factory=dict)
    error: str = ""
    events_told: list[Plain] = field(default_factory=list)
    age: float = 3.0
    asked: list[Wanted] = field(default_factory=list)

    def sights(self, broker: str = "") -> list[Sight]:
        return [
            Sight(world.state, world.tables, world.snapshot(), world.policy, 15.0)
            for world in self.worlds
            if broker in ("", world.policy.broker)
        ]

    async def brokers(self) -> list[Plain]:
        if self.error:
            raise PenstockError(self.error)
        return [self._broker(sight) for sight in self.sights()]

    def _broker(self, sight: Sight) -> Plain:
        name = sight.policy.broker
        return {
            "name": name,
            "kind": "artemis",
            "version": "2.44.0",
            "role": "active",
            "up": name not in self.down,
            "age": self.age,
            "error": self.down.get(name, ""),
            "notes": [],
            "findings": [],
            "numbers": lists.broker_numbers(sight),
        }

    async def rows(self, level: str, broker: str, wanted: Wanted) -> Listed:
        self.asked.append(wanted)
        return MADE[level](self.sights(broker), wanted)

    async def explain(self, broker: str, address: str, queue: str, client: str) -> Plain:
        return explain(self.sights(broker)[0], queue, address=address, client=client or None)

    async def events(self, broker: str, queue: str, limit: int) -> list[Plain]:
        mine = [one for one in self.events_told if broker in ("", one["broker"]) and queue in ("", one["queue"])]
        return mine[-limit:]


def top(source: Made, **options: Any) -> Top:
    """A view that looks only when it is told to, or opens something."""
    return Top(source, "made up", 3600, **options)


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
    return [line for y in range(found.size.height) if (line := found.render_line(y).text.rstrip())]


def told(pilot: Pilot[None]) -> str:
    """The lines above the grid."""
    return "\n".join(str(pilot.app.screen_stack[0].query_one(name).render()) for name in ("#title", "#told"))


def page(pilot: Pilot[None]) -> str:
    """The text of the page over it."""
    return str(pilot.app.screen.query_one("#lines").render())
