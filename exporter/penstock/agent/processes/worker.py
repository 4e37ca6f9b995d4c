"""A worker process: an agent without a server, which polls the brokers that it is given and sends what they show."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from penstock.agent.checkpoint import Checkpoint
from penstock.agent.history import PUBLISHED
from penstock.agent.processes.blocks import changed
from penstock.agent.recent import HOUR
from penstock.agent.shard import Given
from penstock.agent.supervisor import Agent
from penstock.config import Config
from penstock.core.errors import PenstockError
from penstock.exposition.render import Published
from penstock.insight.events import Event

log = logging.getLogger(__name__)

MOST_EVENTS = 2_000
"""That this process may have recorded and not sent, or that a broker brings along: those of the last hour."""


class WorkerAgent(Agent):
    """Polls the brokers of `config_file` that it is given. storage: its own, below that of the agent."""

    def __init__(self, config_file: Path, storage: Path, connection: Connection) -> None:
        self._given = Given()
        self._place = storage
        super().__init__(config_file, storage, self._given)
        self._connection = connection
        self._sending = threading.Lock()
        self._sent: dict[str, Published] = {}
        self._stopped = asyncio.Event()

    def _load(self) -> Config:
        """Its history goes where the agent's goes."""
        config, place = super()._load(), self._place
        agent, url = f"{config.history.agent}-{place.name}", config.history.url or str(place.parent / PUBLISHED)
        history = config.history.model_copy(update={"agent": agent, "url": url, "trends": None})
        return config.model_copy(update={"history": history})

    async def serve(self) -> None:
        """Until it is told to stop; when the agent ends otherwise, so does this process, at once."""
        await self.start()
        threading.Thread(target=self._answer, daemon=True).start()
        await self._stopped.wait()

    def _answer(self) -> None:
        """One question after the other, as the server asks them."""
        try:
            while True:
                number, what, arguments, named = self._connection.recv()
                try:
                    value = self._answered(what, arguments, named)
                except PenstockError as error:
                    value = error
                except Exception as error:
                    log.exception("a question could not be answered; please report this")
                    value = PenstockError(f"unexpected {type(error).__name__}; the log has the details")
                with self._sending:
                    self._connection.send(("answer", number, value))
                if what == "stop":
                    self._loop.call_soon_threadsafe(self._stopped.set)
        except (EOFError, OSError):
            os._exit(1)  # what no kill may take back is in the files

    def _answered(self, what: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if what in ("give", "reload", "stop"):
            return asyncio.run_coroutine_threadsafe(getattr(self, what)(*arguments), self._loop).result()
        return getattr(self if what == "status" else self.lookups, what)(*arguments, **named)

    async def give(self, names: Collection[str], known: Sequence[Checkpoint], events: Sequence[Event]) -> None:
        """Poll these; known, events: of those that come here."""
        await self._checkpoints.take_in(known, self._assessors())
        await asyncio.to_thread(self._journal.add_missing, events)
        self._given.names = names
        await self._turns.run("give", self._discover)
        recorded = self._journal.last(MOST_EVENTS, since=time.time() - HOUR)
        await asyncio.to_thread(self._send, [event for event in recorded if event.broker])

    def status(self) -> tuple[Mapping[str, str], Mapping[str, float]]:
        """The node ids of its brokers; what it counts of the agent's own metrics."""
        saved = float(self._checkpoints.success and self._journal.success)
        nodes = {poller.name: node for poller in self.pollers() if (node := poller.assessor.node)}
        return nodes, {"state_save_success": saved, **self._history.numbers()}

    def _on_change(self, events: Iterable[Event]) -> None:
        found = list(events)
        super()._on_change(found)
        self._send(found)

    def _send(self, events: Sequence[Event]) -> None:
        with self._sending:
            shown = {poller.name: poller.publisher.blocks.published for poller in self.pollers()}
            for name in {**self._sent, **shown}:
                before, now = self._sent.get(name, Published()), shown.get(name, Published())
                if now is not before and (now.families or before.families):
                    for family in changed(before, now):
                        self._connection.send(("family", name, *family))
                    self._connection.send(("published", name, tuple(now.families)))
            self._sent = shown
            self._connection.send(("events", events))
