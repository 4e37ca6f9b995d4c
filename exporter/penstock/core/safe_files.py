"""How every file is written: for its owner only unless it is for others, and never through what is in its place.

A FIFO, a device, a directory or a link is refused at once. A link among the directories above a file is followed.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

OWNER_ONLY = 0o600
"""What is kept holds names of queues, clients and users."""
FOR_OTHERS = 0o666
"""As the umask allows: rules, dashboards, reports."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_OPEN = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW


class Unfit(OSError):
    """What is there is no file that Penstock may have written; `strerror` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EINVAL, why)


def read_file(path: Path, limit: int) -> bytes:
    """Return the content of a file. Raises OSError; Unfit where it is no regular file or longer than `limit` bytes."""
    descriptor = _open(path, os.O_RDONLY)
    try:
        size = regular(os.fstat(descriptor)).st_size
        if size > limit:
            raise Unfit(f"it has {size:,} bytes, at most {limit:,} are read")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[int]:
    """Open a file to append to it, as a descriptor; a file that is not there is made.

    Raises OSError; Unfit where it is no regular file.
    """
    descriptor = open_to_append(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_to_append(path: Path) -> int:
    """Return a descriptor that appends to the file. Raises OSError; Unfit where it is no regular file."""
    # Opened to read as well: a FIFO opens at once then, also without a reader, and is refused.
    descriptor = _open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        regular(os.fstat(descriptor))
    except Unfit:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path, flags: int) -> int:
    """Return a descriptor, without waiting and without following a link. Raises OSError; Unfit."""
    try:
        return os.open(path, flags | _OPEN, OWNER_ONLY)
    except IsADirectoryError:
        raise Unfit("it is a directory") from None
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise Unfit("it is a link") from None
        raise


def regular(status: os.stat_result) -> os.stat_result:
    """Return the status itself if it is that of a regular file; else raise Unfit."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
        raise Unfit(f"it is {kind}")
    return status


def create(path: Path, mode: int = OWNER_ONLY) -> BinaryIO:
    """Return a new file under a name of Penstock's own. Raises OSError.

    A file that a killed agent left there, or a link, is removed first.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb"
    )


def create_named(path: Path) -> BinaryIO:
    """Return a new file under a name that a user gave: only a regular file is replaced. Raises OSError; Unfit."""
    check_target(path)
    return create(path)


def check_target(path: Path) -> None:
    """Raises Unfit where something else than a regular file has the name."""
    with contextlib.suppress(FileNotFoundError):
        regular(path.lstat())


@contextlib.contextmanager
def replacing(
    path: Path, beside: Path | None = None, mode: int = OWNER_ONLY
) -> Iterator[BinaryIO]:
    """Give a file to fill that takes the place of `path` at the end: whole, or not at all. Raises OSError.

    It is written as `beside` (else NAME.new), flushed to the disk and renamed, so that no crash leaves half a file.
    """
    new = beside or path.with_name(f"{path.name}.new")
    with create(new, mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    flush_to_disk(path.parent)


def flush_to_disk(path: Path) -> None:
    """Wait until all that was written to a file or directory is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Write a file whose whole content is `content`, as `replacing` does. Raises OSError."""
    with replacing(path, mode=mode) as file:
        file.write(content)


def make_directory(path: Path) -> None:
    """Make a directory, with those above it that are not there, for the owner only. Raises OSError."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
