"""Real agents beside a benchmark: a watch a broker in a thread of its own, every answer recorded, every change kept."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import yaml

from penstock.agent.opening import open_transport, policy_of, reader_over
from penstock.agent.state import StateFile
from penstock.agent.watch import Outcome, Watch
from penstock.config import Config, load
from penstock.flow.events import Change, Event
from penstock.flow.memory import Memory
from penstock.sources.artemis import ReaderOptions
from penstock.sources.recording import Recorder
from penstock.sources.transport import Answer, Request, Transport


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


class _Observed(Watch):
    """A watch that calls `after` once it has polled."""

    after: Callable[[Watch], None]

    async def poll(self) -> Outcome:
        outcome = await super().poll()
        self.after(self)
        return outcome


class Observer:
    """
    Watches all brokers of a configuration; a context manager. Recordings go to `folder`/NAME-N.jsonl.gz.

    memory: what was learned earlier, by the name of the broker. on_poll: called after each poll with its watch, in the
    observer's thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: Sequence[dict[str, Any]],
        memory: Callable[[str], Memory | None] = lambda _: None,
        on_poll: Callable[[Watch], None] = lambda _: None,
        **configuration: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "penstock.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump({**configuration, "brokers": list(brokers)}))
        self.config: Config = load(file)
        self.folder = folder
        self.events: list[Event] = []
        self.watches: dict[str, Watch] = {}
        self.clocks: dict[str, Stepped] = {}
        self._on_poll = on_poll
        self._learned = memory
        self._state = StateFile(folder / "state")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starts = dict.fromkeys((broker.name for broker in self.config.brokers), 0)
        self._executor = ThreadPoolExecutor(1, "penstock-work")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="observer", daemon=True)

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
        """As a restart of the agent: all is saved to the state file, and read from it `pause` seconds later."""
        self._run(self._stop(broker))
        time.sleep(pause)
        self._run(self._start(broker))

    def memories(self) -> list[Memory]:
        """What is known now, as it is kept over a restart."""
        saved = [self._executor.submit(watch.memory).result() for watch in self.watches.values()]
        return [memory for memory in saved if memory is not None]

    def told(self, queue: str) -> list[Event]:
        """The conditions of a queue, and of its clients, that came or became worse, in order."""
        kinds = (Change.CONDITION_ON, Change.SEVERITY)
        return [event for event in list(self.events) if event.queue == queue and event.change in kinds]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self, name: str) -> None:
        broker = next(one for one in self.config.brokers if one.name == name)
        self._starts[name] += 1
        self._state.load()
        file = self.folder / f"{name}-{self._starts[name]}.jsonl.gz"
        clock = self.clocks[name] = Stepped(open_transport(broker))
        transport = Recorder(clock, file, broker.kind.value, broker.name)
        watch = _Observed(
            reader_over(transport, broker.kind, broker.name, ReaderOptions(broker.page_rows), self._executor),
            policy_of(self.config, broker),
            self.config.interval_of(broker),
            self.config.timeout_of(broker),
            self._executor,
            remembered=lambda node_id: self._state.memory(node_id) or self._of_earlier(name, node_id),
            on_change=self._add,
        )
        watch.after = self._on_poll
        self.watches[name] = watch
        self._tasks[name] = self._loop.create_task(watch.run())

    async def _stop(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks.pop(name), return_exceptions=True)
        watch = self.watches[name]
        memory = await self._loop.run_in_executor(self._executor, watch.memory)
        if memory is not None:
            self._state.keep([memory], time.time())
            self._state.save()
        await watch.close()

    def _of_earlier(self, name: str, node_id: str) -> Memory | None:
        """Of a broker that was made anew since, with the names of then."""
        memory = self._learned(name)
        return None if memory is None else replace(memory, node_id=node_id, start=0.0)

    def _add(self, events: Iterable[Event]) -> None:
        self.events.extend(events)
