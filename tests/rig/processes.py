"""What the system says about processes."""

from collections.abc import Iterator, Sequence
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


def command_lines_with(secrets: Sequence[str]) -> list[bytes]:
    """The command lines on this machine that show one of the secrets, as any user may read them."""
    return [
        line
        for line in _command_lines()
        if any(secret.encode() in line for secret in secrets)
    ]


def _command_lines() -> Iterator[bytes]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes()
        except OSError:
            continue  # it has ended
