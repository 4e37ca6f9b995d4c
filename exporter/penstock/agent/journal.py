"""The log of changes: the last ones in memory, and as JSON lines in files that are rotated once.

Of brokers and of the agent itself apart: what operators and clients of the server cause must not push conditions out.
"""

import contextlib
import heapq
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from penstock.core.safe_files import Unfit, appending, make_directory, read_file, write_all
from penstock.insight.events import Event

log = logging.getLogger(__name__)

KEPT = 10_000
AGENT_KEPT = 1_000
FILE = "events.jsonl"
AGENT_FILE = "agent-events.jsonl"
MAX_BYTES = 4 * 2**20
"""Of one file: beyond, it becomes `events.jsonl.1` in place of the earlier one."""
AGENT_MAX_BYTES = 2**18
READ_TIMES = 16
"""A file that is so many times longer is none of the agent's."""

_decode = msgspec.json.Decoder(Event).decode


class Journal:
    """Without a directory in memory only. Added to and read by any thread."""

    def __init__(self, directory: Path | None = None) -> None:
        self._of_brokers = EventLog(directory and directory / FILE, KEPT, MAX_BYTES)
        self._of_agent = EventLog(directory and directory / AGENT_FILE, AGENT_KEPT, AGENT_MAX_BYTES)
        self._lock = threading.Lock()

    @property
    def success(self) -> bool:
        """Whether all that was added is in the files."""
        return self._of_brokers.success and self._of_agent.success

    def load(self, published: Iterable[Event] = ()) -> None:
        """Read what an earlier agent wrote; lines that are no event are skipped.

        published: the last events that it published, of which one that was killed may have written a part.
        """
        self._of_brokers.load()
        self._of_agent.load()
        self.add_missing(published)

    def add_missing(self, events: Iterable[Event]) -> None:
        """Those that are not among the last ones."""
        known = {*self._of_brokers.events.copy(), *self._of_agent.events.copy()}
        self.add(event for event in events if _decode(msgspec.json.encode(event)) not in known)

    def add(self, events: Iterable[Event]) -> bool:
        """Whether there were any."""
        new = list(events)
        with self._lock:
            self._of_brokers.add([event for event in new if event.broker])
            self._of_agent.add([event for event in new if not event.broker])
        return bool(new)

    def last(self, limit: int, *, since: float = 0.0, broker: str = "", queue: str = "") -> list[Event]:
        """At most `limit` (of the newest) that happened at `since` or later, oldest first; empty texts mean any."""
        # A large broker publishes events only once it is rendered: others may have published later ones before.
        found = [
            event
            for log in (self._of_brokers, self._of_agent)
            for event in log.events.copy()
            if event.time >= since and broker in ("", event.broker) and queue in ("", event.queue)
        ]
        return heapq.nlargest(limit, reversed(found), key=lambda event: event.time)[::-1]


class EventLog:
    """The last `kept` in memory; on disk `path` and the one before it, of `max_bytes` each."""

    def __init__(self, path: Path | None, kept: int, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.success = True
        self.events = deque[Event](maxlen=kept)
        self._waiting = deque[bytes](maxlen=kept)
        """Lines that could not be written yet."""

    def load(self) -> None:
        for path in () if self.path is None else (_before(self.path), self.path):
            try:
                self.events.extend(events_in(path, READ_TIMES * self.max_bytes))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._say(path, "cannot be read", error)

    def add(self, events: list[Event]) -> None:
        self.events.extend(events)
        if events and self.path is not None:
            self._waiting.extend(msgspec.json.encode(event) + b"\n" for event in events)
            self._write(self.path)

    def _write(self, path: Path) -> None:
        """The lines that wait; they go on waiting when that fails."""
        lines = b"".join(self._waiting)
        try:
            make_directory(path.parent)
            if not _append(path, lines, self.max_bytes):
                path.replace(_before(path))
                _append(path, lines)
        except OSError as error:
            self._say(path, "cannot be written", error)
        else:
            self._waiting.clear()
            if not self.success:
                log.info("%s is written again", path)
            self.success = True

    def _say(self, path: Path, what: str, error: OSError) -> None:
        if self.success:
            help_ = "; remove it or give another --storage.path" if isinstance(error, Unfit) else ""
            log.warning("%s %s (%s): events are kept in memory only%s", path, what, error.strerror, help_)
        self.success = False


def _before(path: Path) -> Path:
    """What it becomes when it is full."""
    return path.with_name(f"{path.name}.1")


def _append(path: Path, lines: bytes, max_bytes: float = math.inf) -> bool:
    """False: the file would become too long. Raises OSError, and leaves it as it was then, as far as it can."""
    with appending(path) as file:
        size = os.fstat(file).st_size
        if size and size + len(lines) > max_bytes:
            return False
        # An agent that was killed may have left a line without its end: the next one must not become part of it.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        try:
            write_all(file, b"\n" + lines if torn else lines)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise
    return True


def events_in(path: Path, max_bytes: int = READ_TIMES * MAX_BYTES) -> Iterator[Event]:
    """Those that can be read. Raises OSError; Unfit: it is no file that the agent wrote."""
    for line in read_file(path, max_bytes).splitlines():
        # Torn within a character, msgspec raises UnicodeDecodeError.
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield _decode(line)
