"""Tidies a history twice and kills itself at a given step on the way. Arguments: directory, now, step."""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from penstock.history.compact import Keep, tidy
from penstock.history.store import Store

steps, last = count(), int(sys.argv[3])


def counted(real: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any, **options: Any) -> Any:
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    return step


# all by which a file comes, gets its name, or goes
os.fsync = counted(os.fsync)
Path.replace = counted(Path.replace)  # type: ignore[method-assign]
Path.rename = counted(Path.rename)  # type: ignore[method-assign]
Store.delete = counted(Store.delete)  # type: ignore[method-assign]

for _ in range(2):  # joined, and an hour later what was joined goes
    tidy(Store(sys.argv[1]), Keep(days=30.0), float(sys.argv[2]))
sys.stdout.write(f"{next(steps)}\n")
