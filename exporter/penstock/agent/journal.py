"""The log of changes: the last ones in memory, and as JSON lines in a file that is rotated once."""

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.agent.safe_files import Unfit, appending, read_file, write_all
from penstock.insight.events import Event

log = logging.getLogger(__name__)

KEPT = 10_000
FILE = "events.jsonl"
MAX_BYTES = 4 * 2**20
"""Of one file: beyond, it becomes `events.jsonl.1` in place of the earlier one."""
READ_BYTES = 16 * MAX_BYTES
"""A longer file is none of the agent's."""

_decode = msgspec.json.Decoder(Event).decode


@dataclass(slots=True)
class Journal:
    """Without a directory in memory only. Added to and read by any thread."""

    directory: Path | None = None
    success: bool = True
    """Whether all that was added is in the file."""
    _events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT))
    _waiting: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Lines that could not be written yet."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, published: Iterable[Event] = ()) -> None:
        """
        Read what an earlier agent wrote; lines that are no event are skipped.

        published: the last events that it told, of which one that was killed may have written a part.
        """
        if self.directory is None:
            return
        for name in (f"{FILE}.1", FILE):
            try:
                self._events.extend(events_in(self.directory / name))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._say(self.directory / name, "cannot be read", error)
        known = set(self._events)
        self.add(event for event in published if _decode(msgspec.json.encode(event)) not in known)

    def add(self, events: Iterable[Event]) -> bool:
        """Whether there were any."""
        new = list(events)
        if not new:
            return False
        with self._lock:
            self._events.extend(new)
            if self.directory is not None:
                self._waiting.extend(msgspec.json.encode(event) + b"\n" for event in new)
                self._write(self.directory / FILE)
        return True

    def last(self, limit: int, *, since: float = 0.0, broker: str = "", queue: str = "") -> list[Event]:
        """At most `limit` (of the newest) that happened at `since` or later, oldest first; empty texts mean any."""
        found: list[Event] = []
        for event in reversed(self._events.copy()):
            if event.time < since or len(found) == limit:
                break
            if broker in ("", event.broker) and queue in ("", event.queue):
                found.append(event)
        return found[::-1]

    def _write(self, path: Path) -> None:
        """The lines that wait; they go on waiting when that fails."""
        lines = b"".join(self._waiting)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _append(path, lines):
                path.replace(path.with_name(f"{FILE}.1"))
                _append(path, lines, whatever=True)
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


def _append(path: Path, lines: bytes, *, whatever: bool = False) -> bool:
    """False: the file would become too long. Raises OSError, and leaves it as it was then, as far as it can."""
    with appending(path) as file:
        size = os.fstat(file).st_size
        if size and size + len(lines) > MAX_BYTES and not whatever:
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


def events_in(path: Path) -> Iterator[Event]:
    """Those that can be read. Raises OSError; Unfit: it is no file that the agent wrote."""
    for line in read_file(path, READ_BYTES).splitlines():
        # Torn within a character, msgspec raises UnicodeDecodeError.
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield _decode(line)
