"""A worker process as the agent sees it: started, asked, and started again when it ends."""

import logging
import os
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import numpy as np

from penstock.agent.processes.blocks import RemoteBlocks
from penstock.core.errors import PenstockError
from penstock.insight.events import Event
from penstock.server.request_limit import Busy

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
NOTHING: Mapping[str, Any] = {}
PAUSE, MOST_PAUSE, STEADY = 1.0, 60.0, 300.0
"""Seconds before it is started again: twice as long each time, unless it lived for so long."""


class WorkerProcess:
    """Belongs to a thread of its own, but for `ask`, which any other thread but the event loop's may call.

    on_events: called with those of its brokers. on_end: with why it ended.
    """

    def __init__(
        self, storage: Path, command: Sequence[str], on_events: Callable[[Sequence[Event]], object],
        on_end: Callable[["WorkerProcess", str], None],
    ) -> None:  # fmt: skip
        self.name = storage.name
        self.blocks: dict[str, RemoteBlocks] = defaultdict(RemoteBlocks)
        self.nodes: Mapping[str, str] = {}
        self.numbers: Mapping[str, float] = {}
        self.answered = self.ended = time.monotonic()
        """When it answered last; when it ended, inf while it runs."""
        self.silent = False
        """It did not answer in time, and has said nothing since."""
        self.starts = self.unanswered = 0
        self._command, self._on_events, self._on_end = (*command, str(storage)), on_events, on_end
        self._waiting: dict[int, Future[Any]] = {}
        self._numbers, self._sending, self._stopping = count(), threading.Lock(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def ask(
        self, what: str, given: Sequence[Any] = (), named: Mapping[str, Any] = NOTHING, seconds: float = ANSWER_SECONDS
    ) -> Any:
        """Raises Busy: there is no answer in time; or what the worker raised."""
        if self.silent and what != "status":
            raise self._busy("does not answer")
        number, future = next(self._numbers), Future[Any]()
        self._waiting[number] = future
        try:
            with self._sending:
                if self._connection is None:
                    raise self._busy("is being started")
                self._connection.send((number, what, given, named))
            value = future.result(seconds)
        except TimeoutError:
            self.silent, self.unanswered = True, self.unanswered + 1
            raise self._busy(f"did not answer within {seconds:g} s") from None
        except OSError:
            raise self._busy("has ended") from None
        finally:
            del self._waiting[number]
        if isinstance(value, PenstockError):
            raise value
        return value

    def _busy(self, what: str) -> Busy:
        return Busy(
            f"{self.name}, the process that polls this broker, {what}", "try again in some seconds; see the log"
        )

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

    def _run(self) -> None:
        pause = PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                why = self._live()
            except OSError as error:
                why = f"cannot be started: {error.strerror}"
            if not self._stopping.is_set():
                pause = PAUSE if time.monotonic() - began > STEADY else min(2 * pause, MOST_PAUSE)
                log.error("%s ended (%s); it is started again in %g s", self.name, why, pause)
                self._on_end(self, why)
                self._stopping.wait(pause)

    def _live(self) -> str:
        """From its start to its end; why that came."""
        ours, theirs = Pipe()
        with ours:
            with theirs:
                command = (*self._command, str(theirs.fileno()))
                self._process = process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
            for one in self.blocks.values():
                one.begin_anew()
            self.starts, self.answered, self.ended, self._connection = self.starts + 1, time.monotonic(), np.inf, ours
            try:
                while True:
                    self._take(*ours.recv())
            except (EOFError, OSError):
                pass
            with self._sending:
                self._connection, self.ended = None, time.monotonic()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(BrokenPipeError())
        process.kill()
        status = process.wait()
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def _take(self, kind: str, *content: Any) -> None:
        self.silent, self.answered = False, time.monotonic()
        match kind, content:
            case "answer", (number, value):
                if (future := self._waiting.get(number)) is not None:
                    future.set_result(value)
            case "events", (events,):
                self._on_events(events)
            case "family", (broker, *family):
                self.blocks[broker].take(*family)
            case "published", (broker, names):
                self.blocks[broker].publish(names)

    def used(self) -> tuple[float, float]:
        """CPU seconds and resident bytes of the process; NaN where the system does not say."""
        try:
            text = Path(f"/proc/{self._process.pid if self._process else 0}/stat").read_text(encoding="ascii")
        except (OSError, ValueError):
            return np.nan, np.nan
        fields = list(map(int, text.rpartition(")")[2].split()[1:]))
        return sum(fields[10:12]) / os.sysconf("SC_CLK_TCK"), float(fields[20] * os.sysconf("SC_PAGE_SIZE"))
