"""The log of changes: the last ones in memory, and as JSON lines in a file that is rotated once."""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.flow.events import Event

log = logging.getLogger(__name__)

KEPT = 10_000
FILE = "events.jsonl"
MAX_BYTES = 4 * 2**20
"""Of one file: beyond, it becomes `events.jsonl.1` in place of the earlier one."""

_decode = msgspec.json.Decoder(Event).decode


@dataclass(slots=True)
class Journal:
    """Without a directory in memory only. Added to by one thread at a time, read by any."""

    directory: Path | None = None
    _events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT))
    _failed: bool = False

    def load(self) -> None:
        """Read what an earlier agent wrote; lines that are none are passed over."""
        if self.directory is not None:
            for name in (f"{FILE}.1", FILE):
                self._events.extend(events_in(self.directory / name))

    def add(self, events: Iterable[Event]) -> bool:
        """Whether there were any."""
        new = list(events)
        self._events.extend(new)
        if new and self.directory is not None:
            self._write(self.directory / FILE, b"".join(msgspec.json.encode(event) + b"\n" for event in new))
        return bool(new)

    def last(self, limit: int, *, since: float = 0.0, broker: str = "", queue: str = "") -> list[Event]:
        """At most `limit` (of the newest) that happened at `since` or later, oldest first; empty texts mean any."""
        found: list[Event] = []
        for event in reversed(self._events.copy()):
            if event.time < since or len(found) == limit:
                break
            if broker in ("", event.broker) and queue in ("", event.queue):
                found.append(event)
        return found[::-1]

    def _write(self, path: Path, lines: bytes) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size + len(lines) > MAX_BYTES:
                path.replace(path.with_name(f"{FILE}.1"))
            with open(path, "ab", opener=_private) as file:
                file.write(lines)
        except OSError as error:
            if not self._failed:
                log.warning("%s cannot be written (%s): events are kept in memory only", path, error.strerror)
            self._failed = True
        else:
            self._failed = False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def events_in(path: Path) -> Iterator[Event]:
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    yield _decode(line)
                except msgspec.DecodeError:
                    continue
    except OSError:
        return
