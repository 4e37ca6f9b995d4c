"""How Python is set for a process that works on large columns in one thread and answers requests in another.

Only a program that is nothing but an agent sets this: `penstock run`, and the benches that measure it.
"""

import contextlib
import gc
import math
import os
import re
import sys
import threading
from pathlib import Path

from penstock.core import allocator

YOUNG = 5_000
OLDER = 1
ALL = 6_000
"""As `gc.set_threshold` has them; to look at 10,000 containers takes 2 ms."""
SWITCH_SECONDS = 0.00005
"""For how long a thread that works may keep one waiting that has something to send."""
EXIT_SECONDS = 3.5
"""After a signal to stop the process ends within this time."""


def tune() -> None:
    """To be called before there is another thread.

    To walk all objects of a large broker for cycles, where there are few, takes 0.1 s without an answer.
    """
    allocator.one_arena()
    gc.set_threshold(YOUNG, OLDER, ALL)
    # A scrape of ten megabytes waits for its turn at every piece: with Python's usual 5 ms for half a second.
    sys.setswitchinterval(SWITCH_SECONDS)


def worker_processes(text: str) -> int:
    """How many there may be: a number, or `auto`, one a processor that this process may use. Raises ValueError."""
    if re.fullmatch("[0-9]{1,2}", text):
        return int(text)
    if text != "auto":
        raise ValueError(f"{text!r} is neither auto nor a number from 0 to 99")
    free = len(os.sched_getaffinity(0))
    with contextlib.suppress(
        OSError, ValueError
    ):  # no limit of a control group (version 2)
        quota, period = (
            Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        )
        free = max(min(free, int(quota) // int(period)), 1)
    return free


def last_resort() -> threading.Timer:
    """Started, it ends the process within EXIT_SECONDS, whatever still works by then; never to be cancelled."""
    timer = threading.Timer(EXIT_SECONDS, os._exit, [0])
    timer.daemon = True
    return timer


PROGRAM_MB = 80.0
"""Python, its libraries and a broker of 100 queues."""
SERIES_KB = 0.3
"""Each series more, up to 100,000 queues: what is kept of it, and its part of what a poll needs for a moment."""
SPARE = 0.1
"""Share of the need that a limit should have over it."""
STEP_MIB = 64
"""Limits are multiples of this."""


def needed_mb(series: int, others: int = 0) -> float:
    """Peak resident memory in MB of an agent that shows so many series while it is scraped, with `others` workers."""
    return PROGRAM_MB * (1 + others) + series * SERIES_KB / 1000


def limit_mib(series: int, others: int = 0) -> int:
    """The memory in MiB that a container or unit should be allowed."""
    return (
        math.ceil(needed_mb(series, others) * (1 + SPARE) * 1e6 / 2**20 / STEP_MIB)
        * STEP_MIB
    )
