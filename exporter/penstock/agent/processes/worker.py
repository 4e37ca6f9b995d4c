"""A worker process: an agent without a server, which polls the brokers that it is given and sends what they show."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from penstock.agent.checkpoint import Checkpoint
from penstock.agent.history import PUBLISHED
from penstock.agent.processes.blocks import NOTHING, changed
from penstock.agent.processes.pool import MOST_EVENTS
from penstock.agent.recent import HOUR
from penstock.agent.supervisor import Agent
from penstock.config import Config
from penstock.core import allocator
from penstock.core.errors import PenstockError
from penstock.exposition.render import Published
from penstock.insight.events import Event

log = logging.getLogger(__name__)


class WorkerAgent(Agent):
    """Polls the brokers of the configuration that it is given. storage: its own, below that of the agent."""

    def __init__(self, storage: Path, connection: Connection) -> None:
        self._place = storage
        super().__init__(storage / "given", storage)
        self._connection = connection
        self._sending = threading.Lock()
        self._sent = dict[str, Published]()
        self._stopped = asyncio.Event()

    def _load(self) -> Config:
        """The file may say by now what the agent has not read, or has refused."""
        return Config.model_construct(brokers=())

    async def _look_at_files_regularly(self) -> None:
        """The agent reports those of all its brokers."""

    async def _take(self, config: Config) -> None:
        """From now on this one is in force. Its history goes where the agent's goes."""
        agent = f"{config.history.agent}-{self._place.name}"
        url = str(self._place.parent / PUBLISHED)
        own = {"agent": agent, "url": config.history.url or url, "trends": None}
        config = config.model_copy(
            update={"history": config.history.model_copy(update=own)}
        )
        await self._put_in_force(config, await self._look(config))
        self._written = config
        await self._fleet.settled()

    async def serve(self) -> None:
        """Until it is asked to stop; when the agent ends otherwise, so does this process, at once."""
        await self.start()
        threading.Thread(target=self._answer, daemon=True).start()
        await self._stopped.wait()

    def _answer(self) -> None:
        try:
            while not self._stopped.is_set():
                number, question, arguments, named = self._connection.recv()
                try:
                    value = self._answered(question, arguments, named)
                except PenstockError as error:
                    value = error
                except Exception as error:
                    log.exception(
                        "a question could not be answered; please report this"
                    )
                    value = PenstockError(
                        f"unexpected {type(error).__name__}; the log has the details"
                    )
                with self._sending:
                    self._connection.send((number, value))
                if question == "stop":
                    self._loop.call_soon_threadsafe(self._stopped.set)
        except (EOFError, OSError):
            os._exit(1)  # what no kill may take back is in the state database

    def _answered(
        self, question: str, arguments: Sequence[object], named: Mapping[str, object]
    ) -> object:
        if question in ("give", "stop"):
            return asyncio.run_coroutine_threadsafe(
                getattr(self, question)(*arguments), self._loop
            ).result()
        return getattr(self if question == "status" else self.lookups, question)(
            *arguments, **named
        )

    async def give(
        self, config: Config, checkpoints: Sequence[Checkpoint], events: Sequence[Event]
    ) -> None:
        """Poll as this says, which names all brokers and none to be found; known, events: of those that come here."""
        await self._checkpoints.take_in(checkpoints, self._assessors())
        await asyncio.to_thread(self._journal.add_missing, events)
        await self._turns.run("give", partial(self._take, config))
        # A process before this one may have recorded some and not sent them.
        recorded = await asyncio.to_thread(
            self._journal.last, MOST_EVENTS, since=time.time() - HOUR
        )
        await asyncio.to_thread(
            self._send, [event for event in recorded if event.broker]
        )

    def status(self) -> tuple[Mapping[str, str], Mapping[str, float], float, float]:
        """Return each broker's node id ("" while unknown), the agent's own metrics, CPU seconds, bytes of memory."""
        nodes = {poller.name: poller.assessor.node for poller in self.pollers()}
        saved = float(self._checkpoints.success)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        numbers = {"state_save_success": saved, **self._history.numbers()}
        return (
            nodes,
            numbers,
            time.process_time(),
            float(pages * os.sysconf("SC_PAGE_SIZE")),
        )

    def _on_change(self, events: Iterable[Event]) -> None:
        listed = list(events)
        super()._on_change(listed)
        self._send(listed)

    def _send(self, events: Sequence[Event]) -> None:
        """Send what brokers show, as far as it changed, and these events."""
        with self._sending:
            published = {
                poller.name: poller.assessor.blocks.published
                for poller in self.pollers()
            }
            published = {
                name: blocks
                for name, blocks in published.items()
                if blocks.families or name in self._sent
            }
            published |= dict.fromkeys(self._sent.keys() - published.keys(), NOTHING)
            parts = {name: changed(self._sent.get(name, NOTHING), now) for name, now in published.items()
                     if now is not self._sent.get(name)}  # fmt: skip
            self._sent = published
            self._connection.send((None, parts, events))
        del parts
        allocator.give_back()  # a poll, and what was sent of it, need much for a moment
