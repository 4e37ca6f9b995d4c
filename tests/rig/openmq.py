"""Clients of an OpenMQ, and its configuration for each way of asking it."""

from pathlib import Path
from typing import Any, Self

from penstock_demo.cache import require_java
from penstock_demo.openmq import OpenMQBroker
from penstock_demo.process import Process

_LOAD = Path(__file__).parents[1] / "java" / "OpenMQLoad.java"
TRANSPORTS = ("jolokia", "jmx")


class Load(Process):
    """A JMS client that does what OpenMQLoad.java says of `does`; a context manager."""

    def __init__(
        self,
        broker: OpenMQBroker,
        does: str,
        name: str,
        count: int,
        *,
        timeout: float = 120,
    ) -> None:
        classes = ":".join(str(jar) for jar in broker.client_jars)
        command = [
            require_java(),
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            classes,
            str(_LOAD),
        ]
        command += [f"mq://{broker.host}:{broker.port}/jms", does, name, str(count)]
        super().__init__(
            f"client {does} {name}", command, broker.directory / f"{does}-{name}.log"
        )
        self._timeout = timeout

    def __enter__(self) -> Self:
        self.start("ready", timeout=self._timeout)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def configured(broker: OpenMQBroker, transport: str, **more: Any) -> dict[str, Any]:
    """An entry of `brokers:`."""
    entry: dict[str, Any] = {
        "name": transport,
        "kind": "openmq",
        "transport": transport,
    }
    if transport == "jolokia":
        account = broker.reader
        entry |= {"url": broker.jolokia_url}
    else:
        account = broker.accounts["admin"]
        entry |= {"url": f"mq://{broker.host}:{broker.port}"}
    if transport == "jmx":
        entry |= {"imqjmx_jar": str(broker.jmx_jar)}
    return entry | {"username": account.user, "password": account.password} | more
