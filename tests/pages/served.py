"""The status page of a real agent whose broker is made up."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession

from agent.test_restart import busy, work
from agent.test_state_file import Reader, until_polled
from agent.world import World
from penstock.agent import Agent, supervisor
from penstock.core.table import Index, Table
from penstock.model import (
    ANONYMOUS,
    AddressRow,
    ConnectionRow,
    LinkRow,
    ProducerRow,
    Role,
    Snapshot,
)
from penstock.server import make_app, serve

SCRIPT = "<script>alert(1)</script>"
EVIL = f"a/b %2F c?#&+ü{{x}}\"'{SCRIPT}\u202eevil\u202c" + "x" * 1000
"""A name of everything that could go wrong on a page."""


@dataclass
class Served:
    url: str
    client: ClientSession
    agent: Agent

    async def get(self, path: str, status: int = 200) -> "Page":
        async with self.client.get(self.url + path) as response:
            assert response.status == status, await response.text()
            return Page.of(await response.text())


@dataclass
class Page(HTMLParser):
    """What a browser would make of it: tags, ids, links, and all text but that of scripts and styles."""

    text: str = ""
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    @classmethod
    def of(cls, html: str) -> "Page":
        page = cls()
        HTMLParser.__init__(page, convert_charrefs=True)
        page.feed(html)
        page.text = " ".join(page.text.split())
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        self.text += " "

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - any
        self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data

    def link(self, name: str, **given: str) -> str:
        """The first link to `name` whose parameters have these texts in them."""
        return next(
            one
            for one in self.links
            if one.startswith(f"{name}?")
            and all(f"{k}={v}" in one for k, v in given.items())
        )


@asynccontextmanager
async def served(
    world: World,
    folder: Path,
    work: Callable[[World], None],
    polls: int = 20,
    **more: Any,
) -> AsyncIterator[Served]:
    """An agent that has polled `world` so often; `work` happens before each poll. more: of the configuration."""
    path = folder / "p.yml"
    lines = [
        "brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/', password: secret-word, username: u}]"
    ]
    lines += [
        "judgement: {cold: 60s, trend: 120s}",
        *(f"{name}: {value}" for name, value in more.items()),
    ]
    path.write_text("\n".join(lines))
    running = Agent(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(supervisor, "open_reader", lambda *_: Reader(world))
        await running.start()
    (poller,) = running.pollers()
    await until_polled(poller)
    for _ in range(polls):
        work(world)
        await poller.poll()
    async with (
        serve(make_app(running.lookups), ["127.0.0.1:0"]) as (address,),
        ClientSession() as client,
    ):
        yield Served(f"http://127.0.0.1:{address.port}/", client, running)
    await running.stop()


def rests(_: World) -> None:
    """Nothing happens."""


def works(world: World) -> None:
    """What the faults of `troubled` are made of goes on."""
    work(world, 1)
    world.now -= 15


class Connected(World):
    """With the addresses of its queues, one connection, a bridge to another broker, and a producer of any address."""

    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        keys = list(self.rows)
        addresses = [AddressRow(self.rows[key].address, "BLOCK") for key in keys]
        self.places = self.__dict__.get("places", Index.empty()).advance(
            np.array(keys, np.int64), lambda new: [addresses[i] for i in new]
        )[0]
        self.only = self.__dict__.get("only") or Index.of(
            [ConnectionRow("c1", "stuck", "CORE", "u", "h")]
        )
        self.bridge = self.__dict__.get("bridge") or Index.of(
            [LinkRow("to-b2", "bridge")]
        )
        self.sends = self.__dict__.get("sends") or Index.of(
            [ProducerRow("p1", ANONYMOUS, "sender", "s")]
        )
        return replace(
            found,
            producers=Table(self.sends, {"produced": np.array([9.0])}),
            producer_connection=self.only.keys,
            links=Table(self.bridge, {"up": np.ones(1), "pending": np.array([7.0])}),
            addresses=Table(self.places, {"limit_percent": np.full(len(keys), 20.0)}),
            connections=Table(self.only, {"sessions": np.array([1.0])}),
            consumer_connection=np.full(
                len(found.consumer_connection), self.only.keys[0]
            ),
        )


class Passive(World):
    def snapshot(self) -> Snapshot:
        found = super().snapshot()
        assert found.broker is not None
        return Snapshot(
            found.stamp,
            replace(found.broker, role=Role.PASSIVE),
            observation=found.observation,
        )


def troubled() -> World:
    """A busy broker with faults, and a queue with an evil name and a client of the same."""
    found = busy()
    world = Connected(
        **{one.name: getattr(found, one.name) for one in fields(found) if one.init}
    )
    world.queue(99, EVIL, messages=3, added=3, delivering=1)
    world.consumer(990, 99, EVIL, buffered=1, delivered=1)
    return world
