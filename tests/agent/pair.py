"""Brokers of one agent that are made up, told to be active, passive or down, and polled when a test says so."""

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.world import BEGIN, World
from penstock.agent import Agent, Poller, supervisor
from penstock.config import Broker, Config
from penstock.core.errors import Unreachable
from penstock.exposition.syntax import Format
from penstock.insight.events import Change
from penstock.model import Observation, Process, Role, Snapshot
from penstock.settings.policy import Policy

QUEUE = 1


@dataclass
class Made:
    """One made-up broker. called: as it calls itself; its name in the configuration where nothing is said."""

    name: str
    node_id: str
    world: World = field(init=False)
    up: bool = True
    role: Role = Role.ACTIVE
    started: float = BEGIN - 86400
    called: str = ""

    def __post_init__(self) -> None:
        self.world = World(Policy(self.name), node_id=self.node_id)
        self.world.queue(QUEUE, "orders")

    def snapshot(self, now: float) -> Snapshot:
        if not self.up:
            raise Unreachable("connection refused")
        self.world.now = now
        self.world.started = self.started
        self.world.role = self.role
        found = self.world.snapshot()
        observation = Observation(
            Process(self.called or self.name, now, now - self.started)
        )
        if self.role is Role.PASSIVE:
            return Snapshot(found.stamp, found.broker, observation=observation)
        return Snapshot(
            found.stamp,
            found.broker,
            queues=found.queues,
            consumers=found.consumers,
            consumer_queue=found.consumer_queue,
            consumer_connection=found.consumer_connection,
            collectors=found.collectors,
            observation=observation,
        )


class Brokers:
    """What `Agent` polls in place of real brokers; `now` is the clock of all."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, *made: Made
    ) -> None:
        self.made = {one.name: one for one in made}
        self.now = BEGIN
        self.folder = folder
        self.write(*self.made)
        monkeypatch.setattr(supervisor, "open_reader", self._open)
        monkeypatch.setattr(Poller, "run", only_when_told)
        self.agent = self._new()

    def write(self, *names: str) -> None:
        """The configuration."""
        listed = ", ".join(
            f"{{name: {name}, kind: artemis, url: 'http://127.0.0.1:1/'}}"
            for name in names
        )
        (self.folder / "p.yml").write_text(f"interval: 15s\nbrokers: [{listed}]\n")

    def _new(self) -> Agent:
        return Agent(self.folder / "p.yml", self.folder / "data")

    def _open(self, _: Config, broker: Broker, *__: object) -> "Reader":
        return Reader(self, broker.name)

    async def another_agent(self) -> None:
        await self.agent.stop()
        self.agent = self._new()
        await self.agent.start()

    async def save(self) -> None:
        await self.agent._checkpoints.save(self.agent._assessors())

    async def poll(self, *names: str) -> None:
        """One poll of each in this order, a second apart, all within a quarter of a minute."""
        begin = self.now
        for name in names or self.made:
            self.now += 1
            (poller,) = [one for one in self.agent.pollers() if one.name == name]
            await poller.poll()
        self.now = begin + 15

    def events(self, *changes: Change) -> list[tuple[str, Change, str]]:
        found = self.agent.lookups.events(since=0.0, limit=1000, broker="", queue="")
        return [
            (one.broker, one.change, one.detail)
            for one in found
            if one.change in changes
        ]

    def samples(self, family: str, **labels: str) -> dict[str, float]:
        """By broker."""
        body = b"".join(self.agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
        wanted = [f'{name}="{value}"' for name, value in labels.items()]
        found = {}
        for line in body.splitlines():
            if line.startswith(f"{family}{{") and all(one in line for one in wanted):
                broker = re.search(r'broker="([^"]*)"', line)
                assert broker is not None
                found[broker[1]] = float(line.rsplit(" ", 1)[1])
        return found


async def only_when_told(*_: object) -> None:
    await asyncio.Event().wait()


class Reader:
    def __init__(self, brokers: Brokers, name: str) -> None:
        self._brokers = brokers
        self._name = name

    async def poll(self, timeout: float) -> Snapshot:  # noqa: ARG002 - the reader's
        return self._brokers.made[self._name].snapshot(self._brokers.now)

    async def close(self) -> None:
        pass
