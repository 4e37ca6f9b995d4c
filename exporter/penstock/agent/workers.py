"""The threads in which polls are decoded, assessed and rendered: large brokers in the one, others in the other."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

LONG = 0.05
"""CPU seconds: who has a job that takes longer is large."""
CALM = 100
"""So many jobs in a row without a long one, some polls, and it is no longer."""

P = ParamSpec("P")
ResultT = TypeVar("ResultT")


class Workers:
    """The two threads. `large` alone may wait for `small`."""

    def __init__(self) -> None:
        self.small = ThreadPoolExecutor(1, "penstock-work")
        self.large = ThreadPoolExecutor(1, "penstock-large")

    async def idle(self) -> None:
        """Wait for all jobs that were submitted so far."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(one, int) for one in (self.small, self.large))
        )

    def shutdown(self, *, wait: bool) -> None:
        """Take no more jobs. wait: for the job under way; those that wait for their turn are never done."""
        for executor in (self.small, self.large):
            executor.shutdown(wait=wait, cancel_futures=True)


class Lane(Executor):
    """The jobs of one broker, one at a time, in the order of submission; it is large after its first long one."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._calm = CALM
        self.used = 0.0
        """CPU seconds of all its jobs."""
        self._one = (
            threading.Lock()
        )  # a cancelled poll may leave its last job behind in the other thread

    @property
    def large(self) -> bool:
        """Changes only while a job of this broker is done."""
        return self._calm < CALM

    def submit(
        self, job: Callable[P, ResultT], /, *args: P.args, **named: P.kwargs
    ) -> Future[ResultT]:
        thread = self._workers.large if self.large else self._workers.small
        return thread.submit(self._timed, job, *args, **named)

    def _timed(
        self, job: Callable[P, ResultT], /, *args: P.args, **named: P.kwargs
    ) -> ResultT:
        with self._one:
            began = time.thread_time()
            try:
                return job(*args, **named)
            finally:
                took = time.thread_time() - began
                self.used += took
                self._calm = 0 if took > LONG else min(self._calm + 1, CALM)
