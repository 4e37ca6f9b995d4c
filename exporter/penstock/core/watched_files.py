"""Whether files hold something else than before: by their contents, which are read only where times have changed."""

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

SETTLED_SECONDS = 2.0
"""Age at which a file's times prove whether it has changed."""

Contents = Mapping[Path, bytes]
"""By file a digest of what it holds; a file that cannot be read is not in it."""


def signature(file: Path) -> tuple[int, ...]:
    """Its size, and what is another when it has changed; never twice the same while it is young.

    Links are followed. Of a file that is not there only the size, 0.
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
    """What files hold. It reads only those that may have changed since it was asked last; for one thread."""

    def __init__(self) -> None:
        self._known: dict[Path, _Known] = {}

    def of(self, files: Iterable[Path]) -> Contents:
        """Two of these are equal where nothing has changed.

        Take one before the files themselves are read: what changes meanwhile then shows at the next call.
        """
        self._known = {file: self._look(file) for file in files}
        return {
            file: known.digest
            for file, known in self._known.items()
            if known.digest is not None
        }

    def _look(self, file: Path) -> _Known:
        now = signature(file)
        before = self._known.get(file)
        if before is not None and before.signature == now:
            return before
        return _Known(now, _digest(file))


def _digest(file: Path) -> bytes | None:
    """None where it cannot be read, or is no regular file, which could keep the reader waiting."""
    try:
        if not file.is_file():  # to open a FIFO would be seen by who writes to it
            return None
        with open(file, "rb", opener=_open_at_once) as content:
            is_regular = stat.S_ISREG(os.fstat(content.fileno()).st_mode)
            return (
                hashlib.file_digest(content, "sha256").digest() if is_regular else None
            )
    except (OSError, ValueError):
        return None


def _open_at_once(path: str, flags: int) -> int:
    """Also where it is a FIFO that no one writes to."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
