"""A broker that runs on this machine: its process, its ports, its accounts and its management."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock_demo.errors import DemoError
from penstock_demo.management import Account, Management
from penstock_demo.ports import LOOPBACK
from penstock_demo.process import Process


@dataclass(frozen=True, slots=True)
class Setup:
    """A broker that was created in `directory`; `log` gets its output, `ready` in it says that it serves."""

    name: str
    version: str
    directory: Path
    port: int
    jolokia_url: str
    accounts: Sequence[Account]
    command: Sequence[str]
    ready: str
    log: Path


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a client connects, and as whom."""

    host: str
    port: int
    account: Account


class Broker:
    """One broker on the loopback; `port` is its only acceptor: Core, AMQP and STOMP alike. Created, not yet started."""

    host = LOOPBACK
    origin = f"http://{LOOPBACK}"

    def __init__(self, setup: Setup) -> None:
        self.name = setup.name
        self.version = setup.version
        self.directory = setup.directory
        self.data = setup.directory / "data"
        self.port = setup.port
        self.jolokia_url = setup.jolokia_url
        self.accounts = {account.user: account for account in setup.accounts}
        self.admin = setup.accounts[0]
        self.manage = Management(
            self.jolokia_url, self.name, self.admin, origin=self.origin
        )
        self._ready = setup.ready
        self._process = Process(
            f"broker {self.name} {self.version}", setup.command, setup.log
        )

    @property
    def pid(self) -> int:
        """The process id of its JVM."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process.running

    @property
    def log(self) -> Path:
        """The file of its output, over all its starts."""
        return self._process.log

    def endpoint(self, user: str = "admin") -> Endpoint:
        """Where clients of `user` connect."""
        return Endpoint(self.host, self.port, self.accounts[user])

    def start(self, *, timeout: float = 90) -> None:
        """Start it and wait until it is ready; a passive backup is ready when its console is."""
        self._process.start(self._ready, timeout=timeout)

    def stop(self) -> None:
        """Shut it down in good order."""
        self._process.stop()

    def kill(self) -> None:
        """A crash: SIGKILL."""
        self._process.kill()

    def pause(self) -> None:
        """A hang: SIGSTOP; connections stay open, nothing answers."""
        self._process.pause()

    def resume(self) -> None:
        """Undo pause."""
        self._process.resume()

    def restart(self) -> None:
        """Stop and start, on the same ports and data."""
        self.stop()
        self.start()

    def wait_until_active(self, *, timeout: float = 60) -> None:
        """Wait until it serves, after a failover or failback; a DemoError when it does not in time."""
        deadline = time.monotonic() + timeout
        while not self._active():
            if time.monotonic() > deadline:
                raise DemoError(f"{self.name} did not become active in {timeout:.0f} s")
            time.sleep(0.1)

    def _active(self) -> bool:
        try:
            return self.manage.read(self.manage.broker, "Active") is True
        except DemoError:
            return False
