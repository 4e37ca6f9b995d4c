"""
The spool: polls as they come, in segments of one hour at most, until they are published.

A segment is a directory with one Arrow stream per kind. Each poll is flushed to disk, the broker's own row last: a
crash costs the poll under way and no other.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.history.schema import BROKER, KINDS

SUFFIX = ".arrows"
HOUR = 3600


@dataclass(slots=True)
class Segment:
    """The segment that is being written."""

    directory: Path
    hour: int
    opened: float
    """Agent's clock, seconds, of its first poll."""
    _writers: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def append(self, batches: Mapping[str, Any]) -> None:
        """Raises OSError; nothing may be appended then any more."""
        for kind in [*(name for name in batches if name != BROKER.name), BROKER.name]:
            if kind not in self._writers:
                sink = (self.directory / f"{kind}{SUFFIX}").open("wb")
                self._writers[kind] = sink, pa.ipc.new_stream(sink, KINDS[kind].schema)
            sink, writer = self._writers[kind]
            writer.write_batch(batches[kind])
            sink.flush()
            os.fdatasync(sink.fileno())

    def close(self) -> None:
        for sink, writer in self._writers.values():
            try:
                writer.close()
            finally:
                sink.close()
        self._writers.clear()


@dataclass(slots=True)
class Spool:
    """
    The segments below `directory`, oldest first by name.

    boot: names this run of the agent. limit: bytes; beyond it the oldest segments are dropped. Not for two threads.
    """

    directory: Path
    boot: str
    limit: int
    seconds: float
    """A segment is closed when it is so old."""
    _segment: Segment | None = None
    _number: int = 0

    def append(self, stamp: float, batches: Mapping[str, Any]) -> None:
        """One poll. Raises OSError, the poll is lost then and the next begins a new segment."""
        if self._segment is not None and self.is_due(stamp):
            self.rotate()
        if self._segment is None:
            self._number += 1
            directory = self.directory / f"{self.boot}-{self._number:06d}"
            directory.mkdir(parents=True, mode=0o700)
            self._segment = Segment(directory, int(stamp // HOUR), stamp)
        try:
            self._segment.append(batches)
        except BaseException:
            self._segment = None  # torn: what is whole in it will be published
            raise

    def is_due(self, now: float) -> bool:
        """Whether the open segment must be closed: its hour or its time is over, or the clock went back."""
        one = self._segment
        return one is not None and not (one.hour == int(now // HOUR) and 0 <= now - one.opened < self.seconds)

    def rotate(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def closed(self) -> list[Path]:
        """Segments ready to be published, of earlier runs too, oldest first."""
        if not self.directory.is_dir():
            return []
        open_one = self._segment.directory if self._segment else None
        return sorted(path for path in self.directory.iterdir() if is_segment(path) and path != open_one)

    def bytes(self) -> int:
        return (
            sum(size(path) for path in self.directory.iterdir() if is_segment(path)) if self.directory.is_dir() else 0
        )

    def drop_beyond_limit(self) -> int:
        """Drop the oldest closed segments until the rest fits; how many were dropped."""
        dropped = 0
        closed = self.closed()
        while closed and self.bytes() > self.limit:
            remove(closed.pop(0))
            dropped += 1
        return dropped


def is_segment(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith("_")


def size(segment: Path) -> int:
    return sum(file.stat().st_size for file in segment.iterdir())


def remove(segment: Path) -> None:
    """All of it; the broker's rows first, without which the rest counts as cut off."""
    (segment / f"{BROKER.name}{SUFFIX}").unlink(missing_ok=True)
    shutil.rmtree(segment)


def read(segment: Path, kind: str) -> Any:
    """The rows of a kind as an Arrow table, as far as the stream is whole. OSError: it is there and does not open."""
    schema = KINDS[kind].schema
    batches = []
    try:
        file = (segment / f"{kind}{SUFFIX}").open("rb")  # one that cannot be opened is not one that was cut off
    except FileNotFoundError:
        return schema.empty_table()
    try:
        with file, pa.ipc.open_stream(file) as stream:
            while True:
                batches.append(stream.read_next_batch())
    except (StopIteration, pa.ArrowInvalid, OSError, EOFError):
        pass
    return pa.Table.from_batches(batches, schema).unify_dictionaries() if batches else schema.empty_table()
