"""
Files of the agent's own directory, opened so that nothing else in their place does harm.

A FIFO, a device or a directory is refused at once, a link is never written through by a name that is the agent's own.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

OWNER_ONLY = 0o600
"""What is kept holds names of queues, clients and users."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class Unfit(OSError):
    """What stands there is no file that the agent may have written; `strerror` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EINVAL, why)


def read_file(path: Path, limit: int) -> bytes:
    """The content. Raises OSError; Unfit where it is no regular file or longer than `limit` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        size = regular(descriptor).st_size
        if size > limit:
            raise Unfit(f"it has {size:,} bytes, at most {limit:,} are read")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[int]:
    """A descriptor that appends; the file is made when it is not there. Raises OSError; Unfit: no regular file."""
    descriptor = open_to_append(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_to_append(path: Path) -> int:
    """Raises OSError; Unfit: no regular file."""
    # Also to be read: a FIFO opens at once then, reader or not.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, OWNER_ONLY)
    except IsADirectoryError:
        raise Unfit("it is a directory") from None
    try:
        regular(descriptor)
    except Unfit:
        os.close(descriptor)
        raise
    return descriptor


def regular(descriptor: int) -> os.stat_result:
    """Raises Unfit where it is no regular file."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Unfit(f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no regular file')}")
    return found


def write_all(descriptor: int, content: bytes) -> None:
    """Raises OSError when not all of it could be written."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace_file(path: Path, content: bytes) -> None:
    """Write it whole or not at all, and lasting: beside the file, then renamed over it. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # what a killed agent left, or a link put there
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
