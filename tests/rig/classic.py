"""Clients of an ActiveMQ Classic, and its configuration."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from penstock_demo.broker import Broker
from penstock_demo.cache import cache_dir, locked, require_java
from penstock_demo.classic import ClassicBroker, client_jars, fetch
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
            subprocess.run(
                [javac, "-cp", jars, "-d", f"{target}.{os.getpid()}", str(_LOAD)],
                check=True,
            )
            Path(f"{target}.{os.getpid()}").rename(target)
    return target


class Clients(Process):
    """JMS clients in one Java process, each an action of ClassicLoad.java, a queue or topic and a number; a context
    manager. A client's id is its action and its queue, `read-orders`.
    """

    def __init__(
        self, broker: Broker, does: Sequence[tuple[str, str, int]], options: str = ""
    ) -> None:
        """The clients are those of 5.18, whatever the broker is."""
        home = broker.home if isinstance(broker, ClassicBroker) else fetch()
        jars = ":".join(map(str, [_classes(home), *client_jars(home)]))
        small = ["-Xmx128m", "-Xss256k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        words = [
            word
            for action, name, count in does
            for word in (f"{action}-{name}", action, name, str(count))
        ]
        url = f"tcp://{broker.host}:{broker.port}{options}"
        command = [require_java(), *small, "-cp", jars, _LOAD.stem, url, *words]
        super().__init__(
            f"clients {words[0]}", command, broker.directory / f"{words[0]}.log"
        )

    def __enter__(self) -> Self:
        self.start("ready", timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """By client: messages sent and received so far, as it counted them; up to a second old."""
        lines = [
            line.split()[1:]
            for line in self.tail(5).splitlines()
            if line.startswith("counts ")
        ]
        words = lines[-1] if lines else []
        return {
            words[i]: (int(words[i + 1]), int(words[i + 2]))
            for i in range(0, len(words), 3)
        }


def configured(broker: ClassicBroker, **more: Any) -> dict[str, Any]:
    """An entry of `brokers:`."""
    account = broker.reader
    entry = {"name": broker.name, "kind": "classic", "url": broker.jolokia_url}
    return entry | {"username": account.user, "password": account.password} | more
