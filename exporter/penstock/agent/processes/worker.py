"""A worker process: an agent without a server, which polls the brokers that it is given and sends what they show."""

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.agent.checkpoint import Checkpoint, node_of
from penstock.agent.processes.wire import changed, read, write
from penstock.agent.recent import HOUR
from penstock.agent.supervisor import Agent
from penstock.config import Config
from penstock.config.model import RulesFile
from penstock.core.errors import PenstockError
from penstock.core.tasks import end
from penstock.exposition.render import Published
from penstock.insight.answers import BrokerState
from penstock.insight.events import Event

log = logging.getLogger(__name__)

MOST_EVENTS = 2_000
QUESTIONS = ("queues", "clients", "conditions", "consumers", "explain", "account", "client", "recent")


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """nodes: the node id of each broker that was read. numbers: of the agent's own metrics, what this process counts."""

    brokers: Sequence[BrokerState]
    nodes: Mapping[str, str]
    numbers: Mapping[str, float]


class WorkerAgent(Agent):
    """Its configuration is what it was given last. storage: its own, below that of the agent."""

    def __init__(self, storage: Path, writer: asyncio.StreamWriter) -> None:
        self._given: Config = RulesFile()
        super().__init__(Path(storage.name), storage)
        self._writer = writer
        self._events: list[Event] = []
        self._sent: dict[str, Published] = {}
        self._changed = asyncio.Event()

    def _load(self) -> Config:
        return self._given

    def _on_change(self, events: Iterable[Event]) -> None:
        found = list(events)
        super()._on_change(found)
        self._loop.call_soon_threadsafe(self._note, found)

    def _note(self, events: Sequence[Event]) -> None:
        self._events += events
        self._changed.set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Until it is told to stop. When the agent ends without that, so does this process, at once: what no kill may take
        back is in the files.
        """
        await self.start()
        # What the process before this one recorded, and may not have sent.
        self._note([one for one in self._journal.last(MOST_EVENTS, since=time.time() - HOUR) if one.broker])
        sending, answering = asyncio.create_task(self._send()), set[asyncio.Task[None]]()
        try:
            while True:
                number, what, arguments = await read(reader)
                if what == "stop":
                    break
                answering.add(task := asyncio.create_task(self._answer(number, what, arguments)))
                task.add_done_callback(answering.discard)
        except (asyncio.IncompleteReadError, OSError):
            os._exit(1)
        await self.stop()
        await end(sending, *answering)
        write(self._writer, "answer", number, None, None)
        await self._writer.drain()

    async def _answer(self, number: int, what: str, arguments: Sequence[Any]) -> None:
        value, problem = None, None
        try:
            if what == "give":
                await self._give(*arguments)
            elif what == "status" or what in QUESTIONS:
                value = await asyncio.to_thread(getattr(self if what == "status" else self.lookups, what), *arguments)
        except PenstockError as error:
            problem = error
        except Exception as error:
            log.exception("a question could not be answered; please report this")
            problem = PenstockError(f"unexpected {type(error).__name__}; the log has the details")
        write(self._writer, "answer", number, value, problem)

    async def _give(self, config: Config, checkpoints: Sequence[Checkpoint], events: Sequence[Event]) -> None:
        """Poll as `config` says; of brokers that come here, what is known."""
        if checkpoints:
            await asyncio.get_running_loop().run_in_executor(self._workers.small, self._journal.add_missing, events)
            await self._checkpoints.take_in(checkpoints, self._assessors())
        self._given = config
        await self.reload()
        self._changed.set()  # where a broker is polled anew, what it showed goes

    def status(self) -> WorkerStatus:
        nodes = {
            poller.name: node_of(snapshot.broker, poller.name)
            for poller in self.pollers()
            if (snapshot := poller.assessor.snapshot) is not None and snapshot.broker is not None
        }
        saved = float(self._checkpoints.success and self._journal.success)
        return WorkerStatus(self.lookups.brokers(), nodes, {"state_save_success": saved, **self._history.numbers()})

    async def _send(self) -> None:
        """What changed of what is shown, then the events of it."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            events, self._events = self._events, []
            pollers = self.pollers()
            for name in self._sent.keys() - {poller.name for poller in pollers}:
                del self._sent[name]
                write(self._writer, "published", name, ())
            for poller in pollers:
                now, before = poller.publisher.blocks.published, self._sent.get(poller.name, Published())
                if now is not before:
                    for parts in changed(before, now):
                        write(self._writer, "family", poller.name, *parts)
                        await self._writer.drain()
                    write(self._writer, "published", poller.name, tuple(now.families))
                    self._sent[poller.name] = now
            if events:
                write(self._writer, "events", events)
