"""A worker process as the agent sees it: started, asked, and started again when it ends."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from penstock.agent.processes.wire import LIMIT, RemoteBlocks, read, write
from penstock.config import Config
from penstock.core.errors import PenstockError
from penstock.core.tasks import end
from penstock.insight.answers import BrokerState
from penstock.insight.events import Event
from penstock.server.request_limit import Busy

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
GIVE_SECONDS = 60.0
STOP_SECONDS = 2.0
"""Then it is killed, which takes nothing back that was shown."""
HUNG_SECONDS = 30.0
"""One that has answered nothing for so long is killed."""
PAUSE, MOST_PAUSE, STEADY = 1.0, 60.0, 300.0
"""Seconds before it is started again: twice as long each time, unless it lived for so long."""


class WorkerProcess:
    """Everything but `ask` belongs to the event loop.

    give: sends it what it has to know, called when it has started. on_events: of its brokers. on_end: called with why.
    """

    def __init__(
        self,
        storage: Path,
        command: Sequence[str],
        give: Callable[["WorkerProcess"], Coroutine[Any, Any, None]],
        on_events: Callable[[Sequence[Event]], None],
        on_end: Callable[["WorkerProcess", str], None],
    ) -> None:
        self.name = storage.name
        self.config: Config | None = None
        """With its brokers."""
        self.blocks: dict[str, RemoteBlocks] = {}
        self.states: Mapping[str, tuple[float, BrokerState]] = {}
        """As it said last, and when (monotonic)."""
        self.nodes: Mapping[str, str] = {}
        self.numbers: Mapping[str, float] = {}
        self.answered = time.monotonic()
        """When it last answered, or began."""
        self.ended: float | None = self.answered
        """When its process ended; None while there is one."""
        self.silent = False
        """It did not answer in time, and nothing since."""
        self.starts = self.unanswered = self.pid = 0
        self._storage, self._command = storage, command
        self._give, self._on_events, self._on_end = give, on_events, on_end
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name=self.name)

    def ask(self, what: str, *arguments: Any) -> Any:
        """The answer, in any thread but the event loop's. Raises Busy: there is none in time; what the worker raised."""
        if self.silent:
            raise self._no_answer("does not answer")
        asking = asyncio.run_coroutine_threadsafe(self.asked(what, *arguments), self._loop)
        try:
            return asking.result(2 * ANSWER_SECONDS)
        except TimeoutError:
            raise self._no_answer("was not asked in time") from None

    async def asked(self, what: str, *arguments: Any, seconds: float = ANSWER_SECONDS) -> Any:
        """The same in the event loop."""
        if self._writer is None:
            raise self._no_answer("has ended and is started again")
        number, future = next(self._numbers), self._loop.create_future()
        self._waiting[number] = future
        try:
            write(self._writer, number, what, arguments)
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            self.silent, self.unanswered = True, self.unanswered + 1
            raise self._no_answer(f"did not answer within {seconds:g} s") from None
        finally:
            del self._waiting[number]

    def _no_answer(self, what: str) -> Busy:
        return Busy(f"the process of these brokers, {self.name}, {what}", "try again in some seconds; see the log")

    async def stop(self) -> None:
        with contextlib.suppress(PenstockError):
            await self.asked("stop", seconds=STOP_SECONDS)
        await end(self._task)

    def kill(self) -> None:
        """It is started again."""
        if self._writer is not None and self._writer.transport is not None:
            self._writer.transport.abort()

    async def _run(self) -> None:
        pause = PAUSE
        while True:
            began = time.monotonic()
            try:
                status = await self._live()
                why = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
            except OSError as error:
                why = f"it cannot be started: {error.strerror}"
            pause = PAUSE if time.monotonic() - began > STEADY else min(2 * pause, MOST_PAUSE)
            log.error("%s ended (%s); it is started again in %g s", self.name, why, pause)
            self._on_end(self, why)
            await asyncio.sleep(pause)

    async def _live(self) -> int:
        """From the start of the process to its end; its exit status."""
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = (str(theirs.fileno()), str(self._storage))
            process = await asyncio.create_subprocess_exec(*self._command, *arguments, pass_fds=[theirs.fileno()])
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LIMIT)
        self.pid, self.starts, self.answered, self.ended = process.pid, self.starts + 1, time.monotonic(), None
        for one in self.blocks.values():
            one.begin_anew()
        giving = asyncio.create_task(self._give(self), name=f"give {self.name}")
        try:
            while True:
                self._take(*await read(reader))
                await asyncio.sleep(0)  # there may be more at once, and others have requests
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writer.close()
            self._writer, self.ended = None, time.monotonic()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(self._no_answer("has ended and is started again"))
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await end(giving)
            status = await process.wait()
        return status

    def _take(self, kind: str, *content: Any) -> None:
        self.silent, self.answered = False, time.monotonic()
        if kind == "answer":
            number, value, error = content
            future = self._waiting.get(number)
            if future is not None and not future.done():
                future.set_result(value) if error is None else future.set_exception(error)
        elif kind == "events":
            self._on_events(*content)
        else:
            blocks = self.blocks.setdefault(content[0], RemoteBlocks())
            (blocks.take if kind == "family" else blocks.publish)(*content[1:])

    def used(self) -> tuple[float, float]:
        """CPU seconds and resident bytes of the process; NaN where the system does not say."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (
                Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            )
            ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
            return (int(fields[11]) + int(fields[12])) / ticks, float(int(fields[21]) * page)
        return float("nan"), float("nan")
