"""Real agents beside a benchmark: a poller of each broker in a thread, every answer recorded, every change kept."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import yaml

from penstock.agent import Assessor, Poller, PollResult
from penstock.agent.checkpoint import Checkpoint
from penstock.agent.factory import open_transport, policy_of
from penstock.agent.nodes import Nodes
from penstock.agent.state_database import StateDatabase
from penstock.agent.state_store import StateStore
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.registry import KINDS
from penstock.config import Config, load
from penstock.insight.events import Change, Event
from penstock.model import Process
from penstock.transports.recording import Recorder, RecordingFile
from penstock.transports.transport import Answer, Request, Transport


class Stepped:
    """A transport whose clock can be set: what a step of the agent's clock does to the stamps of its answers."""

    def __init__(self, inner: Transport) -> None:
        self.step = 0.0
        self._inner = inner

    async def begin_poll(self) -> None:
        await self._inner.begin_poll()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        answer = await self._inner.ask(requests, timeout)
        return replace(answer, stamp=answer.stamp + self.step)

    async def close(self) -> None:
        await self._inner.close()


class _Observed(Poller):
    """A poller that calls `after` once it has polled."""

    after: Callable[[Poller], None]

    async def poll(self) -> PollResult:
        result = await super().poll()
        self.after(self)
        return result


class Observer:
    """
    Watches all brokers of a configuration; a context manager. Recordings go to `folder`/NAME-N.jsonl.gz.

    checkpoint: what was learned earlier, by the name of the broker.
    on_poll: called after each poll with its poller, in the observer's thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: Sequence[dict[str, Any]],
        checkpoint: Callable[[str], Checkpoint | None] = lambda _: None,
        on_poll: Callable[[Poller], None] = lambda _: None,
        **configuration: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "penstock.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump({**configuration, "brokers": list(brokers)}))
        self.config: Config = load(file)
        self.folder = folder
        self.events: list[Event] = []
        self.pollers: dict[str, Poller] = {}
        self.clocks: dict[str, Stepped] = {}
        self._on_poll = on_poll
        self._learned = checkpoint
        self._state = StateStore(StateDatabase(folder / "state"))
        self._state.database.open()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starts = dict.fromkeys((broker.name for broker in self.config.brokers), 0)
        self._executor = ThreadPoolExecutor(1, "penstock-work")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="observer", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        for name in self._starts:
            self._run(self._start(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._tasks):
            self._run(self._stop(name))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._executor.shutdown()

    def restart(self, broker: str, *, pause: float = 0.0) -> None:
        """As a restart of the agent: all is saved in the state database, and read from it `pause` seconds later."""
        self._run(self._stop(broker))
        time.sleep(pause)
        self._run(self._start(broker))

    def memories(self) -> list[Checkpoint]:
        """What is known now, as it is kept over a restart."""
        saved = [
            self._executor.submit(poller.assessor.checkpoint).result()
            for poller in self.pollers.values()
        ]
        return [checkpoint for checkpoint in saved if checkpoint is not None]

    def told(self, queue: str) -> list[Event]:
        """The conditions of a queue, and of its clients, that came or became worse, in order."""
        kinds = (Change.CONDITION_ON, Change.SEVERITY)
        return [
            event
            for event in list(self.events)
            if event.queue == queue and event.change in kinds
        ]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self, name: str) -> None:
        broker = next(one for one in self.config.brokers if one.name == name)
        self._starts[name] += 1
        file = self.folder / f"{name}-{self._starts[name]}.jsonl.gz"
        clock = self.clocks[name] = Stepped(open_transport(broker))
        transport = Recorder(clock, RecordingFile(file), broker.kind, broker.name)
        options = ReaderOptions(broker.page_rows, name=broker.name)
        assessor = Assessor(
            policy_of(self.config, broker),
            self.config.interval_of(broker),
            Nodes(
                lambda node_id: (
                    self._state.of_node(node_id) or self._of_earlier(name, node_id)
                )
            ),
            on_change=self._add,
        )
        reader = KINDS[broker.kind].reader(transport, options, self._executor)
        poller = _Observed(
            reader, assessor, self.config.timeout_of(broker), self._executor
        )
        poller.after = self._on_poll
        self.pollers[name] = poller
        self._tasks[name] = self._loop.create_task(poller.run())

    async def _stop(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks.pop(name), return_exceptions=True)
        poller = self.pollers[name]
        checkpoint = await self._loop.run_in_executor(
            self._executor, poller.assessor.checkpoint
        )
        if checkpoint is not None:
            self._state.keep(checkpoint, self._state.next_sequence(), time.time())
        await poller.close()

    def _of_earlier(self, name: str, node_id: str) -> list[Checkpoint]:
        """Of a broker that was made anew since, with the names of then."""
        checkpoint = self._learned(name)
        if checkpoint is None:
            return []
        return [
            replace(
                checkpoint,
                node_id=f"{node_id} {name}",
                broker=name,
                process=Process(clock=0.0, uptime=0.0),
            )
        ]

    def _add(self, events: Iterable[Event]) -> None:
        self.events.extend(events)
