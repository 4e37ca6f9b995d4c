"""Work that is done in forked processes, which have all that this process has imported and collected."""

import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any


@dataclass
class Job:
    """One piece of work. seconds: after which it is given up."""

    name: Any
    work: Callable[[], Any]
    seconds: float


@dataclass
class Running:
    job: Job
    pid: int
    answer: Connection
    until: float


GIVEN_UP = "given up"


def each_in_a_process(jobs: Iterable[Job], processes: int) -> Iterator[tuple[Any, Any]]:
    """The names of the jobs with their results, as they come; `GIVEN_UP` of those that took too long or died."""
    waiting = deque(jobs)
    running: list[Running] = []
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(started(waiting.popleft()))
        wait([process.answer for process in running], timeout=0.2)
        for process in running[:]:
            if process.answer.poll() or time.monotonic() > process.until:
                running.remove(process)
                yield process.job.name, result_of(process)


def started(job: Job) -> Running:
    mine, its = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        mine.close()
        answer_with(job.work, its)
    its.close()
    return Running(job, pid, mine, time.monotonic() + job.seconds)


def answer_with(work: Callable[[], Any], answer: Connection) -> None:
    """The end of a forked process: it gives the result and runs nothing of what its parent has still to do."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        answer.send_bytes(pickle.dumps(work()))
    finally:
        os._exit(0)


def result_of(process: Running) -> Any:
    """What it answered; it has ended afterwards."""
    try:
        return (
            pickle.loads(process.answer.recv_bytes())  # noqa: S301 of this program
            if process.answer.poll()
            else GIVEN_UP
        )
    except EOFError:
        return GIVEN_UP
    finally:
        process.answer.close()
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
