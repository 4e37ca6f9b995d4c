"""A worker process as the agent sees it: started, asked, and started again when it ends."""

import logging
import os
import socket
import struct
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import numpy as np

from penstock.agent import tables as own
from penstock.agent.journal import Journal
from penstock.agent.processes.blocks import NOTHING, applied
from penstock.core import allocator
from penstock.core.errors import PenstockError
from penstock.exposition.render import BrokerBlocks, Published
from penstock.insight.events import Change, Event
from penstock.server.request_limit import Busy

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
HUNG_SECONDS = 30.0
"""One that has answered nothing, or taken nothing of what is sent, for so long is killed."""
EXIT_SECONDS = 0.5
PAUSE = 1.0
MOST_PAUSE = 60.0
STEADY = 300.0
"""Seconds before it is started again: twice as long each time, unless it lived for so long."""


class WorkerProcess:
    """Belongs to a thread of its own, but for `ask`, which any other thread but the event loop's may call.

    storage: its own directory. command: starts it, with that and a descriptor added. journal: has the events of all.
    """

    def __init__(self, storage: Path, command: Sequence[str], journal: Journal) -> None:
        self.name = storage.name
        self.blocks: dict[str, BrokerBlocks] = defaultdict(BrokerBlocks)
        self.answered = self.ended = time.monotonic()
        """When it answered last; when it ended, inf while it runs."""
        self.silent = False
        """It did not answer in time, nor since."""
        self.starts = self.unanswered = 0
        self._command = (*command, str(storage))
        self._journal = journal
        self._received: dict[str, Published] = {}
        """What the process sent; it does not know what is shown once it has ended."""
        self._waiting: dict[int, Future[object]] = {}
        self._numbers = count()
        self._sending = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def ask(
        self,
        question: str,
        *given: object,
        seconds: float = 0.0,
        named: Mapping[str, object] | None = None,
    ) -> Any:
        """Raises Busy: there is no answer in time; or what the worker raised."""
        number = next(self._numbers)
        future = Future[object]()
        self._waiting[number] = future
        try:
            if not self._sending.acquire(timeout=seconds or ANSWER_SECONDS):
                raise TimeoutError
            try:
                if self._connection is None or (self.silent and question != "status"):
                    raise ConnectionError
                self._connection.send((number, question, given, named or {}))
            except (
                BlockingIOError
            ):  # it has a part of the question, and would take the next for the rest
                self.kill()
                raise
            finally:
                self._sending.release()
            value = future.result(seconds or ANSWER_SECONDS)
        except OSError as error:
            if late := isinstance(error, TimeoutError):
                self.silent = True
                self.unanswered = self.unanswered + 1
            why = "did not answer in time" if late else "has ended, or does not answer"
            raise Busy(
                f"{self.name}, the process that polls this, {why}",
                "try again in some seconds",
            ) from None
        finally:
            del self._waiting[number]
        if isinstance(value, PenstockError):
            raise value
        return value

    def stop(self, seconds: float) -> None:
        """Kill it after that time: what was shown is in its files."""
        self._stopping.set()
        try:
            self.ask("stop", seconds=seconds)
        except PenstockError:
            self.kill()
        self._thread.join(1.0)

    def kill(self) -> None:
        """It is started again, unless it was stopped."""
        if self._process is not None:
            self._process.kill()

    def withdraw(self, broker: str) -> None:
        blocks = BrokerBlocks()
        blocks.update({"broker": own.with_poll({}, broker, {"up": 0.0})})
        self.blocks[broker].published = blocks.published

    def _run(self) -> None:
        pause = PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                why = self._live()
            except OSError as error:
                why = f"cannot be started: {error.strerror}"
            if self._stopping.is_set():
                return
            pause = (
                PAUSE
                if time.monotonic() - began > STEADY
                else min(2 * pause, MOST_PAUSE)
            )
            log.error(
                "%s ended (%s); it is started again in %g s", self.name, why, pause
            )
            self._journal.add(
                [Event(time.time(), Change.WORKER_END, detail=f"{self.name}: {why}")]
            )
            for name, blocks in list(
                self.blocks.items()
            ):  # as after a poll that failed, the rest stays for a while
                before = blocks.published
                self.withdraw(name)
                blocks.published = Published(
                    {**before.families, **blocks.published.families}
                )
            self._stopping.wait(pause)

    def _live(self) -> str:
        """From its start to its end; why that came."""
        own_end, worker_end = Pipe()
        with own_end:
            with worker_end:
                with socket.socket(fileno=os.dup(own_end.fileno())) as sending:
                    limit = struct.pack("@ll", int(HUNG_SECONDS), 0)
                    sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
                command = (*self._command, str(worker_end.fileno()))
                self._process = process = subprocess.Popen(
                    command, pass_fds=[worker_end.fileno()]
                )
            self._received.clear()
            self.silent = False
            self.starts = self.starts + 1
            self.answered = time.monotonic()
            self.ended = np.inf
            self._connection = own_end
            try:
                while True:
                    self._take(*own_end.recv())
            except (EOFError, OSError):
                pass
            with self._sending:
                self._connection = None
                self.ended = time.monotonic()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(BrokenPipeError())
        try:
            status = process.wait(EXIT_SECONDS)  # one that ends by itself says why
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        return (
            f"killed by signal {-status}"
            if status < 0
            else f"exit status {status}; the log says why"
        )

    def _take(self, number: int | None, *content: Any) -> None:
        """The answer to a question; without a number what brokers show now, and events."""
        self.silent = False
        self.answered = time.monotonic()
        if number is None:
            changes, events = content
            for broker, families in changes.items():
                published = applied(self._received.get(broker, NOTHING), families)
                self._received[broker] = self.blocks[broker].published = published
            self._journal.add_missing(events)
            allocator.give_back()  # the pickle was as large as what it holds
        elif (future := self._waiting.get(number)) is not None:
            future.set_result(*content)
