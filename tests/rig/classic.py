"""Clients of an ActiveMQ Classic, and its configuration."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Self

from penstock_demo.cache import cache_dir, locked, require_java
from penstock_demo.classic import ClassicBroker
from penstock_demo.process import Process

_LOAD = Path(__file__).parents[1] / "java" / "ClassicLoad.java"


@cache
def _classes(home: Path) -> Path:
    """The client, compiled once: a source that is run is compiled at each start."""
    target = cache_dir() / f"classic-load-{_LOAD.stat().st_mtime_ns}"
    with locked(target):
        if not target.is_dir():
            javac = Path(require_java()).resolve().with_name("javac")
            jars = ":".join(map(str, (home / "lib").glob("*.jar")))
            subprocess.run([javac, "-cp", jars, "-d", f"{target}.{os.getpid()}", str(_LOAD)], check=True)
            Path(f"{target}.{os.getpid()}").rename(target)
    return target


class Client(Process):
    """A JMS client that does what ClassicLoad.java says of `does`; a context manager."""

    def __init__(self, broker: ClassicBroker, does: str, queue: str, count: int, *, client_id: str = "") -> None:
        name = client_id or f"{does}-{queue}"
        jars = ":".join(map(str, [_classes(broker.home), *broker.client_jars]))
        url = f"tcp://{broker.host}:{broker.port}"
        command = [require_java(), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, "ClassicLoad"]
        super().__init__(
            f"client {name}", [*command, url, name, does, queue, str(count)], broker.directory / f"{name}.log"
        )

    def __enter__(self) -> Self:
        self.start("ready", timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def counts(self) -> tuple[int, int]:
        """Messages sent and received so far, by the client itself; a second old."""
        lines = [line.split() for line in self.tail(5).splitlines() if line.startswith("counts ")]
        return (int(lines[-1][1]), int(lines[-1][2])) if lines else (0, 0)


def configured(broker: ClassicBroker, **more: Any) -> dict[str, Any]:
    """An entry of `brokers:`."""
    account = broker.reader
    entry = {"name": broker.name, "kind": "classic", "url": broker.jolokia_url}
    return entry | {"username": account.user, "password": account.password} | more
