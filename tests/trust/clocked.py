"""`penstock` with a wall clock that can be set: at SIGUSR2 it goes by as many seconds as the file says."""

import signal
import sys
import time
from pathlib import Path

_now = time.time
offset = 0.0


def now() -> float:
    return _now() + offset


def set_by(file: Path) -> None:
    global offset  # noqa: PLW0603 - it is what a clock is
    offset = float(file.read_text())


if __name__ == "__main__":
    said = Path(sys.argv.pop(1))
    signal.signal(signal.SIGUSR2, lambda *_: set_by(said))
    time.time = now
    from penstock.cli import main

    main()
