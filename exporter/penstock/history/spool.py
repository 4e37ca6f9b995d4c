"""The spool: polls as they come, in segments of one hour at most, until they are published.

A segment is a directory with one Arrow stream per kind. Each poll is flushed to disk, the broker's own row last: a
crash costs the poll under way and no other.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.core.safe_files import create, make_directory
from penstock.history.schema import BROKER, HOUR, ROW_TYPES, fitted

SUFFIX = ".arrows"
DAMAGED = "_damaged"
"""Directory of segments that could be read in part only."""


@dataclass(slots=True)
class Segment:
    directory: Path
    hour: int
    opened: float
    """Agent's clock, seconds, of its first poll."""
    _writers: dict[str, tuple[BinaryIO, pa.RecordBatchStreamWriter]] = field(
        default_factory=dict
    )

    def append(self, batches: Mapping[str, pa.RecordBatch]) -> None:
        """Raises OSError; nothing may be appended then any more."""
        for kind in [*(name for name in batches if name != BROKER.name), BROKER.name]:
            if kind not in self._writers:
                sink = create(self.directory / f"{kind}{SUFFIX}")
                self._writers[kind] = (
                    sink,
                    pa.ipc.new_stream(sink, ROW_TYPES[kind].schema),
                )
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
    """The segments, oldest first. boot: names this run. limit: bytes; beyond it the oldest go. Not for two threads."""

    directory: Path
    boot: str
    limit: int
    seconds: float
    """A segment is closed when it is so old."""
    _segment: Segment | None = None
    _number: int = 0

    def append(self, stamp: float, batches: Mapping[str, pa.RecordBatch]) -> None:
        """One poll. Raises OSError, the poll is lost then and the next begins a new segment."""
        if self._segment is not None and self.is_due(stamp):
            self.rotate()
        if self._segment is None:
            self._number += 1
            directory = self.directory / f"{self.boot}-{self._number:06d}"
            make_directory(self.directory)
            directory.mkdir(mode=0o700)
            self._segment = Segment(directory, int(stamp // HOUR), stamp)
        try:
            self._segment.append(batches)
        except BaseException:
            self._segment = None  # torn: what is whole in it will be published
            raise

    def is_due(self, now: float) -> bool:
        """Whether the open segment must be closed: its hour or its time is over, or the clock went back."""
        one = self._segment
        return one is not None and not (
            one.hour == int(now // HOUR) and 0 <= now - one.opened < self.seconds
        )

    def rotate(self) -> None:
        segment = self._segment
        self._segment = None
        if segment is not None:
            segment.close()

    def closed(self) -> list[Path]:
        """Segments ready to be published, of earlier runs too, oldest first."""
        if not self.directory.is_dir():
            return []
        open_one = self._segment.directory if self._segment else None
        return sorted(
            path
            for path in self.directory.iterdir()
            if is_segment(path) and path != open_one
        )

    def bytes(self) -> int:
        return (
            sum(size(path) for path in self.directory.iterdir() if is_segment(path))
            if self.directory.is_dir()
            else 0
        )

    def drop_beyond_limit(self) -> int:
        """Drop the oldest closed segments until the rest fits; how many were dropped."""
        dropped = 0
        closed = self.closed()
        while closed and self.bytes() > self.limit:
            remove(closed.pop(0))
            dropped += 1
        return dropped

    def set_aside(self, segment: Path) -> Path:
        """Keep a damaged segment, of which all that can be read is published, for people; where it is now."""
        aside = self.directory / DAMAGED
        make_directory(aside)
        kept = segment.rename(aside / segment.name)
        others = sorted(path for path in aside.iterdir() if path != kept)
        while others and sum(map(size, [*others, kept])) > self.limit:
            remove(others.pop(0))
        return kept


def is_segment(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith("_")


def size(segment: Path) -> int:
    return sum(file.stat().st_size for file in segment.iterdir())


def remove(segment: Path) -> None:
    """All of it; the broker's rows first, without which the rest counts as cut off."""
    (segment / f"{BROKER.name}{SUFFIX}").unlink(missing_ok=True)
    shutil.rmtree(segment)


@dataclass(frozen=True, slots=True)
class Stream:
    """rows: an Arrow table of what can be read. damaged: something between it, or behind, cannot be."""

    rows: pa.Table
    damaged: bool = False


def read(segment: Path, kind: str) -> Stream:
    """The rows of a kind as far as the stream can be read.

    One that was cut off within its last poll is not damaged: so a crash leaves it. OSError: the disk does not give it.
    """
    schema = ROW_TYPES[kind].schema
    try:
        file = (segment / f"{kind}{SUFFIX}").open(
            "rb"
        )  # one that cannot be opened is not one that was cut off
    except FileNotFoundError:
        return Stream(schema.empty_table())
    with file:
        batches = []
        at = 0
        unsound = False
        try:
            stream = pa.ipc.open_stream(file)
            while True:
                at = file.tell()
                batch = stream.read_next_batch()
                try:
                    batch.validate(full=True)
                except (
                    pa.ArrowInvalid
                ):  # its texts could be read from anywhere in memory
                    unsound = True
                else:
                    batches.append(fitted(pa.Table.from_batches([batch]), schema))
        except StopIteration:
            pass
        except OSError as error:
            if error.errno is not None:
                raise  # of a stream that ends too early Arrow says an OSError, too, but without a number
        except UNSOUND:
            pass
        file.seek(at)
        damaged = unsound or _has_rows(file.read())
    rows = (
        pa.concat_tables(batches).unify_dictionaries()
        if batches
        else schema.empty_table()
    )
    return Stream(rows, damaged)


CONTINUATION = b"\xff\xff\xff\xff"
"""Begins each message of an Arrow stream; its length follows, and all begin at multiples of eight."""
ALIGNED = 8
ROWS = "record batch"
UNSOUND = (
    pa.ArrowException,
    OSError,
    EOFError,
    MemoryError,
    KeyError,
    ValueError,
    OverflowError,
)
"""What Arrow raises for a stream whose octets are not what was written."""


def _has_rows(rest: bytes) -> bool:
    """Whether complete rows of a poll follow the first octets of `rest`, where a message could not be read."""
    at = rest.find(CONTINUATION, ALIGNED)
    while at >= 0:
        if at % ALIGNED == 0:
            try:
                message = pa.ipc.read_message(pa.py_buffer(rest).slice(at))
                if message.type == ROWS:
                    return True
            except UNSOUND:
                pass
        at = rest.find(CONTINUATION, at + 1)
    return False
