"""JMS clients of the Core protocol, or of OpenWire: many in one Java process, driven by lines on its stdin."""

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, Self

from penstock_demo.artemis import fetch
from penstock_demo.broker import Endpoint
from penstock_demo.cache import require_java
from penstock_demo.errors import DemoError

_MAIN = Path(__file__).parents[1] / "java" / "CoreClients.java"
_PATIENCE = 60.0  # s, for an answer; a first connect on a loaded machine takes some


class CoreProcess:
    """One JVM; a context manager. Passwords go through its stdin, its command line shows none."""

    def __init__(self, folder: Path, *, main: Path = _MAIN, heap_mb: int = 192) -> None:
        self._numbers = itertools.count()
        self._answers: dict[str, queue.SimpleQueue[list[str]]] = {}
        self._lock = threading.Lock()
        small = [
            f"-Xmx{heap_mb}m",
            "-Xms32m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "core-clients.log").open("ab") as log:
            self._child = subprocess.Popen(
                [require_java(), *small, "-cp", f"{fetch()}/lib/*", str(main)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(
            target=self._read, name="core-clients", daemon=True
        )
        self._reader.start()

    def open(
        self, endpoint: Endpoint, name: str, *, url: str = "", **options: Any
    ) -> "CoreClient":
        """A consumer of the queue `name`; options as the Java side knows them, `url` of the connection as `a=b&c=d`."""
        known = url if "openwire" in options else f"reconnectAttempts=0&{url}"
        address = f"tcp://{endpoint.host}:{endpoint.port}?{known}"
        account = {"user": endpoint.account.user, "password": endpoint.account.password}
        client = str(next(self._numbers))
        said = {**account, **options, "url": address, "queue": name}
        self.ask("open", client, *(f"{key}={value}" for key, value in said.items()))
        return CoreClient(self, client)

    def ask(self, *words: str) -> list[str]:
        """The words of the answer to a command; a DemoError when it failed."""
        if self._child.poll() is not None:
            raise DemoError("the Java clients have ended")
        number = str(next(self._numbers))
        answers = queue.SimpleQueue[list[str]]()
        self._answers[number] = answers
        with self._lock:
            assert self._child.stdin is not None
            self._child.stdin.write("\t".join([number, *words]) + "\n")
            self._child.stdin.flush()
        try:
            result, *said = answers.get(timeout=_PATIENCE)
        except queue.Empty:
            raise DemoError(f"the Java clients did not answer to {words[0]}") from None
        if result != "ok":
            raise DemoError(f"the Java clients: {' '.join(said)}")
        return said

    def pause(self) -> None:
        """Freeze them all: their connections stay open and silent."""
        os.killpg(self._child.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Undo pause."""
        os.killpg(self._child.pid, signal.SIGCONT)

    def kill(self) -> None:
        """A crash of them all."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._reader.join(_PATIENCE)
        for end in (self._child.stdin, self._child.stdout):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            number, *words = line.rstrip("\n").split("\t")
            if answers := self._answers.pop(number, None):
                answers.put(words)


class CoreClient:
    """One client of a CoreProcess; a context manager."""

    def __init__(self, process: CoreProcess, name: str) -> None:
        self._process = process
        self._name = name
        self._open = True

    def counts(self) -> dict[str, float]:
        """Its own counts; times in seconds since 1970, 0 = never."""
        return _counts(self._process.ask("counts", self._name))

    def numbers(self) -> list[int]:
        """The numbers of the messages it has settled, in order; only with the option `numbers`."""
        (said,) = self._process.ask("numbers", self._name)
        return [int(one) for one in said.split(",") if one]

    def close(self) -> dict[str, float]:
        """Leave in good order; what is in hand goes back to its queue. Its last counts, none at the second time."""
        if not self._open:
            return {}
        self._open = False
        return _counts(self._process.ask("close", self._name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(DemoError):  # its process was killed
            self.close()


def _counts(words: list[str]) -> dict[str, float]:
    said = {key: float(value) for key, value in (word.split("=", 1) for word in words)}
    return {
        key: value / 1000 if "last_" in key or "since" in key else value
        for key, value in said.items()
    }
