"""The real agent in a process of its own, and scrapes of it."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.broker import Broker

_CONFIG = """
interval: {interval}s
brokers:
  - {{name: bench, kind: artemis, url: "{url}"}}
series: {{consumers_per_broker: 100000, consumers_per_queue: 100000, clients: 1000000}}
"""
_LISTENS = re.compile(
    r"serving probes on \S*:(\d+)[\s\S]*serving /metrics on \S*:(\d+)"
)
_WARM_POLLS = 3


def processes(pid: int) -> list[int]:
    """An agent and its worker processes."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for file in files for child in file.read_text().split())]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent under way."""

    port: int
    pid: int
    probe_port: int = 0

    def peak_mb(self) -> float:
        """Highest resident memory so far, in MB; of worker processes, too, whose peaks are added up."""
        return self._status("VmHWM")

    def memory_mb(self) -> float:
        """Resident memory now, in MB."""
        return self._status("VmRSS")

    def _status(self, field: str) -> float:
        found = [
            re.search(
                rf"^{field}:\s+(\d+) kB",
                Path(f"/proc/{pid}/status").read_text(),
                re.MULTILINE,
            )
            for pid in processes(self.pid)
        ]
        return sum(int(one[1]) for one in found if one) / 1024

    def get(self, path: str) -> tuple[float, int]:
        """Seconds that a GET took, and the bytes of its body; asks for gzip."""
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            response = connection.getresponse()
            size = len(response.read())
            if response.status != 200:
                raise SystemExit(
                    f"GET {path} was answered {response.status}; nothing was measured"
                )
            return time.perf_counter() - began, size
        finally:
            connection.close()

    def whole_polls(self) -> int:
        """How many polls so far read every part of the broker."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/metrics?name[]=penstock_polls_total"
        ) as answer:
            found = re.search(r'result="ok"\} (\d+)', answer.read().decode())
        return int(found[1]) if found else 0

    def json(self, path: str) -> Any:
        """What a GET of the API gives."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            return json.load(connection.getresponse())
        finally:
            connection.close()


@contextlib.contextmanager
def running(
    broker: Broker, addresses: int, interval: int = 2, options: Sequence[str] = ()
) -> Iterator[Agent]:
    """
    `penstock run` on `broker` to the end of the context, with these further options.

    With short intervals from when it knows the settings of all addresses, of which it asks 500 a poll.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "penstock.yaml")
        config.write_text(_CONFIG.format(interval=interval, url=broker.url))
        command = [
            str(Path(sys.executable).with_name("penstock")),
            "run",
            "--config.file",
            str(config),
        ]
        command += [
            "--web.listen-address",
            "127.0.0.1:0",
            "--web.probe-listen-address",
            "127.0.0.1:0",
            *options,
        ]
        log = Path(folder, "log")
        with (
            log.open("wb") as out,
            subprocess.Popen(
                command, stdout=out, stderr=out, env=dict(os.environ), cwd=folder
            ) as process,
        ):
            try:
                ports = _wait(lambda: _LISTENS.search(log.read_text()), process, log)
                agent = Agent(int(ports[2]), process.pid, int(ports[1]))
                for _ in _polls(
                    broker, _WARM_POLLS + (addresses // 500 if interval <= 5 else 0)
                ):
                    if process.poll() is not None:
                        raise SystemExit(f"the agent ended:\n{log.read_text()}")
                yield agent
            finally:
                process.terminate()


def _wait(
    found: Callable[[], re.Match[str] | None],
    process: subprocess.Popen[bytes],
    log: Path,
) -> re.Match[str]:
    while (match := found()) is None:
        if process.poll() is not None:
            raise SystemExit(f"the agent did not start:\n{log.read_text()}")
        time.sleep(0.1)
    return match


def _polls(broker: Broker, polls: int) -> Iterator[None]:
    """Again and again until the agent has polled so often."""
    until = broker.steps() + polls
    while broker.steps() < until:
        yield
        time.sleep(0.2)


def wait_for_polls(broker: Broker, polls: int) -> None:
    for _ in _polls(broker, polls):
        pass


@dataclass(slots=True)
class Load:
    """Something done again and again in threads of its own, as long as the context lasts."""

    action: Callable[[], float]
    """Does it once; gives the seconds it took."""
    threads: int = 1
    pause: float = 0.0
    seconds: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _running: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._running = [
            threading.Thread(target=self._run, daemon=True) for _ in range(self.threads)
        ]
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._running:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.seconds.append(self.action())
            self._stop.wait(self.pause)

    def quantile_ms(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(round(share * len(ordered)), len(ordered) - 1)]


def scrapes(agent: Agent, threads: int, pause: float = 0.5) -> Load:
    return Load(lambda: agent.get("/metrics")[0], threads, pause)
