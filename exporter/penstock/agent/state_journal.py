"""What was published since the last save of the state file, a record a poll.

A line that names the format, then records: length and checksum (4 bytes each), and the content. A record is in the
file, though not on the disk, before its content is shown: it outlives the process, not the machine.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.core.safe_files import Unfit, make_directory, open_to_append, read_file, write_all

FILE = "state.journal"
MAGIC = b"penstock journal 1\n"
MAX_BYTES = 1 << 28
"""A longer one is refused; `FULL` is far below it."""
FULL = 1 << 25
"""Bytes from which on the state file should be saved, which empties the journal."""
_HEAD = struct.Struct("<II")


@dataclass(slots=True)
class StateJournal:
    """`directory`/state.journal. Not to be used by two threads at once."""

    directory: Path
    size: int = 0
    """Bytes that are whole; 0: it starts again with the next record."""
    torn: int = 0
    """Bytes at the end that were no whole record when it was read."""
    _descriptor: int | None = None

    @property
    def path(self) -> Path:
        return self.directory / FILE

    def read(self) -> list[bytes]:
        """The records that are whole, oldest first. Raises OSError; Unfit: it is no journal of Penstock."""
        self.size = self.torn = 0
        try:
            content = read_file(self.path, MAX_BYTES)
        except FileNotFoundError:
            return []
        if not content.startswith(MAGIC):
            if MAGIC.startswith(content):  # cut off in its first line
                return []
            raise Unfit("it is no journal of Penstock that this version reads")
        records = []
        self.size = len(MAGIC)
        for record in _records(content):
            records.append(record)
            self.size += _HEAD.size + len(record)
        self.torn = len(content) - self.size
        return records

    def append(self, record: bytes) -> None:
        """Raises OSError; the file is then as it was before, as far as that can be had."""
        if self._descriptor is None:
            make_directory(self.directory)
            self._descriptor = open_to_append(self.path)
            self.size = min(self.size, os.fstat(self._descriptor).st_size)
            os.ftruncate(self._descriptor, self.size)
        frame = _HEAD.pack(len(record), zlib.crc32(record)) + record
        frame = frame if self.size else MAGIC + frame
        try:
            write_all(self._descriptor, frame)
        except OSError:
            self.close()  # the next one opens it again, and cuts off what is torn
            raise
        self.size += len(frame)

    def begin_anew(self) -> None:
        """It is emptied with the next record: until then its events may not all be in the log of changes."""
        self.close()
        self.size = 0

    def close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def _records(content: bytes) -> Iterator[bytes]:
    at = len(MAGIC)
    while at + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, at)
        record = content[at + _HEAD.size : at + _HEAD.size + length]
        if len(record) < length or zlib.crc32(record) != checksum:
            return
        yield record
        at += _HEAD.size + length
