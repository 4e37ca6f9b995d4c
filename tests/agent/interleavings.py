"""
An agent's life of start, polls, reloads, discovery and stop, into which something else comes at its n-th suspension.

Every task of the agent is counted each time it waits for something. Whatever comes, and whenever: what is polled is
what one configuration says, as a whole; a stop ends within seconds and leaves no task, thread, reader or writer; and
the next agent on the same directory starts as if nothing had been.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from core import things
from core.things import snapshot, table
from penstock.agent import Agent, supervisor
from penstock.config import Broker, Config
from penstock.core.errors import PenstockError
from penstock.exposition.syntax import Format
from penstock.model import Snapshot

NOW = 1_795_219_200.0
LONG = 60.0

FIRST = ("one", "two")
SECOND = ("two", "three")


def configuration(
    names: tuple[str, ...], *, page_rows: int = 5000, history: bool = False
) -> str:
    url = "http://127.0.0.1:1/"
    brokers = [
        {"name": name, "kind": "artemis", "url": url, "page_rows": page_rows}
        for name in names
    ]
    profiles = {
        "mq": {"kind": "artemis", "url": "http://{host}:1/", "page_rows": page_rows}
    }
    dns = {"dns": "_x._tcp.y", "profile": "mq"}
    files = {"files": ["found*.yml"], "profiles": ["mq"]}
    discovery = {"profiles": profiles, "files": [files], "dns": [dns], "forget": "0s"}
    return yaml.safe_dump(
        {"brokers": brokers, "history": {"enabled": history}, "discovery": discovery}
    )


BROKEN = configuration(FIRST).replace("kind: artemis", "kind: nonsense")


class Coming(StrEnum):
    """What comes in between."""

    CANCEL = "cancel"
    """Whoever asked for the start, the reload or the stop under way is cancelled."""
    STOP = "stop"
    RELOAD = "reload"
    REFUSED = "refused"
    """A reload of a configuration that cannot be taken."""


class Steps:
    """A task factory that calls `act` at the `at`-th suspension of any task but the first."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at = at
        self.act = act
        self.count = 0
        self.counting = False

    @property
    def came(self) -> bool:
        return 0 < self.at <= self.count

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(Counted(coroutine, self), loop=loop, **more)

    def suspended(self) -> None:
        if self.counting:
            self.count += 1
            if self.count == self.at:
                self.act()


class Counted(Coroutine[Any, Any, Any]):
    """A coroutine that tells when it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], steps: Steps) -> None:
        self._coroutine = coroutine
        self._steps = steps

    def __await__(self) -> Any:
        raise NotImplementedError

    def send(self, value: Any) -> Any:
        waited_for = self._coroutine.send(value)
        self._steps.suspended()
        return waited_for

    def throw(self, *error: Any) -> Any:
        waited_for = self._coroutine.throw(*error)
        self._steps.suspended()
        return waited_for

    def close(self) -> None:
        self._coroutine.close()


@dataclass(eq=False)
class Reader:
    """Of one broker; none of the same name may be polled beside it."""

    name: str
    under_way: set[str]
    closed: bool = False
    polls: int = 0

    async def poll(self, timeout: float) -> Snapshot:  # noqa: ARG002 - the reader's
        assert not self.closed, f"{self.name} is polled when closed"
        assert self.name not in self.under_way, f"{self.name} is polled twice at once"
        self.under_way.add(self.name)
        self.polls += 1
        try:
            await asyncio.sleep(0)
            await asyncio.to_thread(time.sleep, 0.001)
        finally:
            self.under_way.discard(self.name)
        found = snapshot(
            NOW, queues=table([things.queue("orders")], messages=[7], added=[9])
        )
        return replace(
            found, broker=replace(things.ACTIVE, node_id=f"node-of-{self.name}")
        )

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


@dataclass(eq=False)
class Writer:
    """Of history, in memory."""

    live: bool = False

    def start(self, after: "Writer | None" = None) -> None:
        if after is not None:
            after.stop()
        self.live = True

    def end(self) -> None:
        self.live = False

    def stop(self) -> None:
        time.sleep(0.001)
        self.live = False

    def offer_poll(self, *_: Any) -> None: ...

    def numbers(self) -> dict[str, float]:
        return {"history_success": 1.0}


@dataclass(eq=False)
class World:
    """The directory of an agent, and all that its agents opened."""

    folder: Path
    readers: list[Reader] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    under_way: set[str] = field(default_factory=set)

    @property
    def file(self) -> Path:
        return self.folder / "p.yml"

    def open_reader(self, _: Config, broker: Broker, *__: object) -> Reader:
        self.readers.append(reader := Reader(broker.name, self.under_way))
        return reader

    def open_writer(self, *_: object) -> Writer:
        self.writers.append(writer := Writer())
        return writer

    def leave(self, found: tuple[str, ...]) -> None:
        """A file for discovery."""
        brokers = [{"name": name, "host": name} for name in found]
        beside = self.folder / "beside.yml"
        beside.write_text(yaml.safe_dump({"brokers": brokers}))
        beside.replace(self.folder / "found.yml")

    def agent(self) -> Agent:
        return Agent(self.file, self.folder / "data")

    def hold(self, agent: Agent) -> None:
        """What is polled, written and shown is what one configuration says."""
        config = yaml.safe_load(agent.lookups.masked_config())
        wanted = sorted(broker["name"] for broker in config["brokers"])
        assert sorted(poller.name for poller in agent.pollers()) == wanted
        assert sorted(state.name for state in agent.lookups.brokers()) == wanted
        assert (
            sum(writer.live for writer in self.writers) == config["history"]["enabled"]
        )

    def left_nothing(self) -> None:
        """After a stop."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks: {[task.get_name() for task in left]}"
        threads = [
            thread.name
            for thread in threading.enumerate()
            if thread.name.startswith("penstock")
        ]
        assert not threads
        assert all(reader.closed for reader in self.readers), [
            r.name for r in self.readers if not r.closed
        ]
        assert not any(writer.live for writer in self.writers)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A directory of its own for each life."""
    world = World(tmp_path)

    async def resolve(_: object) -> list[Any]:
        await asyncio.sleep(0)
        return []

    monkeypatch.setattr(supervisor, "open_reader", world.open_reader)
    monkeypatch.setattr(
        supervisor, "STOP_SECONDS", 5 * LONG
    )  # a stop that waits for it fails
    monkeypatch.setattr("penstock.agent.history.open_writer", world.open_writer)
    monkeypatch.setattr("penstock.agent.discovery.resolve", resolve)
    monkeypatch.setattr("penstock.agent.fleet.SPREAD_SECONDS", 0.0)
    monkeypatch.setattr("penstock.agent.supervisor.FILE_SECONDS", 0.01)
    monkeypatch.setattr("penstock.agent.checkpoints.SAVE_SECONDS", 0.01)
    monkeypatch.setattr("penstock.agent.checkpoints.SAVE_PAUSE", 0.0)
    return world


@contextmanager
def no_errors() -> Iterator[None]:
    """Nothing asks to be reported, no task's error is lost."""
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(self.format(record))

    handler = Kept(logging.ERROR)
    loggers = [logging.getLogger("penstock"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    assert not said


@dataclass(eq=False)
class Life:
    """One agent, from its start to its stop, and what comes in between."""

    world: World
    coming: Coming
    at: int
    asked: asyncio.Task[None] | None = None
    """The start, reload or stop under way."""
    came: list[asyncio.Task[None]] = field(default_factory=list)
    stopping: bool = False

    async def ask(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it; it may be refused, and be cancelled."""
        self.asked = asyncio.create_task(work)
        _, late = await asyncio.wait([self.asked], timeout=LONG)
        assert not late, "does not end"
        if not self.asked.cancelled() and (error := self.asked.exception()) is not None:
            assert isinstance(error, PenstockError), repr(error)
        self.asked = None

    def come(self) -> None:
        """At the n-th suspension, within the step of the task that waits."""
        match self.coming:
            case Coming.CANCEL:
                if self.asked is not None:
                    self.asked.cancel()
            case Coming.STOP:
                self.stopping = True
                self.came.append(asyncio.create_task(self.agent.stop()))
            case Coming.RELOAD | Coming.REFUSED:
                other = (
                    BROKEN
                    if self.coming is Coming.REFUSED
                    else configuration(("one", "four"), page_rows=9)
                )
                self.world.file.write_text(other)
                self.came.append(asyncio.create_task(self.agent.reload()))

    async def wait(self, holds: Callable[[], bool]) -> None:
        """Wait for what happens unless something came in between."""
        began = time.monotonic()
        while not (holds() or self.stopping or time.monotonic() - began > 0.5):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.001)

    async def live(self) -> bool:
        """Whether it came at all."""
        world = self.world
        loop = asyncio.get_running_loop()
        world.file.write_text(configuration(FIRST, history=True))
        world.leave(())
        self.agent = agent = world.agent()
        steps = Steps(self.at, self.come)
        loop.set_task_factory(steps)
        steps.counting = True
        await self.ask(agent.start())
        if agent.pollers():
            await self.wait(lambda: agent.lookups.ready()[0])
            await self.between(agent)
        await self.ask(agent.stop())
        steps.counting = False
        if self.coming is Coming.CANCEL:
            await self.ask(agent.stop())
        await self.end_of(self.came)
        polls = [reader.polls for reader in world.readers]
        for _ in range(3):
            await asyncio.sleep(0)
        world.left_nothing()
        assert polls == [reader.polls for reader in world.readers]
        return steps.came

    async def between(self, agent: Agent) -> None:
        """The reloads and the discovery of a life that goes well so far."""
        world = self.world
        for content in (
            configuration(SECOND, page_rows=8),
            BROKEN,
            configuration(SECOND, history=True),
        ):
            if self.stopping:
                return
            world.file.write_text(content)
            await self.ask(agent.reload())
            world.leave(("found",) if content is not BROKEN else ())
            await self.wait(
                lambda: (
                    agent.lookups.ready()[0]
                    and "found" in {one.name for one in agent.pollers()}
                )
            )
            if self.came and not self.stopping:
                await self.end_of(self.came)
            if not self.stopping:
                world.hold(agent)

    async def end_of(self, came: list[asyncio.Task[None]]) -> None:
        if not came:
            return
        _, late = await asyncio.wait(came, timeout=LONG)
        assert not late, "does not end"
        for task in came:
            error = None if task.cancelled() else task.exception()
            assert error is None or isinstance(error, PenstockError), repr(error)


async def next_is_whole(world: World) -> None:
    """An agent on what the one before left: it polls all, and knows what was."""
    world.file.write_text(configuration(FIRST))
    world.leave(())
    agent = world.agent()
    await agent.start()
    async with asyncio.timeout(LONG):
        while not agent.lookups.ready()[0]:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.001)
    world.hold(agent)
    body = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
    assert all(f'mq_up{{broker="{name}"}} 1' in body for name in FIRST)
    await agent.stop()
    world.left_nothing()
    assert not list((world.folder / "data").glob("*.unusable"))


def live(world: World, coming: Coming, at: int) -> bool:
    """Whether the life has an `at`-th suspension; AssertionError when it does not hold."""

    async def both() -> bool:
        came = await Life(world, coming, at).live()
        asyncio.get_running_loop().set_task_factory(None)
        await next_is_whole(world)
        return came

    try:
        with no_errors():
            return asyncio.run(both())
    except AssertionError as error:
        raise AssertionError(f"{coming} at suspension {at}: {error}") from error
