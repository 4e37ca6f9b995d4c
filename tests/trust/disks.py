"""A small disk of a process's own, which a test can fill, or make read-only, and mend."""

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile

OWN = (
    ["unshare", "--mount"]
    if os.geteuid() == 0
    else ["unshare", "--map-root-user", "--mount"]
)
"""Starts a program in a mount namespace of its own."""
ENTER = (
    ["nsenter", "--mount"]
    if os.geteuid() == 0
    else ["nsenter", "--user", "--mount", "--preserve-credentials"]
)
REFILL_SECONDS = 0.02
"""How long room that was freed may last: far less than a poll, after which something is saved."""


def on_small_disk(
    directory: Path, program: Sequence[str], *, megabytes: int
) -> list[str]:
    """The command that runs `program` with a disk of this size at `directory`, which must be there."""
    mounting = f'mount -t tmpfs -o size={megabytes}m none "$0" && exec "$@"'
    return [*OWN, "sh", "-c", mounting, str(directory), *program]


def seen_by(pid: int, path: Path) -> Path:
    """A path as the process sees it."""
    return Path(f"/proc/{pid}/root{path}")


@contextmanager
def full(pid: int, directory: Path) -> Iterator[None]:
    """Full until the block ends: what the process itself removes meanwhile makes no room."""
    mended = threading.Event()
    with TemporaryFile(
        dir=seen_by(pid, directory), buffering=0
    ) as filler:  # nameless: closing it gives all room back
        _fill(filler)
        filling = threading.Thread(
            target=_keep_full, args=(filler, mended), name="filler"
        )
        filling.start()
        try:
            yield
        finally:
            mended.set()
            filling.join()


def _keep_full(filler: FileIO, mended: threading.Event) -> None:
    """Through the open file, never by its path: that might lead to another disk once the process has ended."""
    while not mended.wait(REFILL_SECONDS):
        _fill(filler)


def _fill(filler: FileIO) -> None:
    """Until nothing more goes in."""
    for size in (65536, 4096, 1):
        try:
            while True:
                filler.write(b"x" * size)
        except OSError:
            continue


@contextmanager
def read_only(pid: int, directory: Path) -> Iterator[None]:
    """By a read-only disk over it; what is open for writing stays so, as on a disk that the system gave up."""
    _in_its_place(pid, ["mount", "-t", "tmpfs", "-o", "ro", "none", str(directory)])
    yield  # after an error it stays: it goes with the process
    _in_its_place(pid, ["umount", str(directory)])


def _in_its_place(pid: int, command: Sequence[str]) -> None:
    subprocess.run([*ENTER, f"--target={pid}", *command], check=True)
