"""A child process that never outlives this one, with a log to look into."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from penstock_demo.errors import DemoError

# Ends the group of $1 when its own standard input closes: that happens however this process ends, also by SIGKILL.
# (PR_SET_PDEATHSIG would follow the thread that started the child, not the process.)
_WATCHDOG = 'read -r _; kill -KILL "-$1" 2>/dev/null'
_TICK = 0.05


class Process:
    """One child in its own process group; may be started again after it ended. Times are seconds."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._child: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; a DemoError when it was never started or was ended."""
        if self._child is None:
            raise DemoError(f"{self.name} is not running")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it lives (a paused one does)."""
        return self._child is not None and self._child.poll() is None

    def start(self, ready: str, *, timeout: float = 90) -> None:
        """Start it and wait until it logs the text `ready`; a DemoError with the log's end when it does not."""
        if self.running:
            raise DemoError(f"{self.name} is running already, pid {self.pid}")
        self._reap()
        with self.log.open("ab") as log:
            begin = log.tell()
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(self._child.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._await(ready.encode(), begin, time.monotonic() + timeout)

    def stop(self, *, grace: float = 30) -> None:
        """Ask it to end (SIGTERM), force it after `grace`; nothing to do when it has ended."""
        if self.running:
            self._signal(signal.SIGTERM)
            self._signal(
                signal.SIGCONT
            )  # a paused process takes the request only when it goes on
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child and self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End it and its children at once (SIGKILL)."""
        self._signal(signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its sockets stay open and answer nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen one go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _await(self, ready: bytes, begin: int, deadline: float) -> None:
        while not self._logged(ready, begin):
            if not self.running:
                trouble = (
                    f"ended with exit code {self._child and self._child.returncode}"
                )
            elif time.monotonic() > deadline:
                trouble = "was not ready in time"
            else:
                time.sleep(_TICK)
                continue
            self.kill()
            raise DemoError(
                f"{self.name} {trouble}; the end of {self.log}:\n{self.tail()}"
            )

    def _logged(self, text: bytes, begin: int) -> bool:
        with self.log.open("rb") as log:
            log.seek(begin)
            return text in log.read()

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def _reap(self) -> None:
        """Wait for the ended child, then dismiss its watchdog."""
        for process in (self._child, self._watchdog):
            if process is not None:
                if process is self._watchdog:
                    process.kill()
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
        self._child = self._watchdog = None
