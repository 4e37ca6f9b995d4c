"""A small disk of a process's own, which a test can fill, or make read-only, and mend."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

OWN = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
"""Starts a program in a mount namespace of its own."""
ENTER = ["nsenter", "--mount"] if os.geteuid() == 0 else ["nsenter", "--user", "--mount", "--preserve-credentials"]


def on_small_disk(directory: Path, program: Sequence[str], *, megabytes: int) -> list[str]:
    """The command that runs `program` with a disk of this size at `directory`, which must be there."""
    mounting = f'mount -t tmpfs -o size={megabytes}m none "$0" && exec "$@"'
    return [*OWN, "sh", "-c", mounting, str(directory), *program]


def seen_by(pid: int, path: Path) -> Path:
    """A path as the process sees it."""
    return Path(f"/proc/{pid}/root{path}")


def fill(pid: int, directory: Path) -> None:
    """Until nothing more goes in."""
    with (seen_by(pid, directory) / "filler").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def mend(pid: int, directory: Path) -> None:
    (seen_by(pid, directory) / "filler").unlink()


def read_only(pid: int, directory: Path) -> None:
    """By a read-only disk over it; what is open for writing stays so, as on a disk that the system gave up."""
    _in_its_place(pid, ["mount", "-t", "tmpfs", "-o", "ro", "none", str(directory)])


def writable(pid: int, directory: Path) -> None:
    """Undo `read_only`."""
    _in_its_place(pid, ["umount", str(directory)])


def _in_its_place(pid: int, command: Sequence[str]) -> None:
    subprocess.run([*ENTER, f"--target={pid}", *command], check=True)
