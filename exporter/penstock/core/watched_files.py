"""Whether the contents of files have changed; a file is read only where its size or its times have changed."""

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

SETTLED_SECONDS = 2.0
"""Seconds after which a file's times prove that it has not changed: their resolution may be as coarse as that."""

Contents = Mapping[Path, bytes]
"""By file, a digest of its content; a file that cannot be read is not in it."""


def signature(file: Path) -> tuple[int, ...]:
    """Return numbers of a file, its size first, of which at least one differs when the file has changed.

    While its last change is so recent that a further one might have the same times, no two results are equal. Links are
    followed. For a file that is not there, it is the size 0 alone.
    """
    try:
        status = file.stat()
    except (OSError, ValueError):
        return (0,)
    is_young = time.time() - status.st_ctime < SETTLED_SECONDS
    moment = time.monotonic_ns() if is_young else 0
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, moment


class _Known(NamedTuple):
    signature: tuple[int, ...]
    digest: bytes | None


class FileContents:
    """Returns the contents of files, and reads only those that may have changed since the last call; for one thread."""

    def __init__(self) -> None:
        self._known: dict[Path, _Known] = {}

    def of(self, files: Iterable[Path]) -> Contents:
        """Return the contents of these files, equal to those of another call where no content has changed.

        Call it before the files themselves are read: a change in between then shows at the next call.
        """
        self._known = {file: self._look(file) for file in files}
        return {
            file: known.digest
            for file, known in self._known.items()
            if known.digest is not None
        }

    def _look(self, file: Path) -> _Known:
        """Return signature and digest of a file; the digest of the last call where the signature is the same."""
        now = signature(file)
        before = self._known.get(file)
        if before is not None and before.signature == now:
            return before
        return _Known(now, _digest(file))


def _digest(file: Path) -> bytes | None:
    """Return a digest of the content; None where it cannot be read, or is no regular file: that may never end."""
    try:
        if not file.is_file():  # to open a FIFO would wake a process that writes to it
            return None
        with open(file, "rb", opener=_open_at_once) as content:
            is_regular = stat.S_ISREG(os.fstat(content.fileno()).st_mode)
            return (
                hashlib.file_digest(content, "sha256").digest() if is_regular else None
            )
    except (OSError, ValueError):
        return None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, also where it has just become a FIFO without a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
