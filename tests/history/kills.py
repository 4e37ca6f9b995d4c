"""A process that kills itself at a given step of what it does on the disk."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any


def killed_before(
    real: Callable[..., Any], steps: Iterator[int], last: int
) -> Callable[..., Any]:
    """The same, which is a step: before the `last` one the process is killed. steps: shared by all that are counted."""

    def step(*arguments: Any, **options: Any) -> Any:
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    return step
