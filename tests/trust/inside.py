"""What an agent's process holds, from outside and from inside."""

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """At `at` (monotonic seconds): resident memory in MB, counts of what is open and what runs."""

    at: float
    rss_mb: float
    descriptors: int
    threads: int
    children: int


def sample(pid: int) -> Sample:
    """Raises OSError when the process is gone."""
    proc = Path("/proc", str(pid))
    status = dict(
        line.split(":", 1) for line in (proc / "status").read_text().splitlines()
    )
    return Sample(
        time.monotonic(),
        int(status["VmRSS"].split()[0]) / 1024,
        len(os.listdir(proc / "fd")),  # noqa: PTH208 - a path each costs more
        int(status["Threads"]),
        len((proc / "task" / str(pid) / "children").read_text().split()),
    )


@dataclass(frozen=True, slots=True)
class Inside:
    """As `trust.watched` tells it: objects known to the garbage collector, tasks of asyncio, blocks allocated."""

    objects: int
    tasks: int
    threads: int
    blocks: int
    kinds: dict[str, int] = field(default_factory=dict)


def inside(pid: int, file: Path, *, timeout: float = 10) -> Inside:
    """Ask an agent that runs under `trust.watched`."""
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + timeout
    while not file.exists():
        assert time.monotonic() < deadline, "the agent's loop does not turn"
        time.sleep(0.02)
    return Inside(**json.loads(file.read_text()))


def growth(values: Sequence[float]) -> tuple[float, float]:
    """Median of the first and of the last tenth."""
    tenth = max(len(values) // 10, 1)
    return median(values[:tenth]), median(values[-tenth:])
